"""A run of `score`: the machines that do it, what people see of it, and what it returns."""

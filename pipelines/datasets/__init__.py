"""Turns the data sets of the papers, as their owners give them out, into our columns, and back."""

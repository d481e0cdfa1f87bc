"""What a user does: one module per verb, and what they need. Users call them through `assay`."""

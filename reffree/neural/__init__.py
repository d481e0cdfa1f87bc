"""Neural scorers: models, what they read, and their training."""

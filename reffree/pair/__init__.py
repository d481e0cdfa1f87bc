"""A classifier or a yes/no generator asked about pieces of a document and of its summary.

`settings` says what there is to choose, `presets` how published judges chose, and `judge` asks a
model. Importing this package loads no model library.
"""

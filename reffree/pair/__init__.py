"""A classifier or a yes/no generator asked about pieces of a document and of its summary."""

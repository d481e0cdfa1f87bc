"""Pairs of a source and a reference, prepared for training: rows, splits, examples of an epoch."""

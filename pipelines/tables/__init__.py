"""Keyed tables of any kind, read from files and made into matrices."""

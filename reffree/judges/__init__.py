"""Pretrained classifiers and yes/no generators that are asked about pairs: `pair@MODEL`."""

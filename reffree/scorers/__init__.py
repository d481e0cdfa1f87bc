"""Trained scorers: how they are kept, used (`reffree@DIR`) and evaluated."""

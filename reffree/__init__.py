"""Learned, reference-free scorers: negatives, models, training, scoring.

Empty so far. What will live here: pairs turned into examples by cross-pairing and mutation,
the models that tell a true summary from a made one, their training and checkpoints, and a
scorer that reads a source and a candidate. Text and embeddings come from `sms`.
"""

"""Learned, reference-free scorers: negatives, models, training, scoring.

Pairs (`pairs`) are split without leaks (`splits`) and dealt into files (`buckets`); `examples`
turns them into positives and negatives (`negatives`) for the models (`readers`, `features`,
`models`, `heads`), the training (`training`, `loop`), the judging (`evaluation`) and the scorer's
folder (`scorer`). Text and embeddings come from `sms`; files are read and written by `pipelines`.
"""

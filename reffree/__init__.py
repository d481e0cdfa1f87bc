"""Learned, reference-free scorers: negatives, models, training, scoring.

So far: pairs (`pairs`) are split without leaks (`splits`) and dealt into files (`buckets`);
`examples` turns them into positives and negatives (`negatives`, by the recipe of `mixture`) for
training. Text and embeddings come from `sms`; files are read and written by `pipelines`.
"""

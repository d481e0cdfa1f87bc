"""Learned, reference-free scorers: negatives, models, training, scoring.

Pairs (`pairs`) are split without leaks (`splits`) and dealt into files (`buckets`); `examples`
turns them into positives and `negatives` (`edits`, `hard_edits`). The default scorer weighs
features (`features`, `word_features`, `linear`, `fitting`), with a head for each aspect
(`aspects`); neural ones have `readers`, `models` and a training (`training`, `loop`). They are
judged (`evaluation`), score (`scorer`) and are kept in a folder (`folder`). Pretrained models need
no training (`likelihood`, `judges`, `asking`). Each of these rooms has a file `metric`, which makes
a metric of it. Text and embeddings come from `sms`; files are read and written by `pipelines`.
"""

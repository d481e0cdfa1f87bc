"""Summarisers trained with a metric as reward (Clark et al. 2019, section 5).

Which pairs are read, where results go and Ray are not here: see `pipelines.reinforcement`.
Importing this package loads nothing.
"""

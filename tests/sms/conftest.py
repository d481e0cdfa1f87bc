"""Vectors of a small vocabulary, and scorers with them."""

import numpy as np
import pytest

from sms.scoring import ScoringConfig, SummaryScorer
from tests.sms.mover_cases import KNOWN, Vectors, scorer_of
from tests.sms.scoring_cases import METRICS, NOUNS, VERBS, glove_file


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    rng = np.random.default_rng(2019)
    table = rng.normal(size=(len(KNOWN), 12)).astype(np.float32) * np.float32(0.4)
    by_word = dict(zip(KNOWN, table.astype(np.float64), strict=True))
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    glove_file(path, {word: row.tolist() for word, row in by_word.items()})
    return Vectors(str(path), by_word)


@pytest.fixture(scope="session")
def scorer(vectors):
    return scorer_of(vectors.path)


@pytest.fixture(scope="session")
def clark_scorer(vectors):
    return scorer_of(vectors.path, "clark2019")


@pytest.fixture(scope="session")
def glove(tmp_path_factory) -> dict[str, str]:
    rng = np.random.default_rng(1)
    words = [*NOUNS, *VERBS, "sat", "slept", "ran"]
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    return {"glove": glove_file(path, {word: rng.normal(size=8).tolist() for word in words})}


@pytest.fixture(scope="session")
def minilm() -> SummaryScorer:
    return SummaryScorer(ScoringConfig(metrics=METRICS))

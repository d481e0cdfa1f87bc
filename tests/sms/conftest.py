"""Vectors of a small vocabulary, and scorers with them."""

import numpy as np
import pytest

from sms.scoring import ScoringConfig, SummaryScorer
from tests.sms.mover_cases import KNOWN, Vectors, scorer_of
from tests.sms.scoring_cases import METRICS, NOUNS, VERBS


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    rng = np.random.default_rng(2019)
    table = rng.normal(size=(len(KNOWN), 12)).astype(np.float32) * np.float32(0.4)
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    path.write_text(
        "".join(
            f"{word} {' '.join(repr(float(value)) for value in row)}\n"
            for word, row in zip(KNOWN, table, strict=True)
        ),
        encoding="utf-8",
    )
    by_word = {word: row.astype(np.float64) for word, row in zip(KNOWN, table, strict=True)}
    return Vectors(str(path), by_word)


@pytest.fixture(scope="session")
def scorer(vectors):
    return scorer_of(vectors.path)


@pytest.fixture(scope="session")
def clark_scorer(vectors):
    return scorer_of(vectors.path, "clark2019")


@pytest.fixture(scope="session")
def glove(tmp_path_factory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    rng = np.random.default_rng(1)
    lines = [
        f"{word} {' '.join(f'{value:.5f}' for value in rng.normal(size=8))}\n"
        for word in [*NOUNS, *VERBS, "sat", "slept", "ran"]
    ]
    path.write_text("".join(lines))
    return {"glove": f"glove:{path}"}


@pytest.fixture(scope="session")
def minilm() -> SummaryScorer:
    return SummaryScorer(ScoringConfig(metrics=METRICS))

"""Vectors of a small vocabulary, in a file."""

import numpy as np
import pytest

from tests.sms.scoring_cases import NOUNS, VERBS, glove_file


@pytest.fixture(scope="session")
def glove(tmp_path_factory) -> dict[str, str]:
    rng = np.random.default_rng(1)
    words = [*NOUNS, *VERBS, "sat", "slept", "ran"]
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    return {"glove": glove_file(path, {word: rng.normal(size=8).tolist() for word in words})}

"""Nothing poisons a scorer: whatever fails, and wherever, later scores are those of a clean run."""

from __future__ import annotations

import multiprocessing
from itertools import count

import pyarrow as pa
import pytest

from sms import text
from sms.encoders import base
from sms.metrics.baselines import BASELINES
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from tests.torture.breaking import break_everywhere


def rows_of(n: int) -> pa.Table:
    name = f"n{abs(n)}{'a' if n < 0 else 'b'}"
    return to_rows(
        [f"The cat saw {name}x. It bit {name}y."],
        [f"A hen saw {name}z."],
        [f"A hen saw {name}z. The dog fed {name}x."],
    )


ALL = (
    *("sms", "wms", "s+wms", "cosine", "rouge2_f", "rougeL_f", "rougeLsum_f", "rougeW_f"),
    *("bleu", "chrf", *(baseline.name for baseline in BASELINES)),
)
FEW = ("wms", "rouge1_f", "length")


def pair_of_scorers(config: ScoringConfig) -> tuple[SummaryScorer, SummaryScorer]:
    """Make two that have loaded all they load when it is first needed."""
    scorers = SummaryScorer(config, threads=1), SummaryScorer(config, threads=1)
    for scorer in scorers:
        scorer.score(rows_of(1_000_000))
    return scorers


def test_a_scorer_that_broke_off_somewhere_goes_on(glove):
    config = ScoringConfig(metrics=FEW, encoders=glove)
    break_everywhere(*pair_of_scorers(config), rows_of, iter(range(7, 2_000, 61)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metrics", "max_chunks"),
    [
        pytest.param(FEW, text.MAX_CHUNKS, id="growing-tables"),
        pytest.param(FEW, 25, id="emptied-tables"),
        pytest.param(ALL, text.MAX_CHUNKS, id="all-metrics"),
    ],
)
def test_a_scorer_that_broke_off_anywhere_goes_on(metrics, max_chunks, glove, monkeypatch):
    monkeypatch.setattr(text, "MAX_CHUNKS", max_chunks)
    config = ScoringConfig(metrics=metrics, encoders=glove)
    assert break_everywhere(*pair_of_scorers(config), rows_of, count()) > 1_000


@pytest.mark.slow
def test_a_scorer_with_a_model_that_broke_off_anywhere_goes_on(monkeypatch):
    monkeypatch.setattr(text, "MAX_CHUNKS", 25)
    monkeypatch.setattr(base, "CACHE_BYTES", 200_000)  # some ten sentences
    config = ScoringConfig(metrics=("wms", "cosine", "rouge1_f", "length"))
    assert break_everywhere(*pair_of_scorers(config), rows_of, count()) > 2_000


# Forks

TIMEOUT_S = 120
"""A child that waits for threads it does not have waits for ever."""


def rows_about(animal: str) -> pa.Table:
    """Enough rows for every thread of a pool to be started."""
    return to_rows(
        [f"The {animal} number {k} sat on the mat. It slept all day {k}." for k in range(40)],
        [f"A {animal} {k} bit the man. The man {k} ran away." for k in range(40)],
    )


def score_into(pipe, scorer: SummaryScorer, rows: pa.Table) -> None:
    """Score with the parent's scorer and with one of one's own, as a reward from a pickle has."""
    pipe.send(scorer.score(rows).to_pylist())
    pipe.send(SummaryScorer(scorer.config, threads=2).score(rows).to_pylist())


# Python 3.12 warns of every fork beside threads
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
def test_forked_process_scores_the_same():
    config = ScoringConfig(metrics=("wms", "sms", "cosine", "rougeL_f", "length"))
    expected = SummaryScorer(config, threads=2).score(rows_about("dog")).to_pylist()
    scorer = SummaryScorer(config, threads=2)
    scorer.score(rows_about("cat"))
    fork = multiprocessing.get_context("fork")
    found, pipe = fork.Pipe(duplex=False)
    child = fork.Process(target=score_into, args=(pipe, scorer, rows_about("dog")))
    child.start()
    try:
        for _ in range(2):
            assert found.poll(TIMEOUT_S), "the child hangs"
            assert found.recv() == expected
    finally:
        child.kill()
        child.join()

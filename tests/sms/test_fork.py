"""A process forked from one that has scored scores too, and the same."""

from __future__ import annotations

import multiprocessing

import pyarrow as pa
import pytest

from sms.scoring import ScoringConfig, SummaryScorer, to_rows

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

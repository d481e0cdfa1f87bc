"""Nothing poisons a scorer: whatever fails, and wherever, later scores are those of a clean run."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pytest

from sms import text
from sms.baselines import BASELINES
from sms.encoders import contextual
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from tests.breaking import break_everywhere


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
    return warmed((SummaryScorer(config, threads=1), SummaryScorer(config, threads=1)))


def warmed(scorers: tuple[SummaryScorer, SummaryScorer]) -> tuple[SummaryScorer, SummaryScorer]:
    """Let them load all they load when it is first needed."""
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
    monkeypatch.setattr(contextual, "CACHE_BYTES", 200_000)  # some ten sentences
    config = ScoringConfig(metrics=("wms", "cosine", "rouge1_f", "length"))
    assert break_everywhere(*pair_of_scorers(config), rows_of, count()) > 2_000


# a file that was just opened is closed by nobody but the garbage collector
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.slow
def test_a_scorer_with_a_cache_on_disk_that_broke_off_anywhere_goes_on(tmp_path):
    config = ScoringConfig(metrics=("wms", "cosine"))
    pair = (
        SummaryScorer(config, threads=1, cache_folder=str(tmp_path)),
        SummaryScorer(config, threads=1),
    )
    break_everywhere(*warmed(pair), rows_of, count(0, 5))

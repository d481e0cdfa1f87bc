"""Nothing poisons a scorer: whatever fails, and wherever, later scores are those of a clean run."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import CodeType, FrameType

import numpy as np
import pyarrow as pa
import pytest

import sms
from sms import text
from sms.encoders import contextual, vector_cache
from sms.scoring import ScoringConfig, SummaryScorer, to_rows

OURS = tuple(str(Path(package.__file__).parent) for package in (sms,))
WORDS = ["cat", "dog", "hen", "saw", "bit", "fed"]


class Interrupted(BaseException):
    """As Ctrl-C: no `except Exception` holds it."""


class Failed(Exception):
    """As a library that fails."""


class Breaker:
    """Raises once, at the n-th place where our modules call something or keep a value.

    Places are before and after each call, and after each assignment to an attribute or item: the
    bytecodes between which Ctrl-C may strike.
    """

    def __init__(self, error: BaseException, at: int) -> None:
        self._error, self._left = error, at
        self._after: FrameType | None = None
        self._known: dict[CodeType, list[bool]] = {}
        self.has_raised = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        except type(self._error) as error:
            if error is not self._error:
                raise
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> object:
        if event == "call":
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            is_meant = self._meant(frame.f_code)[frame.f_lasti]
            if is_meant or frame is self._after:
                self._left -= 1
                if self._left < 0:
                    self.has_raised = True
                    raise self._error
            self._after = frame if is_meant else None
        return self._trace

    def _meant(self, code: CodeType) -> list[bool]:
        if code not in self._known:
            names = [dis.opname[operation] for operation in code.co_code]
            self._known[code] = [
                name.startswith(("CALL", "STORE_ATTR", "STORE_SUBSCR", "DELETE")) for name in names
            ]
        return self._known[code]


def break_everywhere(broken, whole, rows_of, places: Iterator[int]) -> int:
    """Break a scorer at each place in turn and compare it with one that nothing happened to.

    `rows_of(n)` gives rows with words that no other number's rows have. Returns how often it broke.
    """
    for place in places:
        error = (Interrupted if place % 2 else Failed)("on purpose")
        breaker = Breaker(error, place)
        with breaker.at_work():
            broken.compare(broken.prepare(rows_of(place)))
        # what broke off, and words that were not seen before
        again = pa.concat_tables([rows_of(place), rows_of(-place - 1)])
        expected = whole.compare(whole.prepare(again)).to_pylist()
        assert broken.compare(broken.prepare(again)).to_pylist() == expected, place
        assert all(row["status"] is None for row in expected)
        if not breaker.has_raised:
            return place
    return place


def rows_of(n: int) -> pa.Table:
    name = f"n{abs(n)}{'a' if n < 0 else 'b'}"
    return to_rows(
        [f"The cat saw {name}x. It bit {name}y."],
        [f"A hen saw {name}z."],
        [f"A hen saw {name}z. The dog fed {name}x."],
    )


@pytest.fixture(scope="module")
def glove(tmp_path_factory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    rng = np.random.default_rng(1)
    path.write_text(
        "".join(f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=8))}\n" for word in WORDS)
    )
    return {"glove": f"glove:{path}"}


ALL = (
    *("sms", "wms", "s+wms", "cosine", "rouge2_f", "rougeL_f", "rougeLsum_f", "rougeW_f"),
    *("length", "compression", "coverage", "density", "novelty", "lead3"),
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
@pytest.mark.parametrize("max_chunks", [text.MAX_CHUNKS, 25], ids=["growing", "emptied"])
@pytest.mark.parametrize("metrics", [FEW, ALL], ids=["few", "all"])
def test_a_scorer_that_broke_off_anywhere_goes_on(metrics, max_chunks, glove, monkeypatch):
    if metrics == ALL and max_chunks == 25:
        pytest.skip("tables are the same for few metrics")
    monkeypatch.setattr(text, "MAX_CHUNKS", max_chunks)
    config = ScoringConfig(metrics=metrics, encoders=glove)
    assert break_everywhere(*pair_of_scorers(config), rows_of, count()) > 1_000


@pytest.mark.slow
def test_a_scorer_with_a_model_that_broke_off_anywhere_goes_on(monkeypatch):
    monkeypatch.setattr(text, "MAX_CHUNKS", 25)
    monkeypatch.setattr(contextual, "CACHE_BYTES", 200_000)  # some ten sentences
    config = ScoringConfig(metrics=("wms", "cosine", "rouge1_f", "length"))
    assert break_everywhere(*pair_of_scorers(config), rows_of, count()) > 2_000


@pytest.mark.slow
def test_a_scorer_with_a_cache_on_disk_that_broke_off_anywhere_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache, "FLUSH_SENTENCES", 5)
    config = ScoringConfig(metrics=("wms", "cosine"))
    pair = (
        SummaryScorer(config, threads=1, cache_folder=str(tmp_path)),
        SummaryScorer(config, threads=1),
    )
    break_everywhere(*warmed(pair), rows_of, count(0, 5))

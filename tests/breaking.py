"""Breaks a scorer off at each place of its work in turn."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pyarrow as pa

import pipelines
import reffree
import sms
from sms.scorers import Scorer

OURS = tuple(str(Path(str(package.__file__)).parent) for package in (sms, reffree, pipelines))


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


def break_everywhere(
    broken: Scorer,
    whole: Scorer,
    rows_of: Callable[[int], pa.Table],
    places: Iterator[int],
) -> int:
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

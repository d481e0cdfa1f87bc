"""Breaks a scorer off at each place of its work in turn."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
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


@cache
def _is_meant(code: CodeType) -> list[bool]:
    """Tell of each bytecode whether it calls something or keeps a value."""
    meant = ("CALL", "STORE_ATTR", "STORE_SUBSCR", "DELETE")
    return [dis.opname[operation].startswith(meant) for operation in code.co_code]


@contextmanager
def broken_off(error: BaseException, at: int) -> Iterator[list[BaseException]]:
    """Raise once, at the n-th place where our modules call something or keep a value.

    Places are before and after each call, and after each assignment to an attribute or item: the
    bytecodes between which Ctrl-C may strike. The list has the error once it has been raised.
    """
    left, after, raised = at, None, []

    def trace(frame: FrameType, event: str, _argument: object) -> object:
        nonlocal left, after
        if event == "call":
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            is_meant = _is_meant(frame.f_code)[frame.f_lasti]
            if is_meant or frame is after:
                left -= 1
                if left < 0:
                    raised.append(error)
                    raise error
            after = frame if is_meant else None
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield raised
    except type(error) as caught:
        if caught is not error:
            raise
    finally:
        sys.settrace(before)


def break_everywhere(
    broken: Scorer, whole: Scorer, rows_of: Callable[[int], pa.Table], places: Iterator[int]
) -> int:
    """Break a scorer at each place in turn and compare it with one that nothing happened to.

    `rows_of(n)` gives rows with words that no other number's rows have. Returns how often it broke.
    """
    for place in places:
        error = (Interrupted if place % 2 else Failed)("on purpose")
        with broken_off(error, place) as raised:
            broken.compare(broken.prepare(rows_of(place)))
        # what broke off, and words that were not seen before
        again = pa.concat_tables([rows_of(place), rows_of(-place - 1)])
        expected = whole.compare(whole.prepare(again)).to_pylist()
        assert broken.compare(broken.prepare(again)).to_pylist() == expected, place
        assert all(row["status"] is None for row in expected)
        if not raised:
            return place
    return place

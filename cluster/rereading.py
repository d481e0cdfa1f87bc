"""Reads again what S3 has sent only in part."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_CUT_SHORT = "Failed to flush response stream"
_MOST_READINGS = 4

_P = ParamSpec("_P")
_T = TypeVar("_T")


def reads_again(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have a function that only reads do so again where S3 has cut an answer short.

    The SDK counts that failure, which passes, among those that do not, and tries nothing again.
    """

    @wraps(read)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for left in reversed(range(_MOST_READINGS)):
            try:
                return read(*args, **kwargs)
            except OSError as error:
                if not left or _CUT_SHORT not in str(error):
                    raise
        raise AssertionError

    return call

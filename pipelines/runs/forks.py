"""Verbs in a forked process, where threads that polars and PyTorch need are lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sms.process import has_lost_threads

P = ParamSpec("P")
R = TypeVar("R")


def with_threads(verb: Callable[P, R]) -> Callable[P, R]:
    """Have a verb run in a new process where this one is a fork that lacks threads.

    It is a function of a module; what it is given can be pickled, its result, too. Settings, its
    last argument, may have a function `on_progress`, which is called in this process.
    """

    @wraps(verb)
    def call(*given: P.args, **named: P.kwargs) -> R:
        if not has_lost_threads():
            return verb(*given, **named)
        from cluster.children import call_child  # takes a moment

        data: list[Any]
        settings: Any
        *data, settings = list(given) + list(named.values())
        tell = getattr(settings, "on_progress", None)
        if tell:
            settings = replace(settings, on_progress=None)
        result: R = call_child(_called, call, data, settings, bool(tell), tell={"progress": tell})
        return result

    return call


def _called(
    verb: Callable[..., R],
    data: list[Any],
    settings: Any,  # noqa: ANN401
    is_shown: bool,
    say: Callable[..., None],
) -> R:
    """Call a verb in the new process."""
    if is_shown:
        settings = replace(settings, on_progress=lambda progress: say("progress", progress))
    return verb(*data, settings)

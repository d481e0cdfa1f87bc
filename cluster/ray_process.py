"""Calls a function that uses Ray in a process of its own, which Ray may end as it likes.

When its head node or the raylet beside it dies, Ray ends the driver's process without an exception.
Here the process that waits raises one instead. Some of Ray's threads outlive `ray.shutdown` and may
crash a process that is ending; here it has given its answer by then. The process that waits never
imports Ray, so the settings that Ray reads on import are those of the other one alone.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import IO, Any

from cluster.children import ProcessLost, call_child

_KEPT_BYTES = 64 << 10
_RAY_SAYS = re.compile(r"\] (?:\(\w+\) )?\w+\.(?:cc|h):\d+: +(.*)")
_SHOWN_LENGTH = 160

logger = logging.getLogger(__name__)


def call_apart(
    function: Callable[..., Any],
    *arguments: Any,  # noqa: ANN401
    tell: Mapping[str, Any],
    address: str | None,
) -> Any:  # noqa: ANN401
    """Call a function that uses Ray in another process, as `call_child` does.

    `address` is of the cluster that it joins; if it is None, the one that it starts gets a token
    of its own and stays out of reach of other machines. Where this process is connected to Ray
    already, the function is called here.

    Raises `ProcessLost` if the process ends without an answer.
    """
    ray = sys.modules.get("ray")  # without importing it, which takes a while
    if ray is not None and ray.is_initialized():
        return function(*arguments, lambda kind, *values: tell[kind](*values))
    environment = _own_cluster() if address is None else {}
    with tempfile.TemporaryFile() as notes:
        try:
            return call_child(
                function, *arguments, tell=tell, environment=environment, output=notes
            )
        except ProcessLost as error:
            raise ProcessLost(_last_words(notes, error.status)) from None


def _own_cluster() -> dict[str, str]:
    """Return what Ray reads, when it is imported, of a cluster that is for one run alone."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        # Ray is then on 127.0.0.1, as it is on macOS and Windows unless told otherwise. On Linux
        # it uses an address that others can reach, even if asked for 127.0.0.1.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


def _last_words(notes: IO[bytes], status: int) -> str:
    """Find in what Ray has written why it has ended the process."""
    size = notes.seek(0, os.SEEK_END)
    notes.seek(max(0, size - _KEPT_BYTES))
    text = notes.read().decode(errors="replace")
    logger.info("the process of the Ray driver ended with status %d: %s", status, text)
    if status < 0:
        return f"its driver was ended by {signal.Signals(-status).name}"
    reasons = _RAY_SAYS.findall(text)
    return (
        reasons[-1].strip()[:_SHOWN_LENGTH] if reasons else f"its driver ended with status {status}"
    )

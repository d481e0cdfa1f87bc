"""How compiled kernels are built: cached on disk, free of the interpreter lock.

Not here: any kernel. Where compiled code is stored, and who compiles it, is in `compiling`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba

from sms.compiling import cache_folder
from sms.process import forget_in_forks, has_lost_threads

SUMS = {"reassoc", "contract", "nsz"}
"""Licence to reorder sums, so that they are vectorised; NaN and infinity keep their meaning."""


def kernel(
    *,
    inner: bool = False,
    **options: Any,  # noqa: ANN401
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call, without the interpreter lock, and cache it.

    An `inner` one is called by other kernels only and compiles faster.
    """
    options |= {"no_cpython_wrapper": inner, "no_cfunc_wrapper": inner}

    def compile_later(function: Callable[..., Any]) -> Any:  # noqa: ANN401
        chosen, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(cache_folder())
        try:
            return numba.njit(cache=True, nogil=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = chosen  # other users of numba keep theirs

    return compile_later


@functools.cache
def thread_pool(threads: int) -> ThreadPoolExecutor:
    """Return the shared pool of that many threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sms-kernel")


forget_in_forks(thread_pool.cache_clear)


def model_threads(asked: int) -> int:
    """Return how many of some threads a model may use: one in a fork, which has lost OpenMP's."""
    return 1 if has_lost_threads("torch") else asked

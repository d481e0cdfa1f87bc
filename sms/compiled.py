"""How compiled kernels are built: cached on disk, free of the interpreter lock.

Not here: any kernel. Compiled code is stored beside the sources, or in the user's cache
folder, or, where neither can be written (a read-only install without a home), in a new temporary
folder of each process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba

from sms.process import forget_in_forks, has_lost_threads, n_processors

_LONGEST_COMPILE_S = 120.0
"""After that a process that compiles is given up."""
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
def cache_folder() -> Path:
    """Return the folder of the compiled code of exactly these sources.

    Machine code contains the kernels it calls, which may live in other files: the folder's name is
    a hash of all files with kernels. `NUMBA_CACHE_DIR` names another place for it.
    """
    sources = hashlib.blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        if b"@kernel(" in (content := source.read_bytes()):
            sources.update(content)
    name = f"kernels-{sources.hexdigest()}"
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / name
    bases = [Path(__file__).parent / "__pycache__"]
    with suppress(RuntimeError):  # no home
        bases.append(Path.home() / ".cache" / "assay")
    for base in bases:
        with suppress(OSError):  # not to be written
            base.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=base):
                return base / name
    return Path(tempfile.mkdtemp(prefix="sms-kernels-")) / name


def is_compiled(name: str = "") -> bool:
    """Say whether any process has compiled this kernel, or any, of these sources before."""
    pattern = f"*.{name}-*.nbi" if name else "*.nbi"
    return next(cache_folder().rglob(pattern), None) is not None


_compiling: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that compile for this one, by the function they call."""


def compile_aside(function: str, kernel_name: str) -> None:
    """Have another process compile a kernel meanwhile, if nobody has compiled it before.

    `function` is called there, as `package.module:name`, and compiles the kernel by calling it. A
    process with one thread, such as a worker, has no processor to spare and does nothing.
    """
    if function in _compiling or available_threads() < 2 or is_compiled(kernel_name):
        return
    module, name = function.split(":")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NUMBA_CACHE_DIR": str(cache_folder().parent),
    }
    with suppress(OSError):  # then this process compiles it itself
        _compiling[function] = subprocess.Popen(
            [sys.executable, "-c", f"from {module} import {name}; {name}()"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def wait_for_compiler(function: str) -> None:
    """Wait for the process that compiles for this one, if there is one."""
    process = _compiling.get(function)
    if process is None or process.returncode is not None:
        return
    try:
        process.wait(_LONGEST_COMPILE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def available_threads() -> int:
    """Return `OMP_NUM_THREADS`, in Ray a worker's share, or the number of processors."""
    declared = os.environ.get("OMP_NUM_THREADS", "")
    if declared.isdigit() and int(declared) > 0:
        return int(declared)
    return n_processors()


@functools.cache
def thread_pool(threads: int) -> ThreadPoolExecutor:
    """Return the shared pool of that many threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sms-kernel")


forget_in_forks(thread_pool.cache_clear)


def model_threads(asked: int) -> int:
    """Return how many of some threads a model may use: one in a fork, which has lost OpenMP's."""
    return 1 if has_lost_threads("torch") else asked

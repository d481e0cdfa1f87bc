"""Where compiled kernels are stored, and how another process compiles them meanwhile.

They are stored beside the sources, or in the user's cache folder, or, where neither can be written
(a read-only install without a home), in a new temporary folder of each process. Importing this file
loads no compiler.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sms.process import available_threads

MOVERS = ("wms", "sms", "s+wms")
"""The metrics that need the solver of `sms.transport`, which takes longest to compile."""
SOLVER = "sms.transport.simplex:compile_here"
"""The function that compiles it, `module:name`."""
_SOLVER_KERNEL = "solve_problems"
_LONGEST_COMPILE_S = 120.0
"""After that a process that compiles is given up."""


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
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen) / name
    bases = [Path(__file__).parent / "__pycache__"]
    with suppress(RuntimeError):  # there is no home folder
        bases.append(Path.home() / ".cache" / "assay")
    for base in bases:
        with suppress(OSError):  # the folder cannot be written to
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


def compile_for(metrics: Iterable[str]) -> None:
    """Have another process compile what metrics, by name, need and takes seconds."""
    if not set(metrics).isdisjoint(MOVERS):
        compile_aside(SOLVER, _SOLVER_KERNEL)


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

"""Where compiled code is kept, and how many threads it has."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sms import compiling


@pytest.fixture
def nowhere_to_write(tmp_path, monkeypatch):
    """Neither the sources' folder nor the home can be written, not even by root."""
    blocked = tmp_path / "a-file"
    blocked.touch()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiling, "__file__", str(blocked / "sms" / "compiling.py"))
    monkeypatch.setenv("HOME", str(blocked))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def choose_cache_folder():
    return compiling.cache_folder.__wrapped__()


def test_temporary_cache_folder_where_nothing_else_is_writable(nowhere_to_write):
    folder = choose_cache_folder().parent
    assert folder.parent == nowhere_to_write
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("writable", ["sources", "home"])
def test_cache_folder_beside_the_sources_or_in_the_home(writable, nowhere_to_write, monkeypatch):
    if writable == "sources":
        monkeypatch.setattr(compiling, "__file__", str(nowhere_to_write / "sms" / "compiling.py"))
        expected = nowhere_to_write / "sms" / "__pycache__"
    else:
        monkeypatch.setenv("HOME", str(nowhere_to_write))
        expected = nowhere_to_write / ".cache" / "assay"
    assert choose_cache_folder().parent == expected
    assert not list(nowhere_to_write.glob("sms-kernels-*"))


def test_named_cache_folder_kept(nowhere_to_write, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/some/where")
    assert choose_cache_folder().parent == Path("/some/where")
    assert not list(nowhere_to_write.glob("sms-kernels-*"))


def test_cache_folder_changes_with_any_source_of_kernels(nowhere_to_write, monkeypatch):
    monkeypatch.setattr(compiling, "__file__", str(nowhere_to_write / "sms" / "compiling.py"))
    kernels = nowhere_to_write / "sms" / "transport" / "simplex.py"
    kernels.parent.mkdir(parents=True)
    kernels.write_text("@kernel()\ndef one(): ...")
    before = choose_cache_folder()
    (kernels.parent / "names.py").write_text("nothing that is compiled")
    assert choose_cache_folder() == before
    kernels.write_text("@kernel()\ndef two(): ...")
    assert choose_cache_folder() != before


@pytest.mark.slow
def test_another_process_compiles_meanwhile(tmp_path):
    """What it has compiled is loaded, and a process that fails costs time but no result."""
    program = """
import os, time
from sms import compiling
compiling.available_threads = lambda: 2
if os.environ.get("FAILS"):
    compiling.compile_aside("sms.transport.simplex:no_such_function", "solve_problems")
else:
    compiling.compile_for(["length", "s+wms"])
    process, = compiling._compiling.values()
    assert process.wait() == 0
    assert compiling.is_compiled("solve_problems")
from sms.transport import simplex
simplex.compile_here()
print(sum(simplex.solve_problems.stats.cache_hits.values()))
"""
    for fails, n_loaded in (("", 1), ("yes", 0)):
        environment = os.environ | {
            "NUMBA_CACHE_DIR": str(tmp_path / f"cache{fails}"),
            "FAILS": fails,
        }
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == n_loaded


def test_first_run_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "cache_folder", lambda: tmp_path)
    assert not compiling.is_compiled()
    (tmp_path / "sms_1").mkdir()
    (tmp_path / "sms_1" / "simplex.solve-1.py311.nbi").touch()
    assert compiling.is_compiled()

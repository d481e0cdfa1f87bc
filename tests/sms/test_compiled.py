"""Where compiled code is kept, and how many threads it has."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numba
import pytest

from sms import compiled
from sms.processors import n_processors


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Neither the sources' folder nor the cache can be written, not even by root."""
    blocked = tmp_path / "a-file"
    blocked.touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(compiled, "__file__", str(blocked / "sms" / "compiled.py"))
    monkeypatch.setenv("ASSAY_CACHE", str(blocked))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def choose_folder():
    return compiled.kernels_folder.__wrapped__()


def test_kernels_are_kept_where_they_can_be_written(places, monkeypatch):
    folder = choose_folder().parent
    assert folder.parent == places
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("ASSAY_CACHE", str(places / "cache"))
    assert choose_folder().parent == places / "cache"
    monkeypatch.setattr(compiled, "__file__", str(places / "sms" / "compiled.py"))
    assert choose_folder().parent == places / "sms" / "__pycache__"
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/some/where")
    assert choose_folder().parent == Path("/some/where")


def test_folder_changes_with_any_source(places, monkeypatch):
    monkeypatch.setattr(compiled, "__file__", str(places / "sms" / "compiled.py"))
    (places / "sms").mkdir()
    (places / "sms" / "simplex.py").write_text("one")
    before = choose_folder()
    (places / "sms" / "simplex.py").write_text("two")
    assert choose_folder() != before


@pytest.mark.parametrize("declared", ["3", "1", "", "0", "4,2", "many"])
def test_threads_follow_the_worker(declared, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", declared)
    expected = int(declared) if declared in ("3", "1") else n_processors()
    assert compiled.available_threads() == expected


def test_first_run_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "kernels_folder", lambda: tmp_path)
    assert not compiled.is_compiled()
    (tmp_path / "sms_1").mkdir()
    (tmp_path / "sms_1" / "simplex.solve-1.py311.nbi").touch()
    assert compiled.is_compiled()

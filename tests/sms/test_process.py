"""What this process may use: threads and memory."""

from __future__ import annotations

import os

import pytest

from sms.process import available_threads, memory_bytes, n_processors


@pytest.mark.parametrize("declared", ["3", "1", "", "0", "4,2", "many"])
def test_threads_follow_the_worker(declared, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", declared)
    expected = int(declared) if declared in ("3", "1") else n_processors()
    assert available_threads() == expected


def test_memory_is_that_of_the_machine_or_less():
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1 << 27 < memory_bytes() <= machine

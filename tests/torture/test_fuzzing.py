"""Corrupt inputs end in a status or in one clear line: no traceback, crash, hang or missing row.

The first block of inputs is quick, the others are slow tests. What fails leaves its input in the
folder that the report names; a crash or a hang ends the process, and xdist names its block.
"""

from __future__ import annotations

import os
import shutil

import pytest

from tests.torture.cases import Case, make
from tests.torture.laws import check_rows, check_said, run_captured

N_BLOCKS, N_EACH = 500, 20  # 10,000 inputs
BLOCKS = [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, N_BLOCKS))]

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="hostile names and pipes need POSIX"),
    pytest.mark.filterwarnings("default"),  # of libraries about what they read
]


def check(case: Case, vectors) -> int:
    """Run a case and hold what comes of it against the laws; return its status."""
    if case.before is not None:
        check_said(*run_captured(case.arguments))
        case.before()
    status, output, errors = run_captured(case.arguments)
    check_said(status, output, errors)
    if case.out is not None and status != 2:
        check_rows(case, status, vectors)
    return status


@pytest.mark.parametrize("block", BLOCKS)
def test_corrupt_inputs_end_in_a_status_or_one_line(block, tmp_path, vectors, begins):
    for seed in range(block * N_EACH, (block + 1) * N_EACH):
        begins()
        folder = tmp_path / str(seed)
        folder.mkdir()
        case = make(seed, folder, vectors)
        try:
            check(case, vectors)
        except BaseException as error:
            error.add_note(f"seed {seed}, files in {folder}: assay {case.arguments}")
            raise
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("status", "output", "errors"),
    [
        (3, "", "assay: a"),
        (2, "", ""),
        (2, "", "assay: a\nassay: b"),
        (2, "", "what is wrong"),
        (1, "", "assay: Traceback (most recent call last)"),
        (0, "", "long " * 1_000),
        (0, "\x1b[2J", ""),
        (2, "", "assay: \u202egpj.exe"),
    ],
)
def test_wrong_ending_is_seen(status, output, errors):
    with pytest.raises(AssertionError):
        check_said(status, output, errors)

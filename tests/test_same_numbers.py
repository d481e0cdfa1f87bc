"""Every command gives on the example corpus the numbers that are kept in `same_numbers.json`.

Where a change of numbers is meant: `python -m tests.test_same_numbers` writes the file anew, and
the commit says what changed. To see which numbers differ, run `tests/same_numbers.py` on both.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import re
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest

from tests.same_numbers import NUMBER, QUICK, RTOL, gather, prepare, walk

KEPT = Path(__file__).with_name("same_numbers.json")
RTOL_OF = {command.name: RTOL[command.rtol] for command in QUICK}


def call(arguments, folder):
    from pipelines.cli.app import run

    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        return run(arguments), printed.getvalue()


def digest(values, *, is_exact):
    """Tell the values of each column by their number and a hash, or by sums if they may differ."""
    is_table = any("[" in key and not key.startswith(("printed", "signature")) for key in values)
    columns = defaultdict(list)
    for key, value in sorted(values.items()):
        if is_exact or not (is_table and key.startswith("printed")):  # rounded, so they may jump
            columns[re.sub(r"\[.*?\]", "", key)].append(value)
    told = {}
    for column, cells in columns.items():
        numbers = [number for cell in cells if (number := float_of(cell)) is not None]
        if numbers and not is_exact:
            total = math.fsum(map(abs, numbers))
            turned = math.fsum(x * (1 + i % 7) for i, x in enumerate(numbers))
            told[column] = [len(numbers), math.fsum(numbers), turned, total]
        rest = [cell for cell in cells if is_exact or float_of(cell) is None]
        if rest:
            rest = [cell.hex() if isinstance(cell, float) else cell for cell in rest]
            text = re.sub("weights:[0-9a-f]+", "", json.dumps(rest))  # of a trained scorer
            told[f"{column}#"] = [len(rest), hashlib.sha256(text.encode()).hexdigest()[:12]]
    return told


def float_of(cell):
    if isinstance(cell, str) and NUMBER.fullmatch(cell):
        return float(cell.replace(",", "").replace("−", "-"))  # noqa: RUF001
    return cell if isinstance(cell, float) and math.isfinite(cell) else None


@pytest.fixture(scope="module")
def now():
    return digests()


def digests():
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), with_data=False)
        found = gather(QUICK, Path(folder), call)
        return {name: digest(values, is_exact=RTOL_OF[name] == 0) for name, values in found}


@pytest.mark.slow  # 40 s; CI runs it
@pytest.mark.parametrize("name", RTOL_OF)
def test_numbers_are_those_that_are_kept(now, name):
    kept = json.loads(KEPT.read_text())[name]
    assert now[name].keys() == kept.keys()
    for column, before in kept.items():
        after = now[name][column]
        assert after[0] == before[0], column
        if column.endswith("#"):
            assert after == before, column
        else:
            tolerance = RTOL_OF[name] * before[-1]
            assert after[1:] == pytest.approx(before[1:], rel=0, abs=7 * tolerance), column


def test_every_value_has_a_key_of_its_own():
    assert dict(
        walk([{"metric": "sms", "value": 0.5, "n": 3}, {"metric": "sms", "n": 4}], "t")
    ) == {
        "t[sms].value": 0.5,
        "t[sms].n": 3,
        "t[sms~2].n": 4,
    }


if __name__ == "__main__":
    KEPT.write_text(json.dumps(digests(), indent=0, allow_nan=False) + "\n")

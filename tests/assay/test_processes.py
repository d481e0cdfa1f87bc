"""Public functions work in forked and spawned processes and in threads, whatever was called before.

Only the thread that forks lives on in the new process: libraries that had threads before may hang.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import assay
from tests.assay.public_calls import NAMES, Calls, rounded

ROOT = Path(__file__).parents[2]
QUICK = ["score_polars", "tables_of_a_run", "compare"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the calls read."""
    folder = tmp_path_factory.mktemp("calls")
    Calls(folder).prepare()
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    """What the calls return in a process of their own; once for all tests."""
    python("-m", "tests.assay.public_calls", str(folder))
    return json.loads((folder / "expected.json").read_text())


@needs_fork
def test_forked_process_does_what_the_process_before_did(folder):
    calls = Calls(folder)
    known = {name: rounded(getattr(calls, name)()) for name in QUICK}
    (folder / "expected.json").write_text(json.dumps(known))
    assert python("-m", "tests.assay.public_calls", str(folder), "compare", *QUICK) == ""


LATE = """
import sys, warnings
from pathlib import Path
import polars
warnings.simplefilter("ignore")
polars.DataFrame({"n": [1, 2]}).filter(polars.col("n") > 1).group_by("n").len()
from os import fork, waitpid, _exit
child = fork()
if child == 0:
    import signal
    signal.alarm(60)
    from tests.assay.public_calls import Calls
    calls = Calls(Path(sys.argv[1]))
    calls.compare(), calls.score_polars()
    print("done", flush=True)
    _exit(0)
waitpid(child, 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether a process was forked")
def test_process_that_was_forked_before_assay_was_imported(folder):
    assert python("-c", LATE, str(folder)) == "done\n"


FAILING = """
import os, signal, sys, warnings
import assay, polars
warnings.simplefilter("ignore")
if os.fork() == 0:
    signal.alarm(60)
    try:
        assay.compare(sys.argv[1], sys.argv[1], systems_a="nobody")
    except ValueError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


@needs_fork
def test_errors_in_a_forked_process_are_those_of_any_other(folder):
    run = folder / "run"
    with pytest.raises(ValueError, match="`--systems-a`") as error:
        assay.compare(run, run, systems_a="nobody")
    assert python("-c", FAILING, str(run)) == f"{error.value}\n"


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("before", NAMES)
def test_every_call_in_a_fork_after_every_call(before, folder, expected):
    assert python("-m", "tests.assay.public_calls", str(folder), before, *NAMES) == ""


@needs_fork
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:Using fork:RuntimeWarning")
def test_pool_of_forked_processes(folder, expected):
    """In this process, which has used all libraries."""
    names = ["score", "correlate", "reward", "train"]
    calls = Calls(folder)
    calls.compare(), calls.score()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        found = pool.map(call, [folder] * len(names), names, timeout=240)
        assert list(found) == [expected[name] for name in names]


@pytest.mark.slow
def test_spawned_processes(folder, expected):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.map(call, [folder] * len(NAMES), NAMES)
        assert dict(zip(NAMES, found, strict=True)) == expected


@pytest.mark.slow
def test_threads(folder, expected):
    """Each call beside all others."""
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(call, [folder] * 2 * len(NAMES), [*NAMES, *NAMES[::-1]])
        for name, one in zip([*NAMES, *NAMES[::-1]], found, strict=True):
            assert one == expected[name]


def call(folder: Path, name: str) -> object:
    return rounded(getattr(Calls(folder), name)())


DATASET = """
import sys
from pathlib import Path
import assay
from datasets import Dataset
from tests.assay.public_calls import Calls

calls = Calls(Path(sys.argv[1]))
calls.compare()
rows = [{"candidate": row["candidate"], "reference": row["references"][0]} for row in calls.rows]
rows = Dataset.from_list(rows)
scored = assay.score(rows, metrics=["rouge1_f", "sms"])
scorer, reward = assay.Scorer(metrics=["rouge1_f", "sms"]), assay.Reward("rouge1_f")
scorer(rows)

def score(batch):
    one = assay.score(batch, metrics=["rouge1_f", "sms"])
    return {
        "f": one["rouge1_f"],
        "sms": one["sms"],
        "held": scorer.columns(batch)["sms"],
        "reward": reward(batch["candidate"], references=batch["reference"]),
    }

mapped = rows.map(score, batched=True, num_proc=2)
assert mapped["f"][:] == scored["rouge1_f"][:] == mapped["reward"][:]
assert mapped["sms"][:] == mapped["held"][:] == scored["sms"][:]
"""


@needs_fork
@pytest.mark.slow
def test_map_of_a_dataset_in_processes(folder):
    pytest.importorskip("datasets")
    python("-c", DATASET, str(folder))

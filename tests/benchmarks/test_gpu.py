"""The benchmark of a GPU, small and without one: every part runs and says something."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "stand_in", "encoding", "files", "sharing", "times", "difference", "two_runs", "memory",
    "likelihood", "training", "run",
}  # fmt: skip


def run(*options):
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *options],
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_smoke_run_has_every_figure():
    done = run("--smoke")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {*found} == PARTS | {"machine"}
    parts = {name: found[name] for name in PARTS}
    assert not {name: row for name, rows in parts.items() for row in rows if "failed" in row}
    assert [row["model"] for row in found["encoding"]] == ["minilm", "tiny-mpnet", "tiny-bert"]
    assert all(row["encode_tokens_per_s"] > 0 for row in found["encoding"])
    metrics = ["cosine", "sms", "s+wms", "cosine,sms,s+wms"]
    assert [row["metrics"] for row in found["files"]] == metrics
    assert found["two_runs"] == [{"equal_bits": True, "largest_difference": 0.0}]
    assert found["memory"][0]["provoked"]
    assert found["memory"][0]["largest_difference"] == 0.0
    assert found["difference"][0]["fp32"] == 0.0
    assert [row["workers"] for row in found["stand_in"]] == [1, 2]
    assert all(0 < row["busy_share"] <= 1 for row in found["stand_in"])
    assert "| memory provoked | True |" in done.stdout


@pytest.mark.slow
def test_without_a_gpu_it_says_what_to_do():
    done = run()
    assert done.returncode == 1
    assert done.stderr.strip() == "torch sees no GPU; --smoke runs the same code without one"

"""A scorer where people keep their data: the guide's blocks, and workers that are killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import assay

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scorer.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"^```python\n(.*?)^```\n+```text\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_block(word: str, folder: Path) -> None:
    """Run the block of the page that has a word; it prints what the page says."""
    ((code, printed),) = [found for found in BLOCKS.findall(PAGE) if word in found[0]]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


@pytest.mark.slow
@pytest.mark.extra
def test_guide_maps_a_data_set_in_four_processes(tmp_path):
    pytest.importorskip("datasets", reason="needs datasets; pip install datasets")
    run_block("num_proc=4", tmp_path)


@pytest.mark.slow
@pytest.mark.ray
def test_guide_maps_a_data_set_of_ray(tmp_path):
    run_block("ray.data", tmp_path)


@pytest.fixture(scope="module")
def ray():
    from cluster import ray_cluster  # before Ray: it sets the environment

    ray = ray_cluster.ray
    options = {"include_dashboard": False, "log_to_driver": False}
    ray.init(address="local", num_cpus=4, num_gpus=2, **options)  # GPUs that are only counted
    yield ray
    ray.shutdown()


ROWS = [
    {"candidate": None if 60 <= k < 80 else f"A cat {k} sat.", "reference": "A cat sat.", "k": k}
    for k in range(120)
]
SETTINGS = {"metrics": ["sms", "rouge1_f"], "device": "cpu", "threads": 1}


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("batches", ["pyarrow", "numpy"])
def test_ray_actors_that_are_killed_give_the_same_scores(batches, ray, tmp_path):
    """Two actors with a GPU each, which are killed at one row each, once."""

    class KilledOnce(assay.Scorer):
        def __init__(self, folder, **settings):
            super().__init__(**settings)
            self.folder = folder

        def __call__(self, batch):
            numbers = {int(str(k)) for k in batch["k"]}
            for fatal in numbers & {30, 110}:
                if not os.path.exists(flag := f"{self.folder}/{fatal}"):
                    os.mkdir(flag)
                    os.kill(os.getpid(), 9)
            os.makedirs(f"{self.folder}/gpu{os.environ['CUDA_VISIBLE_DEVICES']}", exist_ok=True)
            return super().__call__(batch)

    from ray.data import ActorPoolStrategy, from_items

    scored = from_items(ROWS).repartition(12).map_batches(
        KilledOnce,
        fn_constructor_kwargs={"folder": str(tmp_path), **SETTINGS},
        compute=ActorPoolStrategy(size=2),
        num_gpus=1,
        batch_format=batches,
        batch_size=10,
    )  # fmt: skip
    found = sorted(scored.take_all(), key=lambda row: row["k"])
    expected = assay.Scorer(**SETTINGS)(ROWS)
    assert [row["k"] for row in found] == list(range(120))
    for name in ("sms", "rouge1_f", "status"):
        ours = [row[name] for row in expected]
        theirs = [None if row[name] != row[name] else row[name] for row in found]  # NaN of NumPy
        assert theirs == ours
    assert sorted(os.listdir(tmp_path)) == ["110", "30", "gpu0", "gpu1"]

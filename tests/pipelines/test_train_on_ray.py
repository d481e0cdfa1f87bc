"""Training in several processes: the same result as in one, and the same after a kill."""

import contextlib
import threading
import time
from dataclasses import replace

import psutil
import pytest
import torch

from pipelines.settings.train import TrainSettings
from pipelines.train_model import train_scorer
from reffree.negatives import NegativesConfig
from reffree.neural.checkpoint import read_metrics
from reffree.neural.training import Recipe
from tests.pipelines.test_train_model import rows_of, weights_of
from tests.reffree.conftest import model_config, train_config
from tests.reffree.tiny_bert import write_tiny_bert
from tests.row_files import write_rows

pytest.importorskip("tensorboardX", reason="needs Ray Train; pip install 'assay[train]'")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),  # of Ray, by Ray
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    # Without dropout, which differs between processes, two of them do what one does.
    folder = write_tiny_bert(tmp_path_factory.mktemp("tiny"), dropout=0.0)
    return Recipe(
        model=model_config(encoder=f"hf:{folder}", max_pieces=60, n_hidden=16),
        negatives=NegativesConfig(kinds=("cross-pair", "add")),
        training=train_config(batch_size=8, epochs=3, checkpoint_steps=4, learning_rate=1e-3),
    )


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("pairs") / "pairs.parquet", rows_of(60))


def asked(out, workers=2):
    return TrainSettings(out=out, workers=workers, device="cpu")


def validation_losses(folder):
    lines = read_metrics(folder / "training")
    return [line["validation_loss"] for line in lines if "validation_loss" in line]


def test_two_workers_learn_what_one_learns(recipe, pairs, tmp_path):
    for n, out in enumerate(("one", "two"), start=1):
        train_scorer([pairs], asked(tmp_path / out, workers=n), recipe)
    one, two = validation_losses(tmp_path / "one"), validation_losses(tmp_path / "two")
    assert two == pytest.approx(one, abs=1e-4)


def test_killed_workers_go_on_to_the_same_weights(recipe, pairs, tmp_path):
    train_scorer([pairs], asked(tmp_path / "whole"), recipe)
    killer = threading.Thread(target=kill_after_second_checkpoint, args=(tmp_path / "killed",))
    killer.start()
    with pytest.raises(RuntimeError, match="run the same command again"):
        train_scorer([pairs], asked(tmp_path / "killed"), recipe)
    killer.join()
    n_steps = torch.load(tmp_path / "killed" / "training" / "checkpoint.pt")["state"]["step"]
    train_scorer([pairs], asked(tmp_path / "killed"), recipe)
    first, second = weights_of(tmp_path / "whole"), weights_of(tmp_path / "killed")
    assert n_steps >= 8
    assert all(torch.equal(first[name], second[name]) for name in first)


def kill_after_second_checkpoint(folder):
    """Kill a training worker once the second checkpoint is written."""
    path = folder / "training" / "checkpoint.pt"
    seen = set()
    deadline = time.monotonic() + 120
    while len(seen) < 2 and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            seen.add(path.stat().st_ino)
        time.sleep(0.001)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "ray::RayTrainWorker" in process.cmdline()[0]:
                process.kill()


def test_wrong_request_of_a_worker_is_one_line(recipe, pairs, tmp_path):
    wrong = replace(recipe, training=replace(recipe.training, batch_size=1))
    with pytest.raises(ValueError, match="`workers` must be at most the examples of a batch"):
        train_scorer([pairs], asked(tmp_path / "out"), wrong)

"""Two processes that train together, without Ray: as good as one, and the same after a kill."""

import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from reffree.checkpoint import CHECKPOINT_FILE
from reffree.hashing import generator_of
from reffree.learning import PreparedFolder, Recipe, learn
from reffree.loop import BEST_FILE
from reffree.mixture import NegativesConfig
from reffree.models import ModelConfig
from reffree.pairs import Pair
from reffree.training import TrainConfig
from tests.reffree.conftest import write_buckets
from tests.reffree.tiny_bert import WORDS, write_tiny_bert

pytestmark = pytest.mark.slow

N_TRAINING, N_VALIDATION = 400, 80
WORKER = """
import pickle, sys
import torch
from torch import distributed
from reffree.learning import learn
from reffree.ranks import Ranks
torch.set_num_threads(1)
job, meeting, rank = pickle.load(open(sys.argv[1], "rb")), sys.argv[2], int(sys.argv[3])
distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
learn(*job, fingerprint="f", ranks=Ranks.current())
distributed.barrier()  # gloo aborts a process whose peer has left while it still listens
distributed.destroy_process_group()
"""


def made_up(n, *, prefix):
    """Documents of three sentences; a summary has the words of one of them."""
    pairs = []
    for i in range(n):
        words = generator_of(prefix, i).permutation(WORDS)[:12].tolist()
        sentences = [" ".join(words[k : k + 4]) for k in (0, 4, 8)]
        pairs.append(
            Pair(
                document_id=f"{prefix}{i}",
                number=0,
                side=-1,
                source=". ".join([*sentences, f"end{i}."]),
                reference=f"{sentences[i % 3]}.",
            )
        )
    return pairs


@pytest.fixture(scope="module", params=[0.0, 0.9], ids=["weights", "mean-of-weights"])
def job(tmp_path_factory, request):
    """A frozen encoder and a head that learns to compare: what `learn` takes."""
    folder = tmp_path_factory.mktemp("pairs")
    write_buckets(folder / "all", made_up(N_TRAINING, prefix="d"))
    write_buckets(folder / "held-out", made_up(N_VALIDATION, prefix="e"), side=1)
    for path in (folder / "held-out").iterdir():
        path.rename(folder / "all" / path.name)
    encoder = write_tiny_bert(tmp_path_factory.mktemp("tiny"))
    recipe = Recipe(
        model=ModelConfig(scorer="sentence", encoder=f"hf:{encoder}", head="match"),
        negatives=NegativesConfig(kinds=("cross-pair",)),
        training=TrainConfig(
            batch_size=32,
            epochs=20,
            patience=20,
            learning_rate=1e-2,
            checkpoint_steps=5,
            ema_decay=request.param,
        ),
    )
    prepared = PreparedFolder(
        folder=folder / "all", vocabulary=("word",), n_training_pairs=N_TRAINING
    )
    return recipe, prepared


def started(job, folder):
    """Start both processes."""
    folder.mkdir(exist_ok=True)
    (folder / "job.pickle").write_bytes(pickle.dumps((*job, folder)))
    meeting = folder / f"meeting-{time.monotonic_ns()}"
    processes = []
    for rank in range(2):
        command = [sys.executable, "-c", WORKER, folder / "job.pickle", meeting, str(rank)]
        with (folder / f"stderr-{rank}").open("w") as said:
            processes.append(subprocess.Popen(command, stderr=said))
    return processes


def train_together(job, folder):
    """Train in two processes to the end; return the state."""
    ends = [process.wait(timeout=600) for process in started(job, folder)]
    said = [path.read_text()[-2_000:] for path in sorted(folder.glob("stderr-*"))]
    assert ends == [0, 0], said
    return learn(*job, folder, fingerprint="f")[1]  # finished: reads the checkpoint


@pytest.fixture(scope="module")
def together(job, tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    return folder, train_together(job, folder)


def test_two_processes_reach_what_one_reaches(job, together, tmp_path):
    seeds = [replace(job[0], training=replace(job[0].training, seed=seed)) for seed in range(3)]
    alone = [
        learn(recipe, job[1], tmp_path / str(k), fingerprint="f")[1].best_loss
        for k, recipe in enumerate(seeds)
    ]
    assert max(alone) < 0.8 * np.log(2)
    noise = max(alone) - min(alone)
    assert together[1].best_loss == pytest.approx(alone[0], abs=max(noise, 0.01))


def test_killed_processes_go_on_to_the_same_weights(job, together, tmp_path):
    whole, whole_state = together
    path = tmp_path / CHECKPOINT_FILE
    processes, seen = started(job, tmp_path), set()
    deadline = time.monotonic() + 600
    while len(seen) < 2 and time.monotonic() < deadline:
        if path.exists():
            seen.add(path.stat().st_ino)
        time.sleep(0.001)
    for process in processes:
        process.send_signal(signal.SIGKILL)
    assert [process.wait() for process in processes] == [-signal.SIGKILL] * 2
    assert 10 <= torch.load(path)["state"]["step"] < whole_state.step
    assert train_together(job, tmp_path) == whole_state
    assert (tmp_path / BEST_FILE).read_bytes() == (whole / BEST_FILE).read_bytes()

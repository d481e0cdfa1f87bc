"""Pairs for tests, documents of plain words that can be told apart, and configurations."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from reffree.neural.models import ModelConfig
from reffree.neural.readers import PieceReader
from reffree.neural.training import TrainConfig
from reffree.training_pairs.buckets import BucketWriter
from reffree.training_pairs.rows import Pair, as_table
from tests.hub import hub, offline  # noqa: F401  (fixtures)
from tests.reffree.tiny_bert import write_tiny_bert


def make_pairs(n, *, n_sentences=3):
    """Pairs d0, d1, ... whose texts have their own words."""
    return [
        Pair(
            document_id=f"d{i}",
            number=0,
            side=-1,
            source=" ".join(
                f"The source{i} tells thing{i} number {k} of all." for k in range(3 * n_sentences)
            ),
            reference=" ".join(f"Summary{i} says thing{i} and {k}." for k in range(n_sentences)),
        )
        for i in range(n)
    ]


def write_buckets(folder, pairs, *, side=0, groups=None):
    """Deal pairs, each a group of its own unless `groups` are given, to a side or one each."""
    folder.mkdir()
    keys = np.array(groups or [pair.key for pair in pairs], dtype=np.uint64)
    n_characters = sum(len(pair.source) + len(pair.reference) for pair in pairs)
    writer = BucketWriter(folder, len(pairs), n_characters)
    writer.add(as_table(pairs, keys), np.full(len(pairs), side, dtype=np.int8))
    writer.close()
    return sorted(folder.glob("*.arrow"))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def model_config(**changes):
    """A configuration: of `bert`, but for what is said."""
    plain = {
        "scorer": "bert", "encoder": "minilm", "head": "fc", "max_pieces": 512,
        "is_calibrated": False,
    }  # fmt: skip
    return ModelConfig(**plain | changes)


def train_config(**changes):
    """A configuration of the training, but for what is said."""
    plain = {
        "loss": "bce", "learning_rate": 5e-5, "batch_size": 32, "epochs": 10, "patience": 3,
        "ema_decay": 0.0, "checkpoint_steps": 200, "precision": "auto", "seed": 0,
    }  # fmt: skip
    return TrainConfig(**plain | changes)


@pytest.fixture(scope="module")
def tokenizer_path(tmp_path_factory):
    return str(write_tiny_bert(tmp_path_factory.mktemp("bert")) / "tokenizer.json")


def make_reader(path, max_pieces=24):
    return PieceReader(
        Tokenizer.from_file(path), max_pieces=max_pieces, truncation="longest", padding_id=0
    )

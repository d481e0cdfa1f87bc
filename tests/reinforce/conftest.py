"""Made-up documents of which a summary copies some words."""

import numpy as np
import pytest
import torch

from reinforce.documents import Document, Vocabulary
from reinforce.network import NetworkConfig, PointerGenerator
from reinforce.summarisers import Limits, PointerSummariser

VERBS = ["won", "lost", "built", "sold", "found", "moved", "closed", "opened"]
THINGS = ["bridge", "school", "ferry", "market", "mill", "tower", "road", "park"]


def make_documents(n, *, seed=0):
    """Documents d0, d1, ...; each has a name of its own, which no vocabulary knows."""
    rng = np.random.default_rng(seed)
    documents = []
    for i in range(n):
        verb, thing = rng.choice(VERBS), rng.choice(THINGS)
        source = f"Yesterday Name{i} {verb} the {thing}. Many people came to see it."
        documents.append(Document(f"d{i}", source, (f"Name{i} {verb} the {thing}.",)))
    return documents


def known_words():
    texts = [f"yesterday {verb} the {thing} ." for verb in VERBS for thing in THINGS]
    return Vocabulary.most_frequent([*texts, "many people came to see it"], 100)


def make_summariser(*, seed=0, hidden=12, summary_words=8, **sizes):
    vocabulary = known_words()
    sizes = {"n_dimensions": hidden, "n_hidden": hidden, "n_layers": 2, "dropout": 0.0} | sizes
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = PointerGenerator(NetworkConfig(n_words=len(vocabulary), **sizes))
    limits = Limits(source_words=400, summary_words=summary_words)
    return PointerSummariser(network, vocabulary, limits)


@pytest.fixture
def documents():
    return make_documents(5)


@pytest.fixture
def summariser():
    return make_summariser()


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    """Learn the same on any machine."""


def batch_of(summariser, documents):
    """Make a batch of documents, or of so many, with their first references."""
    if isinstance(documents, int):
        documents = make_documents(documents)
    return summariser.batch(documents, [one.references[0] for one in documents], "cpu")

"""The training loop: learns, follows from its seed, goes on bit by bit, stops at a bad loss."""

import math
from dataclasses import replace
from itertools import islice

import pytest
import torch

from reffree.negatives import NegativesConfig
from reffree.neural.building import build
from reffree.neural.checkpoint import CHECKPOINT_FILE, read_metrics
from reffree.neural.loop import LossSum, run_training
from reffree.neural.training import Recipe, ScorerTask, learn
from reffree.training_pairs.examples import PreparedPairs
from tests.reffree.conftest import make_pairs, model_config, train_config, write_buckets
from tests.reffree.tiny_bert import TinyData, make_groups, write_tiny_bert

CONFIG = train_config(
    learning_rate=1e-3, batch_size=4, epochs=2, checkpoint_steps=2, log_steps=3, warmup_share=0.0
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = write_tiny_bert(tmp_path_factory.mktemp("bert"))
    return model_config(encoder=f"hf:{folder}", max_pieces=40, n_hidden=8)


pytestmark = pytest.mark.usefixtures("one_thread")


class Killed(ScorerTask):
    """Stops a run in the middle of its second epoch."""

    def training(self, epoch):
        yield from islice(super().training(epoch), None if epoch == 0 else 3)
        if epoch:
            raise KeyboardInterrupt


def run(tiny, folder, *, task=ScorerTask, config=CONFIG, built=None, n=12):
    """Train a model; return its weights and how the run went."""
    built = built or build(tiny, seed=1)
    recipe = Recipe(model=tiny, negatives=NegativesConfig(kinds=("add",)), training=config)
    made = task(TinyData(make_groups(n)), recipe, built.reader)
    state = run_training(
        built.model, made, config, folder, fingerprint="f", ema_decay=config.ema_decay
    )
    return built.model.state_dict(), state


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def prepared(folder):
    """Deal seven pairs to each side that a training reads."""
    write_buckets(folder, make_pairs(14), side=[0] * 7 + [1] * 7)
    return PreparedPairs(
        folder=folder, vocabulary=("word",), n_rows=14, n_pairs={"train": 7, "validation": 7},
        left_out={}, n_shared=0, has_own_split=False, source_sample=(),
    )  # fmt: skip


@pytest.mark.parametrize("optimiser", ["adamw", "rmsprop"])
def test_rate_falls_to_zero_or_stays_and_no_run_goes_on_with_other_vectors(
    optimiser, tiny, tmp_path, monkeypatch
):
    recipe = Recipe(
        model=tiny,
        negatives=NegativesConfig(kinds=("cross-pair", "add")),  # 21 examples, batches of 4
        training=replace(CONFIG, log_steps=1, optimiser=optimiser),
    )
    pairs = prepared(tmp_path / "pairs")
    learn(recipe, pairs, tmp_path / "run", fingerprint="f")
    lines = [line for line in read_metrics(tmp_path / "run") if "train_loss" in line]
    shares = [(11 - k) / 12 for k in range(12)] if optimiser == "adamw" else [1] * 12
    expected = [CONFIG.learning_rate * share for share in shares]
    assert [line["learning_rate"] for line in lines] == pytest.approx(expected)
    monkeypatch.setattr(
        "reffree.neural.training.build",
        lambda *given, **options: replace(build(*given, **options), encoder_content="other"),
    )
    with pytest.raises(ValueError, match="other data, options"):
        learn(recipe, pairs, tmp_path / "run", fingerprint="f")


def test_same_seed_same_weights(tiny, tmp_path):
    first, _ = run(tiny, tmp_path / "a")
    second, _ = run(tiny, tmp_path / "b")
    other, _ = run(tiny, tmp_path / "c", config=replace(CONFIG, seed=1))
    assert_same(first, second)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(
    "changes", [{}, {"optimiser": "rmsprop", "loss": "mse"}, {"ema_decay": 0.9}], ids=str
)
def test_resumed_run_ends_with_the_same_weights(changes, tiny, tmp_path):
    options = {"config": replace(CONFIG, **changes)}
    whole, whole_state = run(tiny, tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        run(tiny, tmp_path / "killed", task=Killed, **options)
    n_before = torch.load(tmp_path / "killed" / CHECKPOINT_FILE)["state"]["step"]
    resumed, state = run(tiny, tmp_path / "killed", **options)
    assert 6 < n_before < whole_state.step
    assert state == whole_state
    assert_same(whole, resumed)
    first, second = (
        [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(folder)]
        for folder in (tmp_path / "whole", tmp_path / "killed")
    )
    assert first == second


def test_best_weights_win(tiny, tmp_path):
    # The labels of the validation pairs are turned round, so that training makes it worse.
    class Contrary(ScorerTask):
        def validation(self):
            for batch in super().validation():
                yield replace(batch, labels=1 - batch.labels)

    config = replace(CONFIG, epochs=10, patience=2, learning_rate=3e-3)
    _, state = run(tiny, tmp_path, task=Contrary, config=config)
    lines = read_metrics(tmp_path)
    losses = [line["validation_loss"] for line in lines if "validation_loss" in line]
    best = losses.index(min(losses))
    assert state.best_loss == losses[best]
    assert len(losses) == min(10, best + 1 + 2)
    assert state.epoch == len(losses) < 10


class Counting:
    """A weight that grows by 1 in every step, and is better the larger it is."""

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def optimiser(self, model):
        optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
        return optimiser, torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0)

    def training(self, epoch):
        return range(self.n_steps)

    def validation(self):
        return range(1)

    def loss(self, model, batch, step):
        return self.validation_loss(model, batch)

    def validation_loss(self, model, batch):
        return LossSum(-model(torch.ones(1, 1)).sum(), 1)


def test_kept_weights_are_the_mean_over_steps(tmp_path):
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    state = run_training(model, Counting(25), CONFIG, tmp_path, fingerprint="f", ema_decay=0.7)
    mean = 1.0
    for step in range(2, 51):  # two epochs of 25 steps; the weight after each is its number
        decay = min(0.7, step / (9 + step))
        mean = decay * mean + (1 - decay) * step
    assert model.weight.item() == pytest.approx(mean, rel=1e-6)
    assert -state.best_loss == pytest.approx(mean, rel=1e-6)


def test_bad_loss_names_step_and_documents(tiny, tmp_path):
    built = build(tiny)
    with torch.no_grad():
        built.model.head[-1].bias.fill_(float("nan"))
    with pytest.raises(RuntimeError, match=r"must be a number, got nan at step 0 .*documents d\d"):
        run(tiny, tmp_path, built=built)


def test_damaged_checkpoint_and_no_examples_rejected(tiny, tmp_path):
    run(tiny, tmp_path)
    path = tmp_path / CHECKPOINT_FILE
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="must be a whole checkpoint"):
        run(tiny, tmp_path)
    with pytest.raises(ValueError, match="`pairs` must have training examples, got none"):
        run(tiny, tmp_path / "other", n=0)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("learning_rate", 0.0, "positive"),
        ("epochs", 0, "at least 1"),
        ("patience", 0, "least"),
        ("ema_decay", 1.0, r"in \[0, 1\), got 1"),
        ("ema_decay", math.nan, r"in \[0, 1\), got nan"),
    ],
)
def test_wrong_configuration_rejected(field, value, rule):
    with pytest.raises(ValueError, match=f"`{field}` must be .*{rule.split('must be ')[-1]}"):
        train_config(**{field: value})

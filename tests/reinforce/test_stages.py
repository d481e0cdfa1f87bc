"""Both stages: they learn, ask for rewards once a step, and go on bit by bit after a stop."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reffree.neural.checkpoint import CHECKPOINT_FILE
from reffree.neural.loop import Ranks
from reffree.training_pairs.rows import Pair
from reinforce.documents import batches_of, read_documents
from reinforce.learning import learn_stage
from reinforce.stages import LikelihoodStage, MixedStage, RewardConfig, StageConfig
from tests.reffree.conftest import write_buckets
from tests.reinforce.conftest import batch_of, make_documents, make_summariser

CONFIG = StageConfig(
    learning_rate=1e-2, epochs=2, batch_size=4, checkpoint_steps=2, log_steps=3, patience=100,
    validation_documents=1_000, seed=0,
)  # fmt: skip
REWARD = RewardConfig(
    metric="rougeL_f", encoder="minilm", gamma_first=0.97, gamma_last=0.997, advantage="raw",
    n_drawn=1,
)  # fmt: skip


def write_pairs(folder, documents, sides):
    pairs = [
        Pair(document_id=one.document_id, number=k, side=-1, source=one.source, reference=text)
        for one in documents
        for k, text in enumerate(one.references)
    ]
    write_buckets(folder, pairs, side=sides)
    return folder


class CountedReward:
    """Rewards the share of the candidate's words that are in the reference, and counts calls."""

    def __init__(self):
        self.sizes = []

    def parts(self, candidates, *, references, sources):
        assert len(candidates) == len(references) == len(sources)
        self.sizes.append(len(candidates))
        words = [
            (candidate.split(), set(texts[0].lower().split()))
            for candidate, texts in zip(candidates, references, strict=True)
        ]
        shares = [sum(w in known for w in found) / max(len(found), 1) for found, known in words]
        return {"shared": np.array(shares)}

    def combined(self, parts):
        return parts["shared"].tolist()


def likelihood_stage(summariser, kind=LikelihoodStage, **options):
    """Make a stage in this process, for batches that are handed in."""
    settings = {"config": CONFIG, "buckets": {}, "n_steps": 10, "device": "cpu", "ranks": Ranks()}
    return kind(summariser=summariser, **settings | options)


def mixed_stage(summariser, reward, *, start=None, **options):
    start = None if start is None else start.module.eval()
    settings = {"reward": reward, "reward_config": replace(REWARD, **options), "start": start}
    return likelihood_stage(summariser, MixedStage, **settings)


def learn(stage, summariser, batch, n_steps):
    """Take some steps; return the mean loss of each."""
    optimiser, _ = stage.optimiser(summariser.module)
    losses = []
    for step in range(n_steps):
        part = stage.loss(summariser.module, batch, step)
        (part.total / part.n_terms).backward()
        torch.nn.utils.clip_grad_norm_(summariser.module.parameters(), CONFIG.max_norm)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(part.total.detach()) / part.n_terms)
    return losses


@pytest.mark.slow
def test_likelihood_overfits_twenty_pairs_to_nothing():
    summariser = make_summariser(hidden=24)
    stage = likelihood_stage(summariser, n_steps=120)
    assert learn(stage, summariser, batch_of(summariser, 20), 120)[-1] < 0.02
    # The names, which no vocabulary has, are copied, and so are those of documents never seen.
    others = make_documents(24)[20:]
    unseen = batch_of(summariser, others)
    found = summariser.texts(unseen, summariser.greedy_and_drawn(unseen, 0)[0])
    assert [text.split()[0] for text in found] == [f"name{i}" for i in range(20, 24)]


@pytest.mark.slow
def test_mixed_stage_raises_the_reward():
    torch.manual_seed(0)
    summariser, reward = make_summariser(hidden=16), CountedReward()
    stage = mixed_stage(summariser, reward, gamma_first=1.0, gamma_last=1.0)
    batch = batch_of(summariser, 16)
    before = -float(stage.validation_loss(summariser.module, batch).total)
    learn(stage, summariser, batch, 40)
    after = -float(stage.validation_loss(summariser.module, batch).total)
    assert after > before + 2.0  # of 16 at most


@pytest.mark.parametrize("advantage", ["raw", "unit"])
def test_several_drawn_summaries_by_hand(summariser, advantage):
    torch.manual_seed(0)
    reward, batch = CountedReward(), batch_of(summariser, 4)
    options = {"gamma_first": 0.5, "gamma_last": 0.5, "advantage": advantage, "n_drawn": 3}
    stage = mixed_stage(summariser, reward, **options)
    summariser.module.eval()
    part = stage.loss(summariser.module, batch, 0)
    assert reward.sizes == [4 * 4]  # asked for once
    assert part.figures["gamma"] == (0.5, 1)
    reward_s, all_s = part.figures["reward_share"]
    assert 0 < reward_s < all_s
    torch.manual_seed(0)
    _, drawn = summariser.greedy_and_drawn(batch, 3)
    texts = [summariser.texts(batch, summaries) for summaries in drawn]
    against = {"references": [one.references for one in batch.documents], "sources": [""] * 4}
    rewards = np.array([reward.parts(each, **against)["shared"] for each in texts])
    advantages = np.array(
        [[row[k] - np.delete(row, k).mean() for k in range(3)] for row in rewards.T]
    ).T
    if advantage == "unit":
        advantages /= np.sqrt((advantages**2).mean())
    with torch.no_grad():
        summariser.module.train()
        reference, *logs = summariser.module(**batch.inputs, targets=[batch.target, *drawn])
    total = 0.0
    for k, summaries in enumerate(drawn):
        surprise = torch.where(summariser.is_counted(summaries), -logs[k], 0.0).sum(1).numpy()
        total += 0.5 * float((advantages[k] * surprise).sum()) / 3
    total += 0.5 * float(-reference[summariser.is_counted(batch.target)].sum())
    assert float(part.total.detach()) == pytest.approx(total, rel=1e-5)


def test_policy_of_a_step_has_no_dropout():
    """The mean surprise of a step is that of the drawn words without dropout."""
    summariser = make_summariser(dropout=0.6)
    batch = batch_of(summariser, 4)
    torch.manual_seed(3)
    figures = mixed_stage(summariser, CountedReward()).loss(summariser.module, batch, 0).figures
    assert all(part.training for part in summariser.module.modules())
    assert summariser.module.decoder.dropout == 0.6
    torch.manual_seed(3)
    summariser.module.eval()
    _, (drawn,) = summariser.greedy_and_drawn(batch, 1)
    (logs,) = summariser.module(**batch.inputs, targets=[drawn])
    is_counted = summariser.is_counted(drawn)
    surprise = -float(logs[is_counted].detach().sum())
    assert figures["entropy"] == (pytest.approx(surprise, rel=1e-5), int(is_counted.sum()))


def test_leash_adds_the_divergence_from_the_start():
    summariser, other = make_summariser(), make_summariser(seed=5)
    batch = batch_of(summariser, 4)

    def loss(kl, start):
        torch.manual_seed(1)
        stage = mixed_stage(summariser, CountedReward(), kl=kl, start=start)
        return stage.loss(summariser.module, batch, 0)

    free, held, at_start = loss(0.0, None), loss(0.3, other), loss(0.3, make_summariser())
    torch.manual_seed(1)
    _, (drawn,) = summariser.greedy_and_drawn(batch, 1)
    current, first = (
        each.module(**batch.inputs, targets=[drawn])[0].detach() for each in (summariser, other)
    )
    log_ratio = (first - current)[summariser.is_counted(drawn)]
    divergence = float((log_ratio.exp() - log_ratio - 1).sum())
    assert held.figures["kl"][0] == pytest.approx(divergence, rel=1e-4)
    assert float((held.total - free.total).detach()) == pytest.approx(0.3 * divergence, rel=1e-3)
    assert at_start.figures["kl"][0] == pytest.approx(0.0, abs=1e-6)
    assert "kl" not in free.figures


def test_control_learns_from_the_likelihood_alone(summariser):
    reward, batch = CountedReward(), batch_of(summariser, 4)
    control = mixed_stage(summariser, reward, gamma_first=0.0, gamma_last=0.0)
    likelihood = likelihood_stage(summariser)
    first, second = (stage.loss(summariser.module, batch, 0) for stage in (control, likelihood))
    assert torch.equal(first.total, second.total)
    assert not reward.sizes
    validation = control.validation_loss(summariser.module, batch)  # chooses by the reward
    assert "validation_reward" in validation.figures
    assert reward.sizes == [4]


@pytest.mark.parametrize("reward", [None, REWARD])
def test_stopped_stage_goes_on_to_the_same_weights(reward, tmp_path):
    make_summariser().save(tmp_path / "start")
    pairs = write_pairs(tmp_path / "pairs", make_documents(16), [0] * 12 + [1] * 4)
    job = {"start": tmp_path / "start", "pairs": pairs, "reward": reward, "fingerprint": "f"}
    whole, whole_state = learn_stage(**job, folder=tmp_path / "whole", config=CONFIG)

    class Stopped(Exception):
        pass

    def stop(news):
        if news.step == 5:
            raise Stopped

    # A checkpoint after step 4, a stop at the line of step 5.
    folder = tmp_path / "stopped"
    with pytest.raises(Stopped):
        learn_stage(**job, folder=folder, config=replace(CONFIG, log_steps=5), on_news=stop)
    assert torch.load(folder / CHECKPOINT_FILE)["state"]["step"] == 4
    again, state = learn_stage(**job, folder=folder, config=CONFIG)
    first, second = whole.module.state_dict(), again.module.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert (state.step, state.best_loss) == (whole_state.step, whole_state.best_loss)


def test_order_of_an_epoch_follows_from_the_seed(tmp_path):
    references = "A b.", "C d."
    documents = [replace(one, references=references) for one in make_documents(8)]
    paths = list(write_pairs(tmp_path / "pairs", documents, [0] * 16).glob("*.arrow"))
    first, again, other = (list(read_documents(paths, seed=1, epoch=e)) for e in (0, 0, 1))
    assert first == again != other
    assert sorted(first, key=lambda one: one.document_id) == documents
    assert [first[0].reference(epoch) for epoch in range(3)] == ["A b.", "C d.", "A b."]


def test_processes_share_every_batch():
    documents = make_documents(10)
    parts = [list(batches_of(iter(documents), size=4, rank=rank, n_ranks=2)) for rank in range(2)]
    assert [len(a) + len(b) for a, b in zip(*parts, strict=True)] == [4, 4, 2]
    with pytest.raises(ValueError, match="`workers` must be at most the documents of a batch"):
        list(batches_of(iter(documents[:1]), size=4, n_ranks=2))

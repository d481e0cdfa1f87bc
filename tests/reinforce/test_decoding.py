"""Writing: beams against greedy and against all summaries there are, draws, blocked trigrams."""

import itertools

import numpy as np
import torch

from reinforce.decoding import beam_search, draw
from reinforce.documents import END, PAD, repetition_rate
from tests.reinforce.conftest import batch_of, make_summariser


def encoded_by(summariser, documents):
    with torch.no_grad():
        return summariser.module.encode(**batch_of(summariser, documents).inputs)


def test_wide_beam_finds_the_best_of_all_summaries():
    summariser = make_summariser(seed=1, hidden=4)
    with torch.no_grad():  # the end is likely enough to come early
        summariser.module.output.bias[END] += 3.0
    encoded = encoded_by(summariser, 1)
    n_words = encoded.n_extended
    found = beam_search(summariser.module, encoded, 2, width=n_words)
    every = [(END, PAD), *((word, END) for word in range(n_words) if word not in (PAD, END))]
    targets = torch.tensor(every)
    rows = encoded.rows(torch.zeros(len(every), dtype=torch.long))
    with torch.no_grad():
        logs = summariser.module.log_probabilities(rows, targets)
    counted = targets != PAD
    scores = torch.where(counted, logs, 0.0).sum(1) / counted.sum(1)
    best = every[int(scores.argmax())]
    assert found[0].tolist() == [word for word in best if word != PAD]


def test_blocked_trigrams_do_not_come_back():
    summariser = make_summariser(seed=3, summary_words=30)
    with torch.no_grad():
        summariser.module.output.bias[END] = -100.0
    encoded = encoded_by(summariser, 3)
    rates = []
    for blocks in (False, True):
        found = beam_search(summariser.module, encoded, 30, width=2, blocks_trigrams=blocks)
        rates.append(max(repetition_rate(list(map(str, row))) for row in found.tolist()))
    assert rates[0] > rates[1] == 0.0


def test_draws_follow_the_probabilities():
    torch.manual_seed(0)
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    drawn = draw(probabilities.expand(20_000, -1))
    shares = np.bincount(drawn.numpy(), minlength=6) / 20_000
    np.testing.assert_allclose(shares, probabilities.numpy(), atol=0.015)
    assert not shares[[0, 2, 5]].any()


def test_greedy_and_drawn_at_once_are_those_one_by_one(summariser, documents):
    batch = batch_of(summariser, documents)
    greedy, drawn = summariser.greedy_and_drawn(batch, 2)
    alone, _ = summariser.greedy_and_drawn(batch, 0)
    assert summariser.texts(batch, greedy) == summariser.texts(batch, alone)
    assert [each.shape for each in drawn] == [greedy.shape] * 2
    every = [greedy, *drawn]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(every, 2))

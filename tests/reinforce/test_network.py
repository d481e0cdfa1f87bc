"""The network: probabilities sum to 1, steps match, padding changes nothing."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from reinforce.documents import PAD, START, UNK
from reinforce.network import BothWays
from tests.reinforce.conftest import batch_of, make_documents, make_summariser

SUM_ATOL = 1e-5
"""Of float32 probabilities of a hundred words."""


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), n=st.integers(1, 4), scale=st.floats(0.1, 5.0))
def test_probabilities_sum_to_one(seed, n, scale):
    summariser = make_summariser(seed=seed, hidden=4)
    with torch.no_grad():
        for weights in summariser.module.parameters():
            weights.mul_(scale)
        batch = batch_of(summariser, make_documents(n, seed=seed))
        encoded = summariser.module.encode(**batch.inputs)
        state, previous = encoded.start, batch.target[:, 0]
        for _ in range(2):
            probabilities, state = summariser.module.step(encoded, previous, state)
            np.testing.assert_allclose(probabilities.sum(1).numpy(), 1.0, atol=SUM_ATOL)
            assert (probabilities >= 0).all()
            assert not probabilities[:, [PAD, UNK, START]].any()
            previous = probabilities.argmax(1)


def test_all_steps_at_once_match_one_after_the_other(summariser, documents):
    batch = batch_of(summariser, documents)
    with torch.no_grad():
        (at_once,) = summariser.module(**batch.inputs, targets=[batch.target])
        encoded = summariser.module.encode(**batch.inputs)
        state, previous = encoded.start, torch.full_like(batch.target[:, 0], START)
        for step in range(batch.target.shape[1]):
            probabilities, state = summariser.module.step(encoded, previous, state)
            previous = batch.target[:, step]
            counted = previous != PAD
            expected = probabilities.gather(1, previous[:, None]).squeeze(1).log()
            torch.testing.assert_close(at_once[counted, step], expected[counted])


def test_padding_changes_nothing(summariser, documents):
    long = make_documents(6)[5]
    longer = type(long)(long.document_id, f"{long.source} {long.source}", long.references)
    with torch.no_grad():
        together = batch_of(summariser, [documents[0], longer])
        alone = batch_of(summariser, documents[:1])
        (both,) = summariser.module(**together.inputs, targets=[together.target])
        (one,) = summariser.module(**alone.inputs, targets=[alone.target])
    n_steps = int((alone.target != PAD).sum())
    torch.testing.assert_close(both[0, :n_steps], one[0, :n_steps])


def test_both_ways_matches_bidirectional_lstm():
    torch.manual_seed(0)
    ours = BothWays(3, 4, 2, 0.0)
    theirs = nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for layer in range(2):
            for suffix, lstm in (("", ours.forth[layer]), ("_reverse", ours.back[layer])):
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    value = getattr(lstm, f"{name}_l0")
                    getattr(theirs, f"{name}_l{layer}{suffix}").copy_(value)
    lengths = torch.tensor([5, 2, 4])
    vectors = torch.randn(3, 5, 3)
    packed = nn.utils.rnn.pack_padded_sequence(
        vectors, lengths, batch_first=True, enforce_sorted=False
    )
    states, (hidden, _) = theirs(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
    found, ends = ours(vectors, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[row, :length], expected[row, :length])
    torch.testing.assert_close(ends[1], torch.cat([hidden[2], hidden[3]], dim=1))

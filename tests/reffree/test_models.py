"""Heads: worked out by hand where they can be."""

import pytest
import torch

from reffree.heads import FIRST_SCALE, Convolution, Match, make_head
from reffree.models import HEADS, MODEL_PRESETS
from tests.reffree.conftest import model_config


def filled(head, value):
    """Give every weight of a layer one value and every bias none."""
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.fill_(0.0 if "bias" in name else value)
    return head


def test_match_by_hand():
    # Directions (1, 0) and (0, 1): product 0, difference (s, s) with s the root of 2; the cosines
    # of the summary are 0. The second document vector is padding.
    head = filled(Match((2, 1), 2, 1), 1.0)
    lengths = torch.tensor([[1, 1]])
    vectors = torch.tensor([[[3.0, 0.0], [0.0, 0.0], [0.0, 5.0]]])
    assert head(vectors, lengths).item() == pytest.approx(2 * 2**0.5)
    # The same direction: product (s, 0) and no difference; nearest and mean cosine 1.
    same = torch.tensor([[[3.0, 0.0], [0.0, 0.0], [5.0, 0.0]]])
    assert head(same, lengths).item() == pytest.approx(2**0.5 + 2)


def test_convolution_by_hand():
    head = filled(Convolution((2, 1), 2), 1.0)
    vectors = torch.tensor([[[1.0, 2.0], [-5.0, 1.0], [0.5, 0.0]]])
    # 128 filters, the largest sum is 3
    assert head(vectors, torch.tensor([[2, 1]])).item() == pytest.approx(128 * 3.0)


@pytest.mark.parametrize("head", HEADS)
def test_padding_makes_no_difference(head):
    """A head with room for more sentences, and the same weights, gives the same logit."""
    generator = torch.Generator().manual_seed(0)
    document, summary = torch.randn(2, 6, generator=generator), torch.randn(1, 6)
    logits = []
    for room in (2, 5, 40):
        torch.manual_seed(0)
        config = model_config(scorer="sentence", head=head, n_hidden=1)
        made = make_head(config, (room, 1), width=6, norm=2.0).eval()
        if head == "fc":  # its first weights compare means, and stand for any of that kind
            direction = torch.linspace(-1, 1, 6)
            with torch.no_grad():
                shares = torch.tensor([*[1 / room] * room, -1.0])
                made.layers[1].weight.copy_((shares[:, None] * direction).flatten()[None])
                made.layers[4].weight.fill_(1.0)
                made.layers[4].bias.zero_()
        vectors = torch.zeros(1, room + 1, 6)
        vectors[0, :2], vectors[0, room:] = document, summary
        logits.append(made(vectors, torch.tensor([[2, 1]])).item())
    assert logits[1:] == pytest.approx([logits[0]] * 2, abs=1e-5)


def test_fc_begins_by_comparing_the_means_of_the_texts():
    torch.manual_seed(0)
    head = make_head(model_config(scorer="sentence", n_hidden=7), (4, 2), width=6, norm=0.5)
    vectors = torch.randn(5, 6, 6)
    hidden = head.layers[1](vectors.flatten(1))
    differences = vectors[:, :4].mean(1) - vectors[:, 4:].mean(1)
    directions = hidden[:, :4]
    torch.testing.assert_close(hidden[:, 4:], -hidden[:, :3])
    found = torch.linalg.lstsq(differences, directions).solution
    torch.testing.assert_close(differences @ found, directions)
    spread = make_head(model_config(scorer="sentence", n_hidden=2000), (1, 1), width=6, norm=0.5)
    apart = torch.tensor([[[0.3, 0, 0, 0, 0, 0], [0.0, 0.4, 0, 0, 0, 0]]])
    hidden = spread.layers[1](apart.flatten(1))
    assert hidden.std().item() == pytest.approx(FIRST_SCALE * 0.5 / 0.5, rel=0.1)


def test_published_fc_begins_at_random():
    torch.manual_seed(0)
    published = model_config(scorer="sentence", **MODEL_PRESETS["bao2020"])
    head = make_head(published, (4, 2), width=6)
    weights = head.layers[1].weight.view(128, 6, 6)
    assert not torch.equal(weights[:, 0], weights[:, 1])


def test_fc_leaves_out_inputs_in_training_only():
    def logits(dropout):
        torch.manual_seed(0)
        head = make_head(model_config(scorer="sentence", dropout=dropout), (4, 2), width=6)
        vectors, lengths = torch.ones(8, 6, 6), torch.tensor([[4, 2]]).repeat(8, 1)
        return head.train()(vectors, lengths), head.eval()(vectors, lengths)

    trained, used = logits(0.5)
    assert trained.std() > 0.01
    torch.testing.assert_close(used, used[:1].expand(8))
    for plain in logits(0.0):
        torch.testing.assert_close(plain, used)

"""Heads over vectors of sentences or words: three of Bao et al. (2020, section 3.2), and `match`.

Each reads the document's vectors, then the summary's, shape (n, n_vectors, width), zeros where a
text has fewer, and how many each has, int64, shape (n, 2); it gives logits, shape (n,). How much
is filled up with zeros makes no difference.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from reffree.models import ModelConfig

FIRST_SCALE = 3.0
"""Times a difference of means as long as a vector: what a hidden unit then sees at first."""
N_FILTERS = 128
LSTM_UNITS = {"sentence": 128, "word": 25}  # bao et al. 2020, section 3.2


class FullyConnected(nn.Module):
    """One hidden layer over all vectors in a row.

    It has a weight for every number of fifty vectors, so that without dropout it learns a few
    thousand documents by heart. It need not begin by knowing nothing: where it `compares_means`
    each hidden unit first reads how far the texts' mean vectors are apart in a random direction,
    which it would else have to find out from many documents. Each text's vectors then count more
    the fewer there are, so that their sum is the mean whatever their number.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        width: int,
        n_hidden: int,
        dropout: float,
        *,
        compares_means: bool,
        norm: float,
    ) -> None:
        super().__init__()
        self.sizes, self.width, self.compares_means = sizes, width, compares_means
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(sum(sizes) * width, n_hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(n_hidden, 1),
        )
        if compares_means:
            self._begin_with_means(norm)

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        if self.compares_means:
            sizes = torch.tensor(self.sizes, device=lengths.device)
            share = sizes / lengths.clamp(min=1)
            vectors = vectors * share.repeat_interleave(sizes, dim=1)[..., None]
        return self.layers(vectors.flatten(1))[:, 0]

    @torch.no_grad()
    def _begin_with_means(self, norm: float) -> None:
        """Choose first weights that compare the texts' means; `norm` is about a vector's length."""
        hidden: Any = self.layers[1]
        n_pairs = (hidden.out_features + 1) // 2
        directions = torch.randn(n_pairs, self.width) * (FIRST_SCALE / norm)
        # Each direction both ways: two rectified units together give the size of the difference.
        directions = torch.cat([directions, -directions])[: hidden.out_features]
        weights = directions[:, None].repeat(1, sum(self.sizes), 1)
        weights[:, : self.sizes[0]] /= self.sizes[0]
        weights[:, self.sizes[0] :] /= -self.sizes[1]
        hidden.weight.copy_(weights.flatten(1))
        hidden.bias.zero_()


class Convolution(nn.Module):
    """Filters over one vector at a time, their largest values, and a linear layer.

    Bao et al. 2020 say that a filter does not cross the boundaries of sentences (words), and that
    the largest value is taken over all of document and summary.
    """

    def __init__(self, sizes: tuple[int, int], width: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.filters = nn.Linear(width, N_FILTERS)
        self.output = nn.Linear(N_FILTERS, 1)

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        found = torch.relu(self.filters(vectors))
        largest = (found * is_there(lengths, self.sizes)[..., None]).amax(dim=1)
        return self.output(largest)[:, 0]


class Recurrence(nn.Module):
    """An LSTM that reads the document, then the summary; a linear layer over its last state."""

    def __init__(self, sizes: tuple[int, int], width: int, n_units: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.lstm = nn.LSTM(width, n_units, batch_first=True)
        self.output = nn.Linear(n_units, 1)

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        # Those that are there, first: the summary follows the document without a gap.
        is_missing = ~is_there(lengths, self.sizes)
        order = is_missing.to(torch.int8).argsort(dim=1, stable=True)
        in_row = vectors.gather(1, order[..., None].expand_as(vectors))
        n_read = lengths.sum(1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            in_row, n_read, batch_first=True, enforce_sorted=False
        )
        _, (state, _) = self.lstm(packed)
        return self.output(state[-1])[:, 0]


class Match(nn.Module):
    """One hidden layer over how document and summary relate; not in the paper.

    It sees the product and the difference of the texts' mean directions, by dimension, and how
    near each vector of the summary is to the nearest and to all of the document. A layer over the
    vectors themselves would have to learn that from many more documents.
    """

    def __init__(self, sizes: tuple[int, int], width: int, n_hidden: int) -> None:
        super().__init__()
        self.sizes = sizes
        # Numbers in a direction of length 1 are small; brought to about 1, all inputs count alike.
        self.scale = width**0.5
        self.layers = nn.Sequential(
            nn.Linear(2 * width + 2 * sizes[1], n_hidden), nn.ReLU(), nn.Linear(n_hidden, 1)
        )

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        document, summary = vectors[:, : self.sizes[0]], vectors[:, self.sizes[0] :]
        first, second = (
            nn.functional.normalize(own.sum(1), dim=-1) * self.scale for own in (document, summary)
        )
        cosines = nn.functional.normalize(summary, dim=-1) @ nn.functional.normalize(
            document, dim=-1
        ).transpose(1, 2)
        there = is_there(lengths, self.sizes)
        in_document, in_summary = there[:, : self.sizes[0]], there[:, self.sizes[0] :]
        nearest = cosines.masked_fill(~in_document[:, None], -1.0).amax(2)
        relations = [
            first * second / self.scale,
            (first - second).abs(),
            nearest.masked_fill(~in_summary, 0.0),
            cosines.sum(2) / lengths[:, :1].clamp(min=1),
        ]
        return self.layers(torch.cat(relations, dim=1))[:, 0]


def is_there(lengths: torch.Tensor, sizes: tuple[int, int]) -> torch.Tensor:
    """Say which vectors are none that fill up; bool, shape (n, n_vectors)."""
    places = torch.cat([torch.arange(size, device=lengths.device) for size in sizes])
    counts = lengths.repeat_interleave(torch.tensor(sizes, device=lengths.device), dim=1)
    return places < counts


def make_head(
    config: ModelConfig, sizes: tuple[int, int], *, width: int, norm: float = 1.0
) -> nn.Module:
    """Make the head of a `sentence` or `word` scorer over so many vectors of each text.

    `norm` is about what a vector's length is; only first weights depend on it.
    """
    if config.head == "cnn":
        return Convolution(sizes, width)
    if config.head == "lstm":
        return Recurrence(sizes, width, LSTM_UNITS[config.scorer])
    if config.head == "match":
        return Match(sizes, width, config.n_hidden)
    return FullyConnected(
        sizes, width, config.n_hidden, config.dropout,
        compares_means=config.first_weights == "means", norm=norm,
    )  # fmt: skip

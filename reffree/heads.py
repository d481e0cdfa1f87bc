"""Heads over vectors of sentences or words: three of Bao et al. (2020, section 3.2), and `match`.

Each reads the document's vectors, then the summary's, shape (n, n_vectors, width), and gives
logits, shape (n,).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from reffree.models import ModelConfig

FIRST_SCALE = 3.0
"""Times a difference of means as long as a vector: what a hidden unit then sees at first."""
N_FILTERS = 128
LSTM_UNITS = {"sentence": 128, "word": 25}
"""Bao et al. 2020, section 3.2."""


class FullyConnected(nn.Module):
    """One hidden layer over all vectors in a row.

    It has a weight for every number of fifty vectors, so that without dropout it learns a few
    thousand documents by heart. It need not begin by knowing nothing: with `compare_means` each
    hidden unit first reads how far the texts' mean vectors are apart in a random direction,
    which it would else have to find out from many documents.
    """

    def __init__(self, n_vectors: int, width: int, n_hidden: int, dropout: float) -> None:
        super().__init__()
        self.n_vectors, self.width = n_vectors, width
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(n_vectors * width, n_hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(n_hidden, 1),
        )

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        logits: torch.Tensor = self.layers(vectors.flatten(1))[:, 0]
        return logits

    @torch.no_grad()
    def compare_means(self, n_document: int, norm: float) -> None:
        """Choose first weights that compare the texts' means; `norm` is about a vector's length."""
        hidden: Any = self.layers[1]
        n_pairs = (hidden.out_features + 1) // 2
        directions = torch.randn(n_pairs, self.width) * (FIRST_SCALE / norm)
        # Each direction both ways: two rectified units together give the size of the difference.
        directions = torch.cat([directions, -directions])[: hidden.out_features]
        n_summary = self.n_vectors - n_document
        weights = directions[:, None].repeat(1, self.n_vectors, 1)
        weights[:, :n_document] /= n_document
        weights[:, n_document:] /= -n_summary
        hidden.weight.copy_(weights.flatten(1))
        hidden.bias.zero_()


class Convolution(nn.Module):
    """Filters over one vector at a time, their largest values, and a linear layer.

    Bao et al. 2020 say that a filter does not cross the boundaries of sentences (words), and that
    the largest value is taken over all of document and summary.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filters = nn.Linear(width, N_FILTERS)
        self.output = nn.Linear(N_FILTERS, 1)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        largest = torch.relu(self.filters(vectors)).amax(dim=1)
        logits: torch.Tensor = self.output(largest)[:, 0]
        return logits


class Recurrence(nn.Module):
    """An LSTM that reads the document, then the summary; a linear layer over its last state."""

    def __init__(self, width: int, n_units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, n_units, batch_first=True)
        self.output = nn.Linear(n_units, 1)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        _, (state, _) = self.lstm(vectors)
        logits: torch.Tensor = self.output(state[-1])[:, 0]
        return logits


class Match(nn.Module):
    """One hidden layer over how document and summary relate; not in the paper.

    It sees the product and the difference of the texts' mean directions, by dimension, and how
    near each vector of the summary is to the nearest and to all of the document. A layer over the
    vectors themselves would have to learn that from many more documents.
    """

    def __init__(self, n_document: int, n_summary: int, width: int, n_hidden: int) -> None:
        super().__init__()
        self.n_document = n_document
        # Numbers in a direction of length 1 are small; brought to about 1, all inputs count alike.
        self.scale = width**0.5
        self.layers = nn.Sequential(
            nn.Linear(2 * width + 2 * n_summary, n_hidden), nn.ReLU(), nn.Linear(n_hidden, 1)
        )

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return logits of vectors."""
        document, summary = vectors[:, : self.n_document], vectors[:, self.n_document :]
        first, second = (
            nn.functional.normalize(own.sum(1), dim=-1) * self.scale for own in (document, summary)
        )
        cosines = nn.functional.normalize(summary, dim=-1) @ nn.functional.normalize(
            document, dim=-1
        ).transpose(1, 2)
        relations = [
            first * second / self.scale,
            (first - second).abs(),
            cosines.amax(2),
            cosines.mean(2),
        ]
        logits: torch.Tensor = self.layers(torch.cat(relations, dim=1))[:, 0]
        return logits


def make_head(
    config: ModelConfig, lengths: tuple[int, int], *, width: int, norm: float = 1.0
) -> nn.Module:
    """Make the head of a `sentence` or `word` scorer over so many vectors of each text.

    `norm` is about what a vector's length is; only first weights depend on it.
    """
    if config.head == "cnn":
        return Convolution(width)
    if config.head == "lstm":
        return Recurrence(width, LSTM_UNITS[config.scorer])
    if config.head == "match":
        return Match(*lengths, width, config.n_hidden)
    head = FullyConnected(sum(lengths), width, config.n_hidden, config.dropout)
    if config.first_weights == "means":
        head.compare_means(lengths[0], norm)
    return head

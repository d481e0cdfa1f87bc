"""The models: from what a reader gives (`readers`) to one logit per pair of texts.

- `bert`: one transformer reads document and summary together; a network with one hidden layer
  reads its first piece (Bao et al. 2020, section 2.1).
- `sentence` and `word`: vectors from an encoder that stays as it is, and a head over them (section
  3.2). A head reads the document's vectors, then the summary's, shape (n, n_vectors, width), zeros
  where a text has fewer, and how many each has, int64, shape (n, 2); gives logits, shape (n,). How
  much is filled up with zeros makes no difference.

A logit's sigmoid is the score. `building` makes a model from a configuration or a folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

HEADS = ("fc", "cnn", "lstm")
N_FILTERS = 128
LSTM_UNITS = {"sentence": 128, "word": 25}  # Bao et al. 2020, section 3.2
FIRST_SCALE = 3.0
"""Times a difference of means as long as a vector: what a hidden unit then sees at first."""

MODEL_PRESETS: dict[str, dict[str, Any]] = {
    "bao2020": {"truncation": "parallel", "dropout": 0.0, "first_weights": "random"},
}
"""Published recipes, by the names of `negatives.PRESETS`: arguments of `ModelConfig`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What a scorer is made of."""

    scorer: str  # `bert`, `sentence` or `word`
    encoder: str
    """Specification as in `sms.encoders.registry`; `bert` takes MiniLM and transformers models."""
    head: str  # one of `HEADS`; `bert` has `fc` only
    n_hidden: int = 128  # units of the hidden layer of `fc`
    dropout: float = 0.3
    """Share of the inputs and hidden units of `fc` over vectors that a training step leaves out;
    the transformer of `bert` has its own."""
    first_weights: str = "means"  # or `random`: how `fc` begins; see `FullyConnected`
    max_pieces: int  # of document and summary together, special ones included; `bert` only
    truncation: str = "longest"
    """What gives way in texts that are too long, as `readers.shares` has it; `bert` only."""
    document_length: int | None = None
    """Sentences or words of a document that are read; None for the quantile `COVERED` of the
    training data. Not for `bert`."""
    summary_length: int | None = None  # the same of a summary
    language: str = "en"
    """Of the texts that it learns from, as in `sms.text.languages`."""
    is_calibrated: bool
    """Whether logits are scaled and shifted to fit the validation documents, once training has
    ended; see `training.fit_scale`."""

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise ValueError(f"`head` must be one of {', '.join(HEADS)}, got {self.head!r}")
        if self.scorer == "bert" and self.head != "fc":
            raise ValueError(f"`head` must be fc for the scorer bert, got {self.head!r}")
        least = {"n_hidden": 1, "max_pieces": 5, "document_length": 1, "summary_length": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ValueError(f"`{name}` must be at least {lowest}, got {value}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1), got {self.dropout:g}")

    @property
    def unit(self) -> str:
        """What the encoder's vectors are of."""
        return "words" if self.scorer == "word" else "sentences"


class Calibrated(nn.Module):
    """A model whose logits are scaled and shifted; see `training.fit_scale`."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, model: nn.Module, scale: float = 1.0, shift: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("shift", torch.tensor(shift))

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        """Return logits, float32, shape (n,)."""
        return self.model(**inputs) * self.scale + self.shift


class PairModel(nn.Module):
    """A transformer of the family of BERT over both texts, and a network over its first piece."""

    def __init__(self, transformer: nn.Module, config: ModelConfig) -> None:
        super().__init__()
        if getattr(transformer, "pooler", None) is not None:
            transformer.pooler = None  # type: ignore[assignment]  # the head takes its place
        self.transformer: Any = transformer
        settings: Any = self.transformer.config
        self._has_types = (getattr(settings, "type_vocab_size", 0) or 0) > 1
        dropout = getattr(settings, "hidden_dropout_prob", None)
        self.head = nn.Sequential(
            nn.Dropout(0.1 if dropout is None else dropout),
            nn.Linear(settings.hidden_size, config.n_hidden),
            nn.ReLU(),
            nn.Linear(config.n_hidden, 1),
        )

    def forward(
        self, input_ids: torch.Tensor, token_type_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Return logits, float32, shape (n,)."""
        types = {"token_type_ids": token_type_ids} if self._has_types else {}
        output = self.transformer(input_ids=input_ids, attention_mask=attention_mask, **types)
        return self.head(output.last_hidden_state[:, 0])[:, 0].float()


# Heads over vectors


class FullyConnected(nn.Module):
    """One hidden layer over all vectors in a row.

    Without dropout its many weights learn a few thousand documents by heart. Where it
    `compares_means` each hidden unit first reads how far the texts' mean vectors are apart in a
    random direction, which it would else have to find out from many documents. Each text's vectors
    then count more the fewer there are, so that their sum is the mean whatever their number.
    """

    def __init__(
        self, config: ModelConfig, sizes: tuple[int, int], width: int, norm: float
    ) -> None:
        super().__init__()
        self.sizes, self.width = sizes, width
        self.compares_means = config.first_weights == "means"
        self.layers = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(sum(sizes) * width, config.n_hidden),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.n_hidden, 1),
        )
        if self.compares_means:
            self._begin_with_means(norm)

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        if self.compares_means:
            sizes = torch.tensor(self.sizes, device=lengths.device)
            share = sizes / lengths.clamp(min=1)
            vectors = vectors * share.repeat_interleave(sizes, dim=1)[..., None]
        return self.layers(vectors.flatten(1))[:, 0]

    @torch.no_grad()
    def _begin_with_means(self, norm: float) -> None:
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
        """Return logits."""
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
        """Return logits."""
        # Padding goes to the end, so that the summary follows the document without a gap.
        is_missing = ~is_there(lengths, self.sizes)
        order = is_missing.to(torch.int8).argsort(dim=1, stable=True)
        in_row = vectors.gather(1, order[..., None].expand_as(vectors))
        n_read = lengths.sum(1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            in_row, n_read, batch_first=True, enforce_sorted=False
        )
        _, (state, _) = self.lstm(packed)
        return self.output(state[-1])[:, 0]


def is_there(lengths: torch.Tensor, sizes: tuple[int, int]) -> torch.Tensor:
    """Say which vectors are none that fill up; bool, shape (n, n_vectors)."""
    places = torch.cat([torch.arange(size, device=lengths.device) for size in sizes])
    text_lengths = lengths.repeat_interleave(torch.tensor(sizes, device=lengths.device), dim=1)
    return places < text_lengths


def make_head(
    config: ModelConfig, sizes: tuple[int, int], *, width: int, norm: float = 1.0
) -> nn.Module:
    """Make a head; only first weights depend on `norm`, about the length of a vector."""
    if config.head == "cnn":
        return Convolution(sizes, width)
    if config.head == "lstm":
        return Recurrence(sizes, width, LSTM_UNITS[config.scorer])
    return FullyConnected(config, sizes, width, norm)

"""The models: from what a reader gives (`readers`) to one logit per pair of texts.

- `bert`: one transformer reads document and summary together; a network with one hidden layer
  reads its first piece (Bao et al. 2020, section 2.1).
- `sentence` and `word`: vectors of sentences or words from an encoder that stays as it is, and
  a head over them: one of three of the paper (section 3.2), or `match`, which is ours.
- `features`: nothing but untrained metrics, weighted (`features`).

A logit's sigmoid is the score. How a model is made from a configuration, or brought back from a
folder, is in `building`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from reffree.features import feature_metrics
from reffree.readers import TRUNCATIONS, UNITS
from sms.naming import several

SCORERS = ("bert", "sentence", "word", "features")
HEADS = ("fc", "cnn", "lstm", "match")
FIRST_WEIGHTS = ("means", "random")
"""How `fc` over vectors begins; see `FullyConnected`."""
FIRST_SCALE = 3.0
"""Times a difference of means as long as a vector: what a hidden unit then sees at first."""
N_FILTERS = 128
LSTM_UNITS = {"sentence": 128, "word": 25}
"""Bao et al. 2020, section 3.2."""

MODEL_PRESETS: dict[str, dict[str, Any]] = {
    "bao2020": {"truncation": "parallel", "dropout": 0.0, "first_weights": "random"},
}
"""Published recipes, by the names of `mixture.PRESETS`: arguments of `ModelConfig`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What a scorer is made of."""

    scorer: str = "bert"
    """One of `SCORERS`."""
    encoder: str = "minilm"
    """Specification as in `sms.encoders.registry`; `bert` takes MiniLM and transformers models."""
    head: str = "fc"
    """One of `HEADS`; `bert` has `fc` only."""
    n_hidden: int = 128
    """Units of the hidden layer of `fc`."""
    dropout: float = 0.3
    """Share of the inputs and hidden units of `fc` over vectors that a training step leaves out;
    the transformer of `bert` has its own."""
    first_weights: str = "means"
    """One of `FIRST_WEIGHTS`."""
    max_pieces: int = 512
    """Of document and summary together, special ones included; `bert` only."""
    truncation: str = "longest"
    """What gives way in texts that are too long, one of `readers.TRUNCATIONS`; `bert` only."""
    frozen_layers: int = 0
    """First layers of the transformer that stay as they are, and with them the embeddings of
    pieces and places (not of types, which few models have learnt); `bert` only."""
    lora_rank: int = 0
    """Rank of the updates by which the transformer is trained (LoRA, Hu et al. 2021); 0 to train
    its weights themselves. `bert` only."""
    document_length: int | None = None
    """Sentences or words of a document that are read; None for the quantile `COVERED` of the
    training data. Not for `bert`."""
    summary_length: int | None = None
    """The same of a summary."""
    features: tuple[str, ...] = ()
    """Untrained metrics that are read as well; see `features`."""
    is_calibrated: bool = False
    """Whether logits are scaled and shifted to fit the validation documents, once training has
    ended; see `calibration`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(several(self.features)))
        for name, choices in (
            ("scorer", SCORERS),
            ("head", HEADS),
            ("truncation", TRUNCATIONS),
            ("first_weights", FIRST_WEIGHTS),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )
        if self.scorer in ("bert", "features") and self.head != "fc":
            raise ValueError(f"`head` must be fc for the scorer {self.scorer}, got {self.head!r}")
        if self.scorer == "features" and not self.features:
            raise ValueError(
                "`features` must name the metrics of the scorer features, got none; `standard` "
                "stands for a choice of them"
            )
        if self.lora_rank and self.frozen_layers:
            raise ValueError(
                "`frozen_layers` must be 0 with `lora_rank`, which leaves all layers as they are, "
                f"got {self.frozen_layers}"
            )
        for name, least in (
            ("n_hidden", 1),
            ("max_pieces", 5),
            ("frozen_layers", 0),
            ("lora_rank", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1), got {self.dropout:g}")
        if self.features:
            feature_metrics(self.features, self.encoder)
        for name in ("document_length", "summary_length"):
            length = getattr(self, name)
            if length is not None and length < 1:
                raise ValueError(f"`{name}` must be at least 1, got {length}")

    @property
    def unit(self) -> str:
        """What the encoder's vectors are of."""
        return UNITS[self.scorer == "word"]


class NoModel(nn.Module):
    """Reads nothing and adds nothing: what is left are the features."""

    def forward(self) -> torch.Tensor:
        """Return 0, to be added to the logits of any number of pairs."""
        return torch.zeros(())


class PairModel(nn.Module):
    """A transformer over document and summary, and a network over its first piece.

    Parameters
    ----------
    transformer : transformers.PreTrainedModel
        Of the family of BERT: gives `last_hidden_state` from pieces.
    n_hidden : int
    frozen_layers : int
    lora_rank : int
        As in `ModelConfig`.

    Raises
    ------
    ValueError
        If it has not so many layers, or LoRA is asked for without its library.
    """

    def __init__(
        self, transformer: nn.Module, *, n_hidden: int, frozen_layers: int, lora_rank: int
    ) -> None:
        super().__init__()
        if getattr(transformer, "pooler", None) is not None:
            transformer.pooler = None  # type: ignore[assignment]  # the head takes its place
        self.transformer: Any = transformer
        settings: Any = self.transformer.config
        self._has_types = (getattr(settings, "type_vocab_size", 0) or 0) > 1
        dropout = getattr(settings, "hidden_dropout_prob", None)
        self.head = nn.Sequential(
            nn.Dropout(0.1 if dropout is None else dropout),
            nn.Linear(settings.hidden_size, n_hidden),
            nn.ReLU(),
            nn.Linear(n_hidden, 1),
        )
        self._freeze(frozen_layers)
        if lora_rank:
            self._add_updates(lora_rank)

    def forward(
        self,
        input_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        attention_mask: torch.Tensor,
    ) -> torch.Tensor:
        """Return logits, float32, shape (n,)."""
        types = {"token_type_ids": token_type_ids} if self._has_types else {}
        output = self.transformer(input_ids=input_ids, attention_mask=attention_mask, **types)
        first: torch.Tensor = output.last_hidden_state[:, 0]
        logits: torch.Tensor = self.head(first)[:, 0]
        return logits.float()

    def _freeze(self, n_layers: int) -> None:
        if not n_layers:
            return
        n_there = self.transformer.config.num_hidden_layers
        stacks = [
            module
            for module in self.transformer.modules()
            if isinstance(module, nn.ModuleList) and len(module) == n_there
        ]
        if n_layers > n_there or not stacks:
            raise ValueError(
                f"`frozen_layers` must be at most the encoder's {n_there} layers, got {n_layers}"
            )
        frozen = [self.transformer.embeddings, *stacks[0][:n_layers]]
        for module in frozen:
            for name, parameter in module.named_parameters():
                parameter.requires_grad = "token_type" in name

    def _add_updates(self, rank: int) -> None:
        """Train low-rank updates of the attention's queries and values, and the types."""
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError as error:
            raise ValueError("`lora_rank` needs peft; pip install 'assay[train]'") from error

        inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank), self.transformer)
        for name, parameter in self.transformer.named_parameters():
            if "token_type" in name:
                parameter.requires_grad = True


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
        """Return logits, shape (n,), of vectors, shape (n, n_vectors, width)."""
        logits: torch.Tensor = self.layers(vectors.flatten(1))[:, 0]
        return logits

    @torch.no_grad()
    def compare_means(self, n_document: int, norm: float) -> None:
        """Choose first weights that compare the texts' means.

        Parameters
        ----------
        n_document : int
            The first vectors are the document's, the others the summary's.
        norm : float
            About what a vector's length is.
        """
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
        """Return logits, shape (n,), of vectors, shape (n, n_vectors, width)."""
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
        """Return logits, shape (n,), of vectors, shape (n, n_vectors, width)."""
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
        """Return logits, shape (n,), of vectors, shape (n, n_vectors, width)."""
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
    config: ModelConfig, *, n_document: int, n_summary: int, width: int, norm: float = 1.0
) -> nn.Module:
    """Make the head of a `sentence` or `word` scorer.

    Parameters
    ----------
    config : ModelConfig
    n_document, n_summary : int
        Vectors of each.
    width : int
        Of a vector.
    norm : float
        About what a vector's length is; only first weights depend on it.
    """
    if config.head == "cnn":
        return Convolution(width)
    if config.head == "lstm":
        return Recurrence(width, LSTM_UNITS[config.scorer])
    if config.head == "match":
        return Match(n_document, n_summary, width, config.n_hidden)
    head = FullyConnected(n_document + n_summary, width, config.n_hidden, config.dropout)
    if config.first_weights == "means":
        head.compare_means(n_document, norm)
    return head

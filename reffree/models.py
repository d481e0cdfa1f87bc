"""The models: from what a reader gives (`readers`) to one logit per pair of texts.

- `bert`: one transformer reads document and summary together; a network with one hidden layer
  reads its first piece (Bao et al. 2020, section 2.1).
- `sentence` and `word`: vectors of sentences or words from an encoder that stays as it is, and
  a head over them (`heads`).

What is fitted to features of the texts is in `linear`. A logit's sigmoid is the score. How a model
is made from a configuration, or brought back from a folder, is in `building`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from reffree.readers import UNITS

HEADS = ("fc", "cnn", "lstm", "match")

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
    first_weights: str = "means"  # or `random`: how `fc` begins; see `heads.FullyConnected`
    max_pieces: int  # of document and summary together, special ones included; `bert` only
    truncation: str = "longest"
    """What gives way in texts that are too long, as `readers.shares` has it; `bert` only."""
    frozen_layers: int
    """First layers of the transformer that stay as they are, and with them the embeddings of
    pieces and places (not of types, which few models have learnt); `bert` only."""
    document_length: int | None = None
    """Sentences or words of a document that are read; None for the quantile `COVERED` of the
    training data. Not for `bert`."""
    summary_length: int | None = None  # the same of a summary
    is_calibrated: bool
    """Whether logits are scaled and shifted to fit the validation documents, once training has
    ended; see `losses.fit_scale`."""

    def __post_init__(self) -> None:
        if self.scorer == "bert" and self.head != "fc":
            raise ValueError(f"`head` must be fc for the scorer bert, got {self.head!r}")
        least = {"n_hidden": 1, "max_pieces": 5, "frozen_layers": 0}
        for name, lowest in (least | {"document_length": 1, "summary_length": 1}).items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ValueError(f"`{name}` must be at least {lowest}, got {value}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1), got {self.dropout:g}")

    @property
    def unit(self) -> str:
        """What the encoder's vectors are of."""
        return UNITS[self.scorer == "word"]


class Calibrated(nn.Module):
    """A model whose logits are scaled and shifted; see `losses.fit_scale`."""

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
        if config.frozen_layers:
            self._freeze(config.frozen_layers)

    def forward(
        self,
        input_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        attention_mask: torch.Tensor,
    ) -> torch.Tensor:
        """Return logits, float32, shape (n,)."""
        types = {"token_type_ids": token_type_ids} if self._has_types else {}
        output = self.transformer(input_ids=input_ids, attention_mask=attention_mask, **types)
        return self.head(output.last_hidden_state[:, 0])[:, 0].float()

    def _freeze(self, n_layers: int) -> None:
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
        for module in (self.transformer.embeddings, *stacks[0][:n_layers]):
            for name, parameter in module.named_parameters():
                parameter.requires_grad = "token_type" in name

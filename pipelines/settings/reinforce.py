"""Settings of `assay reinforce`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pipelines.settings.pairs import MachineSettings, PairSettings
from sms.naming import AnyPath

POINTER = "pointer"
HUGGING_FACE = "hf:"
AT_LEAST_1 = (
    "vocabulary_size", "dimensions", "hidden", "layers", "source_words", "summary_words", "drawn",
    "validation_documents", "beam", "threads",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReinforceSettings(PairSettings, MachineSettings):
    """How a summariser is trained with a metric as reward."""

    out: Annotated[AnyPath, "DIR"]
    """Write summarisers and results to this new folder, which all workers must see."""
    reward: Annotated[Sequence[str], "METRIC"] = ("sms",)
    """Use this metric as reward, or a sum such as "sms - .1*repetition". For several rewards,
    separated by commas, train one summariser each."""
    encoder: Annotated[str, "SPEC"] = "minilm"
    """Use this encoder for the rewards and the final table; `assay encoders` lists them."""
    model: Annotated[str, "pointer|hf:PATH"] = "pointer"
    """Train the paper's network (pointer), or another encoder-decoder model (hf:PATH)."""
    start: Annotated[AnyPath | None, "rare"] = None
    """Start from this trained summariser, with its sizes, and skip maximum likelihood."""
    vectors: Annotated[str | None, "SPEC"] = None
    """Use these word vectors: glove:PATH, word2vec:PATH or fasttext:PATH."""
    vocabulary_size: Annotated[int, "rare"] = 30_000
    """Number of words in the vocabulary, the most frequent of the training documents."""
    dimensions: Annotated[int, "rare"] = 128
    """Dimensions of random word vectors; with `--vectors`, the file decides."""
    hidden: Annotated[int, "rare"] = 128
    """Number of units in each LSTM."""
    layers: Annotated[int, "rare"] = 2
    """Layers of encoder and decoder."""
    dropout: Annotated[float, "rare"] = 0.0
    """Dropout of word vectors and between layers."""
    source_words: Annotated[int, "rare"] = 400
    """Read the first N words of a document; some papers read 800."""
    summary_words: Annotated[int, "rare"] = 100
    """Write summaries of at most N words."""
    batch_size: Annotated[int, "rare"] = 32
    """Take N documents in each step, over all workers."""
    epochs: int = 25
    """Stop maximum likelihood after N epochs."""
    learning_rate: Annotated[float, "rare"] = 1e-3
    """Learning rate of maximum likelihood."""
    decay: Annotated[bool, "rare"] = False
    """Let the learning rate fall to 0 by the last of `--epochs`."""
    mixed_epochs: Annotated[int, "rare"] = 25
    """Stop the mixed loss after N epochs."""
    mixed_learning_rate: Annotated[float, "rare"] = 1e-5
    """Learning rate of the mixed loss."""
    gamma: Annotated[float, "rare"] = 0.97
    """Weight of the reward in the first step."""
    gamma_last: Annotated[float, "rare"] = 0.997
    """Weight of the reward in the last step; in between, it changes linearly."""
    advantage: Annotated[Literal["raw", "unit"], "rare"] = "raw"
    """Take advantages as they are, or divide them by their root mean square in the batch."""
    kl: Annotated[float, "rare"] = 0.0
    """Weight of the KL divergence from the summariser before the mixed loss; try .05, or .5
    with unit advantages."""
    drawn: Annotated[int, "rare"] = 1
    """Draw N summaries of each document and compare them with each other."""
    control: Annotated[bool, "rare"] = True
    """Also train a control, just as long but without a reward, and compare with it."""
    patience: Annotated[int, "rare"] = 3
    """End a stage after N validations without a better figure."""
    validation_documents: Annotated[int, "rare"] = 1_000
    """Validate on at most N documents after each epoch."""
    beam: Annotated[int, "rare"] = 5
    """Beam width of the final search."""
    block_trigrams: Annotated[bool, "rare"] = False
    """Never repeat the same three words in a final summary."""
    checkpoint_steps: Annotated[int, "rare"] = 200
    """Save a checkpoint every N steps."""
    log_steps: Annotated[int, "rare"] = 20
    """Average the logged figures over N steps."""
    seed: Annotated[int, "rare"] = 0
    """Seed of weights, order, drawn summaries and the split."""
    threads: Annotated[int | None, "rare"] = None
    """Give each process N threads. Default: all."""
    fresh: bool = False
    """Replace the interrupted run in DIR instead of continuing it."""
    on_news: Annotated[Callable[..., None] | None, "python"] = None
    """Called with every figure that is logged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in AT_LEAST_1:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1), got {self.dropout:g}")
        if not 0 <= self.kl < math.inf:
            raise ValueError(f"`kl` must be at least 0, got {self.kl:g}")
        if not 0 <= self.gamma <= self.gamma_last <= 1:
            raise ValueError(
                "`gamma` and `gamma_last` must be in [0, 1] and not fall, got "
                f"{self.gamma:g} and {self.gamma_last:g}"
            )
        if not self.reward:
            raise ValueError("`reward` must name at least one metric; see `assay metrics`")
        if len(set(self.reward)) < len(self.reward):
            raise ValueError(f"`reward` must not name a metric twice, got {', '.join(self.reward)}")
        if self.model != POINTER and not re.fullmatch(f"{HUGGING_FACE}.+", self.model):
            raise ValueError(f"`model` must be {POINTER} or hf:PATH, got {self.model!r}")
        if self.vectors is not None:
            from sms.encoders.registry import parse_spec

            if not parse_spec(self.vectors).kind.is_static:
                raise ValueError(
                    "`vectors` must be glove:PATH, word2vec:PATH or fasttext:PATH, got "
                    f"{self.vectors}"
                )

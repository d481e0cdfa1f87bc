"""Settings of `assay reinforce`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pipelines.settings.pairs import MachineSettings, PairSettings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class ReinforceSettings(PairSettings, MachineSettings):
    """How a summariser is trained with a metric as reward."""

    out: Annotated[AnyPath, "DIR"]
    """New folder for summarisers and results; all workers must see it."""
    reward: Annotated[Sequence[str], "METRIC"] = ("sms",)
    """A metric, or a sum as "sms - .1*repetition"; several with commas give a summariser each."""
    encoder: Annotated[str, "SPEC"] = "minilm"
    """Of the rewards and of the final table; see `assay encoders`."""
    model: Annotated[str, "pointer|hf:PATH"] = "pointer"
    """The paper's network, or an encoder-decoder model of transformers."""
    start: Annotated[AnyPath | None, "rare"] = None
    """Begin with this summariser, its sizes and cuts, instead of maximum likelihood."""
    vectors: Annotated[str | None, "SPEC"] = None
    """Word vectors: glove:PATH, word2vec:, fasttext:."""
    vocabulary_size: Annotated[int, "rare"] = 30_000
    """Most frequent words of the training side."""
    dimensions: Annotated[int, "rare"] = 128
    """Of random word vectors; a file has its own."""
    hidden: Annotated[int, "rare"] = 128
    """Units of an LSTM."""
    layers: Annotated[int, "rare"] = 2
    """Of encoder and decoder."""
    dropout: Annotated[float, "rare"] = 0.0
    """Of word vectors and between layers."""
    source_words: Annotated[int, "rare"] = 400
    """First words of a document that are read; 800 in some papers."""
    summary_words: Annotated[int, "rare"] = 100
    """Words of a summary, at most."""
    batch_size: Annotated[int, "rare"] = 32
    """Documents of a step, of all workers."""
    epochs: int = 25
    """Stop maximum likelihood after N epochs."""
    learning_rate: Annotated[float, "rare"] = 1e-3
    """Of maximum likelihood."""
    decay: Annotated[bool, "rare"] = False
    """Let it fall to 0 by the last of `--epochs`."""
    mixed_epochs: Annotated[int, "rare"] = 25
    """Stop the mixed loss after N epochs."""
    mixed_learning_rate: Annotated[float, "rare"] = 1e-5
    """Of the mixed loss."""
    gamma: Annotated[float, "rare"] = 0.97
    """Weight of the reward in the first step."""
    gamma_last: Annotated[float, "rare"] = 0.997
    """And in the last; a straight line between them."""
    advantage: Annotated[Literal["raw", "unit"], "rare"] = "raw"
    """Take advantages as they are, or divide them by their root mean square in the batch."""
    kl: Annotated[float, "rare"] = 0.0
    """Weight of the divergence from the first summariser; try .05, with unit advantages .5."""
    drawn: Annotated[int, "rare"] = 1
    """Summaries drawn of a document; several are compared with each other."""
    control: Annotated[bool, "rare"] = True
    """Train as long without a reward, too, and compare with that."""
    patience: Annotated[int, "rare"] = 3
    """Validations without a better figure after which a stage ends."""
    validation_documents: Annotated[int, "rare"] = 1_000
    """Documents judged after an epoch, at most."""
    test_documents: Annotated[int | None, "rare"] = None
    """Test documents summarised in the end, at most."""
    beam: Annotated[int, "rare"] = 5
    """Width of the final search."""
    block_trigrams: Annotated[bool, "rare"] = False
    """No three words twice in a final summary."""
    checkpoint_steps: Annotated[int, "rare"] = 200
    """Steps between checkpoints."""
    log_steps: Annotated[int, "rare"] = 20
    """Steps over which figures are averaged."""
    seed: Annotated[int, "rare"] = 0
    """Of weights, order, drawn summaries and the split."""
    threads: Annotated[int | None, "rare"] = None
    """Of one process. Default: all."""
    fresh: bool = False
    """Replace the interrupted run that is in DIR, instead of going on with it."""
    on_news: Annotated[Callable[..., None] | None, "python"] = None
    """Told of every figure that is logged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_documents is not None and self.test_documents < 1:
            raise ValueError(f"`test_documents` must be at least 1, got {self.test_documents}")

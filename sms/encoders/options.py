"""What may be said of an encoder after its path: `hf:roberta-base,layers=all,pooling=max`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from sms.naming import AnyPath
from sms.settings import Settings, Written


@dataclass(frozen=True, kw_only=True)
class LayerOptions(Settings):
    """Of a model with layers of vectors of word pieces."""

    layers: Annotated[
        str,
        Written(
            r"mean:-?\d+\.\.-?\d+|concat:-?\d+(,-?\d+)*",
            ("last", "first", "all", "mean:I..J", "concat:I,J,..."),
        ),
    ] = "last"
    """layers of the word vectors; `all` is the mean of all, -1 is the last"""
    pooling: Literal["mean", "max", "cls"] = "mean"
    """how word pieces become one sentence vector, for cosine"""


@dataclass(frozen=True, kw_only=True)
class PoolingOptions(Settings):
    """Of vectors of words."""

    pooling: Literal["mean", "max"] = "mean"
    """how word vectors become one text vector"""


@dataclass(frozen=True, kw_only=True)
class UseOptions(Settings):
    """Of a Universal Sentence Encoder."""

    unit: Literal["sentence", "text"] = "sentence"
    """what is read at once; `text` is for cosine only"""


@dataclass(frozen=True, kw_only=True)
class ElmoOptions(Settings):
    """Of ELMo."""

    layers: Literal["mean", "concat"] = "mean"
    """how the three layers become one word vector"""
    pooling: Literal["mean", "max"] = "mean"
    """how word vectors become one text vector"""


@dataclass(frozen=True, kw_only=True)
class InferSentOptions(Settings):
    """Of InferSent."""

    vectors: AnyPath
    """path of its word vectors"""
    version: Literal["1", "2"] = "1"
    """1 was trained with GloVe, 2 with fastText"""


OPTIONS: Mapping[str, type[Settings]] = {
    "minilm": LayerOptions,
    "hf": LayerOptions,
    **dict.fromkeys(("glove", "word2vec", "fasttext"), PoolingOptions),
    "use": UseOptions,
    "elmo": ElmoOptions,
    "infersent": InferSentOptions,
}
"""By kind of encoder; a kind that is not here has none."""

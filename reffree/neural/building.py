"""Makes a model and its reader: anew from pretrained parts, or again from a scorer's folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from tokenizers import Tokenizer
from torch import nn

from reffree.neural.models import Calibrated, ModelConfig, PairModel, make_head
from reffree.neural.readers import PieceReader, Reader, VectorReader, read_tokenizer, text_points
from sms.encoders import EncoderRuntime
from sms.encoders.base import Encoder
from sms.encoders.registry import load_encoder, parse_spec
from sms.text import Segmenter, TextRules

COVERED = 0.8  # share of the texts that are read whole (Bao et al. 2020, section 3.2)
MEASURED_TEXTS = 2_000  # texts whose lengths are measured for it
TOKENIZER_FILE = "tokenizer.json"
TRANSFORMER_FILE = "transformer.json"
MINILM = "all-MiniLM-L6-v2"  # what signatures call the model of `minilm`

_SOME_TEXT = "The committee said on Monday that it would read the report."
# Configurations in transformers name it one way or the other.
_NO_ATTENTION_DROPOUT = {"attention_probs_dropout_prob": 0.0, "attention_dropout": 0.0}


@dataclass(frozen=True, slots=True)
class Built:
    """A model, its reader, and what its folder must keep with the weights."""

    config: ModelConfig  # with the lengths filled in
    model: nn.Module
    reader: Reader
    encoder_name: str  # for signatures
    encoder_content: str  # hash of an encoder that is not among the weights; empty if there is none
    tokenizer: Tokenizer | None = None
    transformer: str | None = None  # configuration of the transformer, JSON


def build(
    config: ModelConfig,
    pairs: Iterable[tuple[str, str]] = (),
    *,
    seed: int = 0,
    cache_folder: str | None = None,
) -> Built:
    """Make a model that has not been trained, nor calibrated; the seed is of the head's weights.

    The first `pairs` of sources and references are measured where the lengths are not given.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if config.scorer == "bert":
            return _pretrained_pair_model(config)
        return _over_encoder(config, pairs, cache_folder)


def rebuild(
    config: ModelConfig, folder: Path, encoder_content: str, *, cache_folder: str | None = None
) -> Built:
    """Make the model of a scorer's folder, its weights still to be filled in."""
    if config.scorer == "bert":
        built = _stored_pair_model(config, folder)
    else:
        built = _over_encoder(config, (), cache_folder)
    if config.is_calibrated:
        built = replace(built, model=Calibrated(built.model))
    if built.encoder_content != encoder_content:
        raise ValueError(
            f"`encoder` {config.encoder} must be the one that the scorer in {folder} was trained "
            f"with ({encoder_content}), got {built.encoder_content}"
        )
    return built


def _pretrained_pair_model(config: ModelConfig) -> Built:
    from sms.encoders.bert import minilm_folder
    from sms.encoders.pretrained import ModelFolder, n_places

    spec = parse_spec(config.encoder)
    kind = spec.kind.kind
    if kind not in ("hf", "minilm"):
        raise ValueError(
            f"`encoder` must be minilm or hf:PATH for the scorer bert, got `{config.encoder}`"
        )
    folder = minilm_folder() if kind == "minilm" else None
    model_folder = ModelFolder.open(spec.path, after="hf:", runtime=EncoderRuntime(), folder=folder)
    # The attention that never holds the weights of all pairs of pieces cannot drop any of them; a
    # training step of 256 pieces is 1.3 times as fast with it. Other units are dropped as before.
    transformer = model_folder.load_encoder(**_NO_ATTENTION_DROPOUT)
    limit = n_places(transformer)
    if config.max_pieces > limit:
        raise ValueError(
            f"`max_pieces` must be at most what {config.encoder} reads, {limit}, got "
            f"{config.max_pieces}"
        )
    tokenizer = read_tokenizer(model_folder.folder / TOKENIZER_FILE)
    return _pair_model(
        config, transformer, tokenizer, MINILM if kind == "minilm" else model_folder.name
    )


def _stored_pair_model(config: ModelConfig, folder: Path) -> Built:
    from sms.encoders.pretrained import untrained_model

    path = folder / TRANSFORMER_FILE
    try:
        settings = json.loads(path.read_text("utf-8"))
        transformer = untrained_model(settings)
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"`{path}` must be a transformer's settings, got {reason}") from error
    tokenizer = read_tokenizer(folder / TOKENIZER_FILE)
    return _pair_model(config, transformer, tokenizer, settings.get("_name_or_path") or "bert")


def _pair_model(
    config: ModelConfig, transformer: nn.Module, tokenizer: Tokenizer, name: str
) -> Built:
    settings = transformer.config.to_dict() | {"_name_or_path": name}  # type: ignore[operator,union-attr]
    reader = PieceReader(
        tokenizer,
        max_pieces=config.max_pieces,
        truncation=config.truncation,
        padding_id=settings.get("pad_token_id") or 0,
    )
    model = PairModel(transformer, config)
    return Built(config, model, reader, name, "", tokenizer, json.dumps(settings, indent=1))


def _over_encoder(
    config: ModelConfig, pairs: Iterable[tuple[str, str]], cache_folder: str | None
) -> Built:
    """Make a head over an encoder that is not trained."""
    spec = parse_spec(config.encoder)
    if config.unit not in spec.kind.vectors:
        raise ValueError(
            f"`encoder` must have vectors of {config.unit} for the scorer {config.scorer}, but "
            f"`{spec.kind.kind}` has none"
        )
    if spec.values.get("unit") == "text":
        raise ValueError(
            f"`encoder` must read sentences for the scorer {config.scorer}, got {config.encoder}; "
            "leave out `unit`"
        )
    finest = "words" if config.unit == "words" else "texts"
    runtime = EncoderRuntime(cache_folder=cache_folder, finest=finest)
    encoder = load_encoder(config.encoder, runtime)
    config = _with_lengths(config, pairs, encoder)
    lengths = config.document_length or 1, config.summary_length or 1
    reader = VectorReader(encoder, unit=config.unit, lengths=lengths, language=config.language)
    vectors = reader.read([_SOME_TEXT], [_SOME_TEXT])[0].arrays[0]
    norms = np.linalg.norm(vectors, axis=1)
    norm = float(norms[norms > 0].mean()) if norms.any() else 1.0
    head = make_head(config, lengths, width=vectors.shape[1], norm=norm)
    return Built(config, head, reader, encoder.signature, encoder.content_hash)


def _with_lengths(
    config: ModelConfig, pairs: Iterable[tuple[str, str]], encoder: Encoder
) -> ModelConfig:
    """Fill in the lengths by the quantile of the first pairs."""
    if config.document_length is not None and config.summary_length is not None:
        return config
    segmenter = Segmenter(TextRules(language=config.language))
    quantiles = []
    for texts in zip(*islice(pairs, MEASURED_TEXTS), strict=True):
        if config.unit == "sentences":
            lengths = segmenter.segment(pa.array(texts, pa.string())).text_sentences.lengths
        else:  # words without a vector do not count
            lengths = text_points(texts, encoder, segmenter, config.unit).rows.lengths
        quantiles.append(max(1, int(np.quantile(lengths, COVERED, method="higher"))))
    return replace(
        config,
        document_length=config.document_length or quantiles[0],
        summary_length=config.summary_length or quantiles[1],
    )

"""Signatures: one string per column that says what its numbers are, built from the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from sms.encoders.registry import parse_spec
from sms.metrics import MetricRequest

if TYPE_CHECKING:
    from sms.encoders import Encoder
    from sms.scoring import ScoringConfig


_HASH_LENGTH = 12
_CONTENT = re.compile(r"\|(?:hash|weights):[0-9a-f]+")


def version() -> str:
    """Return the installed version of this project."""
    try:
        return metadata.version("assay")
    except metadata.PackageNotFoundError:
        return "0+source"


def signatures(config: ScoringConfig, encoders: Mapping[str, Encoder]) -> dict[str, str]:
    """Return the signature of every output column.

    Parameters
    ----------
    config : ScoringConfig
    encoders : mapping of str to Encoder
        The loaded encoders, which name themselves.

    Returns
    -------
    dict of str to str
        For example `sms|enc:all-MiniLM-L6-v2|...|hash:53aa51172d14|...|ref:best|...|v:0.1.0`.
    """
    found = {}
    for request in config.requests:
        for column in request.columns:
            found[column] = _signature(column, request, config, encoders)
    for column in config.columns:
        if column not in found:
            alias = column.partition("@")[2]
            found[column] = _coverage_signature(column, config, alias, encoders[alias])
    return found


def without_content(signature: str) -> str:
    """Return a signature without the hashes of weights and vectors: how a column was asked for.

    Examples
    --------
    >>> without_content("sms|enc:glove-news-3x2|oov:drop|hash:0123456789ab|ref:best|v:1")
    'sms|enc:glove-news-3x2|oov:drop|ref:best|v:1'
    """
    return _CONTENT.sub("", signature)


def _encoder_part(encoder: Encoder) -> str:
    """Name an encoder and, as names of files and models repeat, the beginning of its hash."""
    content = f"|hash:{encoder.content_hash[:_HASH_LENGTH]}" if encoder.content_hash else ""
    return f"enc:{encoder.signature}{content}"


def _sentence_weights(spec: str, encoder: Encoder) -> list[str]:
    """Say what a sentence's vector is multiplied by in the mean of its text, where there is one."""
    if encoder.pooling != "mean" or encoder.unit == "text":
        return []
    return ["weight:kept-words" if parse_spec(spec).kind.is_static else "weight:all-words"]


def _signature(
    column: str, request: MetricRequest, config: ScoringConfig, encoders: Mapping[str, Encoder]
) -> str:
    parts = [column]
    if request.is_average:
        parts.append(f"mean-of:{len(request.encoders)}")
    for alias in request.encoders:
        parts.append(_encoder_part(encoders[alias]))
        if request.metric.family == "cosine":
            parts += _sentence_weights(config.encoders[alias], encoders[alias])
    if request.metric.family == "mover":
        parts.append("sim:exp-emd|cost:l2|weight:count|solver:exact")
    if request.metric.family == "rouge":
        parts.append(_rouge_part(config.language))
    if request.against == "reference":
        parts.append(f"ref:{config.multi_reference}")
    elif request.against == "source" or "source" in request.metric.needs:
        parts.append(f"source:mean|{_cut_part(config)}")
    parts.append(config.rules.signature)
    parts.append(f"v:{version()}")
    return "|".join(parts)


def _coverage_signature(column: str, config: ScoringConfig, alias: str, encoder: Encoder) -> str:
    """Name the texts whose words are counted, the candidate's aside, which always are."""
    parts = [column, _encoder_part(encoder)]
    sides = config.sides_of(alias)
    if "references" in sides:
        parts.append(f"ref:{'first' if config.multi_reference == 'first' else 'all'}")
    if "sources" in sides:
        parts.append(f"source:all|{_cut_part(config)}")
    return "|".join([*parts, config.rules.signature, f"v:{version()}"])


def _cut_part(config: ScoringConfig) -> str:
    return f"first:{'all' if config.source_tokens is None else config.source_tokens}"


def _rouge_part(language: str) -> str:
    if language != "en":
        return "count:words|stem:no"
    return f"tok:rouge-score|stem:no|rs:{metadata.version('rouge-score')}"

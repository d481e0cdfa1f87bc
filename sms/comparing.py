"""The status of each row, and which rows have no score since a text cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from sms.metric import Batch, MetricRequest
from sms.ragged import offsets_of
from sms.words import CANNOT_BE_SPLIT


def leave_out_unsplit(batch: Batch, scores: dict[str, np.ndarray]) -> None:
    """Give no score where a text that is read cannot be split: of several, it might be the best."""
    if not np.any([batch.texts.cannot_be_split, *batch.cannot_be_split.values()]):
        return
    for request in _readers(batch):
        failed = batch.texts.cannot_be_split
        for alias in request.encoders:
            failed = failed | batch.cannot_be_split[alias]
        in_row = failed[batch.candidate]
        for side in request.sides:
            in_row = in_row | batch.pairs[side].any(failed[batch.pairs[side].other])
        for column in request.columns:
            scores[column] = np.where(in_row, np.nan, scores[column])


def statuses(batch: Batch, scores: Mapping[str, np.ndarray]) -> pa.Array:
    """Say for every row why a score is null, and which text an encoder read only in part."""
    said_of = _null_reasons(batch, scores)
    for remark, has_it in _cut_texts(batch):
        for row in np.flatnonzero(has_it).tolist():
            said_of.setdefault(row, []).append(remark)
    for row, said in batch.explained.items():
        said_of.setdefault(row, []).extend(said)
    status: list[str | None] = [None] * batch.candidate.size
    for row, said in said_of.items():
        status[row] = "; ".join(dict.fromkeys(said))
    return pa.array(status, pa.string())


def _readers(batch: Batch) -> list[MetricRequest]:
    """Return the requests for metrics that do not explain themselves."""
    return [request for request in batch.setting.requests if request.metric.reads_texts]


def _null_reasons(batch: Batch, scores: Mapping[str, np.ndarray]) -> dict[int, list[str]]:
    """Return by row why it has a null score."""
    undefined = {c: np.isnan(scores[c]) for request in _readers(batch) for c in request.columns}
    by_row: dict[int, list[str]] = {}
    if not any(flags.any() for flags in undefined.values()):
        return by_row
    rows: list[int] = np.flatnonzero(np.any([*undefined.values()], axis=0)).tolist()
    reasons = _text_reasons(batch)
    offsets = {side: offsets_of(of.lengths) for side, of in batch.pairs.items()}
    for row in rows:
        told_of = [f"candidate:{reason}" for reason in reasons[batch.candidate[row]]]
        for side, of in batch.pairs.items():
            others = [
                reasons[text] for text in of.other[offsets[side][row] : offsets[side][row + 1]]
            ]
            name = side.removesuffix("s")
            if not others:
                told_of.append(f"{name}:missing")
            else:
                told = others[0] if all(others) else []
                told = [*told, *(r for own in others for r in own if r.startswith(CANNOT_BE_SPLIT))]
                told_of += [f"{name}:{reason}" for reason in told]
            told_of += [
                remark
                for remark, has_it in batch.remarks.items()
                if remark.startswith(f"{name}:") and has_it[row]
            ]
        by_row[row] = told_of or [f"{name}:undefined" for name in undefined if undefined[name][row]]
    return by_row


def _cut_texts(batch: Batch) -> Iterator[tuple[str, np.ndarray]]:
    """Name side and encoder of texts that were cut, and tell which rows have such a text."""
    for alias, (encoded, text_sentences) in batch.encoded.items():
        if encoded.is_cut is None or not encoded.is_cut.any():
            continue
        is_cut = text_sentences.sums(encoded.is_cut[text_sentences.values]) > 0
        yield f"candidate:cut@{alias}", is_cut[batch.candidate]
        read = {s for r in batch.setting.requests if alias in r.encoders for s in r.sides}
        for side, of in batch.pairs.items():
            if side in read:
                yield f"{side.removesuffix('s')}:cut@{alias}", of.any(is_cut[of.other])


def _text_reasons(batch: Batch) -> list[tuple[str, ...]]:
    """Return for every text why it cannot be scored, most basic reason first."""
    texts = batch.texts
    has_words = texts.sentence_words.sums(texts.is_kept[texts.sentence_words.values]) > 0
    n_with_words = texts.text_sentences.sums(has_words[texts.text_sentences.values])
    n_sentences = texts.text_sentences.lengths
    unread: dict[str, np.ndarray] = {}
    for alias, (encoded, of_texts) in batch.encoded.items():
        n_known = of_texts.sums(encoded.weights[of_texts.values])
        unread[f"no_known_words@{alias}"] = (of_texts.lengths > 0) & (n_known == 0)
    for alias, failed in batch.cannot_be_split.items():
        unread[f"{CANNOT_BE_SPLIT}@{alias}"] = failed
    for request in _readers(batch):
        unread |= request.metric.text_reasons(batch)
    reasons: list[tuple[str, ...]] = []
    for text in range(len(n_sentences)):
        if batch.is_null[text]:
            reasons.append(("null",))
        elif texts.cannot_be_split[text]:
            reasons.append((CANNOT_BE_SPLIT,))
        elif n_sentences[text] == 0:
            reasons.append(("empty",))
        elif n_with_words[text] == 0:
            reasons.append(("no_words",))
        else:
            reasons.append(tuple(reason for reason, is_so in unread.items() if is_so[text]))
    return reasons

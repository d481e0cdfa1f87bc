"""From a prepared batch to columns of scores and the status of each row."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sms import baselines, overlap
from sms.cosine import cosine_similarities, text_vectors
from sms.encoders.registry import parse_spec
from sms.metrics import ROUGE_PARTS, MetricRequest
from sms.movers import kept_words, mover_similarities
from sms.ragged import offsets_of
from sms.text import SegmentedTexts, folded
from sms.words import CANNOT_BE_SPLIT

if TYPE_CHECKING:
    from sms.scoring import Prepared, SummaryScorer

SAME_ATOL = 1e-5
"""Texts no further apart than this (for cosine, unit vectors) are the same to an encoder: rounding
in a model takes them about 1e-6 apart, one other word in a thousand about 5e-3."""

_Scores = dict[str, np.ndarray]
_Remarks = dict[str, np.ndarray]
"""By remark, which rows have it."""
_ROUGE_N = {"rouge1": 1, "rouge2": 2, "rouge4": 4}


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Every candidate with each text it is compared with."""

    candidate: np.ndarray
    other: np.ndarray
    lengths: np.ndarray
    """Number of pairs of each row."""
    how: str
    """How a row's pairs become one score: `best` or `mean`."""


def compare_batch(scorer: SummaryScorer, batch: Prepared) -> pa.Table:
    """Score a prepared batch under all metrics of a scorer."""
    config = scorer.config
    pairs = {
        side: _Pairs(
            np.repeat(batch.candidate, texts.lengths),
            texts.values,
            texts.lengths,
            "best" if side == "references" and config.multi_reference == "best" else "mean",
        )
        for side, texts in batch.sides.items()
    }
    scores: _Scores = {}
    with _timed(scorer, "transport"):
        remarks = _score_movers(scorer, batch, pairs, scores)
    with _timed(scorer, "overlap"):
        _score_cosines(scorer, batch, pairs, scores, remarks)
        _score_rouge(scorer, batch, pairs, scores)
        _score_baselines(scorer, batch, pairs, scores)
        for alias in scorer.encoders:
            if f"coverage@{alias}" in config.columns:
                scores[f"coverage@{alias}"] = _coverage(scorer, batch, pairs, alias)
        _leave_out_unsplit(scorer, batch, pairs, scores)
        for name, values in scores.items():
            # A metric of one's own may divide by 0: no number one could average or rank.
            scores[name] = np.where(np.isinf(values), np.nan, values)
        status = _statuses(scorer, batch, pairs, scores, remarks)
    columns = {name: pa.array(scores[name], from_pandas=True) for name in config.columns}
    return pa.table(columns | {"status": status})


@contextmanager
def _timed(scorer: SummaryScorer, stage: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    scorer.seconds[stage] += time.perf_counter() - started


def _requests(scorer: SummaryScorer, family: str) -> Iterator[tuple[MetricRequest, str]]:
    for request in scorer.config.requests:
        if request.metric.family == family:
            yield request, "references" if request.against == "reference" else "sources"


def _score_movers(
    scorer: SummaryScorer,
    batch: Prepared,
    pairs: dict[str, _Pairs],
    scores: _Scores,
) -> _Remarks:
    """Score the movers; return which rows have a pair that cannot be, and might be the best."""
    remarks: _Remarks = {}
    groups: dict[tuple[str, str], list[MetricRequest]] = {}
    for request, side in _requests(scorer, "mover"):
        groups.setdefault((request.encoder or "", side), []).append(request)
    for (alias, side), requests in groups.items():
        encoded, text_sentences = batch.encoded[alias]
        found = mover_similarities(
            encoded,
            text_sentences,
            pairs[side].candidate,
            pairs[side].other,
            frozenset(request.metric.name for request in requests),
            scorer.threads,
        )
        for request in requests:
            similarities, of = found[request.metric.name], pairs[side]
            is_near = similarities.values >= np.exp(-SAME_ATOL)
            is_same = _only_the_same_to(scorer, batch, alias, of, is_near)
            values = np.where(is_same, np.nan, similarities.values)
            joined = _aggregate(values, of)
            for reason, flags in (
                (f"{side[:-1]}:too_long", similarities.is_too_large),
                (f"{side[:-1]}:same_to@{alias}", is_same),
            ):
                joined = _without_doubtful(joined, reason, flags, of, remarks)
            scores[request.name] = joined
    return remarks


def _only_the_same_to(
    scorer: SummaryScorer, batch: Prepared, alias: str, of: _Pairs, is_near: np.ndarray
) -> np.ndarray:
    """Tell which pairs an encoder takes for the same though they differ in a word that counts.

    It does not know the words or, if it is a model, cannot tell them apart, and a score of 1 would
    say something about the texts that nobody knows. (Means of static vectors may be equal though
    all words are known: that is what the metric says.) The released code that `clark2019`
    reproduces does score 1.
    """
    is_same = np.zeros(is_near.size, dtype=bool)
    if scorer.config.preset == "clark2019":
        return is_same
    is_near = is_near & (of.candidate != of.other)
    if parse_spec(scorer.config.encoders[alias]).kind.is_static and is_near.any():
        encoded, text_sentences = batch.encoded[alias]
        n_unknown = offsets_of((encoded.n_kept - encoded.n_known)[text_sentences.values])
        has_unknown = np.diff(n_unknown[text_sentences.offsets]) > 0
        is_near &= has_unknown[of.candidate] | has_unknown[of.other]
    near = np.flatnonzero(is_near)
    is_same[near] = _differ_in_words(batch.texts, of.candidate[near], of.other[near])
    return is_same


def _differ_in_words(texts: SegmentedTexts, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Tell which pairs of texts have other words that count, or in another proportion."""
    bags: dict[int, Counter[str]] = {}
    involved = np.union1d(first, second)
    words = texts.text_sentences.take(involved).expand(texts.sentence_words)
    for place, text in enumerate(involved.tolist()):
        counting = words[place][texts.is_kept[words[place]]]
        bags[text] = Counter(folded(texts.vocabulary.words[k]) for k in counting.tolist())

    def differ(a: Counter[str], b: Counter[str]) -> bool:
        n_a, n_b = a.total(), b.total()
        return a.keys() != b.keys() or any(a[word] * n_b != b[word] * n_a for word in a)

    return np.array(
        [differ(bags[a], bags[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True)],
        dtype=bool,
    )


def _without_doubtful(
    joined: np.ndarray, reason: str, flags: np.ndarray, of: _Pairs, remarks: _Remarks
) -> np.ndarray:
    """Blank, and remark, the rows with a flagged pair, which might have been the best one."""
    is_doubtful = _any(flags, of)
    if of.how == "best":
        is_doubtful &= joined != 1.0  # nothing is better
    if is_doubtful.any():
        remarks[reason] = remarks.get(reason, False) | is_doubtful
    return np.where(is_doubtful, np.nan, joined)


def _score_cosines(
    scorer: SummaryScorer,
    batch: Prepared,
    pairs: dict[str, _Pairs],
    scores: _Scores,
    remarks: _Remarks,
) -> None:
    """Score every encoder's cosine once; `cosine@all` is their mean, null where one is null."""
    vectors: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    done: dict[tuple[str, str], np.ndarray] = {}
    for request, side in _requests(scorer, "cosine"):
        of = pairs[side]
        for alias in request.encoders:
            if alias not in vectors:
                vectors[alias] = text_vectors(*batch.encoded[alias], scorer.encoders[alias].pooling)
            if (alias, side) not in done:
                found = cosine_similarities(*vectors[alias], of.candidate, of.other)
                is_near = found >= 1.0 - SAME_ATOL**2 / 2.0
                is_same = _only_the_same_to(scorer, batch, alias, of, is_near)
                joined = _aggregate(np.where(is_same, np.nan, found), of)
                reason = f"{side[:-1]}:same_to@{alias}"
                done[alias, side] = _without_doubtful(joined, reason, is_same, of, remarks)
        scores[request.name] = np.mean([done[alias, side] for alias in request.encoders], axis=0)


def _score_rouge(
    scorer: SummaryScorer,
    batch: Prepared,
    pairs: dict[str, _Pairs],
    scores: _Scores,
) -> None:
    if batch.rouge_tokens is None:
        return
    sentence_tokens, text_sentences = batch.rouge_tokens, batch.texts.text_sentences
    done: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    tokens = text_sentences.expand(sentence_tokens)
    for request, side in _requests(scorer, "rouge"):
        name, of = request.metric.name, pairs[side]
        if (name, side) not in done:
            if name in _ROUGE_N:
                found = overlap.rouge_n(tokens, of.candidate, of.other, _ROUGE_N[name])
            elif name == "rougeLsum":
                found = overlap.rouge_lsum(sentence_tokens, text_sentences, of.candidate, of.other)
            elif name == "rougeW":
                found = overlap.rouge_w(tokens, of.candidate, of.other)
            else:
                found = overlap.rouge_l(tokens, of.candidate, of.other)
            parts = {"p": found.precision, "r": found.recall, "f": found.f}
            chosen = _best_pair(found.f, of) if of.how == "best" else None
            done[name, side] = {
                part: _aggregate(parts[part], of) if chosen is None else _pick(parts[part], chosen)
                for part in ROUGE_PARTS
            }
        for column, part in zip(request.columns, request.parts, strict=True):
            scores[column] = done[name, side][part[-1]]


def _score_baselines(
    scorer: SummaryScorer,
    batch: Prepared,
    pairs: dict[str, _Pairs],
    scores: _Scores,
) -> None:
    requests = [request for request, _ in _requests(scorer, "baseline")]
    if not requests:
        return
    texts = batch.texts
    sentence_words = texts.lower_words
    words = texts.text_sentences.expand(sentence_words)
    for request in requests:
        name = request.metric.name
        if name == "length":
            scores[request.name] = baselines.length(words, batch.candidate)
            continue
        of = pairs["sources"]
        if name == "lead3":
            found = baselines.lead3(sentence_words, texts.text_sentences, of.candidate, of.other)
        else:
            found = getattr(baselines, name)(words, of.candidate, of.other)
        scores[request.name] = _aggregate(found, of)


def _coverage(
    scorer: SummaryScorer, batch: Prepared, pairs: dict[str, _Pairs], alias: str
) -> np.ndarray:
    """Share of the kept words of a candidate and its compared texts that have a vector."""
    encoded, text_sentences = batch.encoded[alias]
    known = offsets_of(encoded.n_known[text_sentences.values])
    kept = offsets_of(encoded.n_kept[text_sentences.values])
    ends, starts = text_sentences.offsets[1:], text_sentences.offsets[:-1]
    known_of, kept_of = known[ends] - known[starts], kept[ends] - kept[starts]
    n_known, n_kept = known_of[batch.candidate], kept_of[batch.candidate]
    for side in scorer.config.sides_of(alias):
        of = pairs[side]
        rows = np.repeat(np.arange(of.lengths.size), of.lengths)
        n_known = n_known + np.bincount(rows, known_of[of.other], of.lengths.size)
        n_kept = n_kept + np.bincount(rows, kept_of[of.other], of.lengths.size)
    return np.where(n_kept > 0, n_known / np.maximum(n_kept, 1), np.nan)


def _aggregate(values: np.ndarray, of: _Pairs) -> np.ndarray:
    """Make one score per row from its pairs, undefined pairs left out; NaN where none is left."""
    found = np.full(of.lengths.size, np.nan)
    rows = np.flatnonzero(of.lengths)
    if rows.size:
        starts = offsets_of(of.lengths)[rows]
        if of.how == "best":
            found[rows] = np.fmax.reduceat(values, starts)
        else:
            defined = ~np.isnan(values)
            counts = np.add.reduceat(defined.astype(np.int64), starts)
            sums = np.add.reduceat(np.where(defined, values, 0.0), starts)
            found[rows] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return found


def _leave_out_unsplit(
    scorer: SummaryScorer,
    batch: Prepared,
    pairs: dict[str, _Pairs],
    scores: dict[str, np.ndarray],
) -> None:
    """Give no score where a text that is read cannot be split: of several, it might be the best."""
    if not np.any([batch.texts.cannot_be_split, *batch.cannot_be_split.values()]):
        return
    for column, (aliases, sides) in _read_by_column(scorer).items():
        failed = batch.texts.cannot_be_split
        for alias in aliases:
            failed = failed | batch.cannot_be_split[alias]
        in_row = failed[batch.candidate]
        for side in sides:
            in_row = in_row | _any(failed[pairs[side].other], pairs[side])
        scores[column] = np.where(in_row, np.nan, scores[column])


def _read_by_column(scorer: SummaryScorer) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """Return the encoders and, beside the candidate, the sides that each column is made from."""
    found: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        f"coverage@{alias}": ((alias,), scorer.config.sides_of(alias)) for alias in scorer.encoders
    }
    for request in scorer.config.requests:
        against = request.against or ("source" if "source" in request.metric.needs else None)
        sides = () if against is None else (f"{against}s",)
        found |= dict.fromkeys(request.columns, (request.encoders, sides))
    return {column: found[column] for column in scorer.config.columns}


def _any(flags: np.ndarray, of: _Pairs) -> np.ndarray:
    """Tell which rows have a pair with the flag."""
    rows = np.repeat(np.arange(of.lengths.size), of.lengths)
    return np.bincount(rows[flags], minlength=of.lengths.size) > 0


def _best_pair(values: np.ndarray, of: _Pairs) -> np.ndarray:
    """Return the first pair with the highest value of each row, -1 where none is defined."""
    chosen = np.full(of.lengths.size, -1)
    best = np.repeat(_aggregate(values, of), of.lengths)
    rows = np.repeat(np.arange(of.lengths.size), of.lengths)
    hits = np.flatnonzero(values == best)
    chosen[rows[hits[::-1]]] = hits[::-1]
    return chosen


def _pick(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.where(chosen >= 0, values[chosen], np.nan) if values.size else np.full(
        chosen.size, np.nan
    )  # fmt: skip


# Statuses


def _statuses(
    scorer: SummaryScorer,
    batch: Prepared,
    pairs: dict[str, _Pairs],
    scores: _Scores,
    remarks: _Remarks,
) -> pa.Array:
    """Say of every row why a score is null, and of which text an encoder read only a part."""
    found = _null_reasons(scorer, batch, pairs, scores, remarks)
    for remark, has_it in _cut_texts(scorer, batch, pairs):
        for row in np.flatnonzero(has_it).tolist():
            found.setdefault(row, []).append(remark)
    status: list[str | None] = [None] * batch.candidate.size
    for row, said in found.items():
        status[row] = "; ".join(dict.fromkeys(said))
    return pa.array(status, pa.string())


def _null_reasons(
    scorer: SummaryScorer,
    batch: Prepared,
    pairs: dict[str, _Pairs],
    scores: _Scores,
    remarks: _Remarks,
) -> dict[int, list[str]]:
    """Return by row why it has a null score."""
    columns = scorer.config.columns
    undefined = {name: np.isnan(scores[name]) for name in columns}
    rows = np.flatnonzero(np.any([undefined[name] for name in columns], axis=0))
    by_row: dict[int, list[str]] = {}
    if not rows.size:
        return by_row
    reasons = _text_reasons(scorer, batch)
    offsets = {side: offsets_of(of.lengths) for side, of in pairs.items()}
    for row in rows.tolist():
        found = [f"candidate:{reason}" for reason in reasons[batch.candidate[row]]]
        for side, of in pairs.items():
            span = slice(offsets[side][row], offsets[side][row + 1])
            others = [reasons[text] for text in of.other[span]]
            name = side[:-1]
            if not others:
                found.append(f"{name}:missing")
            else:
                told = others[0] if all(others) else []
                told = [*told, *(r for own in others for r in own if r.startswith(CANNOT_BE_SPLIT))]
                found += [f"{name}:{reason}" for reason in told]
            found += [
                remark
                for remark, has_it in remarks.items()
                if remark.startswith(f"{name}:") and has_it[row]
            ]
        by_row[row] = found or [f"{name}:undefined" for name in columns if undefined[name][row]]
    return by_row


def _cut_texts(
    scorer: SummaryScorer, batch: Prepared, pairs: dict[str, _Pairs]
) -> Iterator[tuple[str, np.ndarray]]:
    """Name side and encoder of texts that were cut, and tell which rows have such a text."""
    for alias, (encoded, text_sentences) in batch.encoded.items():
        if encoded.is_cut is None or not encoded.is_cut.any():
            continue
        texts = np.repeat(np.arange(len(text_sentences)), text_sentences.lengths)
        n_cut = np.bincount(
            texts[encoded.is_cut[text_sentences.values]], minlength=len(text_sentences)
        )
        is_cut = n_cut > 0
        yield f"candidate:cut@{alias}", is_cut[batch.candidate]
        for side in scorer.config.sides_of(alias):
            yield f"{side[:-1]}:cut@{alias}", _any(is_cut[pairs[side].other], pairs[side])


def _text_reasons(scorer: SummaryScorer, batch: Prepared) -> list[tuple[str, ...]]:
    """Return for every text why it cannot be scored, most basic reason first."""
    texts = batch.texts
    numbers = texts.sentence_words.values
    kept = texts.is_kept[numbers]
    owner = np.repeat(np.arange(len(texts.sentence_words)), texts.sentence_words.lengths)
    n_kept = offsets_of(
        np.bincount(owner[kept], minlength=len(texts.sentence_words))[texts.text_sentences.values]
    )
    ends, starts = texts.text_sentences.offsets[1:], texts.text_sentences.offsets[:-1]
    n_words = n_kept[ends] - n_kept[starts]
    n_sentences = texts.text_sentences.lengths
    known = {alias: kept_words(*encoded) for alias, encoded in batch.encoded.items()}
    needed = {alias: encoded[1].lengths > 0 for alias, encoded in batch.encoded.items()}
    n_tokens = None
    if batch.rouge_tokens is not None:
        n_tokens = texts.text_sentences.expand(batch.rouge_tokens).lengths
    reasons: list[tuple[str, ...]] = []
    for text in range(len(n_sentences)):
        if batch.is_null[text]:
            reasons.append(("null",))
        elif texts.cannot_be_split[text]:
            reasons.append((CANNOT_BE_SPLIT,))
        elif n_sentences[text] == 0:
            reasons.append(("empty",))
        elif n_words[text] == 0:
            reasons.append(("no_words",))
        else:
            found = [
                f"no_known_words@{alias}"
                for alias in known
                if needed[alias][text] and known[alias][text] == 0
            ]
            found += [
                f"{CANNOT_BE_SPLIT}@{alias}"
                for alias, failed in batch.cannot_be_split.items()
                if failed[text]
            ]
            if n_tokens is not None and n_tokens[text] == 0:
                found.append("no_rouge_tokens")
            reasons.append(tuple(found))
    return reasons

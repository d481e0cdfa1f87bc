"""The text of a batch: its distinct texts, their sentences and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sms.config import CANDIDATE, SIDES, ScoringConfig
from sms.metric import BatchTexts, NumberedTexts
from sms.ragged import Ragged
from sms.text import SegmentedTexts, Segmenter, composed, is_composed
from sms.text.detokenize import detokenized_if_cut


class TextReader:
    """Cuts the texts of batches, remembering words."""

    def __init__(self, config: ScoringConfig) -> None:
        self._config = config
        self._segmenter = Segmenter(config.rules)

    def read(self, rows: pa.Table) -> BatchTexts:
        """Cut the distinct texts of some rows, in their composed form (`composed_rows`)."""
        config = self._config
        number = partial(
            numbered_texts,
            sides=[side for side in config.input_columns if side != CANDIDATE],
            multi_reference=config.multi_reference,
            source_tokens=config.source_tokens,
        )
        numbered = number(rows)
        if not all(map(is_composed, numbered.given)):
            numbered = number(composed_rows(rows))
        rules = self._segmenter.rules
        readers = [metric for metric in config.asked if metric.needs_sentences(rules)]
        sides = {side for metric in readers for side in metric.sides}
        is_split = texts_of(numbered, sides, has_candidates=bool(readers))
        strings = numbered.strings
        if not is_split.all():
            strings = pc.if_else(pa.array(is_split), strings, pa.scalar(None, pa.string()))
        texts = self._segmenter.segment(strings)
        counts_words = any(metric.counts_words for metric in config.asked)
        words = self._whole_words(strings, texts) if counts_words else ()
        return BatchTexts(
            **{field.name: getattr(numbered, field.name) for field in fields(NumberedTexts)},
            texts=texts,
            is_split=is_split,
            whole_words=words,
        )

    def _whole_words(
        self, texts: pa.StringArray, segmented: SegmentedTexts
    ) -> tuple[Ragged, Ragged]:
        words, sentences = segmented.lower_words, segmented.text_sentences
        if self._config.language != "en":
            return words, sentences
        whole = {
            place: made
            for place, text in enumerate(texts.to_pylist())
            if text and (made := detokenized_if_cut(text))
        }
        if not whole:
            return words, sentences
        more = self._segmenter.segment_more(pa.array(whole.values(), pa.string()))
        places = np.arange(len(sentences))
        places[list(whole)] = len(sentences) + np.arange(len(whole))
        numbers = more.text_sentences.values + len(words)
        added = Ragged(numbers, more.text_sentences.offsets)
        sentences = sentences.and_rows(added).take(places)
        return words.and_rows(more.lower_words), sentences


def composed_rows(rows: pa.Table) -> pa.Table:
    """Return the texts of some rows in the form in which metrics read them (`text.composed`)."""
    for place, name in enumerate(rows.column_names):
        if name in SIDES:
            cells = rows[name].to_pylist()
            if name == CANDIDATE:
                written = pa.array([_composed(text) for text in cells], pa.string())
            else:
                lists = [None if texts is None else [*map(_composed, texts)] for texts in cells]
                written = pa.array(lists, pa.list_(pa.string()))
            rows = rows.set_column(place, name, written)
    return rows


def _composed(text: str | None) -> str | None:
    return None if text is None else composed(text)


def texts_of(
    numbered: NumberedTexts, sides: Iterable[str], *, has_candidates: bool = True
) -> np.ndarray:
    """Tell which texts are candidates, or of some sides; bool, shape (n_texts,)."""
    needed = np.zeros(len(numbered.strings), dtype=bool)
    needed[numbered.candidate] = has_candidates
    for side in sides:
        needed[numbered.sides[side].values] = True
    return needed


def numbered_texts(
    rows: pa.Table,
    sides: Sequence[str],
    *,
    multi_reference: str = "best",
    source_tokens: int | None = None,
) -> NumberedTexts:
    """Give the distinct texts of a batch numbers, and each row's texts by number."""
    columns: list[pa.Array] = [rows[CANDIDATE].combine_chunks().cast(pa.string())]
    of_sides = {}
    for side in sides:
        lists = rows[side].combine_chunks()
        lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        of_sides[side] = lengths.astype(np.int64)
        values = lists.flatten().cast(pa.string())  # a null list has no values
        if side == "references" and multi_reference == "first":
            has = of_sides[side] > 0
            starts = np.cumsum(of_sides[side]) - of_sides[side]
            values = values.take(pa.array(starts[has]))
            of_sides[side] = has.astype(np.int64)
        if side == "sources" and source_tokens is not None:
            values = first_tokens(values, source_tokens)
        columns.append(values)
    encoded = pa.concat_arrays(columns).dictionary_encode("encode")
    numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    n_rows = len(rows)
    numbered, at = {}, n_rows
    for side, lengths in of_sides.items():
        size = int(lengths.sum())
        numbered[side] = Ragged.from_lengths(numbers[at : at + size], lengths)
        at += size
    return NumberedTexts(
        encoded.dictionary, numbers[:n_rows], numbered, is_best=multi_reference == "best"
    )


def first_tokens(texts: pa.Array, n_tokens: int) -> pa.Array:
    """Keep the first `n_tokens` whitespace-separated tokens of each text, spacing untouched."""
    kept = []
    for text in texts.to_pylist():
        # a text has no more tokens than characters
        parts = text.split(maxsplit=min(n_tokens, len(text))) if text else []
        if len(parts) > n_tokens:
            text = text[: -len(parts[n_tokens])].rstrip()
        kept.append(text)
    return pa.array(kept, pa.string())

"""From texts to what a model reads: word pieces of a pair, or vectors of its sentences or words.

Readings are put together into tensors, padded at the end. The lead of a text is kept; what is cut
is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import torch
from tokenizers import Tokenizer

from sms.encoders.base import Encoder, encode_texts
from sms.encoders.pieces import encodings, read_marks_as_letters
from sms.encoders.vector_cache import Recent
from sms.ragged import Ragged
from sms.text import Segmenter, TextRules, composed
from sms.text.sentences import whole
from sms.text.words import CANNOT_BE_SPLIT

RECENT_BYTES = 1 << 30  # vectors of recent texts that a `VectorReader` keeps in memory


@dataclass(frozen=True, slots=True)
class Reading:
    """One source and one candidate, as a model reads them."""

    arrays: tuple[np.ndarray, ...]  # what the reader's `collate` takes
    length: int  # pairs of about the same length are read together
    cut: tuple[bool, bool]  # whether some of the candidate, and of the source, was left out
    unseen: tuple[tuple[str, str], ...] = ()
    """Which texts cannot be read (the side), and why; such a pair has no score."""


class Reader(Protocol):
    """What a model needs done to text."""

    def read(self, sources: Sequence[str], candidates: Sequence[str]) -> list[Reading]:
        """Read as many pairs as there are sources."""

    def collate(self, readings: Sequence[Reading]) -> dict[str, torch.Tensor]:
        """Put readings together into the arguments of the model."""


def shares(n_document: int, n_summary: int, room: int, truncation: str) -> tuple[int, int]:
    """Divide the room for word pieces between a document and a summary; all fit, or some is cut.

    `longest` cuts the longer text first, down to the length of the other; `parallel` cuts both by
    the same share, as section 3.2 of Bao et al. 2020 can be read, and keeps a piece of each.

    Examples
    --------
    >>> shares(900, 100, 500, "longest"), shares(900, 100, 500, "parallel")
    ((400, 100), (450, 50))
    """
    if n_document + n_summary <= room:
        return n_document, n_summary
    if truncation == "parallel":
        share = round(room * n_summary / (n_document + n_summary))
        kept = max(min(1, n_summary), min(share, room - min(1, n_document)))
    else:
        kept = min(n_summary, max(room // 2, room - n_document))
    return min(n_document, room - kept), kept


class PieceReader:
    """Word pieces of `[CLS] document [SEP] summary [SEP]`, or what a model has in place of these.

    At most `max_pieces` of a pair, special ones included. Switches off the tokenizer's own
    truncation and padding.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, max_pieces: int, truncation: str, padding_id: int
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        read_marks_as_letters(tokenizer)
        self._tokenizer, self._truncation = tokenizer, truncation
        self._padding_id = padding_id
        self._frame = _frame_of(tokenizer)
        n_special = sum(ids.size for ids in self._frame[0][::2])
        self._room = max_pieces - n_special
        if self._room < 2:
            raise ValueError(
                f"`max_pieces` must leave room for both texts, got {max_pieces}; "
                f"{n_special} pieces are special"
            )

    def read(self, sources: Sequence[str], candidates: Sequence[str]) -> list[Reading]:
        """Cut texts into pieces, every distinct one once."""
        distinct = list(dict.fromkeys([*sources, *candidates]))
        read = [whole(composed(text)) for text in distinct]
        encoded = dict(zip(distinct, encodings(self._tokenizer, read), strict=True))
        failed = {text for text, encoding in encoded.items() if encoding is None}
        pieces = {
            text: np.array([] if encoding is None else encoding.ids, dtype=np.int64)
            for text, encoding in encoded.items()
        }
        readings = []
        for pair in zip(sources, candidates, strict=True):
            piece_ids = [pieces[text] for text in pair]
            kept = shares(piece_ids[0].size, piece_ids[1].size, self._room, self._truncation)
            (before, _, between, _, behind), types = self._frame
            ids = [before, piece_ids[0][: kept[0]], between, piece_ids[1][: kept[1]], behind]
            types = [np.resize(kind, part.size) for kind, part in zip(types, ids, strict=True)]
            joined = np.concatenate(ids), np.concatenate(types)
            cut = kept[1] < piece_ids[1].size, kept[0] < piece_ids[0].size
            unseen = _unseen(pair, piece_ids, "no_words", failed)
            readings.append(Reading(joined, joined[0].size, cut, unseen))
        return readings

    def collate(self, readings: Sequence[Reading]) -> dict[str, torch.Tensor]:
        """Pad to the longest: all arguments are int64, shape (n, length)."""
        longest = max(reading.length for reading in readings)
        ids = np.full((len(readings), longest), self._padding_id)
        types, mask = np.zeros_like(ids), np.zeros_like(ids)
        for row, reading in enumerate(readings):
            ids[row, : reading.length], types[row, : reading.length] = reading.arrays
            mask[row, : reading.length] = 1
        arrays = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _frame_of(tokenizer: Tokenizer) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Learn from a probe the pieces, and types, before, in, between and after two texts."""
    probe = tokenizer.encode("a", "a")
    owner = np.array([-1 if k is None else k for k in probe.sequence_ids])
    first, second = np.flatnonzero(owner == 0), np.flatnonzero(owner == 1)
    if not (first.size and second.size) or first[-1] > second[0]:
        raise ValueError(
            "`encoder` must have a tokenizer that puts two texts together, got one that does "
            "not; choose a BERT-like model"
        )
    bounds = [first[0], first[-1] + 1, second[0], second[-1] + 1]
    return np.split(np.array(probe.ids), bounds), np.split(np.array(probe.type_ids), bounds)


class VectorReader:
    """Vectors of the first sentences, or words, of a document and of a summary.

    `lengths` says how many of each are kept; what is shorter is filled up with zeros. With a
    folder for its cache the encoder computes each sentence once for all epochs and runs.
    """

    def __init__(
        self, encoder: Encoder, *, unit: str, lengths: tuple[int, int], language: str = "en"
    ) -> None:
        self._encoder, self._unit, self._lengths = encoder, unit, lengths
        self._segmenter = Segmenter(TextRules(language=language))
        self._recent: Recent[tuple[np.ndarray, bool]] = Recent()
        """The vectors of recent texts, and whether the encoder read one only in part."""

    def read(self, sources: Sequence[str], candidates: Sequence[str]) -> list[Reading]:
        """Encode the distinct texts."""
        vectors, failed = self._vectors_of([*dict.fromkeys([*sources, *candidates])])
        readings = []
        for pair in zip(sources, candidates, strict=True):
            (source, is_source_cut), (candidate, is_candidate_cut) = (
                vectors[text] for text in pair
            )
            both, (most_of_source, most) = [source, candidate], self._lengths
            kept = source[:most_of_source], candidate[:most]
            cut = (
                is_candidate_cut or len(candidate) > most,
                is_source_cut or len(source) > most_of_source,
            )
            unseen = _unseen(pair, both, "no_known_words", failed)
            readings.append(Reading(kept, sum(self._lengths), cut, unseen))
        return readings

    def _vectors_of(
        self, texts: Sequence[str]
    ) -> tuple[dict[str, tuple[np.ndarray, bool]], set[str]]:
        """Return the first vectors of every text, one more than is read so that a cut is seen.

        With them comes whether the encoder read the text only in part. Also return which texts
        cannot be split; they have no vectors and are not remembered.
        """
        # sources and references come again in every epoch, so recent texts are remembered
        missing = [texts[place] for place in self._recent.missing(texts)]
        vectors = {text: self._recent[text] for text in set(texts) - set(missing)}
        failed: set[str] = set()
        if missing:
            longest = max(self._lengths) + 1
            found = text_points(missing, self._encoder, self._segmenter, self._unit)
            fresh = {
                text: (found.points[found.rows[number][:longest]].astype(np.float32), bool(is_cut))
                for number, (text, is_cut) in enumerate(zip(missing, found.is_cut, strict=True))
            }
            failed = {text for text, is_so in zip(missing, found.failed, strict=True) if is_so}
            vectors |= fresh
            self._recent.add(
                {t: text_vectors for t, text_vectors in fresh.items() if t not in failed},
                RECENT_BYTES,
            )
        return vectors, failed

    def collate(self, readings: Sequence[Reading]) -> dict[str, torch.Tensor]:
        """Fill up with zeros: float32, shape (n, document_length + summary_length, d)."""
        width = readings[0].arrays[0].shape[1]
        vectors = np.zeros((len(readings), sum(self._lengths), width), dtype=np.float32)
        for row, reading in enumerate(readings):
            document, summary = reading.arrays
            vectors[row, : len(document)] = document
            vectors[row, self._lengths[0] : self._lengths[0] + len(summary)] = summary
        lengths = torch.tensor([[len(array) for array in reading.arrays] for reading in readings])
        return {"vectors": torch.from_numpy(vectors), "lengths": lengths}


def _unseen(
    pair: tuple[str, str], arrays: Sequence[np.ndarray], reason: str, failed: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """Say of a candidate and a source which has nothing to read: for a reason, or it failed."""
    sides = zip(("candidate", "source"), pair[::-1], arrays[::-1], strict=True)
    return tuple(
        (side, CANNOT_BE_SPLIT if text in failed else reason)
        for side, text, array in sides
        if not len(array)
    )


class TextPoints(NamedTuple):
    """The vectors of some texts."""

    points: np.ndarray  # shape (n_points, d)
    rows: Ragged  # of every text, rows of the points
    is_cut: np.ndarray  # texts that the encoder read only in part, bool
    failed: np.ndarray  # texts that cannot be split, bool


def text_points(
    texts: Sequence[str], encoder: Encoder, segmenter: Segmenter, unit: str
) -> TextPoints:
    """Encode texts."""
    segmented = segmenter.segment(pa.array(map(composed, texts), pa.string()))
    encoded, text_sentences, failed = encode_texts(encoder, segmented, ~segmented.cannot_be_split)
    failed |= segmented.cannot_be_split
    is_cut = encoded.cut_texts(text_sentences)
    if unit == "words":
        rows = text_sentences.expand(encoded.sentence_words)
        return TextPoints(encoded.word_points, rows, is_cut, failed)
    return TextPoints(encoded.pooled, text_sentences, is_cut, failed)


def read_tokenizer(path: Path) -> Tokenizer:
    """Load a `tokenizer.json`."""
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        reason = str(error).partition("\n")[0]
        raise ValueError(f"`{path}` must be a fast tokenizer's file, got {reason}") from error

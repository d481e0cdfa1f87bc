"""Pairs of a source and its reference: what is taken from a row, and what is left out and why.

A row has a `document_id`, one or several sources and one or several references; every source with
every reference is a pair. Rows that give no pair are counted by reason. Reading files is not done
here.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from reffree.hashing import hash64, mixed
from reffree.negatives.edits import words_of

NO_SPLIT = -1  # side of a row whose file has no column `split`
SIDES = ("train", "validation", "test")

MAX_WORDS = 1 << 18
"""Distinct words kept for additions and replacements; all of them in most corpora."""
RUN_WORDS = 5
SHORTEST_NEAR = 20  # words of a text, at least, to be looked at for near copies
LONGEST_WORDS = 20
"""Letters between spaces, on average, at most; with more it is a language without spaces."""
NEAR_BANDS, NEAR_ROWS = 8, 6
SAMPLED_DOCUMENTS = 256
"""Documents for training by whose sources a scorer recognises what it was trained on."""

PAIR_SCHEMA = pa.schema(
    {
        "document_id": pa.string(),
        "number": pa.int64(),  # tells apart the pairs of a document: place among those of its row
        "key": pa.uint64(),  # hash of document_id
        "group": pa.uint64(),  # smallest key of the documents that share a text with this one
        # large: a bucket of long documents has more text than 32 bits can address
        "source": pa.large_string(),
        "reference": pa.large_string(),
    }
)

_UNKNOWN_SPLIT = -2
_MOST_HELD = 1.25  # times `most`: with more entries than that, those of the largest keys go
_SIDE_NAMES = (
    dict.fromkeys(("train", "training"), 0)
    | dict.fromkeys(("validation", "valid", "val", "dev", "development"), 1)
    | dict.fromkeys(("test", "testing"), 2)
)
_NOT_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One source and one reference of a document."""

    document_id: str
    number: int  # place among the pairs of its row
    side: int  # place in `SIDES` by the row's own `split`, or `NO_SPLIT`
    source: str
    reference: str

    @property
    def key(self) -> int:
        """Hash of the document's name."""
        return hash64(self.document_id)


def pairs_of_row(
    document_id: str | None,
    sources: Sequence[str] | None,
    references: Sequence[str] | None,
    side: int,
    left_out: Counter[str],
) -> list[Pair]:
    """Take the pairs of a row; what gives no pair is counted in `left_out`, by reason."""
    given = {"document_id": document_id, "source": sources, "reference": references}
    why = next((f"no {name}" for name, value in given.items() if not value), None)
    if why is None and side == _UNKNOWN_SPLIT:
        why = "no known split"
    if why is not None:
        left_out[why] += 1
        return []
    kept_sources = _filled(sources or (), "empty source", left_out)
    kept_references = _filled(references or (), "empty reference", left_out)
    return [
        Pair(document_id=str(document_id), number=i, side=side, source=source, reference=text)
        for i, (source, text) in enumerate(itertools.product(kept_sources, kept_references))
    ]


def text_key(text: str) -> int | None:
    """Hash what is left of a text without case, white space and punctuation; None if nothing is.

    Copies of a text that differ only in tokenisation or case have the same key. Another text has
    it with a chance of one in 2**64; the two would be kept on one side, which does no harm.

    Examples
    --------
    >>> text_key("The team's win.") == text_key("the team 's win .")
    True
    """
    letters = _NOT_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())
    return hash64(letters) if letters else None


def near_keys(text: str) -> list[int]:
    """Hash a text so that near copies have a hash in common (MinHash, Broder 1997); none if short.

    Of texts that share nine tenths of their runs of five words (Jaccard) nearly all have one, of
    those that share half of them one in eight. In a language without spaces, a word here is one
    character.
    """
    words = text.casefold().split()
    if sum(map(len, words)) > LONGEST_WORDS * len(words):  # a language without spaces
        words = list("".join(words))
    if len(words) < SHORTEST_NEAR:
        return []
    runs = {" ".join(words[k : k + RUN_WORDS]) for k in range(len(words) - RUN_WORDS + 1)}
    hashes = np.fromiter((zlib.crc32(run.encode("utf-8", "replace")) for run in runs), np.uint64)
    least = [mixed(hashes, salt).min() for salt in range(NEAR_BANDS * NEAR_ROWS)]
    bands = np.array(least).reshape(NEAR_BANDS, NEAR_ROWS)
    return [hash64(f"near {k} {band.tolist()}") for k, band in enumerate(bands)]


class _Sample:
    """Keeps what belongs to the smallest keys: which that are does not depend on the order."""

    most: int  # keys

    def __init__(self) -> None:
        self._entries: set[tuple[int, Any]] = set()
        self._limit = 1 << 64  # keys at or above it are out

    def add_entries(self, entries: Iterable[tuple[int, Any]]) -> None:
        """Add things by their keys."""
        self._entries.update(entry for entry in entries if entry[0] < self._limit)
        if len(self._entries) > _MOST_HELD * self.most:
            self._prune()

    def kept(self) -> tuple[Any, ...]:
        """Return the things, each once, sorted."""
        self._prune()
        return tuple(sorted({thing for _, thing in self._entries if thing is not None}))

    def _prune(self) -> None:
        keys = sorted({key for key, _ in self._entries})
        if len(keys) > self.most:
            self._limit = keys[self.most]
            self._entries = {entry for entry in self._entries if entry[0] < self._limit}


class SourceSample(_Sample):
    """Some of the sources of many pairs, by which it is known later that they were seen."""

    most = SAMPLED_DOCUMENTS

    def add(self, named: Iterable[tuple[str, str]]) -> None:
        """Look at further sources, each with its document; keep the hashes by `text_key`."""
        self.add_entries((hash64(name), text_key(source)) for name, source in named)


class WordSample(_Sample):
    """Collects the distinct words of texts, or as many of them as it may."""

    most = MAX_WORDS

    def __init__(self, language: str = "en") -> None:
        super().__init__()
        self._language = language

    def add(self, texts: Iterable[str]) -> None:
        """Take the words of texts; punctuation is no word."""
        chunks = {chunk for text in texts for chunk in text.split()}
        words = {word for chunk in chunks for word in words_of(chunk, self._language)}
        self.add_entries((hash64(word), word) for word in words if any(map(str.isalnum, word)))


def as_table(pairs: Sequence[Pair], groups: np.ndarray) -> pa.Table:
    """Return pairs as a table with the columns of `PAIR_SCHEMA`."""
    names = [name for name in PAIR_SCHEMA.names if name != "group"]
    columns = {name: [getattr(pair, name) for pair in pairs] for name in names}
    return pa.table(columns | {"group": groups}, schema=PAIR_SCHEMA)


def side_named(split: str | None) -> int:
    """Return the place in `SIDES` of a side that a file names; negative if it is none."""
    return _SIDE_NAMES.get((split or "").strip().lower(), _UNKNOWN_SPLIT)


def _filled(texts: Sequence[str], reason: str, left_out: Counter[str]) -> list[str]:
    """Return the texts that have a letter or digit; count the others."""
    filled = [text for text in texts if _NOT_WORD.sub("", text)]
    if len(filled) < len(texts):
        left_out[reason] += len(texts) - len(filled)
    return filled

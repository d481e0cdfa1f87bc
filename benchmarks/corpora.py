"""Not a benchmark: corpora and vector files that the others make, always the same for a seed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sms.text import TextRules, stop_words

ROOT = Path(__file__).resolve().parents[1]
ROWS_PER_GROUP = 10_000
STOP_SHARE = 0.42
"""Of the words of news text, punctuation aside."""
ZIPF_SHIFT = 20
"""The word of rank r is drawn in proportion to 1 / (r + shift)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSize:
    """What `write_corpus` makes."""

    n_systems: int = 20
    n_documents: int = 5_000
    n_words: int = 30
    """Mean number of words of a text, stop words among them."""
    n_sentences: int = 3
    shared: float = 0.4
    """Share of a candidate's content words that is taken from the reference."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a vector file that texts are made of, the most frequent first."""

    content: list[str]
    stop: list[str]


def data_file(name: str) -> Path | None:
    """Find a file of the evaluation data; None where there is none."""
    folder = Path(os.environ.get("ASSAY_DATA") or ROOT.parent / "shared" / "data")
    return folder / name if (folder / name).is_file() else None


def vector_file(asked: Path | None, folder: Path, rng: np.random.Generator) -> Path:
    """Return the GloVe file that was asked for, or the evaluation data's, or one made here."""
    if asked is not None:
        return asked
    found = data_file("glove.50d.2987.txt")
    if found is not None:
        return found
    path = folder / "generated.50d.20000.txt"
    stop = sorted(word for word in stop_words(TextRules()) if word.isalpha())
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    made = {"".join(word) for word in rng.choice(letters, (20_000, 7))}
    vectors = rng.standard_normal((len(stop) + len(made), 50))
    with path.open("w") as file:
        for word, vector in zip([*stop, *sorted(made)], vectors, strict=True):
            file.write(f"{word} {' '.join(f'{value:.5f}' for value in vector)}\n")
    return path


def words_of(vectors: Path) -> Words:
    """Sort the plain words of a GloVe file; short ones might read as abbreviations."""
    stop = stop_words(TextRules())
    found = Words([], [])
    with vectors.open(encoding="utf-8") as file:
        for line in file:
            word = line.partition(" ")[0]
            if not (word.isascii() and word.isalpha() and word.islower()):
                continue
            if word in stop:
                found.stop.append(word)
            elif len(word) > 4:
                found.content.append(word)
    return found


def write_corpus(path: Path, words: Words, size: CorpusSize, rng: np.random.Generator) -> pa.Table:
    """Write a corpus as Parquet, all candidates of a document after each other; return it, too."""
    n_rows = size.n_systems * size.n_documents
    writer = _Writer(words, size, rng)
    candidates: list[str] = []
    references: list[str] = []
    for _ in range(size.n_documents):
        content, reference = writer.reference()
        references += [reference] * size.n_systems
        candidates += [writer.candidate(content) for _ in range(size.n_systems)]
    systems = [f"S{i % size.n_systems:02}" for i in range(n_rows)]
    documents = [f"D{i // size.n_systems:06}" for i in range(n_rows)]
    columns = {
        "document_id": documents,
        "system_id": systems,
        "candidate": candidates,
        "reference": references,
    }
    table = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    pq.write_table(table, path, row_group_size=ROWS_PER_GROUP)
    return table


class _Writer:
    """Draws texts."""

    def __init__(self, words: Words, size: CorpusSize, rng: np.random.Generator) -> None:
        self._size, self._rng = size, rng
        self._content, self._stop = (np.array(w) for w in (words.content, words.stop))
        self._pools = {id(p): _Pool(p, rng) for p in (self._content, self._stop)}

    def reference(self) -> tuple[np.ndarray, str]:
        n_content, n_stop = self._lengths()
        content = self._draw(self._content, n_content)
        return content, self._text(content, n_stop)

    def candidate(self, reference: np.ndarray) -> str:
        n_content, n_stop = self._lengths()
        n_shared = min(round(self._size.shared * n_content), reference.size)
        taken = reference[self._rng.permutation(reference.size)[:n_shared]]
        fresh = self._draw(self._content, n_content - n_shared)
        return self._text(np.concatenate([taken, fresh]), n_stop)

    def _lengths(self) -> tuple[int, int]:
        n_words = max(2 * self._size.n_sentences, self._rng.poisson(self._size.n_words))
        n_stop = int(self._rng.binomial(n_words, STOP_SHARE))
        return max(n_words - n_stop, 1), n_stop

    def _draw(self, words: np.ndarray, n: int) -> np.ndarray:
        return words[self._pools[id(words)].next(n)]

    def _text(self, content: np.ndarray, n_stop: int) -> str:
        words = np.concatenate([content, self._draw(self._stop, n_stop)])
        words = words[self._rng.permutation(words.size)].tolist()
        n = self._size.n_sentences
        bounds = [len(words) * i // n for i in range(n + 1)]
        sentences = (" ".join(words[bounds[i] : bounds[i + 1]]) for i in range(n))
        return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


class _Pool:
    """Numbers of words by Zipf's law, drawn many at a time."""

    def __init__(self, words: np.ndarray, rng: np.random.Generator) -> None:
        shares = 1 / (np.arange(words.size) + ZIPF_SHIFT)
        self._shares = shares / shares.sum()
        self._rng = rng
        self._drawn = np.empty(0, dtype=np.int64)
        self._at = 0

    def next(self, n: int) -> np.ndarray:
        if self._at + n > self._drawn.size:
            self._drawn = self._rng.choice(self._shares.size, 1_000_000, p=self._shares)
            self._at = 0
        self._at += n
        return self._drawn[self._at - n : self._at]

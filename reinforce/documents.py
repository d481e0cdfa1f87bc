"""Documents with their references, in batches by length; text as words, and words as text.

Documents come from the buckets of prepared pairs, a bucket at a time, so that memory does not grow
with their number. Batches are made as those of `reffree.neural.batches`: every process
makes the same and takes its part of each. Words are lower-cased, as in the data of the paper; a
punctuation mark is a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reffree.hashing import generator_of
from reffree.neural.batches import cut, pools, shuffled
from reffree.training_pairs.buckets import read_bucket

POOL_BATCHES = 32  # batches that are sorted by length together
SPECIAL = ("<pad>", "<unk>", "<start>", "<end>")
PAD, UNK, START, END = range(len(SPECIAL))

_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
_SPACE_BEFORE = re.compile(r" (?=[.,;:!?%)\]’”])|(?<=[(\[“]) ")


@dataclass(frozen=True, slots=True)
class Document:
    """A document and what people wrote about it."""

    document_id: str
    source: str
    references: tuple[str, ...]

    def reference(self, epoch: int) -> str:
        """Return the reference that is learnt from in an epoch: each in its turn."""
        return self.references[epoch % len(self.references)]


def read_documents(
    paths: Sequence[Path], *, seed: int | None = None, epoch: int = 0
) -> Iterator[Document]:
    """Read documents from the buckets of one side.

    A seed shuffles buckets and the documents of each, anew in every epoch; without it they are
    sorted by name.
    """
    rng = None if seed is None else generator_of("documents", seed, epoch)
    for path in shuffled(paths, rng):
        pairs = read_bucket(path).pairs
        references: dict[tuple[str, str], dict[str, None]] = {}  # in order, each once
        names = ("document_id", "source", "reference")
        columns = (pairs.column(name).to_pylist() for name in names)
        for document_id, source, reference in zip(*columns, strict=True):
            references.setdefault((document_id, source), {})[reference] = None
        documents = [Document(*key, tuple(of_document)) for key, of_document in references.items()]
        yield from shuffled(documents, rng)


def batches_of(
    documents: Iterator[Document],
    *,
    size: int,
    rng: np.random.Generator | None = None,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[list[Document]]:
    """Make batches of documents of about the same length, `size` over all processes.

    Random numbers shuffle the batches of a pool; without them short documents come first.
    """
    for pool in pools(documents, size * POOL_BATCHES, n_ranks):
        made = cut(pool, size, n_ranks, length=lambda one: len(one.source), what="documents")
        for batch in shuffled(made, rng):
            yield batch[rank::n_ranks]


def words_of(text: str) -> list[str]:
    """Cut a text into words.

    Examples
    --------
    >>> words_of("It's 3.5 million (self-styled).")
    ["it's", '3.5', 'million', '(', 'self-styled', ')', '.']
    """
    return _WORD.findall(text.lower())


def text_of(words: Iterable[str]) -> str:
    """Put words together again.

    Examples
    --------
    >>> text_of(["it's", "3.5", "million", "(", "self-styled", ")", "."])
    "it's 3.5 million (self-styled)."
    """
    return _SPACE_BEFORE.sub("", " ".join(words))


class Vocabulary:
    """The words that a summariser knows by number; `SPECIAL` come before those given."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*SPECIAL, *words)
        self._ids = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def most_frequent(cls, texts: Iterable[str], size: int) -> Vocabulary:
        """Take the most frequent words of texts, of equal ones those first in the alphabet.

        At most so many; special ones are not counted.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(words_of(text))
        ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return cls([word for word, _ in ordered[:size]])

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: Iterable[str], others: Mapping[str, int] | None = None) -> list[int]:
        """Return the numbers of words, `UNK` for unknown ones; `others` has more numbers."""
        more = others or {}
        return [self._ids.get(word, more.get(word, UNK)) for word in words]


def repetition_rate(words: Sequence[str], n: int = 3) -> float:
    """Return the share of a text's n-grams that have come before in it; 0 if it has none.

    Examples
    --------
    >>> repetition_rate("the cat sat and the cat sat".split())
    0.2
    """
    ngrams = list(zip(*(words[k:] for k in range(n)), strict=False))  # rows end with the shortest
    return (len(ngrams) - len(set(ngrams))) / len(ngrams) if ngrams else 0.0

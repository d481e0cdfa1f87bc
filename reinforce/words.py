"""Text as the words that a summariser reads and writes, and words as text.

Words are lower-cased, as in the data of the paper; a punctuation mark is a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

SPECIAL = ("<pad>", "<unk>", "<start>", "<end>")
PAD, UNK, START, END = range(len(SPECIAL))

_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
_SPACE_BEFORE = re.compile(r" (?=[.,;:!?%)\]’”])|(?<=[(\[“]) ")


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
        if size < 1:
            raise ValueError(f"`vocabulary_size` must be at least 1, got {size}")
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

"""What good summaries of a document there are: its reference, its lead and its best extract.

A learner that knows references alone comes to distrust whatever is copied, as references are
worded anew. Each positive is compared with corruptions of itself only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from reffree.cut_text import Sentence
from reffree.hard_edits import FEWEST_WORDS, content_words

REFERENCE = "reference"
LEAD_SENTENCES = 3
"""Sentences of a news article that are its lead (Nallapati, Zhai and Zhou 2017)."""

Text = Sequence[Sentence]


def reference(source: Text, own: Text) -> tuple[Sentence, ...]:
    """Return the reference itself."""
    return tuple(own)


def lead(source: Text, own: Text) -> tuple[Sentence, ...]:
    """Return the first sentences of the document that are long enough to be sentences."""
    return tuple([one for one in source if len(one) >= FEWEST_WORDS][:LEAD_SENTENCES])


def best_extract(source: Text, own: Text) -> tuple[Sentence, ...]:
    """Choose sentences of the document that are nearest to the reference, as many as it has.

    One after the other, that which makes F1 with the reference's content words largest; they
    stand as in the document.
    """
    wanted = Counter(content_words(word for sentence in own for word in sentence))
    bags = [Counter(content_words(sentence)) for sentence in source]
    chosen: list[int] = []
    have: Counter[str] = Counter()
    best = 0.0

    def f1(bag: Counter[str]) -> float:
        n = bag.total() + wanted.total()
        return 2 * (bag & wanted).total() / n if n else 0.0

    while len(chosen) < len(own):
        left = [k for k in range(len(source)) if k not in chosen and bags[k]]
        if not left:
            break
        values = [f1(have + bags[k]) for k in left]
        if max(values) <= best:
            break
        best = max(values)
        chosen.append(left[values.index(best)])
        have += bags[chosen[-1]]
    return tuple(source[k] for k in sorted(chosen))


POSITIVES: dict[str, Callable[[Text, Text], tuple[Sentence, ...]]] = {
    REFERENCE: reference,
    "lead": lead,
    "extract": best_extract,
}
"""Every kind of positive by name: from the document and its reference."""

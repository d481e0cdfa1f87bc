"""Good summaries of a document (positives), and the kinds of worse ones made from them (negatives).

A negative answers its source worse than its positive does, with a label in [0, 1] that follows from
the edit actually made (`Draft.label`). A positive has label 1, that of another document 0. Each
positive is compared with corruptions of itself only. A learner that knows references alone comes to
distrust whatever is copied, as references are worded anew: so leads and extracts are positives too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reffree.hashing import check_seed, generator_of
from reffree.negatives import edits, hard_edits
from reffree.negatives.edits import CannotEdit, Draft, Sentence, count_words, foreign
from reffree.negatives.hard_edits import FEWEST_WORDS, content_words
from sms.naming import nearest, several
from sms.text.languages import language_of

POSITIVE = "positive"  # kind of the clean summary
REFERENCE = "reference"
LEAD_SENTENCES = 3  # sentences of a news article that are its lead (Nallapati, Zhai and Zhou 2017)

Text = Sequence[Sentence]
DrawText = Callable[[np.random.Generator], tuple[Sentence, ...]]


def lead(source: Text, _reference: Text, _language: str) -> tuple[Sentence, ...]:
    """Return the first sentences of the document that are long enough to be sentences."""
    return tuple([one for one in source if len(one) >= FEWEST_WORDS][:LEAD_SENTENCES])


def best_extract(source: Text, reference: Text, language: str) -> tuple[Sentence, ...]:
    """Choose sentences of the document that are nearest to the reference, as many as it has.

    One after the other, that which makes F1 with the reference's content words largest; they
    stand as in the document.
    """
    words = (word for sentence in reference for word in sentence)
    wanted = Counter(content_words(words, language))
    bags = [Counter(content_words(sentence, language)) for sentence in source]
    chosen: list[int] = []
    have: Counter[str] = Counter()
    best = 0.0

    def f1(bag: Counter[str]) -> float:
        n = bag.total() + wanted.total()
        return 2 * (bag & wanted).total() / n if n else 0.0

    while len(chosen) < len(reference):
        left = [k for k in range(len(source)) if k not in chosen and bags[k]]
        values = [f1(have + bags[k]) for k in left]
        if not left or max(values) <= best:
            break
        best = max(values)
        chosen.append(left[values.index(best)])
        have += bags[chosen[-1]]
    return tuple(source[k] for k in sorted(chosen))


POSITIVES: dict[str, Callable[[Text, Text, str], tuple[Sentence, ...]]] = {
    REFERENCE: lambda _source, reference, _language: tuple(reference),
    "lead": lead,
    "extract": best_extract,
}
"""Every kind of positive by name: from the document, its reference and their language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What the negatives of one pair are made from."""

    positive: tuple[Sentence, ...]  # the good summary that is made worse
    read_source: Callable[[], tuple[Sentence, ...]]  # cuts the source, which few kinds need
    vocabulary: Sequence[str]  # words of the training documents' references
    draw_other: DrawText  # draws the positive of another document of the same side
    draw_near: DrawText  # draws that of one of the nearest other documents of the same side
    language: str = "en"


def make_negative(kind: str, material: Material, rng: np.random.Generator) -> Draft:
    """Make one negative; all chance comes from `rng`.

    Raises `CannotEdit` if the pair has no negative of this kind; says why.
    """
    draft = KINDS[kind](material, rng)
    before, after = (
        [token.word for sentence in text for token in sentence]
        for text in (material.positive, draft.sentences)
    )
    if after == before:
        raise CannotEdit("unchanged")
    if not any(map(str.isalnum, "".join(after))):
        raise CannotEdit("empty")
    return draft


def _crossed(material: Material, draw: DrawText, rng: np.random.Generator) -> Draft:
    return Draft(tuple(map(foreign, draw(rng))), 1, count_words(material.positive))


def _unimportant(material: Material, rng: np.random.Generator) -> Draft:
    sentences = hard_edits.unimportant_sentences(
        material.positive, material.read_source(), material.language
    )
    return edits.replace_sentences(material.positive, sentences, rng)


KINDS: dict[str, Callable[[Material, np.random.Generator], Draft]] = {
    # the reference of another document, of one of the nearest other documents
    "cross-pair": lambda m, rng: _crossed(m, m.draw_other, rng),
    "cross-pair-hard": lambda m, rng: _crossed(m, m.draw_near, rng),
    # words added, deleted, replaced by random ones
    "add": lambda m, rng: edits.add_words(m.positive, m.vocabulary, rng),
    "delete": lambda m, rng: edits.delete_words(m.positive, rng),
    "replace": lambda m, rng: edits.replace_words(m.positive, m.vocabulary, rng),
    # sentences deleted, replaced by those of another document's reference, in another order
    "sentence-delete": lambda m, rng: edits.delete_sentences(m.positive, rng),
    "sentence-replace": lambda m, rng: edits.replace_sentences(m.positive, m.draw_other(rng), rng),
    "sentence-shuffle": lambda m, rng: edits.shuffle_sentences(m.positive, rng),
    # names and numbers exchanged for others of the source, sentences for unimportant ones of it,
    # statements turned round, sentences of a near document put in, sentences of two halves
    "exchange": lambda m, rng: hard_edits.exchange(m.positive, m.read_source(), rng, m.language),
    "unimportant": _unimportant,
    "negate": lambda m, rng: hard_edits.negate(m.positive, rng),
    "claim": lambda m, rng: edits.replace_sentences(m.positive, m.draw_near(rng), rng),
    "fuse": lambda m, rng: hard_edits.fuse(m.positive, m.read_source(), rng),
    # names that change places, the subjects or aspects of the source, opinions turned round
    "trade": lambda m, rng: hard_edits.trade(m.positive, m.read_source(), rng, m.language),
    "term": lambda m, rng: hard_edits.exchange_terms(m.positive, m.read_source(), rng, m.language),
    "opinion": lambda m, rng: hard_edits.turn_opinions(m.positive, rng),
    # neighbouring words change places
    "swap": lambda m, rng: edits.swap_words(m.positive, rng),
    # sentences or a phrase said twice; the end dropped, often in mid-sentence
    "repeat": lambda m, rng: edits.repeat(m.positive, rng),
    "truncate": lambda m, rng: edits.truncate(m.positive, rng),
    # sentences that begin or end in the middle
    "break": lambda m, rng: edits.break_sentences(m.positive, rng),
}
"""Every kind of negative by name."""
ENGLISH_KINDS = ("negate", "opinion")
"""Kinds that know English words."""
KINDS_OF_WORDS = (
    "add", "delete", "replace", "exchange", "fuse", "swap", "repeat", "truncate", "break",
    "trade", "term",
)  # fmt: skip
"""Kinds that put words together anew, with the spaces that languages with spaces need."""
OF_NEAR = ("cross-pair-hard", "claim")  # kinds that use `Material.draw_near`

PRESETS: dict[str, dict[str, Any]] = {
    # Bao et al. 2020, sections 2.2 and 3.1: one negative of every kind per document, as many
    # positives as negatives. The paper says "random" of the rates: a share of all words it is.
    "bao2020": {"kinds": ("cross-pair", "add", "delete", "replace"), "is_balanced": True},
}
"""Published recipes: arguments of `NegativesConfig`."""


def kinds_for(language: str) -> tuple[str, ...]:
    """Return the kinds of negatives that can be made in a language."""
    return tuple(kind for kind in KINDS if why_not_in(language, kind) is None)


def why_not_in(language: str, kind: str) -> str | None:
    """Say why a kind of negative cannot be made in a language; None if it can."""
    if kind in ENGLISH_KINDS and language != "en":
        return "turns English words round"
    if kind in KINDS_OF_WORDS and not language_of(language).has_spaces:
        return "puts words together with spaces"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativesConfig:
    """The negatives of every pair."""

    kinds: tuple[str, ...]  # out of `KINDS`; one or several
    proportions: tuple[float, ...] | None = None
    """Weight of each kind, of which one is drawn; None gives every positive all kinds."""
    positives: tuple[str, ...] = (REFERENCE,)  # out of `POSITIVES`
    is_balanced: bool = False  # whether the positive comes as often as the negatives, not once
    n_neighbours: int = 10  # `cross-pair-hard` draws from so many nearest documents
    seed: int = 0
    language: str = "en"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(several(self.kinds)))
        if not self.kinds:
            raise ValueError("`kinds` must name at least one kind of negative, got none")
        object.__setattr__(self, "positives", tuple(several(self.positives)))
        for what, names, known in (
            ("kind of negative", self.kinds, KINDS),
            ("positive", self.positives, POSITIVES),
        ):
            for name in names:
                if name not in known:
                    raise ValueError(f"unknown {what} `{name}`; {nearest(name, known)}")
        for kind in self.kinds:
            if why := why_not_in(self.language, kind):
                raise ValueError(
                    f"`{kind}` {why}, and cannot be made in {language_of(self.language).name}; "
                    f"choose among {', '.join(kinds_for(self.language))}"
                )
        if len(set(self.kinds)) < len(self.kinds):
            raise ValueError(f"`kinds` must differ, got {', '.join(self.kinds)}")
        proportions = self.proportions or [1.0] * len(self.kinds)
        for kind, weight in zip(self.kinds, proportions, strict=True):
            if not 0 < weight < float("inf"):
                raise ValueError(f"the weight of `{kind}` must be positive, got {weight:g}")
        check_seed(self.seed)
        if self.n_neighbours < 1:
            raise ValueError(f"`n_neighbours` must be at least 1, got {self.n_neighbours}")

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> NegativesConfig:
        """Read what `scorer.json` says."""
        proportions = saved["proportions"]
        given = None if proportions is None else tuple(proportions)
        return cls(**{**saved, "proportions": given})

    @property
    def needs_neighbours(self) -> bool:
        """Whether any kind needs the nearest documents."""
        return any(kind in OF_NEAR for kind in self.kinds)

    def plan(self, document_id: str, number: int, epoch: int) -> tuple[str, ...]:
        """Say which kinds a pair gets: by its name, the epoch and this configuration alone."""
        if self.proportions is None:
            return self.kinds
        rng = generator_of(self.seed, "mixture", epoch, document_id, number)
        shares = np.array(self.proportions) / sum(self.proportions)
        (drawn,) = rng.choice(len(self.kinds), size=1, p=shares).tolist()
        return (self.kinds[drawn],)

    def generator(
        self, kind: str, document_id: str, number: int, epoch: int, base: str
    ) -> np.random.Generator:
        """Return the random numbers of one negative, which no other one has a part in."""
        # The constant 0 once numbered several negatives of a kind. It stays: without it all
        # negatives would be drawn differently.
        return generator_of(self.seed, kind, 0, epoch, document_id, number, base)

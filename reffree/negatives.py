"""The kinds of negatives, which of them a pair gets, and how one is made.

A negative is a candidate that answers its source worse than the reference does, with a label in
[0, 1] that follows from the edit actually made (`Draft.label`). The reference itself is the
positive, with label 1; the reference of another document has label 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reffree import edits, hard_edits
from reffree.cut_text import Sentence, arranged, count_words, foreign, sentence_gap
from reffree.edits import CannotEdit, Draft, Rate
from reffree.hashing import check_seed, generator_of
from reffree.positives import POSITIVES, REFERENCE
from sms.naming import nearest, several

POSITIVE = "positive"  # kind of the clean reference
ATTEMPTS = 8  # negatives made before one of the wanted length is given up

DrawText = Callable[[np.random.Generator], tuple[Sentence, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What the negatives of one pair are made from."""

    positive: tuple[Sentence, ...]  # the good summary that is made worse
    read_source: Callable[[], tuple[Sentence, ...]]  # cuts the source, which few kinds need
    vocabulary: Sequence[str]  # words of the training documents' references
    draw_other: DrawText  # draws the positive of another document of the same side
    draw_near: DrawText  # draws that of one of the nearest other documents of the same side


def make_negative(
    kind: str,
    material: Material,
    rate: Rate,
    rng: np.random.Generator,
    *,
    length_tolerance: float | None = None,
) -> Draft:
    """Make one negative.

    All chance comes from `rng`, so the same numbers give the same negative. With a
    `length_tolerance` negatives are made until one can be cut or filled up (at sentences) to the
    positive's number of words, give or take that share of it. Raises `CannotEdit` if the pair has
    no negative of this kind; says why.
    """
    before = _words(material.positive)
    reason = CannotEdit("not tried")
    for _ in range(1 if length_tolerance is None else ATTEMPTS):
        draft = KINDS[kind](material, rate, rng)
        if length_tolerance is not None:
            filler = [] if kind in OF_OTHERS else _filler(material)
            try:
                draft = match_length(draft, len(before), length_tolerance, filler)
            except CannotEdit as error:
                reason = error
                continue
        after = _words(draft.sentences)
        if after != before and any(map(str.isalnum, "".join(after))):
            return draft
        reason = CannotEdit("unchanged" if after == before else "empty")
    raise reason


def _filler(material: Material) -> list[Sentence]:
    try:
        return hard_edits.unimportant_sentences(material.positive, material.read_source())
    except CannotEdit:
        return []


def _words(text: Sequence[Sentence]) -> list[str]:
    return [token.word for sentence in text for token in sentence]


def _crossed(material: Material, draw: DrawText, rng: np.random.Generator) -> Draft:
    return Draft(tuple(map(foreign, draw(rng))), 1, count_words(material.positive))


def _unimportant(material: Material, rate: Rate, rng: np.random.Generator) -> Draft:
    sentences = hard_edits.unimportant_sentences(material.positive, material.read_source())
    return edits.replace_sentences(material.positive, rate, sentences, rng)


def match_length(draft: Draft, n_words: int, tolerance: float, filler: Sequence[Sentence]) -> Draft:
    """Bring an edited text to a number of words, by whole sentences.

    Sentences are dropped from the end of what is too long, and sentences of `filler` appended to
    what is too short: the first of it that reaches the length, otherwise the longest that fits. The
    words of the filler do not count as kept, so the label stays what it says. The result may be off
    by `tolerance`, as a share of the wanted number. Raises `CannotEdit` if no number of whole
    sentences has that length.
    """
    low, high = n_words * (1 - tolerance), n_words * (1 + tolerance)
    sentences = list(draft.sentences)
    while sentences and count_words(sentences) > high:
        sentences.pop()
    left = list(filler)
    while count_words(sentences) < low:
        room = high - count_words(sentences)
        fitting = [sentence for sentence in left if len(sentence) <= room]
        if not fitting:
            raise CannotEdit("length not matched")
        missing = low - count_words(sentences)
        reaching = [sentence for sentence in fitting if len(sentence) >= missing]
        chosen = reaching[0] if reaching else max(fitting, key=len)
        left.remove(chosen)
        sentences.extend(arranged([foreign(chosen)], sentence_gap(draft.sentences)))
    return replace(draft, sentences=tuple(sentences))


KINDS: dict[str, Callable[[Material, Rate, np.random.Generator], Draft]] = {
    # the reference of another document, of one of the nearest other documents
    "cross-pair": lambda m, _rate, rng: _crossed(m, m.draw_other, rng),
    "cross-pair-hard": lambda m, _rate, rng: _crossed(m, m.draw_near, rng),
    # words added, deleted, replaced by random ones
    "add": lambda m, rate, rng: edits.add_words(m.positive, rate, m.vocabulary, rng),
    "delete": lambda m, rate, rng: edits.delete_words(m.positive, rate, rng),
    "replace": lambda m, rate, rng: edits.replace_words(m.positive, rate, m.vocabulary, rng),
    # sentences deleted, replaced by those of another document's reference, in another order
    "sentence-delete": lambda m, rate, rng: edits.delete_sentences(m.positive, rate, rng),
    "sentence-replace": lambda m, rate, rng: edits.replace_sentences(
        m.positive, rate, m.draw_other(rng), rng
    ),
    "sentence-shuffle": lambda m, _rate, rng: edits.shuffle_sentences(m.positive, rng),
    # names and numbers exchanged for others of the source, sentences for unimportant ones of it,
    # statements turned round, sentences of a near document put in, sentences of two halves
    "exchange": lambda m, rate, rng: hard_edits.exchange(m.positive, m.read_source(), rate, rng),
    "unimportant": _unimportant,
    "negate": lambda m, rate, rng: hard_edits.negate(m.positive, rate, rng),
    "claim": lambda m, rate, rng: edits.replace_sentences(m.positive, rate, m.draw_near(rng), rng),
    "fuse": lambda m, rate, rng: hard_edits.fuse(m.positive, m.read_source(), rate, rng),
    # neighbouring words change places
    "swap": lambda m, rate, rng: edits.swap_words(m.positive, rate, rng),
    # sentences or a phrase said twice; the end dropped, often in mid-sentence
    "repeat": lambda m, rate, rng: edits.repeat(m.positive, rate, rng),
    "truncate": lambda m, rate, rng: edits.truncate(m.positive, rate, rng),
    # sentences that begin or end in the middle
    "break": lambda m, rate, rng: edits.break_sentences(m.positive, rate, rng),
}
"""Every kind of negative by name."""
OF_OTHERS = ("cross-pair", "cross-pair-hard")
"""Kinds that are texts of other documents; sentences of the own one do not fill them up."""
OF_NEAR = ("cross-pair-hard", "claim")
"""Kinds that use `Material.draw_near`."""

PRESETS: dict[str, dict[str, Any]] = {
    # Bao et al. 2020, sections 2.2 and 3.1: one negative of every kind per document, as many
    # positives as negatives. The paper says "random" of the rates: a share of all words it is.
    "bao2020": {"kinds": ("cross-pair", "add", "delete", "replace"), "is_balanced": True},
}
"""Published recipes: arguments of `NegativesConfig`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativesConfig:
    """The negatives of every pair."""

    kinds: tuple[str, ...]  # out of `negatives.KINDS`; one or several
    proportions: tuple[float, ...] | None = None
    """Weight of each kind; None gives every pair all kinds."""
    positives: tuple[str, ...] = (REFERENCE,)
    """Out of `positives.POSITIVES`; each has negatives of its own."""
    per_positive: int = 1
    """Negatives of a positive: of each kind, or in all where there are proportions."""
    is_balanced: bool = False
    """Whether the positive comes as often as the negatives, not once."""
    rate: Rate = field(default_factory=Rate)  # share of a text that is edited
    length_tolerance: float | None = None
    """Negatives have as many words as their positive, give or take this share of it; None for no
    such rule."""
    n_neighbours: int = 10  # `cross-pair-hard` draws from so many nearest documents
    seed: int = 0

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
        if len(set(self.kinds)) < len(self.kinds):
            raise ValueError(f"`kinds` must differ, got {', '.join(self.kinds)}")
        proportions = self.proportions or [1.0] * len(self.kinds)
        for kind, weight in zip(self.kinds, proportions, strict=True):
            if not 0 < weight < float("inf"):
                raise ValueError(f"the weight of `{kind}` must be positive, got {weight:g}")
        check_seed(self.seed)
        for name in ("per_positive", "n_neighbours"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        if self.length_tolerance is not None and not 0 <= self.length_tolerance < 1:
            raise ValueError(f"`length_tolerance` must be in [0, 1), got {self.length_tolerance:g}")

    @property
    def needs_neighbours(self) -> bool:
        """Whether any kind needs the nearest documents."""
        return any(kind in OF_NEAR for kind in self.kinds)

    def plan(self, document_id: str, number: int, epoch: int) -> list[tuple[str, int]]:
        """Say which negatives a pair gets, as kinds and their places among equals.

        Depends on nothing but the pair's name, the epoch and this configuration.
        """
        if self.proportions is None:
            return list(itertools.product(self.kinds, range(self.per_positive)))
        rng = generator_of(self.seed, "mixture", epoch, document_id, number)
        shares = np.array(self.proportions) / sum(self.proportions)
        drawn = rng.choice(len(self.kinds), size=self.per_positive, p=shares).tolist()
        return [(self.kinds[kind], drawn[:place].count(kind)) for place, kind in enumerate(drawn)]

    def generator(
        self, kind: str, index: int, document_id: str, number: int, epoch: int, base: str
    ) -> np.random.Generator:
        """Return the random numbers of one negative, which no other one has a part in."""
        return generator_of(self.seed, kind, index, epoch, document_id, number, base)

"""The kinds of negatives, and how one is made from a pair and random numbers.

A negative is a candidate that answers its source worse than the reference does, with a label in
[0, 1] that follows from the edit actually made (`Draft.label`). The reference itself is the
positive, with label 1; the reference of another document has label 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reffree import edits, hard_edits
from reffree.cut_text import Sentence, count_words, cut_text, foreign
from reffree.edits import CannotEdit, Draft, Rate
from reffree.lengths import match_length

POSITIVE = "positive"
"""Kind of the clean reference."""
ATTEMPTS = 8
"""Negatives made before one of the wanted length is given up."""

DrawText = Callable[[np.random.Generator], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What the negatives of one pair are made from."""

    reference: tuple[Sentence, ...]
    read_source: Callable[[], tuple[Sentence, ...]]
    """Cuts the source, which few kinds need."""
    vocabulary: Sequence[str]
    """Words of the training documents' references."""
    draw_other: DrawText
    """Draws the reference of another document of the same side."""
    draw_near: DrawText
    """Draws the reference of one of the nearest other documents of the same side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of negative."""

    name: str
    summary: str
    """One line for people."""
    make: Callable[[Material, Rate, np.random.Generator], Draft]
    needs_neighbours: bool = False
    """Whether `Material.draw_near` is used."""
    can_pad: bool = True
    """Whether sentences of the source may fill it up to the wanted length."""


def make_negative(
    kind: str,
    material: Material,
    rate: Rate,
    rng: np.random.Generator,
    *,
    length_tolerance: float | None = None,
) -> Draft:
    """Make one negative.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    material : Material
        Of one pair.
    rate : Rate
        How much is edited.
    rng : Generator
        All chance comes from it, so the same numbers give the same negative.
    length_tolerance : float, optional
        How far the negative's number of words may be from the positive's, as a share of the
        latter. Negatives are made until one can be cut or filled up (at sentences) to that.

    Raises
    ------
    CannotEdit
        If the pair has no negative of this kind; says why.
    """
    chosen = KINDS[kind]
    before = _words(material.reference)
    reason = CannotEdit("not tried")
    for _ in range(1 if length_tolerance is None else ATTEMPTS):
        draft = chosen.make(material, rate, rng)
        if length_tolerance is not None:
            filler = _filler(material) if chosen.can_pad else []
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
        return hard_edits.unimportant_sentences(material.reference, material.read_source())
    except CannotEdit:
        return []


def _words(text: Sequence[Sentence]) -> list[str]:
    return [token.word for sentence in text for token in sentence]


def _crossed(material: Material, draw: DrawText, rng: np.random.Generator) -> Draft:
    text = cut_text(draw(rng))
    return Draft(tuple(map(foreign, text)), 1, count_words(material.reference))


def _replace_sentences(material: Material, rate: Rate, rng: np.random.Generator) -> Draft:
    others = cut_text(material.draw_other(rng))
    return edits.replace_sentences(material.reference, rate, others, rng)


def _unimportant(material: Material, rate: Rate, rng: np.random.Generator) -> Draft:
    sentences = hard_edits.unimportant_sentences(material.reference, material.read_source())
    return edits.replace_sentences(material.reference, rate, sentences, rng)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="cross-pair",
            summary="the reference of another document",
            make=lambda m, _rate, rng: _crossed(m, m.draw_other, rng),
            can_pad=False,
        ),
        Kind(
            name="cross-pair-hard",
            summary="the reference of one of the nearest other documents",
            make=lambda m, _rate, rng: _crossed(m, m.draw_near, rng),
            needs_neighbours=True,
            can_pad=False,
        ),
        Kind(
            name="add",
            summary="random words added",
            make=lambda m, rate, rng: edits.add_words(m.reference, rate, m.vocabulary, rng),
        ),
        Kind(
            name="delete",
            summary="words deleted",
            make=lambda m, rate, rng: edits.delete_words(m.reference, rate, rng),
        ),
        Kind(
            name="replace",
            summary="words replaced by random words",
            make=lambda m, rate, rng: edits.replace_words(m.reference, rate, m.vocabulary, rng),
        ),
        Kind(
            name="sentence-delete",
            summary="sentences deleted",
            make=lambda m, rate, rng: edits.delete_sentences(m.reference, rate, rng),
        ),
        Kind(
            name="sentence-replace",
            summary="sentences replaced by those of another document's reference",
            make=_replace_sentences,
        ),
        Kind(
            name="sentence-shuffle",
            summary="sentences in another order",
            make=lambda m, _rate, rng: edits.shuffle_sentences(m.reference, rng),
        ),
        Kind(
            name="exchange",
            summary="names and numbers exchanged for others of the source",
            make=lambda m, rate, rng: hard_edits.exchange(m.reference, m.read_source(), rate, rng),
        ),
        Kind(
            name="unimportant",
            summary="sentences replaced by unimportant ones of the source",
            make=_unimportant,
        ),
        Kind(
            name="repeat",
            summary="sentences or a phrase repeated",
            make=lambda m, rate, rng: edits.repeat(m.reference, rate, rng),
        ),
        Kind(
            name="truncate",
            summary="the end dropped, often in mid-sentence",
            make=lambda m, rate, rng: edits.truncate(m.reference, rate, rng),
        ),
    )
}
"""Every kind of negative by name."""

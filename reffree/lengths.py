"""Negatives as long as their positive, so that a model cannot tell them apart by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reffree.cut_text import Sentence, arranged, count_words, foreign, sentence_gap
from reffree.edits import CannotEdit, Draft


def match_length(draft: Draft, n_words: int, tolerance: float, filler: Sequence[Sentence]) -> Draft:
    """Bring an edited text to a number of words, by whole sentences.

    Sentences are dropped from the end of what is too long, and sentences of `filler` appended to
    what is too short: the first of it that reaches the length, otherwise the longest that fits.
    The words of the filler do not count as kept, so the label stays what it says.

    Parameters
    ----------
    draft : Draft
    n_words : int
        The wanted number, punctuation included.
    tolerance : float
        How far the result may be from it, as a share of it.
    filler : sequence of Sentence
        May be empty, then only cutting helps.

    Raises
    ------
    CannotEdit
        If no number of whole sentences has that length.
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

"""How documents and summaries are cut into pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reffree.pair.settings import WHOLE, PairSettings
from sms.sentences import SENTENCE_END, without_marks
from sms.text import TextRules, split_sentences

_LINE = "\n"


def summary_pieces(text: str, settings: PairSettings, rules: TextRules) -> list[str]:
    """Cut a summary."""
    if settings.summary == WHOLE:
        return [_whole(text)]
    return _long_enough(sentences_of(text, rules), text, settings)[: settings.most_summary]


def document_pieces(
    text: str, settings: PairSettings, rules: TextRules, count_tokens: Callable[[str], int]
) -> list[str]:
    """Cut a document; `count_tokens` gives the tokens of a text, special ones left out."""
    if settings.document == WHOLE:
        return [_whole(text)]
    if settings.chunk is None:
        pieces = _long_enough(sentences_of(text, rules), text, settings)
    else:
        unit, most = settings.chunk
        if unit == "even-words":
            pieces = _even_chunks(sentences_of(text, rules), len(_whole(text).split()), most)
        else:
            count = count_tokens if unit == "tokens" else _count_words
            pieces = _full_chunks(_sentences_and_lines(text, rules), most, count)
    return (pieces or [_whole(text)])[: settings.most_document]


def sentences_of(text: str, rules: TextRules) -> list[str]:
    """Return the sentences of a text, without white space around them.

    Examples
    --------
    >>> sentences_of("It rained. It snowed.", TextRules())
    ['It rained.', 'It snowed.']
    """
    if rules.is_split:
        pieces = [without_marks(piece) for piece in split_sentences(text, rules.language)]
    else:
        pieces = text.split(SENTENCE_END)
    return [sentence for piece in pieces if (sentence := piece.strip())]


def _whole(text: str) -> str:
    return text.replace(SENTENCE_END, " ")


def _count_words(text: str) -> int:
    return len(text.split())


def _long_enough(sentences: Sequence[str], text: str, settings: PairSettings) -> list[str]:
    kept = [sentence for sentence in sentences if len(sentence) >= settings.shortest]
    return kept or [_whole(text)]


def _sentences_and_lines(text: str, rules: TextRules) -> list[str]:
    """Return sentences and, between lines, line ends."""
    if not rules.is_split:
        return sentences_of(text, rules)
    pieces: list[str] = []
    for line in text.split(_LINE):
        pieces += [_LINE, *sentences_of(line, rules)]
    return pieces[1:]


def _even_chunks(sentences: Sequence[str], n_words: int, most: int) -> list[str]:
    """Put sentences together, in chunks of as many, by the words of the whole text."""
    size = max(len(sentences) // (n_words // most + 1), 1)
    return [" ".join(sentences[k : k + size]) for k in range(0, len(sentences), size)]


def _full_chunks(parts: Sequence[str], most: int, count: Callable[[str], int]) -> list[str]:
    """Put sentences together as long as they have at most so many words or tokens.

    Examples
    --------
    >>> _full_chunks(["A b.", "C d.", _LINE, "E f."], 4, _count_words)
    ['A b. C d.', 'E f.']
    """
    chunks: list[list[str]] = [[]]
    size = 0
    for part in parts:
        own = count(part)
        if size + own > most:
            chunks.append([])
            size = 0
        chunks[-1].append(part)
        size += own
    joined = (" ".join(chunk).replace(f" {_LINE} ", _LINE).strip() for chunk in chunks)
    return [chunk for chunk in joined if chunk]

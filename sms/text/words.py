"""How a chunk of text, which has no spaces in it, becomes words and punctuation.

A splitter maps a chunk to words that stand in it one after the other, nothing but invisible
characters left out. `languages` says which language uses which.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import regex

Splitter = Callable[[str], list[str]]

CANNOT_BE_SPLIT = "cannot_be_split"
"""What a status says of a text that a splitter of sentences, words or word pieces fails on."""

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger(__name__)

INVISIBLE = regex.compile(r"[\p{Cc}\p{Cf}\p{Co}]+")
"""Soft hyphens, joiners, byte order marks and the like, which BERT's tokeniser deletes as well."""

# BERT's basic tokeniser makes each of these a piece of its own.
_IDEOGRAPHS = r"\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\U00020000-\U0002CEAF\U0002F800-\U0002FA1F"
# Words are unions of the pieces that BERT's basic tokeniser makes: a boundary falls on
# whitespace, ASCII and Unicode punctuation and around ideographs only. An encoder may therefore
# cut a sentence into word pieces word by word. Only `japanese_words` and `dictionary_words`, which
# look words up in a run of letters, are different.
_INSIDE = rf"[[^\s\p{{P}}!-/:-@\[-`{{-~]--[{_IDEOGRAPHS}]]"
_ANY_WORD = rf"""
      -(?i:[lr][rcs]b)-                  # a bracket of tokenised corpora
    | (?:\p{{L}}\.){{2,}}                # U.S., p.m.
    | {_INSIDE}*?(?<!\d)\d++(?:[.,\u066B\u066C]\d+)+{_INSIDE}*  # 2,000.5, £2,000.5, 253.5km
    | {_INSIDE}+(?:['’](?!(?i:s)(?!{_INSIDE})){_INSIDE}+)*  # don't; the 's of "team's" is a word
    | ['’](?i:s|t|re|ve|ll|d|m)(?!{_INSIDE})
    | [^\s]
    """
# Case is ignored in places only: everywhere, the set above would match `fi` both as two letters
# and as one ligature, and a long run would be tried in exponentially many ways.
_FLAGS = regex.VERBOSE | regex.VERSION1
_WORD = regex.compile(_ANY_WORD, _FLAGS)
_ELISION = rf"(?i:[ldnscjmt]|qu|jusqu|lorsqu|puisqu|quoiqu)['’](?={_INSIDE})"
_FRENCH_WORD = regex.compile(f"{_ELISION}|{_ANY_WORD}", _FLAGS)

# What Unicode's word boundaries (UAX 29) keep inside a word: apostrophes, a geresh, and the marks
# of emphasis that Armenian writes on a vowel; between letters also a colon (`EU:n`), a middle dot
# (`col·legi`), gershayim and the quotation mark that stands for them. Ours differ in four things:
# `example.com` is cut at its full stop and `a_b` at its underscore, an acronym keeps its full stops
# (`U.S.`), and symbols such as `€` stay with letters and digits beside them, as in BERT's pieces.
_APOSTROPHES = "'’‘\u05f3\uff07"  # noqa: RUF001
_BETWEEN_LETTERS = r"(?<=[\p{L}\p{M}])[:·\u0387\u055F\u2027](?=\p{L})"
_IN_HEBREW = r"(?<=\p{Hebrew})(?:[\"\u05F4](?=\p{Hebrew})|['’\u05F3])"
_LETTERS = rf"(?:{_INSIDE}|(?<=[\p{{L}}\p{{M}}])[\u055B\u055C\u055E])"
_ALPHABETIC = rf"[\p{{L}}--[\p{{Hangul}}{_IDEOGRAPHS}]]"
_JOINT = rf"(?:[{_APOSTROPHES}](?={_INSIDE})|{_BETWEEN_LETTERS}|{_IN_HEBREW})"
_UNICODE_WORD = rf"""
      (?:(?:{_ALPHABETIC}\p{{M}}*){{1,2}}\.){{2,}}      # भा.ज.पा., bl.a.
    | {_INSIDE}*?(?<!\d)\d++(?:[.,\u066B\u066C]\d+)+{_INSIDE}*
    | {_INSIDE}{_LETTERS}*(?:{_JOINT}{_LETTERS}*)*
    | [^\s]
    """

_CHINESE_RUN = regex.compile(rf"(?P<run>[{_IDEOGRAPHS}]+)|[^{_IDEOGRAPHS}]+")
_JAPANESE = rf"{_IDEOGRAPHS}\p{{Hiragana}}\p{{Katakana}}々〆〇ーｰ\u3099\u309A"
_JAPANESE_RUN = regex.compile(rf"(?P<run>[{_JAPANESE}]+)|[^{_JAPANESE}]+")
_NO_SPACES = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_DICTIONARY_RUN = regex.compile(rf"(?P<run>[{_NO_SPACES}]+)|[^{_NO_SPACES}]+")
_WRITTEN_TOGETHER = rf"{_JAPANESE}{_NO_SPACES}\p{{Tibetan}}"
_CHARACTER = regex.compile(rf"(?=[{_WRITTEN_TOGETHER}])\X|[^{_WRITTEN_TOGETHER}]+")
_ZERO_WIDTH_SPACE = "\u200b"
_LONGEST_RUN = 8_000  # characters; SudachiPy takes 49,149 bytes; a character has up to 4


def attempt(split: Callable[[T], R], text: T) -> R | None:
    """Call what splits a text; None if it fails on this one.

    Splitters are libraries with limits and faults of their own: the text is to blame, not the
    run. A lack of memory is not the text's fault and is raised, as is Ctrl-C.
    """
    try:
        return split(text)
    except BaseException as error:
        if isinstance(error, MemoryError) or not (isinstance(error, Exception) or is_panic(error)):
            raise
        logger.info("a text cannot be split", exc_info=True)
        return None


def is_panic(error: BaseException) -> bool:
    """Tell whether a library in Rust broke off, which Python sees as no `Exception`."""
    return type(error).__name__ == "PanicException"


def split_words(chunk: str) -> list[str]:
    """Split where BERT's basic tokeniser does, but keep contractions, numbers and acronyms."""
    if chunk.isascii() and chunk.isalpha():  # most chunks are a word
        return [chunk]
    return _WORD.findall(_visible(chunk))


def french_words(chunk: str) -> list[str]:
    """Split as `split_words` does, and after an elided article, pronoun or conjunction."""
    return _FRENCH_WORD.findall(_visible(chunk))


def unicode_words(elisions: str = "") -> Splitter:
    """Return a splitter at Unicode's word boundaries, and after elided words such as `l'`."""
    elided = f"(?i:{'|'.join(elisions.split())})['’](?={_INSIDE})|" if elisions else ""
    find = regex.compile(elided + _UNICODE_WORD, _FLAGS).findall
    return lambda chunk: find(_visible(chunk))


def clark2019_words(chunk: str) -> list[str]:
    """Split as the released sentence mover code does: lower-cased Treebank tokens."""
    from nltk.tokenize import NLTKWordTokenizer

    words: list[str] = NLTKWordTokenizer().tokenize(chunk.lower())
    return words


def chinese_words() -> Splitter:
    """Return a splitter that looks runs of ideographs up in jieba's dictionary (`rjieba`)."""
    import rjieba

    return functools.partial(_split_runs, _CHINESE_RUN, rjieba.cut)


def japanese_words() -> Splitter:
    """Return a splitter that cuts Japanese script into SudachiPy's shortest units."""
    from sudachipy import Dictionary, SplitMode

    tokenizer = Dictionary(dict="small").tokenizer(mode=SplitMode.A)

    def cut(run: str) -> Iterator[str]:
        for start in range(0, len(run), _LONGEST_RUN):
            for morpheme in tokenizer.tokenize(run[start : start + _LONGEST_RUN]):
                yield morpheme.surface()

    return functools.partial(_split_runs, _JAPANESE_RUN, cut)


def dictionary_words() -> Splitter:
    """Return a splitter that looks Thai, Lao, Khmer and Burmese up in ICU's dictionaries.

    A zero-width space says where a word ends, which other splitters take for nothing.
    """
    from icu4py.breakers import WordBreaker

    def cut(run: str) -> Iterator[str]:
        for start in range(0, len(run), _LONGEST_RUN):
            yield from WordBreaker(run[start : start + _LONGEST_RUN], "th")

    between = unicode_words()

    def split(chunk: str) -> list[str]:
        pieces = chunk.split(_ZERO_WIDTH_SPACE)
        return [
            word for piece in pieces for word in _split_runs(_DICTIONARY_RUN, cut, piece, between)
        ]

    return split


def characters(word: str) -> list[str]:
    """Cut a word of a script without spaces into its characters; other words stay whole.

    >>> characters("東京"), characters("iPhone"), characters("น้ำมัน")
    (['東', '京'], ['iPhone'], ['น้ำ', 'มั', 'น'])
    """
    return _CHARACTER.findall(word)


def _split_runs(
    pattern: regex.Pattern[str],
    cut: Callable[[str], Iterable[str]],
    chunk: str,
    between: Splitter = _WORD.findall,
) -> list[str]:
    """Cut the runs that `pattern` names with `cut`, and what lies between them."""
    words: list[str] = []
    for match in pattern.finditer(_visible(chunk)):
        words.extend(cut(match["run"]) if match["run"] else between(match.group()))
    return words


def _visible(chunk: str) -> str:
    return chunk if chunk.isprintable() else INVISIBLE.sub("", chunk)


SPLITTERS: Mapping[str, Callable[[], Splitter]] = {
    "unicode": unicode_words,
    "plain": lambda: split_words,
    "french": lambda: french_words,
    "chinese": chinese_words,
    "japanese": japanese_words,
    "dictionary": dictionary_words,
}
"""By name what makes a splitter, and loads a library where one is needed."""

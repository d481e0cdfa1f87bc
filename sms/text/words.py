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
# cut a sentence into word pieces word by word. Only `japanese_words` is different.
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

_CHINESE_RUN = regex.compile(rf"(?P<run>[{_IDEOGRAPHS}]+)|[^{_IDEOGRAPHS}]+")
_JAPANESE = rf"{_IDEOGRAPHS}\p{{Hiragana}}\p{{Katakana}}々〆〇ーｰ\u3099\u309A"
_JAPANESE_RUN = regex.compile(rf"(?P<run>[{_JAPANESE}]+)|[^{_JAPANESE}]+")
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
    return _WORD.findall(_visible(chunk))


def french_words(chunk: str) -> list[str]:
    """Split as `split_words` does, and after an elided article, pronoun or conjunction."""
    return _FRENCH_WORD.findall(_visible(chunk))


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


def _split_runs(
    pattern: regex.Pattern[str], cut: Callable[[str], Iterable[str]], chunk: str
) -> list[str]:
    """Cut the runs that `pattern` names with `cut`, what lies between them with `split_words`."""
    words: list[str] = []
    for match in pattern.finditer(_visible(chunk)):
        words.extend(cut(match["run"]) if match["run"] else _WORD.findall(match.group()))
    return words


def _visible(chunk: str) -> str:
    return chunk if chunk.isprintable() else INVISIBLE.sub("", chunk)


SPLITTERS: Mapping[str, Callable[[], Splitter]] = {
    "plain": lambda: split_words,
    "french": lambda: french_words,
    "chinese": chinese_words,
    "japanese": japanese_words,
}
"""By name what makes a splitter, and loads a library where one is needed."""

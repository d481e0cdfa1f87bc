"""Where sentences end: by lines and marks in every language, by rules for English, by `sentencex`.

Summaries are often lower-cased, tokenised and quoted with marks that have no partner, where
`sentencex` finds no end. For English it is therefore asked about one thing alone, whether a full
stop ends an abbreviation, and sees the text without quotation marks and brackets. What ends a
sentence otherwise, and to which of two sentences a quotation mark belongs, is decided here.

Everything runs in time linear in the text: each rule looks at one end and a few characters around
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import regex
import sentencex

from sms.text.words import is_panic

LINES = "lines1"
"""What signatures call the rules of `blocks`."""
SENTENCES = ("split", "given")
"""Whether sentences are looked for in a text, or a text is a list of them."""
SENTENCE_END = "\x1e"
"""Stands between the sentences of a text that is given as a list of them; white space."""

_MARK = re.compile(r"</?(?:t|s|q|n|p|br)\s*/?>", re.IGNORECASE)
# Tried only where white space begins: tried at each place of a run of white space, it would take
# time that grows with the square of the run.
_MARKS_AND_SPACE = re.compile(rf"(?<!\s)\s*+(?:{_MARK.pattern}\s*+)++", re.IGNORECASE)

_MOST_SHOWN = 10_000  # characters
# White space of several bytes, as a no-break space, between a capital and a full stop: there
# `sentencex` cuts inside a character and panics, which is no exception that anything catches.
_PANICKING = re.compile(r"([A-Z]\s*)[^\S\x00-\x7F]\.")  # `re` is the faster one here


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences of many texts, with the white space around them."""

    pieces: list[str]
    """Those of one text after those of the other."""
    lengths: np.ndarray
    """How many each text has, int64, shape (n_texts,)."""
    cannot_be_split: np.ndarray
    """Texts that a splitter failed on; bool, shape (n_texts,)."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[str] | None]) -> Sentences:
        """Join the sentences of texts, None for one that cannot be split."""
        pieces = [piece for text in texts for piece in text or ()]
        lengths = np.array([len(text or ()) for text in texts], np.int64)
        return cls(
            pieces,
            lengths,
            np.array([text is None for text in texts], dtype=bool),
        )


def library_ends(code: str, text: str) -> list[int]:
    """Return where `sentencex` ends sentences.

    It is shown a part of a text at a time: on some its time grows with the square.
    """
    if len(text) <= _MOST_SHOWN:
        return [*accumulate(map(len, _library_segments(code, text)))]
    ends: list[int] = []
    at = 0
    while at < len(text):
        shown = text[at : at + _MOST_SHOWN]
        found = [*accumulate(map(len, _library_segments(code, shown)), initial=at)][1:]
        # the last sentence goes on in the next part, which begins with it
        is_last = at + len(shown) == len(text)
        ends += found[:-1]
        at = found[-2] if len(found) > 1 and not is_last else found[-1]
    return [*ends, len(text)]


def _library_segments(code: str, text: str) -> list[str]:
    shown = text if text.isascii() else _PANICKING.sub(r"\1 .", text)
    try:
        pieces: list[str] = sentencex.segment(code, shown)
    except BaseException as error:
        # A panic in Rust is no `Exception`: nothing else would keep it from ending the process.
        if not is_panic(error):
            raise
        raise RuntimeError(
            f"sentencex cannot find the sentences of {text!r:.80} ({error}); change that text"
        ) from None
    return pieces


def cut(text: str, pieces: Sequence[str]) -> list[str]:
    """Cut a text into pieces of the lengths that these have."""
    return cut_at(text, [*accumulate(map(len, pieces))][:-1])


def joined(sentences: Iterable[str]) -> str:
    """Write sentences as one text, in which they are known to be sentences."""
    return SENTENCE_END.join(text.replace(SENTENCE_END, " ") for text in sentences)


def sentence_end(sentences: str) -> str | None:
    """Return what joins the sentences of a text, None if texts are not lists of them."""
    return SENTENCE_END if sentences == "given" else None


def without_marks(text: str) -> str:
    """Leave out marks as `<t>` and `</t>`, which are no words, and the white space around them.

    Where they stand between words, a space is left: `<t> Yes. </t> <t> No. </t>` is `Yes. No.`
    """
    if "<" not in text:
        return text

    def space(marks: re.Match[str]) -> str:
        return " " if marks.start() > 0 and marks.end() < len(text) else ""

    return _MARKS_AND_SPACE.sub(space, text)


def whole(text: str) -> str:
    """Return a text for what reads all of it at once: without marks and ends of given sentences."""
    return without_marks(text.replace(SENTENCE_END, " "))


def cut_at(text: str, starts: Sequence[int]) -> list[str]:
    """Cut a text where all of its pieces but the first start."""
    if not starts:
        return [text]
    return [text[start:end] for start, end in pairwise([0, *starts, len(text)])]


# Lines and marks

_LINE_END = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_LINE_CHARACTER = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
_LINE = re.compile(r"[^\n\r\x0b\x0c\x85\u2028\u2029]+")
_SPACES = re.compile(r"\s*+")
_BREAKS = re.compile(r"[<\n\r\x0b\x0c\x85\u2028\u2029]")
_FINAL = frozenset(".!?…。！？؟۔।॥።፧։။៕")  # noqa: RUF001 (their letters are meant)
_CLOSING = "\"'”’»)]}」』"
_GOES_ON = re.compile(r"[.,;:!?%)\]}”’»…、。，！？]")  # noqa: RUF001
_ITEM = re.compile(r"(?:[-*•‣▪·–—#>]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)])\s")
_INSIDE_END = re.compile(r"[.!?]['\"”’)]?\s+\S|[。！？؟۔।॥።፧։။៕].")  # noqa: RUF001
_CASED = regex.compile(r"\p{Lu}\p{Ll}")
CONTENT = re.compile(r"[^\W_]")
_NARROWEST = 40  # characters; text is not wrapped at less


def has_breaks(text: str) -> bool:
    """Tell whether a text has line ends, or what may be a mark."""
    if text.isascii():  # one look for each is quicker than a search for all
        return "\n" in text or "<" in text or "\r" in text or "\v" in text or "\f" in text
    # line ends are not printable
    return ("<" in text or not text.isprintable()) and _BREAKS.search(text) is not None


def blocks(text: str, *, has_spaces: bool = True) -> list[str]:
    """Cut a text where a line or mark ends a sentence; together the pieces are the text.

    A line ends a sentence, and a blank line always does, unless it was wrapped: a wrapped line is
    as long as its paragraph allows, and the sentence goes on in the next one.
    """
    if not has_breaks(text.strip()):  # a line end around a text is no layout
        return [text]
    has_marks = "<" in text
    starts = {*_line_starts(text, has_spaces)}
    if has_marks:
        starts.update(_start_at(text, mark) for mark in _MARK.finditer(text))
    filled: list[int] = []
    start, has_content = 0, False
    for end in [*sorted(starts - {0}), len(text)]:
        # what has no letter or digit stays with the piece before it, or with the first one
        piece = text[start:end]
        if CONTENT.search(_MARK.sub("", piece) if has_marks else piece):
            if has_content:
                filled.append(start)
            has_content = True
        start = end
    return cut_at(text, filled)


def without_layout(block: str) -> str:
    """Write spaces where a block has line ends and marks, so that all else stays in its place."""
    if "<" in block:
        block = _MARK.sub(lambda mark: " " * len(mark[0]), block)
    return _LINE_CHARACTER.sub(" ", block)


def _start_at(text: str, mark: re.Match[str]) -> int:
    """Return where a sentence starts at a mark, which belongs to this one or the one before."""
    if mark[0].startswith("</") or mark[0][1].lower() in "qnb":
        space = _SPACES.match(text, mark.end())
        return space.end() if space else mark.end()
    return mark.start()


def _line_starts(text: str, has_spaces: bool) -> Iterator[int]:
    """Give where lines begin before which a sentence ends."""
    is_cased = has_case(text)
    paragraph: list[tuple[int, str]] = []
    for match in _LINE.finditer(text):
        shown = match[0]
        line = shown.strip()
        if not line:
            continue
        gap = text[paragraph[-1][0] + len(paragraph[-1][1]) : match.start()] if paragraph else ""
        after_blank = len(gap) > 1 and len(_LINE_END.findall(gap)) > 1
        start = match.start() + shown.index(line)
        if after_blank and not _GOES_ON.match(line):
            yield from _ends_inside(paragraph, is_cased, has_spaces)
            paragraph = []
            yield start
        paragraph.append((start, line))
    yield from _ends_inside(paragraph, is_cased, has_spaces)


def _ends_inside(
    paragraph: list[tuple[int, str]], is_cased: bool, has_spaces: bool
) -> Iterator[int]:
    """Give where lines of one paragraph begin before which a sentence ends."""
    if len(paragraph) < 2:
        return
    is_wrapped = _is_wrapped([line for _, line in paragraph], is_cased, has_spaces)
    for (_, line), (start, following) in pairwise(paragraph):
        if _ITEM.match(following):
            yield start
        elif _GOES_ON.match(following) or line[-1] in ",-(" or is_wrapped:
            continue
        elif _is_finished(line) or not (is_cased and following[0].islower()):
            yield start


def _is_finished(line: str) -> bool:
    """Tell whether a line ends as a sentence does."""
    return line.rstrip(_CLOSING)[-1:] in _FINAL


def _is_wrapped(lines: list[str], is_cased: bool, has_spaces: bool) -> bool:
    """Tell whether lines were broken for their length alone."""
    width = max(map(len, lines))
    if width < (_NARROWEST if has_spaces else _NARROWEST // 2):
        return False
    ends = [*map(_is_finished, lines)]
    if all(ends[:-1]):
        return False
    # the next line's first word would not have fitted
    for line, following in pairwise(lines):
        word = following.split(maxsplit=1)[0] if has_spaces else following[:1]
        if len(line) + has_spaces + len(word) <= width:
            return False
    if is_cased:
        return any(
            not is_end and following[0].islower()
            for is_end, following in zip(ends[:-1], lines[1:], strict=True)
        )
    return len(lines) > 3 or any(map(_INSIDE_END.search, lines))


def has_case(text: str) -> bool:
    """Tell whether a text uses small and capital letters, so that capitals mean something."""
    return not text.islower() and _CASED.search(text) is not None

"""Where English sentences end: rules that look at one mark and a few characters around it.

`RULES` has a table for each kind of mark; the first row that applies decides. `sentencex` is asked
about one thing alone, whether a full stop after a word ends an abbreviation.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sms.data_files import data_tables
from sms.text.sentences import CONTENT, has_case, library_ends

ENGLISH = "english1"
"""What signatures call the rules of `english_starts`."""

# ruff: noqa: RUF001 (their letters are meant)
_WORDS = {name: frozenset(words.split()) for name, words in data_tables("english").items()}
MARKS = ".!?…。！？؟"
"""What may end a sentence."""
_MOST_ANSWERS = 100_000
_PICTURES = r"\u2600-\u27bf\ufe0f\U0001f300-\U0001faff"

# Marks, and either a small letter or digit that follows them at once, as in `3.5`, or what closes
# the sentence and is attached to them, and then the space before the next word and what opens that.
# `_ASCII_MARKS` and `_FULL_STOPS` are quicker searches for texts that have no other marks.
_MARKS = re.compile(
    r"([.!?…。！？؟]++(?:\s*+[.!?…]++)*+)"
    rf"(?:[a-z0-9]|([\"'”’»›)\]}}*_]*+)(?:(\s++)[\"'“‘(`]*+(?=[^\W_{_PICTURES}]))?+)"
)
_ASCII_MARKS = re.compile(
    r"([.!?]++(?:\s*+[.!?]++)*+)"
    r"(?:[a-z0-9]|([\"')\]}*_]*+)(?:(\s++)[\"'(`]*+(?=[A-Za-z0-9]))?+)"
)
_FULL_STOPS = re.compile(
    r"(\.(?:\s*+\.)*+)(?:[a-z0-9]|([\"')\]}*_]*+)(?:(\s++)[\"'(`]*+(?=[A-Za-z0-9]))?+)"
)
_IDEOGRAPHIC = frozenset("。！？")
_SPACED_CLOSING = re.compile(
    rf"""\s++(?P<quote>''|["'”’»])(?!\S)    # a quotation mark between spaces
      | \s++(?:-r[rcs]b-|[)\]}}])           # a bracket
      | \s++(?:[:;]-?[()DP]|[{_PICTURES}]++)(?!\S)  # a smiley
      | \s*+(?:\[|-lsb-)\s?                 # a note's number, or an omission
        (?:\d{{1,3}}|[a-z]|\.{{3}}|…|citation\ needed)\s?(?:\]|-rsb-)""",
    re.VERBOSE | re.IGNORECASE,
)
_NOTE = re.compile(r"\[|-lsb-", re.IGNORECASE)
_NEXT = re.compile(r"(\s*+)([^\w.!?…。！？؟]*+)(?=\w)")
_SPACE_INSIDE = re.compile(r"\s++(?=\S*+$)")


def english_starts(
    text: str, whole: str, marks: Sequence[int] | None = None, known: Sequence[int] = ()
) -> list[int]:
    """Return where the sentences of a paragraph start, all but the first, in order.

    `whole` is the text that the paragraph is of: it says whether capitals mean something. Where
    the verdict on some marks is known already, `known` has the starts behind them, and `marks` the
    places of what else may be a mark.
    """
    pattern = _pattern(text)
    found = pattern.finditer(text) if marks is None else _matches(pattern, text, marks)
    paragraph = _Paragraph(text, whole)
    starts = [*known]
    decided = 0  # up to where marks are
    for match in found:
        run, closing, space = match.groups()
        at = match.start()
        if at < decided:
            continue
        decided = at + len(run)
        place = bisect_right(starts, at)
        last = starts[place - 1] if place else 0
        start: int | None
        if space is not None:
            start, first = match.end(3), match.end()
            if not (
                paragraph.has_ordinary_end(run, at, closing, first)
                or End(paragraph, run, at, closing, first, last).is_end()
            ):
                continue
        elif closing is None and run[-1] not in _IDEOGRAPHIC:
            continue  # inside of a number, a name or an address
        elif closing is not None and match.end() == len(text):
            break
        else:
            start = paragraph.start_after(run, at, decided, last)
        if start is not None and CONTENT.search(text, last, start):
            starts.insert(place, start)
            decided = start
    return starts


def _pattern(text: str) -> re.Pattern[str]:
    if not text.isascii():
        return _MARKS
    return _ASCII_MARKS if "!" in text or "?" in text else _FULL_STOPS


def _matches(pattern: re.Pattern[str], text: str, places: Sequence[int]) -> Iterator[re.Match[str]]:
    end = 0
    for place in places:
        # a mark inside of a run of marks is no match of its own, and to look would take long
        if place >= end and (match := pattern.match(text, place)) is not None:
            end = match.end(1)
            yield match


class _Paragraph:
    """One paragraph while it is being cut: what its marks have in common."""

    def __init__(self, text: str, whole: str) -> None:
        self.text = text
        self.whole = whole
        self._is_usual: bool | None = None
        self._is_cased: bool | None = None
        self._judged: list[int] | None = None
        self._is_open: dict[str, bool] | None = None

    def has_ordinary_end(self, run: str, at: int, closing: str, first: int) -> bool:
        """Tell whether a full stop is after an ordinary word, which ends any sentence."""
        text = self.text
        if run != "." or (closing and text[first].islower()) or not self.is_usual:
            return False
        is_apart = at > 1 and text[at - 1] == " "
        if is_apart and text[first].isdigit():
            return False
        return always_ends(word_before(text, at - is_apart))

    @property
    def is_usual(self) -> bool:
        """Whether `sentencex` goes by words and marks alone."""
        if self._is_usual is None:
            self._is_usual = is_usual(self.text)
        return self._is_usual

    @property
    def is_cased(self) -> bool:
        """Whether capitals mean something."""
        if self._is_cased is None:
            self._is_cased = has_case(self.whole)
        return self._is_cased

    @functools.cached_property
    def has_basic_tokens(self) -> bool:
        """Whether words were cut at every mark."""
        return _BASIC_TOKENS.search(self.text) is not None

    def start_after(self, run: str, start: int, stop: int, last: int) -> int | None:
        """Return where the next sentence starts after marks, or None if none does here."""
        text = self.text
        end = self._closed(stop)
        following = _NEXT.match(text, end)
        if following is None:
            return None
        first = following.end()
        space = following.end(1)
        if space == end and (inside := _SPACE_INSIDE.search(following[2])):
            space += inside.end()  # the sentence is closed by other marks than `_closed` knows
        if space == end and run[-1] not in _IDEOGRAPHIC:
            # `cnn.com`, `3.5`, or a space was forgotten
            is_forgotten = text[first].isupper() and text[start - 1].islower()
            return (
                end if is_forgotten and first == end and self.library_cuts(end - 1, end) else None
            )
        closed = _NOTE.split(text[stop:end], maxsplit=1)[0]
        return space if End(self, run, start, closed, first, last).is_end() else None

    def _closed(self, at: int) -> int:
        """Return the end of the quotation marks, brackets and notes that close a sentence."""
        attached = _ATTACHED.match(self.text, at)
        if attached:
            at = attached.end()
        while (spaced := _SPACED_CLOSING.match(self.text, at)) is not None:
            mark = spaced["quote"]
            if mark in ('"', "'") and not self._closes(mark, spaced.start("quote")):
                break
            at = spaced.end()
        return at

    def _closes(self, mark: str, at: int) -> bool:
        """Tell whether a mark that may open or close a quotation closes one."""
        if mark == "'" and "`" in self.text:
            return True
        if self._is_open is None:
            self._is_open = dict.fromkeys(_OPEN_OR_CLOSE, False)
            self._quotes_until = dict.fromkeys(_OPEN_OR_CLOSE, 0)
        for mark_match in _OPEN_OR_CLOSE[mark].finditer(self.text, self._quotes_until[mark], at):
            self._is_open[mark] = bool(mark_match[1]) or not (mark_match[2] or self._is_open[mark])
        self._quotes_until[mark] = at
        # a mark that nothing opened and nothing will close belongs to the sentence before it
        return self._is_open[mark] or not _OPEN_OR_CLOSE[mark].search(self.text, at + 1)

    def library_cuts(self, start: int, first: int) -> bool:
        """Tell whether `sentencex` cuts between a full stop and the next word."""
        if self._judged is None:
            self._judged = _library_ends(self.text)
        return bisect_right(self._judged, first) > bisect_right(self._judged, start)


_ATTACHED = re.compile(r"[\"'”’»›)\]}*_]*+")
# A quotation mark at a word's start opens, one at its end closes; one between spaces closes a
# quotation that is open and opens one otherwise.
_OPEN_OR_CLOSE = {
    '"': re.compile(r"""(?<!\S)(")(?=\S)|(?<=\S)(")(?!\S)|(?<!\S)"(?!\S)"""),
    "'": re.compile(
        r"(?<!\S)(')(?=\S)(?!(?:s|t|re|ve|ll|d|m)\b)|(?<=\S)(')(?!\S)|(?<!\S)'(?!\S)", re.IGNORECASE
    ),
}
# `queen ' s`: words were cut at every mark, as BERT's basic tokeniser does
_BASIC_TOKENS = re.compile(r"\w ['’] (?:s|t|re|ve|ll|d|m)\b")


# What the rules look at

_SEEN = 24  # characters before a mark
_QUOTES = frozenset("\"'”’»›")
_WORD = re.compile(r"[\w'’]{1,20}")
_BEFORE = re.compile(r"[\w.'’&-]+$")
_ENUMERATOR = re.compile(r"[(\[]?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})$")
_LONGEST_ENUMERATOR = 8  # characters, with spaces
_ACRONYM = re.compile(r"(?:[a-z]\.)+[a-z]$")
_NAME = re.compile(r"[a-z]\W+[A-Z][a-z]+$")  # inside a sentence, as `joined Yahoo! in`
_SPELLED = re.compile(r"(?<!\w)[A-Za-z]\s+\.\s*[A-Za-z]\s*$")  # u . s
_LETTER_NEXT = re.compile(r"\s+[A-Za-z]\s*\.")
_AMOUNT = re.compile(
    r"\d{1,3}\s+(?:(?:hundred|thousand|million|billion|trillion|m|bn|k|km|kg|cm|mm|ft|feet|inch(?:es)?"
    r"|miles?|metres?|meters?|per|percent|points?|times|degrees|seconds|hours|years|lbs?|pounds"
    r"|magnitude)\b|[%°])",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"[$£€¥]\s?\d+\s*$")
_SPEECH = re.compile(
    r"(?:[\w.'’-]+ ){0,4}?(?:said|says|say|asked|asks|told|tells|added|adds|wrote|writes|reads?"
    r"|tweeted|tweets|cried|shouted|yelled|screamed|replied|answered|wondered|exclaimed|joked)\b",
    re.IGNORECASE,
)


class End:
    """Marks that may end a sentence, what closes it, and the next word."""

    __slots__ = (
        "closed", "first", "is_attached", "is_enumerator", "is_lower", "last", "paragraph", "run",
        "seen", "start", "token", "word",
    )  # fmt: skip

    def __init__(
        self, paragraph: _Paragraph, run: str, start: int, closed: str, first: int, last: int
    ) -> None:
        text = paragraph.text
        self.paragraph = paragraph
        self.run = run
        self.start = start
        self.closed = closed
        self.first = first
        self.last = last
        self.is_attached = start > 0 and not text[start - 1].isspace()
        self.is_lower = text[first].islower() and paragraph.is_cased
        """Whether the next word is lower-cased, and that means something."""
        self.is_enumerator = (
            start - last <= _LONGEST_ENUMERATOR
            and _ENUMERATOR.match(text[last:start].strip()) is not None
        )
        """Whether nothing but an enumerator is before it, as in `1. Wash the rice.`"""
        self.seen = text[max(last, start - _SEEN) : start]
        """A few characters before it."""
        self.token = _last_token(self.seen)
        """The word, number or abbreviation before it, in small letters."""
        word = _WORD.match(text, first)
        self.word = word[0].lower().replace("’", "'") if word else ""
        """The next word, in small letters."""

    def is_end(self) -> bool:
        """Tell whether a sentence ends, by the first rule that applies."""
        for rule in RULES[self.kind]:
            if rule.applies(self):
                return rule.is_end
        raise AssertionError("the last rule of each kind always applies")

    @property
    def kind(self) -> str:
        """Which rules are for it."""
        run = self.run
        if run == ".":
            return "full stop" if self.is_attached else "full stop apart"
        if run.strip(".… \t\n"):
            return "other marks"
        if "…" in run or ".." in run or run.count(".") > 2:
            return "omission"
        return "two full stops"

    @property
    def has_quote(self) -> bool:
        """Whether a quotation mark closes it."""
        return not _QUOTES.isdisjoint(self.closed)

    @property
    def has_bracket(self) -> bool:
        """Whether a bracket closes it."""
        return ")" in self.closed or "rb-" in self.closed.lower()

    @property
    def is_cased(self) -> bool:
        """Whether capitals mean something."""
        return self.paragraph.is_cased

    @property
    def is_closed(self) -> bool:
        """Whether something closes it."""
        return bool(self.closed.strip())

    @property
    def is_before_number(self) -> bool:
        """Whether the next word begins with a digit."""
        return self.paragraph.text[self.first].isdigit()

    @property
    def is_before_speaker(self) -> bool:
        """Whether the next words name who says what was quoted."""
        return self.has_quote and _SPEECH.match(self.paragraph.text, self.first) is not None

    @property
    def is_before_starter(self) -> bool:
        """Whether the next word seldom follows an abbreviation, unless it is a small one."""
        return self.word in _WORDS["starters"] and not self.is_lower

    @property
    def is_acronym(self) -> bool:
        """Whether letters with full stops are before it, as `u.s`."""
        return "." in self.token and _ACRONYM.search(self.token) is not None

    @property
    def is_inside_name(self) -> bool:
        """Whether it is behind a name in a sentence, as in `joined Yahoo! in 1995`."""
        return self.is_attached and _NAME.search(self.seen) is not None

    @property
    def is_cut_by_library(self) -> bool:
        """Whether the full stop abbreviates nothing for `sentencex`."""
        return self.paragraph.library_cuts(self.start, self.first)

    @property
    def is_between_numbers(self) -> bool:
        """Whether it may be a decimal point between spaces."""
        return self.is_before_number and self.token[-1:].isdigit()

    @property
    def is_inside_amount(self) -> bool:
        """Whether a decimal point has spaces around it, as in `1 . 5 million`."""
        text = self.paragraph.text
        return bool(_AMOUNT.match(text, self.first) or _CURRENCY.search(self.seen))

    @property
    def is_between_letters(self) -> bool:
        """Whether an abbreviation is spelled, as in `u . s . army`."""
        if _SPELLED.search(self.seen):
            return True
        return len(self.token) == 1 and bool(
            _LETTER_NEXT.match(self.paragraph.text, self.start + 1)
        )

    @property
    def is_letter_of_name(self) -> bool:
        """Whether words were cut at every mark and this is a letter of a name."""
        token = self.token
        is_letter = len(token) == 1 and token.isalpha() and token != "i"
        return is_letter and self.paragraph.has_basic_tokens


def _last_token(seen: str) -> str:
    """Return the word, number or abbreviation at the end of a text, in small letters."""
    seen = seen.rstrip()
    token = seen[seen.rfind(" ") + 1 :]
    if not token.isalnum():
        match = _BEFORE.search(token)
        token = match[0].replace("’", "'") if match else ""
    return token.lower()


# The rules


class Rule(NamedTuple):
    """When marks end a sentence, or do not."""

    applies: Callable[[End], bool]
    is_end: bool
    example: str
    """Name of the text in `tests/sms/sentences.toml` that shows it."""


GOES_ON, ENDS = False, True

_ANY = (
    Rule(lambda end: end.is_enumerator and not end.run.strip(".…"), GOES_ON, "enumerated"),
    Rule(lambda end: end.is_enumerator, ENDS, "enumerator-with-a-question-mark"),
    Rule(
        lambda end: end.is_lower and end.is_closed and end.has_bracket, GOES_ON, "brackets-question"
    ),
    Rule(
        lambda end: end.is_lower and end.is_closed and end.is_attached, GOES_ON, "speech-question"
    ),
)
_ANY_FULL_STOP = (
    *_ANY,
    Rule(lambda end: end.is_lower and end.is_before_speaker, GOES_ON, "speech-apart-said"),
    Rule(lambda end: end.token in _WORDS["before_names"], GOES_ON, "titles"),
    Rule(lambda end: end.is_before_number and end.token in _WORDS["numbered"], GOES_ON, "figure"),
    Rule(lambda end: end.token == "no", ENDS, "no-answer"),
)
RULES: Mapping[str, tuple[Rule, ...]] = {
    # guard. He
    "full stop": (
        *_ANY_FULL_STOP,
        Rule(
            lambda end: end.is_acronym and end.word in _WORDS["named_after"], GOES_ON, "time-zone"
        ),
        Rule(lambda end: end.is_before_starter, ENDS, "acronym-ends"),
        Rule(lambda end: end.is_cut_by_library, ENDS, "address-ends"),
        Rule(lambda end: True, GOES_ON, "company"),
    ),
    # guard . He
    "full stop apart": (
        *_ANY_FULL_STOP,
        Rule(lambda end: end.is_between_numbers and end.is_inside_amount, GOES_ON, "decimal-apart"),
        Rule(lambda end: end.is_between_numbers, ENDS, "number-ends"),
        Rule(lambda end: len(end.token) != 1 and "." not in end.token, ENDS, "company-apart"),
        Rule(lambda end: end.is_before_starter, ENDS, "acronym-apart-lower"),
        Rule(lambda end: end.is_between_letters, GOES_ON, "acronym-spelled"),
        Rule(
            lambda end: end.is_acronym and end.word in _WORDS["named_after"],
            GOES_ON,
            "acronym-apart-goes-on",
        ),
        Rule(
            lambda end: end.is_acronym and end.word in _WORDS["prepositions"], GOES_ON, "hour-apart"
        ),
        Rule(lambda end: end.is_acronym and end.is_lower, GOES_ON, "acronym-apart-goes-on-cased"),
        Rule(lambda end: end.is_letter_of_name, GOES_ON, "basic-tokens-initial"),
        Rule(lambda end: True, ENDS, "letter-ends-cased"),
    ),
    # guard? He
    "other marks": (
        *_ANY,
        Rule(lambda end: end.is_lower and end.is_inside_name, GOES_ON, "company-with-a-mark"),
        Rule(lambda end: end.is_cased, ENDS, "question"),
        Rule(lambda end: end.is_before_speaker, GOES_ON, "question-in-quotes-said"),
        Rule(lambda end: end.has_bracket, GOES_ON, "brackets-question-lower"),
        Rule(lambda end: True, ENDS, "question-tokenised"),
    ),
    # guard ... He
    "omission": (
        *_ANY,
        Rule(lambda end: end.is_lower, GOES_ON, "ellipsis-goes-on"),
        Rule(
            lambda end: end.is_cased and end.word in _WORDS["pronouns"],
            GOES_ON,
            "ellipsis-before-i",
        ),
        Rule(lambda end: end.is_cased, ENDS, "ellipsis-ends"),
        Rule(lambda end: end.is_before_starter, ENDS, "ellipsis-lower-ends"),
        Rule(lambda end: True, GOES_ON, "ellipsis-lower"),
    ),
    # U.S. . He
    "two full stops": (
        *_ANY,
        Rule(lambda end: end.is_lower and end.is_before_speaker, GOES_ON, "two-full-stops-said"),
        Rule(lambda end: True, ENDS, "acronym-and-full-stop"),
    ),
}
"""By kind of marks, the rules in the order in which they are tried; a last one always applies."""


# Questions that are asked once


def word_before(text: str, at: int) -> str:
    """Return what is between a place and the space before it, or the end of that."""
    before = text[at - _SEEN if at > _SEEN else 0 : at]
    return before[before.rfind(" ") + 1 :]


@functools.lru_cache(_MOST_ANSWERS)
def always_ends(word: str) -> bool:
    """Tell whether a full stop after a word ends a sentence, whatever is before and after it.

    It does after an ordinary word; most ends are of this kind.
    """
    if (
        _PLAIN_WORD.fullmatch(word) is None
        or _ENUMERATOR.match(word)
        or _last_token(word) in _NOT_ENDINGS
    ):
        return False
    # to the library, a unit of measurement is an abbreviation behind a number, and some words are
    # before a small letter or a number
    try:
        return len(_library_ends(f"6 {word}. word 6 {word}. Word 6 {word}. 7")) == 4
    except RuntimeError:  # it fails on this word, and so on the text, which the rules will find
        return False


def is_plain(word: str) -> bool:
    """Tell whether a full stop between spaces after a word ends a sentence before a capital."""
    return len(word) > 1 and word.isalpha() and word.lower() not in _NOT_ENDINGS


def is_title(word: str) -> bool:
    """Tell whether a full stop after a word ends no sentence, whatever is after it, as in `Mr.`."""
    return word.lower() in _WORDS["before_names"] and _ENUMERATOR.match(word) is None


@functools.lru_cache(_MOST_ANSWERS)
def abbreviates(word: str) -> bool:
    """Tell whether an attached full stop ends no sentence, but before words that begin many.

    It does not after an abbreviation, whatever is before that.
    """
    if _LETTERS_AND_STOPS.fullmatch(word) is None or word.lower() == "no":
        return False
    places = (f"{before} {word}." for before in ("word", "Word,", "6"))
    asked = " ".join(f"{place} word {place} Word {place} the" for place in places)
    try:
        return len(_library_ends(asked)) == 1
    except RuntimeError:
        return False


def is_starter(text: str, first: int) -> bool:
    """Tell whether a capital word begins many sentences, to us or to `sentencex`."""
    word = _WORD.match(text, first)
    return word is None or _is_starter(word[0])


@functools.lru_cache(_MOST_ANSWERS)
def _is_starter(word: str) -> bool:
    if word.lower().replace("’", "'") in _WORDS["starters"]:
        return True
    try:
        return len(_library_ends(f"word Mr. {word} word U.S. {word} word")) > 1
    except RuntimeError:
        return True


# No letter alone: what it is depends on those before it, as in `a. m.`
_LETTERS_AND_STOPS = re.compile(r"(?:[A-Za-z]+\.)*[A-Za-z]{2,}|(?:[A-Za-z]+\.)+[A-Za-z]")
_PLAIN_WORD = re.compile(
    r"""["'“‘(]? (?: [^\W_]{2,} (?:['-][^\W_]+)* | [^\W_] (?:['-][^\W_]+)+ ) ["'”’)]{0,2}
      | </?[a-z]{1,8}>""",
    re.VERBOSE,
)
_NOT_ENDINGS = _WORDS["before_names"] | _WORDS["numbered"]
# Where a text has one of these, `sentencex` may see a list, a quotation or a bracket, inside of
# which nothing ends. All others that it knows are hidden from it (`_UNSEEN`).
_UNUSUAL = re.compile("[（‚‛‟„《「•◦▪▫■□●○⁃⁌⁍◆◇★☆➤➢➣▶▸►]")
_UNUSUAL_BRACKET = re.compile("<(?!/?[a-z]{1,8}>)")


def is_usual(text: str) -> bool:
    """Tell whether `sentencex` goes by words and marks alone."""
    if "<" in text and _UNUSUAL_BRACKET.search(text):
        return False
    return text.isascii() or _UNUSUAL.search(text) is None


# The library

_UNSEEN = {**dict.fromkeys('"”“‘’«»‹›()[]{}`*_', " "), **dict.fromkeys("!?…;", ",")}
"""What `sentencex` sees in place of marks."""
_UNSEEN_IN_ASCII = bytes(
    ord(_UNSEEN.get(character, " " if character.isspace() else character))
    for character in map(chr, range(256))
)
_APOSTROPHE = re.compile(r"'(?:(?<!\w')|(?!\w))")
_DOTS = re.compile(r"\.{2,}")
_SPACE = re.compile(r"[^\S ]")


def _library_ends(text: str) -> list[int]:
    """Return where the sentences of a text end for `sentencex`, which sees full stops alone."""
    if text.isascii():
        text = text.encode().translate(_UNSEEN_IN_ASCII).decode()
    else:
        for mark, other in _UNSEEN.items():  # `translate` takes ten times as long
            text = text.replace(mark, other)
        if not text.isprintable():
            text = _SPACE.sub(" ", text)
    if "'" in text:
        text = _APOSTROPHE.sub(" ", text)
    if ".." in text:
        text = _DOTS.sub(lambda dots: "," * len(dots[0]), text)
    return library_ends("en", text)

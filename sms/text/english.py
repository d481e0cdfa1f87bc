"""Where English sentences end, by rules that look at one end and a few characters around it.

`sentencex` is asked about one thing alone, whether a full stop ends an abbreviation.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from itertools import accumulate

from sms.data_files import data_tables
from sms.text.sentences import CONTENT, cut_at, library_pieces

ENGLISH = "english1"
"""What signatures call the rules of `english_sentences`."""

# Marks that end a sentence and, where nothing closes it before the next word, the space after them.
# `_FULL_STOPS` is a quicker search for texts in ASCII that have no other marks than full stops.
_END = re.compile(
    r"([.!?…。！？؟]++(?:\s*+[.!?…]++)*+)"  # noqa: RUF001
    r"(?:(\s++)(?=[^\W_\u2600-\u27bf\ufe0f\U0001f300-\U0001faff]))?+"
)
_FULL_STOPS = re.compile(r"(\.(?:\s*+\.)*+)(?:(\s++)(?=[A-Za-z0-9]))?+")
_IDEOGRAPHIC = frozenset("。！？")  # noqa: RUF001
_ATTACHED = re.compile(r"[\"'”’»›)\]}*_]*+")  # noqa: RUF001
_SPACED = re.compile(
    r"""\s++(?P<quote>''|["'”’»])(?!\S)     # a quotation mark between spaces
      | \s++(?:-r[rcs]b-|[)\]}])            # a bracket
      | \s++(?:[:;]-?[()DP]|[\u2600-\u27bf\ufe0f\U0001f300-\U0001faff]++)(?!\S)  # a smiley
      | \s*+(?:\[|-lsb-)\s?                 # a note's number, or an omission
        (?:\d{1,3}|[a-z]|\.{3}|…|citation\ needed)\s?(?:\]|-rsb-)""",
    re.VERBOSE | re.IGNORECASE,
)
_QUOTES = frozenset("\"'”’»›")  # noqa: RUF001
# A quotation mark at a word's start opens, one at its end closes; one between spaces closes a
# quotation that is open and opens one otherwise.
_OPEN_OR_CLOSE = {
    '"': re.compile(r"""(?<!\S)(")(?=\S)|(?<=\S)(")(?!\S)|(?<!\S)"(?!\S)"""),
    "'": re.compile(
        r"(?<!\S)(')(?=\S)(?!(?:s|t|re|ve|ll|d|m)\b)|(?<=\S)(')(?!\S)|(?<!\S)'(?!\S)", re.IGNORECASE
    ),
}
_NEXT = re.compile(r"(\s*+)([^\w.!?…。！？؟]*+)(?=\w)")  # noqa: RUF001
_SPACE_INSIDE = re.compile(r"\s++(?=\S*+$)")
_NAME = re.compile(r"[a-z]\W+[A-Z][a-z]+$")  # inside a sentence, as `joined Yahoo! in`
_WORD = re.compile(r"[\w'’]{1,20}")
_BEFORE = re.compile(r"[\w.'’&-]+$")
_SEEN = 24  # characters before a full stop
_ENUMERATOR = re.compile(r"[(\[]?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})$")
_ACRONYM = re.compile(r"(?:[a-z]\.)+[a-z]$")
_SPELLED = re.compile(r"(?<!\w)[A-Za-z]\s+\.\s*[A-Za-z]\s*$")  # u . s
_LETTER_NEXT = re.compile(r"\s+[A-Za-z]\s*\.")
# `queen ' s`: words were cut at every mark, as BERT's basic tokeniser does
_BASIC_TOKENS = re.compile(r"\w ['’] (?:s|t|re|ve|ll|d|m)\b")
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


_WORDS = {name: frozenset(words.split()) for name, words in data_tables("english").items()}
_STARTERS, _NAMED_AFTER = _WORDS["starters"], _WORDS["named_after"]
_UNSEEN = {**dict.fromkeys('"”“‘’«»‹›()[]{}`*_', " "), **dict.fromkeys("!?…;", ",")}  # noqa: RUF001
"""What `sentencex` sees in place of marks."""
_APOSTROPHE = re.compile(r"'(?:(?<!\w')|(?!\w))")
_DOTS = re.compile(r"\.{2,}")
_SPACE = re.compile(r"[^\S ]")


def english_sentences(text: str, *, is_cased: bool) -> list[str]:
    """Cut a paragraph without line ends and marks into sentences; together they are the text.

    `is_cased` is what `has_case` says of the whole text.
    """
    return _English(text, is_cased).sentences()


class _English:
    """One paragraph while it is being cut."""

    def __init__(self, text: str, is_cased: bool) -> None:
        self.text = text
        self.is_cased = is_cased
        self._judged: list[int] | None = None
        self._is_open = dict.fromkeys(_OPEN_OR_CLOSE, False)
        self._quotes_until = dict.fromkeys(_OPEN_OR_CLOSE, 0)
        self._last = 0
        self._has_backticks = "`" in text

    @functools.cached_property
    def _has_basic_tokens(self) -> bool:
        return _BASIC_TOKENS.search(self.text) is not None

    def sentences(self) -> list[str]:
        text = self.text
        has_full_stops = text.isascii() and "!" not in text and "?" not in text
        starts = []
        for end in (_FULL_STOPS if has_full_stops else _END).finditer(text):
            if end.end() == len(text):
                break
            if end.start() < self._last:
                continue
            run, space = end.groups()
            start: int | None
            if space is None:
                start = self._start_after(run, end.start(), end.end())
            else:
                start = end.end() if self._is_end(run, end.start(), "", end.end()) else None
            if start is not None and CONTENT.search(text, self._last, start):
                starts.append(start)
                self._last = start
        return cut_at(text, starts)

    def _start_after(self, run: str, start: int, stop: int) -> int | None:
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
                end if is_forgotten and first == end and self._library_cuts(end - 1, end) else None
            )
        closed = text[stop:end]
        if len(closed) > 1 and ("[" in closed or "-lsb-" in closed.lower()):
            closed = re.split(r"\[|-lsb-", closed, maxsplit=1, flags=re.IGNORECASE)[0]
        return space if self._is_end(run, start, closed, first) else None

    def _closed(self, at: int) -> int:
        """Return the end of the quotation marks, brackets and notes that close a sentence."""
        attached = _ATTACHED.match(self.text, at)
        if attached:
            at = attached.end()
        while (spaced := _SPACED.match(self.text, at)) is not None:
            mark = spaced["quote"]
            if mark in ('"', "'") and not self._closes(mark, spaced.start("quote")):
                break
            at = spaced.end()
        return at

    def _closes(self, mark: str, at: int) -> bool:
        """Tell whether a mark that may open or close a quotation closes one."""
        if mark == "'" and self._has_backticks:
            return True
        for mark_match in _OPEN_OR_CLOSE[mark].finditer(self.text, self._quotes_until[mark], at):
            self._is_open[mark] = bool(mark_match[1]) or not (mark_match[2] or self._is_open[mark])
        self._quotes_until[mark] = at
        # a mark that nothing opened and nothing will close belongs to the sentence before it
        return self._is_open[mark] or not _OPEN_OR_CLOSE[mark].search(self.text, at + 1)

    def _is_end(self, run: str, start: int, closed: str, first: int) -> bool:
        """Tell whether marks end a sentence, what closes it and the next word given."""
        text = self.text
        if start - self._last <= 8 and _ENUMERATOR.match(text[self._last : start].strip()):
            return run.strip(".…") != ""
        is_attached = start > 0 and not text[start - 1].isspace()
        is_lower = self.is_cased and text[first].islower()
        has_quote = has_bracket = False
        if closed:
            has_quote = not _QUOTES.isdisjoint(closed)
            has_bracket = ")" in closed or "rb-" in closed.lower()
            if is_lower and (has_bracket or is_attached) and closed.strip():
                return False
        if run == ".":
            if is_lower and has_quote and _SPEECH.match(text, first):
                return False
            return self._full_stop_ends(start, first, is_attached)
        if run.strip(".… \t\n"):
            if self.is_cased:
                return not (is_lower and is_attached and _NAME.search(self._before(start)))
            return not (has_quote and _SPEECH.match(text, first)) and not has_bracket
        if "…" in run or ".." in run or run.count(".") > 2:
            word = self._word(first)
            if self.is_cased:
                return not is_lower and word not in _WORDS["pronouns"]
            return word in _STARTERS
        # two full stops, as in `the U.S. .`
        return not (is_lower and has_quote and _SPEECH.match(text, first))

    def _before(self, start: int) -> str:
        return self.text[max(self._last, start - _SEEN) : start]

    def _word(self, first: int) -> str:
        match = _WORD.match(self.text, first)
        return match[0].lower().replace("’", "'") if match else ""

    def _full_stop_ends(self, start: int, first: int, is_attached: bool) -> bool:
        text = self.text
        seen = self._before(start)
        token = _last_token(seen)
        if token in _WORDS["before_names"]:
            return False
        is_number = text[first].isdigit()
        if is_number and token in _WORDS["numbered"]:
            return False
        if token == "no":
            return True
        if is_attached:
            word = self._word(first)
            if "." in token and _ACRONYM.search(token) and word in _NAMED_AFTER:
                return False
            return self._starts(word, first) or self._library_cuts(start, first)
        if is_number and token[-1:].isdigit():
            return not (_AMOUNT.match(text, first) or _CURRENCY.search(seen))
        if len(token) != 1 and "." not in token:
            return True
        word = self._word(first)
        return self._starts(word, first) or not self._is_abbreviated(
            token, seen, start, first, word
        )

    def _starts(self, word: str, first: int) -> bool:
        """Tell whether a word seldom follows an abbreviation, unless it is a small one."""
        return word in _STARTERS and not (self.is_cased and self.text[first].islower())

    def _is_abbreviated(self, token: str, seen: str, start: int, first: int, word: str) -> bool:
        """Tell whether a full stop between spaces abbreviates a letter or letters with stops."""
        text = self.text
        if _SPELLED.search(seen) or (len(token) == 1 and _LETTER_NEXT.match(text, start + 1)):
            return True
        if _ACRONYM.search(token):
            goes_on = word in _NAMED_AFTER or word in _WORDS["prepositions"]
            return goes_on or (self.is_cased and text[first].islower())
        return len(token) == 1 and token.isalpha() and token != "i" and self._has_basic_tokens

    def _library_cuts(self, start: int, first: int) -> bool:
        """Tell whether `sentencex` cuts between a full stop and the next word."""
        if self._judged is None:
            shown = self.text
            for mark, other in _UNSEEN.items():  # outside ASCII `translate` takes ten times as long
                shown = shown.replace(mark, other)
            if "'" in shown:
                shown = _APOSTROPHE.sub(" ", shown)
            if not shown.isprintable():
                shown = _SPACE.sub(" ", shown)
            if ".." in shown:
                shown = _DOTS.sub(lambda dots: "," * len(dots[0]), shown)
            self._judged = [*accumulate(map(len, library_pieces("en", shown)))]
        return bisect_right(self._judged, first) > bisect_right(self._judged, start)


def _last_token(seen: str) -> str:
    """Return the word, number or abbreviation at the end of a text, in small letters."""
    seen = seen.rstrip()
    token = seen[seen.rfind(" ") + 1 :]
    if not token.isalnum():
        match = _BEFORE.search(token)
        token = match[0].replace("’", "'") if match else ""
    return token.lower()

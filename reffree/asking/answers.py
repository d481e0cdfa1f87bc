"""What a model answered, and what is read of it: the answer by its structure, never by a search.

An answer is read whole or not at all. Its probabilities are those of the tokens at the place where
the answer stands; the same digit elsewhere, in the reasons or in a text, has no part in it.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from reffree.asking.settings import ANSWER, REASONING, AskOptions

REFUSED, UNREADABLE, CUT_OFF, AMBIGUOUS = "refused", "unreadable", "cut", "ambiguous"
"""Why an answer has no score."""
REJECTED = "rejected"
"""How an answer ends that a server did not want to give, such as one to a text that is too long."""
NOT_SEEN = 1e-3
"""Share of the probability that may be of several answers and still leave the row its score, which
is then off by no more than this share of the scale."""
_READ_TOKENS = 8  # from the answer's place on; more are not kept
_END = b"\0"  # in place of a token without text, which ends an answer
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an answer, as bytes: it may be a part of a character."""

    text: bytes
    log_p: float
    others: tuple[tuple[bytes, float], ...] = ()
    """The likeliest tokens at its place, itself perhaps among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for one question."""

    text: str
    finish: str = "stop"
    """Why the model stopped: `stop`, `length`, `content_filter`, or what its server calls it."""
    refusal: str = ""
    """What was said instead of an answer."""
    tokens: tuple[Token, ...] | None = None
    """None where the server says no probabilities."""
    n_read: int = 0
    """Tokens of the question."""
    n_written: int = 0
    """Tokens of the answer."""
    seconds: float = 0.0
    """From the request to the answer."""

    @property
    def is_rejected(self) -> bool:
        """Whether the server did not let the model answer; it may do so another time."""
        return self.finish == REJECTED

    def to_bytes(self) -> bytes:
        """Write it for the cache."""
        tokens = self.tokens and [
            [t.text.hex(), t.log_p, [[text.hex(), log_p] for text, log_p in t.others]]
            for t in self.tokens
        ]
        counts = [self.n_read, self.n_written, round(self.seconds, 3)]
        parts = [self.text, self.finish, self.refusal, tokens, *counts]
        return zlib.compress(json.dumps(parts).encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Answer:
        """Read what `to_bytes` wrote."""
        text, finish, refusal, tokens, *counts = json.loads(zlib.decompress(data))
        n_read, n_written, seconds = counts
        read = tokens and tuple(
            Token(bytes.fromhex(t), p, tuple((bytes.fromhex(each), q) for each, q in others))
            for t, p, others in tokens
        )
        return cls(
            text=text,
            finish=finish,
            refusal=refusal,
            tokens=read,
            n_read=n_read,
            n_written=n_written,
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an answer comes to."""

    value: float = math.nan
    why: str = ""
    """Why there is no value."""
    label: str = ""
    """The answer itself."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Of every answer that was among the likeliest; they need not add up to 1."""
    reasons: str = ""
    """What the model said before it."""


def read(answer: Answer, options: AskOptions) -> Reading:
    """Read an answer; `ValueError` if it lacks the probabilities that are asked for."""
    reading, place = _plain(answer, options)
    if reading.why or options.value != "expected":
        return reading
    if answer.tokens is None:
        raise ValueError("no log-probabilities")
    probabilities, not_seen = _probabilities(answer, place, [*options.numbers])
    total = math.fsum(probabilities.values())
    value = math.nan
    if not_seen > NOT_SEEN * (total + not_seen):
        why = AMBIGUOUS
    elif total <= 0:  # the tokens are not those of the text
        why = UNREADABLE
    else:
        why = ""
        parts = (probabilities[each] * options.numbers[each] for each in probabilities)
        value = math.fsum(parts) / total
    return replace(reading, value=value, why=why, probabilities=probabilities)


def lacks_probabilities(answer: Answer, options: AskOptions) -> bool:
    """Tell whether an answer is one, but has not the probabilities that are asked for."""
    return (
        options.value == "expected" and answer.tokens is None and not _plain(answer, options)[0].why
    )


def _plain(answer: Answer, options: AskOptions) -> tuple[Reading, int]:
    """Read the answer itself, and where in its text it begins."""
    if answer.refusal or answer.finish == "content_filter":
        return Reading(why=REFUSED), 0
    if answer.finish == "length":
        return Reading(why=CUT_OFF), 0
    found = _find(answer.text, options)
    if found is None:
        return Reading(why=UNREADABLE), 0
    label, place, reasons = found
    return Reading(value=options.numbers[label], label=label, reasons=reasons), place


def shortened(answer: Answer, options: AskOptions) -> Answer:
    """Leave out the probabilities of tokens that do not stand at the answer's place."""
    if answer.tokens is None:
        return answer
    found = _find(answer.text, options)
    first = None if found is None else _token_at(answer, found[1])
    kept = range(0) if first is None else range(first[0], first[0] + _READ_TOKENS)
    tokens = tuple(
        token if number in kept else replace(token, others=())
        for number, token in enumerate(answer.tokens)
    )
    return replace(answer, tokens=tokens)


def _find(text: str, options: AskOptions) -> tuple[str, int, str] | None:
    """Return the answer, its first character in the text, and the reasons before it."""
    if options.form == "json":
        return _find_in_object(text, options)
    stripped = text.strip()
    label = stripped if stripped in options.numbers else stripped.removesuffix(".")
    return (label, text.index(stripped), "") if label in options.numbers else None


def _find_in_object(text: str, options: AskOptions) -> tuple[str, int, str] | None:
    """Read an answer in JSON: an object with the keys that were asked for, each once."""
    try:
        members = _members(text)
    except (ValueError, RecursionError):  # the second of thousands of brackets
        return None
    wanted = [REASONING, ANSWER] if options.reasoning else [ANSWER]
    if sorted(key for key, _, _ in members) != sorted(wanted):
        return None
    values = {key: (value, place) for key, value, place in members}
    value, place = values[ANSWER]
    reasons = values.get(REASONING, ("", 0))[0]
    if type(value) is not (int if options.choices is None else str) or type(reasons) is not str:
        return None
    if str(value) not in options.numbers:
        return None
    return str(value), place + isinstance(value, str), reasons  # a text begins after its quote


def _members(text: str) -> list[tuple[str, Any, int]]:
    """Return key, value and the value's first character of every member of an object.

    >>> _members('{"a": 1, "b": "c"}')
    [('a', 1, 6), ('b', 'c', 14)]
    """
    members: list[tuple[str, Any, int]] = []
    at, end = _after(text, 0, "{"), ","
    while end == ",":
        key, at = _DECODER.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError("a key must be a text")
        start = _after(text, at, ":")
        value, at = _DECODER.raw_decode(text, start)
        members.append((key, value, start))
        at = _skip(text, at)
        end = text[at : at + 1]
        at = _skip(text, at + 1)
    if end != "}" or at != len(text):
        raise ValueError("an object must end, and nothing follow it")
    return members


def _after(text: str, at: int, sign: str) -> int:
    """Return where the text goes on behind a sign, which must come next."""
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        raise ValueError(f"{sign} must be there")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _token_at(answer: Answer, place: int) -> tuple[int, bytes] | None:
    """Return which token a character belongs to, and what the token has before it."""
    whole = b"".join(token.text for token in answer.tokens or ())
    written = answer.text.encode("utf-8", "surrogatepass")
    start = whole.find(written)  # a server may leave out white space, and marks at the end
    if start < 0 or whole[:start].strip():
        return None
    at = start + len(answer.text[:place].encode("utf-8", "surrogatepass"))
    for number, token in enumerate(answer.tokens or ()):
        if at < len(token.text):
            return number, token.text[:at]
        at -= len(token.text)
    return None


def _probabilities(
    answer: Answer, place: int, labels: Sequence[str]
) -> tuple[dict[str, float], float]:
    """Return the probability of each answer, and of tokens that may begin several of them.

    An answer of several tokens is followed along those that the model chose. What another token
    would have gone on to is not known: it counts where one answer alone begins with it.
    """
    found = _token_at(answer, place)
    if found is None or answer.tokens is None:
        return {}, 0.0
    number, before = found
    spread = _Spread([label.encode() for label in labels])
    spread.follow(answer.tokens[number : number + _READ_TOKENS], before)
    return {label.decode(): p for label, p in spread.by_label.items()}, spread.not_seen


class _Spread:
    """The probability at the answer's place, spread over the answers."""

    def __init__(self, labels: Sequence[bytes]) -> None:
        self._labels = labels
        self.by_label: dict[bytes, float] = {}
        self.not_seen = 0.0

    def follow(self, tokens: Sequence[Token], before: bytes) -> None:
        """Read the tokens from the answer's first one on, which has some bytes before it."""
        written, p = b"", 1.0
        for token in tokens:
            # by text: a token that is listed twice counts once
            log_p = {token.text: token.log_p, **dict(token.others)}
            behind = {text: text or _END if written else _behind(text, before) for text in log_p}
            own = {written + text for text in behind.values()}
            chosen = b""
            for text, more in behind.items():
                if more:
                    share = p * math.exp(min(log_p[text], 0.0))
                    goes_on = self._add(written + more, share, own, is_chosen=text == token.text)
                    chosen = written + more if goes_on else chosen
            if not chosen:
                return
            written, p = chosen, p * math.exp(min(token.log_p, 0.0))
        self.not_seen += p

    def _add(self, written: bytes, p: float, own: Set[bytes], *, is_chosen: bool) -> bool:
        """Give a beginning's probability to its answer; say if the next token has to tell which.

        An answer that is a token of its own (`own`) is not written as two.
        """
        ended = next((label for label in self._labels if _is_ended(label, written)), None)
        longer = [
            label
            for label in self._labels
            if label.startswith(written) and label != written and label not in own
        ]
        possible = [*longer, *([ended] if ended is not None else [])]
        if longer and is_chosen:
            return True
        if len(possible) == 1:
            self.by_label[possible[0]] = self.by_label.get(possible[0], 0.0) + p
        elif possible:
            self.not_seen += p
        return False


def _is_ended(label: bytes, written: bytes) -> bool:
    """Tell whether an answer is there, and whatever follows is no part of a word.

    >>> [_is_ended(b"1", written) for written in (b"1", b"1}", b"1.", b"10", b"")]
    [True, True, True, False, False]
    """
    rest = written[len(label) :].decode("utf-8", "replace")
    return written.startswith(label) and not re.match(r"\w", rest)


def _behind(text: bytes, before: bytes) -> bytes:
    """Return what a token has behind some bytes, white space apart; nothing if these differ.

    >>> _behind(b' "Yes', b'"'), _behind(b" 4", b""), _behind(b"4", b'"')
    (b'Yes', b'4', b'')
    """
    text, before = text.lstrip(), before.lstrip()
    return text[len(before) :].lstrip() if text.startswith(before) else b""

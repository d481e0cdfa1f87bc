"""Notices texts in another language than a run's; says it in one line, and changes no score.

Looked at are the beginnings of texts: which script their letters are of, and whose stop words they
have. What an encoder did not know of the texts is counted while it reads them.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

import regex

from sms.text.languages import LANGUAGES, Language, language_of

logger = logging.getLogger(__name__)

TEXTS_LOOKED_AT = 1_000
"""More texts of a run are not looked at."""
MOST_FOREIGN = 0.1
"""Share of texts that look foreign up to which nothing is said."""
MOST_UNKNOWN = 0.5
"""Share of words that an encoder does not know, or reads in fragments, up to which nothing is
said while a run goes on."""
MULTILINGUAL = (
    "muse",
    "hf:bert-base-multilingual-cased",
    "st:sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
)
"""Encoders that read many languages, as examples."""
_CHARACTERS = 300  # of a text that are looked at
_FEWEST_LETTERS, _FEWEST_WORDS = 10, 10  # of a text that is looked at
_FEWEST_COUNTED = 100  # words that an encoder must have read
# A text is foreign if no more than the first share of its words are stop words of its language, and
# at least the second, and twice as many, are those of another one. Of English texts one in 500 has
# less than .1; the share of a whole declaration of human rights is .11 (Vietnamese) to .60, and
# that of its stop words in the list of an unrelated language mostly below .2.
_FEW_STOP_WORDS, _MANY_STOP_WORDS = 0.15, 0.2
_FEWEST_FOREIGN = (
    3  # texts with the stop words of another language, or two of two; one proves nothing
)
_SOME_STOP_WORDS = 0.1  # of words, by which one of a script's languages is named rather than others
_WORD = regex.compile(r"[\p{L}\p{M}]+")
_NAMES = {"Cjk": "Chinese characters"}


def other_language(texts: Sequence[str | None], code: str) -> str | None:
    """Say that many texts are not in the language of this code, if so; nothing for `und`."""
    heads = [text[:_CHARACTERS] for text in texts[:TEXTS_LOOKED_AT] if text]
    language = language_of(code)
    return _in_another_script(heads, language) or _with_other_words(heads, language)


class Notices:
    """Warns, once each, of texts in another language and of encoders that do not know the words."""

    def __init__(self, code: str | None) -> None:
        """Take the code of the language; None where texts are in any."""
        self._code = code
        self._is_encoder_named = False

    def look_at(self, texts: Sequence[str | None]) -> None:
        """Look at the beginnings of some texts."""
        if self._code is not None and (remark := other_language(texts, self._code)):
            self._code = None
            logger.warning("%s", remark)

    def look_at_counts(self, counters: Mapping[str, int]) -> None:
        """Look at what encoders have counted so far."""
        if self._is_encoder_named:
            return
        for remark in unknown_words(counters):
            self._is_encoder_named = True
            logger.warning("%s", remark)


def unknown_words(counters: Mapping[str, int]) -> Iterator[str]:
    """Say of each encoder that it does not know most words, or reads them in fragments."""
    for name, n_words in counters.items():
        alias, _, what = name.rpartition(".")
        if what != "words" or n_words < _FEWEST_COUNTED:
            continue
        n_unknown = sum(counters.get(f"{alias}.{kind}", 0) for kind in ("unknown", "fragments"))
        if n_unknown > MOST_UNKNOWN * n_words:
            yield (
                f"encoder `{alias}` does not know {n_unknown / n_words:.0%} of the first "
                f"{n_words:,} words, or reads them in fragments; choose one that was made for "
                f"texts like these, such as {', '.join(MULTILINGUAL)} for other languages"
            )


def _in_another_script(heads: Sequence[str], language: Language) -> str | None:
    if not language.scripts:
        return None
    own, is_latin = _letters_of(*sorted(language.scripts)), "Latn" in language.scripts
    n_looked_at, foreign = 0, []
    for head in heads:
        n_letters = sum(map(str.isalpha, head))
        if n_letters < _FEWEST_LETTERS:
            continue
        n_looked_at += 1
        is_own = is_latin and head.isascii()  # which is told quickly
        if not is_own and 2 * len(own.findall(head)) < n_letters:
            foreign.append(head)
    if len(foreign) <= MOST_FOREIGN * n_looked_at:
        return None
    letters_of = [[letter for letter in own.sub("", head) if letter.isalpha()] for head in foreign]
    scripts = [Counter(map(_script_of, letters)).most_common(1)[0][0] for letters in letters_of]
    (script, n_of_script), *others = Counter(scripts).most_common()
    if others:
        named = ", ".join(f"{_NAMES.get(each, each)} in {n:,}" for each, n in others[:2])
        return (
            f"in {len(foreign):,} of {n_looked_at:,} texts of a sample, most letters are of "
            f"scripts that {language.name} is not written in ({_NAMES.get(script, script)} in "
            f"{n_of_script:,}, {named}); score each language with its own `--language`, or a "
            "mixture with `--language und`"
        )
    letters = Counter(letter for of_text in letters_of for letter in of_text)
    example = next(each for each, _ in letters.most_common() if _script_of(each) == script)
    return (
        f"in {len(foreign):,} of {n_looked_at:,} texts of a sample, most letters are "
        f"{_NAMES.get(script, script)}, which {language.name} is not written in; give the language "
        f"of the texts with `--language`{_hint(foreign, example)}"
    )


def _script_of(letter: str) -> str:
    """Return the first word of a letter's name, which is that of its script."""
    return unicodedata.name(letter, "?").split()[0].capitalize()


def _hint(foreign: Sequence[str], letter: str) -> str:
    """Name languages that are written with a letter, best those whose stop words the texts have."""
    written = [
        each
        for each in LANGUAGES.values()
        if each.scripts and _letters_of(*sorted(each.scripts)).match(letter)
    ]
    words = [word for head in foreign for word in _words_of(head)]
    if max((_count(words, each) for each in written), default=0) > _SOME_STOP_WORDS * len(words):
        likely = _likeliest(words, written)
        codes = [code for code, weight in likely if 2 * weight > likely[0][1]]
    else:
        codes = [each.code for each in written]
    return f", such as {' or '.join(codes[:2])}" if codes else ""


def _with_other_words(heads: Sequence[str], language: Language) -> str | None:
    if not _stop_words_of(language.code) or not language.has_spaces:
        return None
    texts = [words for head in heads if len(words := _words_of(head)) >= _FEWEST_WORDS]
    suspects = [words for words in texts if _count(words, language) <= _FEW_STOP_WORDS * len(words)]
    if len(suspects) <= MOST_FOREIGN * len(texts):  # nearly always, and quickly
        return None
    foreign = []
    for words in suspects:
        most = max(_count(words, each) for each in LANGUAGES.values())
        if most >= max(_MANY_STOP_WORDS * len(words), 2 * _count(words, language)):
            foreign.append(words)
    is_enough = len(foreign) >= max(2, min(_FEWEST_FOREIGN, len(texts)))
    if not is_enough or len(foreign) <= MOST_FOREIGN * len(texts):
        return None
    all_words = [word for words in foreign for word in words]
    code, _ = _likeliest(all_words, LANGUAGES.values())[0]
    return (
        f"{len(foreign):,} of {len(texts):,} texts of a sample have the stop words of "
        f"{LANGUAGES[code].name}, not of {language.name}; give the language of the texts with "
        f"`--language`, such as {code}"
    )


def _likeliest(words: Sequence[str], languages: Collection[Language]) -> list[tuple[str, float]]:
    """Weigh languages by their stop words among some words, the heaviest first.

    A word that n of them have counts 1/n for each.
    """
    weights: dict[str, float] = {}
    for word, n in Counter(words).items():
        having = [each.code for each in languages if word in _stop_words_of(each.code)]
        for code in having:
            weights[code] = weights.get(code, 0.0) + n / len(having)
    return sorted(weights.items(), key=lambda each: -each[1])


def _words_of(head: str) -> list[str]:
    """Return words of two letters or more: single ones may be of an abbreviation."""
    return [word for word in _WORD.findall(head.lower()) if len(word) > 1]


def _count(words: Sequence[str], language: Language) -> int:
    stop_words = _stop_words_of(language.code)
    return sum(word in stop_words for word in words)


@cache
def _stop_words_of(code: str) -> frozenset[str]:
    return language_of(code).stop_words()


@cache
def _letters_of(*scripts: str) -> regex.Pattern[str]:
    """Match a letter of one of these scripts, by their codes in ISO 15924."""
    return regex.compile("[" + "".join(rf"\p{{scx={script}}}" for script in scripts) + "]")

"""The languages: where their sentences end, what their words are, and which words count.

What differs between them is in `data/languages.toml`; a language that is not there has the defaults
of `Language`. Sentences are found by `sentences` and `english`, words by `words`; stop lists are
those of the package stopwordsiso, or in `data`, whose README names their sources.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata, util

import pyarrow as pa
import regex

from sms.data_files import data_text
from sms.language_codes import language_code, rows, scripts_of
from sms.text.batches import EnglishBatches
from sms.text.english import ENGLISH, english_starts
from sms.text.sentences import (
    LINES,
    Sentences,
    blocks,
    cut,
    cut_at,
    has_breaks,
    has_case,
    library_ends,
    without_layout,
)
from sms.text.words import SPLITTERS, Splitter, attempt, unicode_words

NO_STOP_WORDS = "none"
_STOPWORDS_ISO = "stopwords-iso"
_CUT = "\N{NULL}"
_SEEN = 16  # characters before and after a cut
JOINS = "joins2"
"""What signatures call the rules that join what `sentencex` cuts too often."""

# Inside a name or an abbreviation, where nothing is between a letter's full stop and what follows:
# `J.-P.`, `D.ª`, the letters of the Arabic for BC; and before a small letter, `J.-C. à Rome`.
_INSIDE = r"(?<!\w)(?:\p{L}\.)*\p{L}\.\x00[-\p{L}ªº]|-\p{Lu}\.\s*\x00\p{Ll}"
# After a single capital: `D. Juan`, `J.-P. Dupont`, `Karl-H. Schmidt`.
_INITIAL = r"(?<!\w)\p{Lu}\.\s*\x00\p{Lu}"
# For all scripts: inside `மு.க.` and `৩.৫`, after `እ.ኤ.አ.`, between `M.Ö.` and a number; and a
# small letter goes on with a sentence, `«Όχι!» — είπε`, where a text has capitals at all.
_IN_ANY_SCRIPT = "|".join(
    (
        r"(?<!\w)(?:\p{L}\p{M}*\.)*\p{L}\p{M}*\.\x00\p{L}",
        r"\d\.\x00\d",
        r"(?<!\w)(?:(?:\p{Lo}\p{M}*){1,2}\.){2,}\s*\x00",
        r"(?<!\w)(?:\p{L}\p{M}*\.){2,}\s*\x00\d",
    )
)
_SMALL = regex.compile(r"(?:[—–-]\s*)?\p{Ll}")
# Inside of a Hebrew acronym, where `sentencex` would take it for the start of a quotation.
_GERSHAYIM = regex.compile(r'(?<=\p{Hebrew})"(?=\p{Hebrew})')
_FIRST_WORD = regex.compile(r"\w+")
_STRAIGHT = str.maketrans({"’": "'"})
# How letters and marks are written that stand for an apostrophe, or for gershayim; Armenian marks
# of emphasis, exclamation and question stand inside a word and are no part of it.
_FOLDED = str.maketrans(
    {
        **dict.fromkeys("’‘ʼʻ＇\u05f3", "'"),  # noqa: RUF001
        "\u05f4": '"',
        **dict.fromkeys("\u055b\u055c\u055e"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Language:
    """How texts of one language are cut and which of its words are stop words."""

    code: str
    """What `language_codes.language_code` returns."""
    name: str = ""
    stop_list: str = NO_STOP_WORDS
    added_stop_words: str = ""
    added_name: str = ""
    proclitic: str = ""
    splitter: str = "unicode"
    """Name in `words.SPLITTERS`."""
    tokens: str = "unicode1"
    """What the signature calls the rules of `splitter`."""
    elisions: str = ""
    packages: tuple[str, ...] = ()
    """Distributions that `splitter` needs; the extra of its code brings them."""
    has_piece_words: bool = True
    """Whether each word is a union of the pieces that BERT's basic tokeniser makes."""
    has_spaces: bool = True
    """Whether there are spaces between words."""
    has_dotless_i: bool = False
    """Whether the letter i has two forms, with and without a dot, in capitals too."""
    stemmer: str = ""
    """Name in `snowballstemmer`."""
    rouge_tokens: str = "words"
    """What ROUGE counts: `words` or `characters`."""
    bleu_tokens: str = "13a"
    """The tokeniser of sacreBLEU."""
    ends: str = ""
    """Marks that end a sentence before white space and are no end for `sentencex`."""
    abbreviations: str = ""
    """Words whose full stop ends no sentence, where `sentencex` does not know them."""
    before_numbers: str = ""
    """The same of words that stand before a number."""
    goes_on: str = ""
    may_go_on: str = ""
    starters: str = ""

    def check_installed(self) -> None:
        """Raise `ValueError`, naming the extra, where a package that it needs is missing."""
        modules = [name.replace("-", "_").lower() for name in self.packages]
        if any(util.find_spec(module) is None for module in modules):
            raise ValueError(
                f"language `{self.code}` needs {' and '.join(self.packages)} to find words; "
                f"pip install 'assay[{self.code}]'"
            )

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts that it is written in, by their codes in ISO 15924; empty if unknown."""
        return scripts_of(self.code)

    def words(self) -> Splitter:
        """Return what cuts a chunk into words; loads a library where one is needed."""
        return unicode_words(self.elisions) if self.elisions else SPLITTERS[self.splitter]()

    def lower(self, word: str) -> str:
        """Return a word in small letters, with straight apostrophes: equal words are equal so."""
        if self.has_dotless_i:
            word = word.replace("İ", "i").replace("I", "\N{LATIN SMALL LETTER DOTLESS I}")
        lower = word.lower()
        if lower.isascii():
            return lower
        return lower.translate(_FOLDED if self._is_unicode else _STRAIGHT)

    @property
    def _is_unicode(self) -> bool:
        """Whether it has the rules for all scripts; some languages have their own."""
        return self.splitter in ("unicode", "dictionary")

    def cut_signature(self, tokens: str, *, is_split: bool) -> str:
        """Say what cuts sentences, unless they are given, and words, with versions."""
        used = "".join(f"+{name}-{metadata.version(name)}" for name in self.packages)
        added_rules = ENGLISH if self.code == "en" else JOINS if self._seams else ""
        library = f"sentencex-{metadata.version('sentencex')}"
        split = "+".join(filter(None, (LINES, added_rules, library))) if is_split else "given"
        return f"lang:{self.code}|split:{split}|tok:{tokens}{used}"

    @property
    def stop_signature(self) -> str:
        """Name of the stop list, with its version or size, and what is added to it."""
        is_package = self.stop_list.startswith(_STOPWORDS_ISO)
        version = f"-{metadata.version('stopwordsiso')}" if is_package else ""
        return f"{self.stop_list}{version}{f'+{self.added_name}' if self.added_name else ''}"

    def cutter(self) -> Callable[[pa.StringArray], Sentences]:
        """Return what cuts many texts as `sentences` cuts each, English ones together."""
        if self.code == "en":
            return EnglishBatches().cut
        return lambda texts: Sentences.of(
            [attempt(self.sentences, text) for text in texts.to_pylist()]
        )

    def sentences(self, text: str) -> list[str]:
        """Cut a text into sentences; together they are the text."""
        if not has_breaks(text):
            return self._of_paragraph(text, text)
        sentences: list[str] = []
        for block in blocks(text, has_spaces=self.has_spaces):
            sentences += cut(block, self._of_paragraph(without_layout(block), text))
        return sentences

    def _of_paragraph(self, text: str, whole: str) -> list[str]:
        """Cut as `sentencex` does, joined again where it cuts too often; English by own rules."""
        if self.code == "en":
            return cut_at(text, english_starts(text, whole))
        shown = _GERSHAYIM.sub("\u05f4", text) if self._is_unicode else text
        starts = library_ends(self.code, shown)[:-1]
        if self.ends:
            ended = regex.finditer(rf"[{self.ends}]+\s+(?!$)", text)
            starts = sorted({*starts, *(mark.end() for mark in ended)})
        pieces = cut_at(text, starts)
        if not self._seams or len(pieces) == 1:
            return pieces
        is_cased = self._is_unicode and has_case(whole)
        joined = pieces[:1]
        for piece in pieces[1:]:
            is_small = is_cased and _SMALL.match(piece)
            if is_small or self._goes_on(joined[-1], piece):
                joined[-1] += piece
            else:
                joined.append(piece)
        return joined

    @cached_property
    def _seams(self) -> tuple[regex.Pattern[str], regex.Pattern[str]] | None:
        """What surely joins two pieces, and what does unless a sentence begins with the second."""
        inside, initial = (_INSIDE, _INITIAL) if self.has_spaces else ("", "")
        in_any_script = _IN_ANY_SCRIPT if self._is_unicode else ""
        abbreviated = _after_words(self.abbreviations)
        numbered = _after_words(self.before_numbers, r"\d")
        rules = (self.goes_on, abbreviated, numbered, inside, in_any_script)
        surely = "|".join(filter(None, rules))
        maybe = "|".join(filter(None, (self.may_go_on, initial)))
        return (regex.compile(surely), regex.compile(maybe or "(?!)")) if surely else None

    @cached_property
    def _begin_sentences(self) -> frozenset[str]:
        return self.stop_words() | {*self.starters.split()}

    def _goes_on(self, piece: str, following: str) -> bool:
        """Tell whether two pieces are one sentence."""
        if self._seams is None:
            return False
        surely, maybe = self._seams
        seam = piece[-_SEEN:] + _CUT + following[:_SEEN]
        if surely.search(seam):
            return True
        if not maybe.search(seam):
            return False
        word = _FIRST_WORD.match(following)
        return word is None or word[0].lower() not in self._begin_sentences

    def published_stop_words(self) -> frozenset[str]:
        """Return the stop list as it was published, without entries of several words."""
        if self.stop_list == NO_STOP_WORDS:
            return frozenset()
        name, _, other = self.stop_list.partition("/")
        code = other or self.code
        if name != _STOPWORDS_ISO:
            return frozenset(data_text(f"stop_words_{code}.txt").split())
        from stopwordsiso import stopwords

        return frozenset(word for word in stopwords(code) if not word.split()[1:])

    def stop_words(self) -> frozenset[str]:
        """Return the stop list with what is added to it, in the form of `lower`."""
        composed = (unicodedata.normalize("NFC", word) for word in self.published_stop_words())
        words = {*map(self.lower, composed), *self.added_stop_words.split()}
        if self.proclitic:
            words |= {self.proclitic + word for word in words if len(word) > 1}
        return frozenset(words)

    def samples(self) -> tuple[str, ...]:
        """Return texts of words of which an encoder for the language must know one; none of few."""
        lines = (line.split("\t") for line in data_text("samples.tsv").splitlines())
        return tuple(text for code, text in lines if code == self.code)


def _after_words(words: str, following: str = "") -> str:
    """Return what matches after the full stop of any word, also with a capital."""
    forms = {form for word in words.split() for form in (word, word[0].upper() + word[1:])}
    either = "|".join(map(regex.escape, sorted(forms)))
    return rf"(?<![\w.-])(?:{either})\.\s*\x00{following}" if forms else ""


def _made(code: str) -> Language:
    row = {"name": f"language `{code}`"} | rows().get(code, {})
    return Language(code=code, **{key: row[key] for key in row if key != "scripts"})


LANGUAGES = {code: _made(code) for code in rows()}
"""The languages that have a row, by code."""


@cache
def language_of(given: str) -> Language:
    """Return the language of a code; `ValueError` if there is none, as `language_code` says."""
    code = language_code(given)
    return LANGUAGES.get(code) or _made(code)

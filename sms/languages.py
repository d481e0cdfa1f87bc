"""The languages: where their sentences end, what their words are, and which words count.

Sentences are found by `sentences`, words by `words`; stop lists are in `data`, whose README names
their sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, resources, util

import regex

from sms.english import ENGLISH, english_sentences
from sms.sentences import (
    LINES,
    blocks,
    cut,
    has_breaks,
    has_case,
    library_pieces,
    without_layout,
)
from sms.words import Splitter, chinese_words, french_words, japanese_words, split_words

_CUT = "\N{NULL}"
_SEEN = 16  # characters before and after a cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How texts of one language are cut and which of its words are stop words."""

    code: str
    """ISO 639-1."""
    stop_list: str
    """Name and number of words of the published list in `data`."""
    added_stop_words: frozenset[str] = frozenset()
    """What the list lacks: words as `splitter` cuts them, and forms it left to a stemmer."""
    proclitic: str = ""
    """A letter that is written together with the next word; a stop word after it stays one."""
    added_name: str = ""
    """What the signature calls these additions."""
    splitter: Callable[[], Splitter] = lambda: split_words
    """Makes the function from a chunk to its words; loads a library where one is needed."""
    tokens: str = "v1"
    """What the signature calls the rules of `splitter`."""
    packages: tuple[str, ...] = ()
    """Distributions that `splitter` needs; installed with the extra named like the language."""
    has_piece_words: bool = True
    """Whether each word is a union of the pieces that BERT's basic tokeniser makes."""
    has_spaces: bool = True
    """Whether there are spaces between words."""
    own_sentences: Callable[..., list[str]] | None = None
    """Cuts a paragraph where `sentencex` alone does not do; called as `english_sentences` is."""
    own_sentences_name: str = ""
    """What the signature calls these rules."""
    goes_on: regex.Pattern[str] | None = None
    """Matches the end and start of two sentences that are one, where `sentencex` cuts too often;
    they are shown to it with `_CUT` between them."""

    def check_installed(self) -> None:
        """Check that what `splitter` needs is there.

        Raises `ValueError` if a package is missing, naming the extra to install.
        """
        modules = [name.replace("-", "_").lower() for name in self.packages]
        if any(util.find_spec(module) is None for module in modules):
            raise ValueError(
                f"language `{self.code}` needs {' and '.join(self.packages)} to find words; "
                f"pip install 'assay[{self.code}]'"
            )

    def cut_signature(self, tokens: str, *, is_split: bool = True) -> str:
        """Say what cuts sentences, unless they are given, and words, with versions."""
        used = "".join(f"+{name}-{metadata.version(name)}" for name in self.packages)
        rules = (LINES, self.own_sentences_name, "joins" if self.goes_on else "")
        library = f"sentencex-{metadata.version('sentencex')}"
        split = "+".join(filter(None, (*rules, library))) if is_split else "given"
        return f"lang:{self.code}|split:{split}|tok:{tokens}{used}"

    @property
    def stop_signature(self) -> str:
        """Name of the stop list, with what is added to it."""
        return f"{self.stop_list}{f'+{self.added_name}' if self.added_name else ''}"

    def sentences(self, text: str) -> list[str]:
        """Cut a text into sentences; together they are the text."""
        is_cased = has_case(text)
        if not has_breaks(text):
            return self._of_paragraph(text, is_cased)
        cut_pieces: list[str] = []
        for block in blocks(text, has_spaces=self.has_spaces):
            pieces = self._of_paragraph(without_layout(block), is_cased)
            cut_pieces += cut(block, pieces) if len(pieces) > 1 else [block]
        return cut_pieces

    def _of_paragraph(self, text: str, is_cased: bool) -> list[str]:
        if self.own_sentences is None:
            return self._pieces(text)
        return self.own_sentences(text, is_cased=is_cased)

    def _pieces(self, text: str) -> list[str]:
        """Cut as `sentencex` does, joined again where it cuts too often."""
        pieces = library_pieces(self.code, text)
        if self.goes_on is None:
            return pieces
        joined = pieces[:1]
        for piece in pieces[1:]:
            if self.goes_on.search(joined[-1][-_SEEN:] + _CUT + piece[:_SEEN]):
                joined[-1] += piece
            else:
                joined.append(piece)
        return joined

    def published_stop_words(self) -> frozenset[str]:
        """Return the stop list as it was published."""
        return frozenset(self._data("stop_words").split())

    def sample(self) -> str:
        """Return a text of words that an encoder for the language must know."""
        return self._data("sample")

    def _data(self, name: str) -> str:
        file = resources.files("sms") / "data" / f"{name}_{self.code}.txt"
        return file.read_text(encoding="utf-8")

    def stop_words(self) -> frozenset[str]:
        """Return the stop list with what is added to it."""
        words = self.published_stop_words() | self.added_stop_words
        if self.proclitic:
            words |= {self.proclitic + word for word in words if len(word) > 1}
        return words


def _forms(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _titles(*abbreviations: str) -> regex.Pattern[str]:
    """Match a sentence that ends in a title before a name, whatever comes next."""
    return regex.compile(rf"(?<![\w.])(?:{'|'.join(abbreviations)})\.\s*{_CUT}")


LANGUAGES = {
    language.code: language
    for language in (
        Language(
            code="en",
            stop_list="nltk179",
            added_name="clitics",
            added_stop_words=_forms("'s 't 're 've 'll 'd 'm n't"),
            own_sentences=english_sentences,
            own_sentences_name=ENGLISH,
        ),
        Language(
            code="de",
            stop_list="snowball231",
            added_name="forms",
            added_stop_words=_forms(
                "'s dass wurde wurden worden unsere unserem unseren unserer unseres "
                "eurem euren eurer eures werdet bist seid wart"
            ),
        ),
        Language(
            code="fr",
            stop_list="snowball155",
            added_name="elisions",
            added_stop_words=_forms(
                "l' d' n' s' c' j' m' t' qu' jusqu' lorsqu' puisqu' quoiqu' lorsque puisque "
                "quoique a cet cette ceux celui celle celles cela ça ils elles leurs où dont si "
                "comme plus"
            ),
            splitter=lambda: french_words,
            tokens="v1-elisions",
            goes_on=_titles("MM?", "Dr", "Pr", "Mgr"),
        ),
        Language(
            code="es",
            stop_list="snowball313",
            added_name="forms",
            added_stop_words=_forms("vosotras vosotros"),
        ),
        Language(
            code="ar",
            stop_list="stopwords-iso480",
            added_name="wa",
            proclitic="و",
            goes_on=_titles("د"),
        ),
        Language(
            code="zh",
            stop_list="stopwords-iso794",
            splitter=chinese_words,
            packages=("rjieba",),
            has_spaces=False,
        ),
        Language(
            code="ja",
            stop_list="stopwords-iso134",
            added_name="auxiliaries",
            added_stop_words=_forms(
                "ませ まし ましょ でし でしょ だろ なけれ なかろ たかっ たく たい たら たろ れば "
                "せよ しろ させ させる だけ しか さえ すら こそ ね よ ぞ ぜ わ けど けれど けれども"
            ),
            splitter=japanese_words,
            packages=("SudachiPy", "sudachidict-small"),
            has_piece_words=False,
            has_spaces=False,
            goes_on=regex.compile(rf"[」』]\s*{_CUT}(?:と|って)"),
        ),
    )
}
"""Every language by code."""

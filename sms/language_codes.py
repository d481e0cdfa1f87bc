"""Which language a code means: one code for each language, however it is written."""

from __future__ import annotations

import difflib
from functools import cache
from typing import Any

UNDETERMINED = "und"
"""The code of a mixture, or of a language that nobody knows."""
_ALIKE = 0.85
"""How alike a name must be: `germn` is German, `deutsch` is not Dutch."""
_SEVERAL = {
    "Hans": ("Hani",),
    "Hant": ("Hani",),
    "Jpan": ("Hani", "Hira", "Kana"),
    "Kore": ("Hang", "Hani"),
}
"""Codes of ISO 15924 that name several scripts together, or one script in one of its forms."""


@cache
def rows() -> dict[str, dict[str, Any]]:
    """Return what `data/languages.toml` says of languages, by code."""
    from sms.data_files import data_tables  # options are read without it

    return data_tables("languages")


def language_code(given: object) -> str:
    """Return the code of a language: ISO 639-1 where there is one, else ISO 639-3.

    Region and script are left out, and codes that mean the same become one, as CLDR has it.
    Raises `ValueError` for what is no code, with the nearest.

    Examples
    --------
    >>> [language_code(each) for each in ("de", "deu", "pt-BR", "zh_Hant", "iw", "und")]
    ['de', 'de', 'pt', 'zh', 'he', 'und']
    """
    code = _code(given) if isinstance(given, str) else None
    if code is None:
        raise ValueError(
            f"`language` must be an ISO 639 code such as de, swa or und, got {given!r:.40}"
            f"{_nearest(str(given))}"
        )
    return code


@cache
def _code(given: str) -> str | None:
    if given in rows():
        return given
    import langcodes

    try:
        language = langcodes.Language.get(langcodes.standardize_tag(given, macro=True)).language
    except ValueError:
        return None
    is_known = language is not None and langcodes.tag_is_valid(language)
    return language if is_known else None


@cache
def scripts_of(code: str) -> frozenset[str]:
    """Return the scripts that a language is written in, as ISO 15924 calls them: Latn, Cyrl.

    Without a row that says so it is the likely one of CLDR; empty where nobody knows.
    """
    if scripts := rows().get(code, {}).get("scripts"):
        return frozenset(scripts.split())
    from langcodes.data_dicts import LIKELY_SUBTAGS

    tag = LIKELY_SUBTAGS.get(code) if code != UNDETERMINED else None
    if not tag:
        return frozenset()
    script = tag.split("-")[1]
    return frozenset(_SEVERAL.get(script, (script,)))


def _nearest(given: str) -> str:
    """Ask whether a language was meant that is the country's, or that is called like that."""
    names = {row["name"].lower(): code for code, row in rows().items()}
    near = difflib.get_close_matches(given.lower(), names, n=1, cutoff=_ALIKE)
    code = names[near[0]] if near else _of_country(given)
    return f"; did you mean `{code}` ({rows()[code]['name']})?" if code in rows() else ""


def _of_country(given: str) -> str | None:
    """Return the language of a country's code, `ja` for `jp`; English is that of unknown ones."""
    if len(given) != 2 or not (given.isascii() and given.isalpha()):
        return None
    import langcodes

    language = langcodes.Language.make(territory=given.upper()).maximize().language
    return language if language != "en" else None

"""Which language a code means: one code for each language, however it is written."""

from __future__ import annotations

import difflib
from functools import cache
from typing import Any

UNDETERMINED = "und"
"""The code of a mixture, or of a language that nobody knows."""
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
    if given in rows() or given == UNDETERMINED:
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
    """Ask whether a language was meant that has a similar code or name."""
    codes = {code: code for code in rows()}
    codes |= {row["name"].lower(): code for code, row in rows().items()}
    near = difflib.get_close_matches(given.lower(), codes, n=1)
    if not near:
        return ""
    code = codes[near[0]]
    return f"; did you mean `{code}` ({rows()[code]['name']})?"

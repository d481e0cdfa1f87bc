"""The guide's table of languages is that of `sms/data/languages.toml`."""

import tomllib
from pathlib import Path

from sms.text.languages import LANGUAGES, Language

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "languages.md"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
WORDS = {"unicode": "", "plain": "`'s` cut off", "french": "elisions", "chinese": "rjieba"}
WORDS |= {"japanese": "SudachiPy", "dictionary": "ICU"}
HEAD = ["code", "language", "words", "stop words", "stemmer", "BLEU", "extra"]


def row(language: Language) -> list[str]:
    n_stop_words = len(language.published_stop_words())
    return [
        f"`{language.code}`",
        language.name,
        "elisions" if language.elisions else WORDS[language.splitter],
        str(n_stop_words or ""),
        "yes" if language.stemmer else "",
        "" if language.bleu_tokens == "13a" else f"`{language.bleu_tokens}`",
        f"`{language.code}`" if language.code in EXTRAS else "",
    ]


def table() -> str:
    rows = [row(language) for language in LANGUAGES.values()]
    rows = sorted((cells for cells in rows if any(cells[2:])), key=lambda cells: cells[1])
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("  ", " ") for cells in lines)


def test_guide_has_the_table_of_languages():
    assert table() in PAGE.read_text(encoding="utf-8")

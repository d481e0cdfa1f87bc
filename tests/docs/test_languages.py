"""The guide's tables of languages are those of `sms/data/languages.toml`."""

import tomllib
from pathlib import Path

from sms.text.languages import LANGUAGES, Language

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "languages.md"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
WORDS = {"unicode": "", "plain": "`'s` cut off", "french": "elisions", "chinese": "rjieba"}
WORDS |= {"japanese": "SudachiPy", "dictionary": "ICU"}


def words_and_tokens() -> str:
    """Return the table of languages whose words or tokens for BLEU are not those of all others."""
    languages: dict[tuple[str, str, str], list[str]] = {}
    for language in by_name():
        words = "elisions" if language.elisions else WORDS[language.splitter]
        tokens = "" if language.bleu_tokens == "13a" else f"`{language.bleu_tokens}`"
        extra = f"`{language.code}`" if language.code in EXTRAS else ""
        if words or tokens:
            languages.setdefault((words, tokens, extra), []).append(title(language))
    head = ["language", "words", "BLEU", "extra"]
    return table(head, [[", ".join(names), *cells] for cells, names in languages.items()])


def stop_words_and_stemmers() -> str:
    """Return the table of languages with stop words, a stemmer or both."""
    cells: dict[tuple[bool, bool], list[str]] = {}
    for language in by_name():
        n_stop_words = len(language.published_stop_words())
        text = title(language) + (f" {n_stop_words}" if n_stop_words else "")
        cells.setdefault((bool(n_stop_words), bool(language.stemmer)), []).append(text)
    rows = [
        ["stop words and a stemmer", ", ".join(cells[True, True])],
        ["stop words", ", ".join(cells[True, False])],
        ["a stemmer", ", ".join(cells[False, True])],
    ]
    return table(["what it has", "languages, with the number of stop words"], rows)


def by_name() -> list[Language]:
    return sorted(LANGUAGES.values(), key=lambda language: language.name)


def title(language: Language) -> str:
    return f"{language.name} `{language.code}`"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("  ", " ") for cells in lines)


def test_guide_has_the_tables_of_languages():
    page = PAGE.read_text(encoding="utf-8")
    assert words_and_tokens() in page
    assert stop_words_and_stemmers() in page

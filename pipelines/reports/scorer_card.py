"""The card of a scorer that is handed over: a README.md as the Hugging Face hub reads it.

It says what `scorer.json` says, for people: how to use the scorer, what it was trained on, and how
good it was on what it had not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipelines.reports.tables import escape_markdown
from reffree.scorers.folder import SOURCE_SAMPLE, is_linear, language_of_scorer
from reffree.scorers.naming import is_on_hub
from sms.language_codes import UNDETERMINED
from sms.naming import counted
from sms.text.languages import language_of

_LIBRARY = "library_name: assay"
_TAGS = ("assay", "summarization", "evaluation", "reference-free")
_FIGURES = {"rows": "n", "accuracy": "accuracy", "AUC": "auc", "preferred": "preferred"}


def is_card(text: str) -> bool:
    """Say whether a README is a card of a scorer, from its front matter."""
    opening, _, rest = text.partition("\n")
    return opening == "---" and _LIBRARY in rest.partition("\n---")[0].splitlines()


def scorer_card(said: Mapping[str, Any], place: str, licence: str) -> str:
    """Write the card of the scorer whose `scorer.json` is `said`, for the place where it goes.

    That is its name on the hub, or a path or URL, of which others see the last part.
    """
    name = place.rstrip("/").rpartition("/")[2]
    sections = {
        "": _what_it_is(said, place if is_on_hub(place) else name),
        "Data": _data(said),
        "Held-out figures": _held_out(said),
        "Licence": [f"`{licence}`"],
    }
    lines = [*_front_matter(said, licence), "", f"# {escape_markdown(name)}"]
    for heading, of_section in sections.items():
        if of_section:
            lines += ["", *([f"## {heading}", ""] if heading else []), *of_section]
    return "\n".join(lines) + "\n"


def _front_matter(said: Mapping[str, Any], licence: str) -> list[str]:
    language = language_of_scorer(said)
    known = [f"language: {language}"] if language != UNDETERMINED else []
    tags = (f"- {tag}" for tag in _TAGS)
    return ["---", f"license: {licence}", *known, _LIBRARY, "tags:", *tags, "---"]


def _what_it_is(said: Mapping[str, Any], name: str) -> list[str]:
    metric, language = f"reffree@{name}", language_of_scorer(said)
    texts = "texts" if language == UNDETERMINED else f"{language_of(language).name} texts"
    version = (said.get("versions") or {}).get("assay", "unknown")
    scale = "A score from 0 to 1; higher is better."
    if is_linear(said):
        heads = list(said["model"]["heads"])
        scale = (
            "Higher is better: 0 is an average summary of the training data, one unit is one "
            "standard deviation, and the range is -8 to 8."
        )
        if len(heads) > 1:
            named = ", ".join(escape_markdown(head) for head in heads)
            scale += f" It has a score for {named} (`{metric}.{heads[0]}` and so on) and their mean"
            scale += f" (`{metric}`)."
    return [
        f"Scores summaries of {texts} without a reference: it compares a summary with its document."
        f" {scale}",
        "",
        f"It is a metric of Assay, trained with version {version}:",
        "",
        "```sh",
        f"assay score summaries.parquet --metrics {metric} --out scores",
        "```",
        "",
        "```python",
        "import assay",
        "",
        f'scorer = assay.Scorer(metrics="{metric}")',
        'scorer.score(["A summary."], sources=["Its document."])',
        "```",
        "",
        f"Signature: `{said['signature']}`",
    ]


def _data(said: Mapping[str, Any]) -> list[str]:
    trained = said.get("trained_on") or {}
    lines = []
    if files := trained.get("files"):
        lines.append(f"Trained on {', '.join(map(escape_markdown, files))}")
    if sides := trained.get("pairs"):
        counts = ", ".join(f"{side} {n:,}" for side, n in sides.items())
        lines.append(f"Rows: {counts}")
    if ratings := trained.get("ratings"):
        named = ", ".join(map(escape_markdown, ratings))
        n = counted(trained.get("candidates", 0), "summary", "summaries")
        lines.append(f"Ratings by people of {n}: {named}")
    elif kinds := (trained.get("negatives") or {}).get("kinds"):
        lines.append(f"Made-up mistakes: {', '.join(kinds)}")
    if sample := trained.get(SOURCE_SAMPLE):
        lines.append(
            f"The files hold weights and hashes of {counted(len(sample), 'document')}, by which "
            "`assay evaluate` knows what the scorer has seen; no text and no rating"
        )
    return [f"- {line}." for line in lines]


def _held_out(said: Mapping[str, Any]) -> list[str]:
    """Show the figures of a training by pairs, by preferences, or by ratings."""
    figures: Mapping[str, Mapping[str, Any]] = said.get("held_out") or {}
    if any("cross_validated" in one for one in figures.values()):
        return [*_of_ratings(list(figures.values()))]
    preferences = (said.get("trained_on") or {}).get("preferences") or ()
    return [*_of_kinds(figures), *_of_preferences(preferences)]


def _of_kinds(figures: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if not figures:
        return
    shown = {
        name: key
        for name, key in _FIGURES.items()
        if any(one.get(key) is not None for one in figures.values())
    }
    rows = [[kind, *(one.get(key) for key in shown.values())] for kind, one in figures.items()]
    yield from _table(["mistake", *shown], rows)
    yield ""
    yield (
        "On test documents. AUC: how often a good summary scores above a worse one. Preferred: the "
        "same within a document. Made-up mistakes are easier to find than real ones: these figures "
        "do not say that people agree."
    )


def _of_preferences(preferences: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not preferences:
        return
    others = list(preferences[0]["others"])
    rows = [
        [one["head"], one["n_judged"], one["n_right"], *(one["others"][name] for name in others)]
        for one in preferences
    ]
    yield from _table(["score", "preferences", "right", *others], rows)
    yield ""
    yield "Preferences that it was not fitted to, and how many each metric agrees with."


def _of_ratings(fits: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    others = list(fits[0]["others"])
    rows = [
        [one["aspect"], one["n_fitted"], one["cross_validated"], *map(one["others"].get, others)]
        for one in fits
    ]
    yield from _table(["aspect", "documents fitted to", "this scorer", *others], rows)
    yield ""
    yield "Spearman correlation with the ratings within documents, cross-validated."


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield _row(map(escape_markdown, header))
    yield _row(["---", *["---:"] * (len(header) - 1)])
    for row in rows:
        yield _row(map(_cell, row))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: float | int | str | None) -> str:
    if isinstance(value, str):
        return escape_markdown(value)
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"

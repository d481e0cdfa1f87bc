"""`assay evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pipelines.cli.common import (
    DONE,
    columns_of,
    columns_option,
    device_option,
    quiet_option,
    show,
    split,
)
from pipelines.cli.pair_options import (
    embedding_cache_option,
    limit_option,
    neighbour_encoder_option,
    pairs_argument,
    split_anew_option,
)
from pipelines.cli.train import figures_table, shown

if TYPE_CHECKING:
    from pipelines.evaluate import DomainResult
    from pipelines.evaluate_by_ratings import RatedResult


@click.command()
@click.argument("scorer", metavar="SCORER", required=False)
@pairs_argument
@click.option(
    "--also",
    metavar="SCORER",
    multiple=True,
    help="A further scorer, a row of the matrix; may be repeated.",
)
@click.option(
    "--negatives",
    metavar="LIST",
    help="Kinds separated by commas.  [default: those that a scorer was trained on]",
)
@click.option(
    "--split",
    "side",
    metavar="test|validation",
    default="test",
    show_default=True,
    help="Which documents.",
)
@split_anew_option
@neighbour_encoder_option
@embedding_cache_option
@click.option(
    "--corpus", metavar="FILE", help="Rated candidates and their sources, judged by `--ratings`."
)
@click.option(
    "--ratings",
    metavar="FILE",
    help="What people said of them: what is left of agreement without length and density.",
)
@click.option(
    "--raters", metavar="LIST", default="", help="Patterns such as expert-*.  [default: all]"
)
@columns_option("source=article")
@device_option("Where it runs.")
@limit_option("each domain")
@click.option("--json", "json_path", metavar="FILE", help="Write all figures there as well.")
@quiet_option
def evaluate(
    scorer: str | None,
    pairs: tuple[str, ...],
    also: tuple[str, ...],
    negatives: str | None,
    side: str,
    split_anew: bool,
    neighbour_encoder: str,
    embedding_cache: str | None,
    corpus: str | None,
    ratings: str | None,
    raters: str,
    columns: tuple[str, ...],
    device: str,
    limit: int | None,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Say how well SCORER tells references from negatives, for each of PAIRS.

    Judged are documents it was not trained on. With several files of pairs, or several scorers,
    a matrix of trained on against judged by comes first. With `--corpus` and `--ratings`, of
    which PAIRS may be left out, it is judged by people as well.
    """
    if (corpus is None) != (ratings is None):
        raise click.UsageError("`--corpus` and `--ratings` belong together; give both")
    if scorer is None or not (pairs or corpus):
        raise click.UsageError("name a scorer's folder, then at least one file with pairs")

    from cluster.output import Output

    output = Output.named("--json", json_path) if json_path is not None else None
    if output:
        output.check_file()
        output.check_apart([*pairs, *filter(None, [corpus, ratings])])

    from pipelines.evaluate import evaluate_scorer
    from pipelines.evaluate_by_ratings import evaluate_by_ratings
    from pipelines.runs.progress import show_progress

    named = columns_of(columns)
    of_pairs = {ours: named[ours] for ours in named if corpus is None or ours != "rater"}
    progress = show_progress(sys.stderr, is_terminal=sys.stderr.isatty())
    with nullcontext() if quiet else progress as on_progress:
        results = evaluate_scorer(
            [scorer, *also],
            pairs,
            kinds=split(negatives) if negatives else None,
            side=side,
            columns=of_pairs,
            limit=limit,
            split_anew=split_anew,
            neighbour_encoder=neighbour_encoder,
            embedding_cache=embedding_cache,
            device=device,
            on_progress=on_progress,
        )
        rated: Sequence[RatedResult] = []
        if corpus is not None and ratings is not None:
            rated = evaluate_by_ratings(
                [scorer, *also],
                corpus,
                ratings,
                raters=split(raters),
                columns=named,
                embedding_cache=embedding_cache,
                device=device,
                on_progress=on_progress,
            )
    show("\n".join([*_report(results), *([""] if results and rated else []), *_rated(rated)]))
    if output:
        text = json.dumps([*map(asdict, results), *map(asdict, rated)], indent=1)
        output.write(f"{text}\n".encode())
    return DONE


def _rated(results: Sequence[RatedResult]) -> list[str]:
    """Show how scores agree with ratings, and what is left without each trait."""
    from pipelines.evaluate_by_ratings import COEFFICIENT
    from pipelines.reports.terminal import table_text

    lines = []
    for scorer in dict.fromkeys(result.scorer for result in results):
        own = [result for result in results if result.scorer == scorer]
        traits = list(own[0].with_trait)
        header = (
            "aspect", "level", "systems", "documents",
            "score~rating", *(f"score~rating|{name}" for name in traits),
            *(f"score~{name}" for name in traits), *(f"{name}~rating" for name in traits),
        )  # fmt: skip
        rows = [
            (
                result.aspect,
                result.level,
                f"{result.n_systems:,}",
                f"{result.n_documents:,}",
                shown(result.with_rating),
                *map(shown, result.with_rating_given.values()),
                *map(shown, result.with_trait.values()),
                *map(shown, result.trait_with_rating.values()),
            )
            for result in own
        ]
        lines += [
            f"{scorer} and people, {COEFFICIENT}",
            "",
            table_text(header, rows, n_left=2),
            "",
        ]
    return lines[:-1]


def _report(results: Sequence[DomainResult]) -> list[str]:
    lines = _matrices(results) if len(results) > 1 else []
    for result in results:
        lines += [f"{result.scorer} on {result.domain}, {result.n_pairs:,} pairs", ""]
        lines += [figures_table(result.kinds), ""]
        related = ", ".join(f"{name} {shown(r)}" for name, r in result.confounders.items())
        lines.append(f"Pearson: {related}.")
        lines += [f"Left out: {n:,} {reason}." for reason, n in result.left_out.items()]
        lines.append("")
    return lines[:-1]


def _matrices(results: Sequence[DomainResult]) -> list[str]:
    """Show trained on (rows) against judged by (columns), a table for each kind of negative.

    They are compared by `evaluation.main_figure`.
    """
    from pipelines.reports.terminal import table_text
    from reffree.evaluation import main_figure

    domains = list(dict.fromkeys(result.domain for result in results))
    scorers = list(dict.fromkeys(result.scorer for result in results))
    by_place = {(result.scorer, result.domain): result for result in results}
    lines = []
    for kind in dict.fromkeys(kind for result in results for kind in result.kinds):
        name = main_figure(kind, (own.kinds[kind] for own in results if kind in own.kinds))
        rows = []
        for scorer in scorers:
            found = [by_place[scorer, domain].kinds.get(kind) for domain in domains]
            cells = [shown(None if f is None else getattr(f, name)) for f in found]
            rows.append((scorer, *cells))
        lines += [table_text((f"{kind}, {name}", *domains), rows, n_left=1), ""]
    return lines

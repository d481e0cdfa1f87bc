"""`assay evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipelines import verbs
from pipelines.cli.common import DONE, show
from pipelines.cli.options import command, shown_progress
from pipelines.cli.train import figures_table, shown
from pipelines.settings.evaluate import EvaluateSettings

if TYPE_CHECKING:
    from pipelines.evaluate import DomainResult


@command(EvaluateSettings, "SCORER", "PAIRS...")
def evaluate(scorer: str, pairs: tuple[str, ...], settings: EvaluateSettings) -> int:
    """Measure how well SCORER tells references from negatives.

    The scorer is tested on each file of PAIRS. Only documents that it was not trained on count.
    With several files of PAIRS, or several scorers, a table with a row for each scorer and a column
    for each file comes first.
    """
    from cluster.output import Output

    output = Output.named("--json", settings.json) if settings.json is not None else None
    if output:
        output.check_file()
        output.check_apart(pairs)
    with shown_progress(settings) as settings:
        results = verbs.evaluate(scorer, pairs, settings)
    show("\n".join(_report(results)))
    if output:
        output.write(f"{json.dumps([*map(asdict, results)], indent=1)}\n".encode())
    return DONE


def _report(results: Sequence[DomainResult]) -> list[str]:
    lines = _matrices(results) if len(results) > 1 else []
    for result in results:
        lines += [f"{result.scorer} on {result.domain}, {result.n_pairs:,} pairs", ""]
        lines += [figures_table(result.kinds), ""]
        related = ", ".join(f"{name} {shown(r)}" for name, r in result.confounders.items())
        lines.append(f"Pearson (a~b|c: of a and b, with c held fixed): {related}.")
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
            figures = [by_place[scorer, domain].kinds.get(kind) for domain in domains]
            cells = [shown(None if f is None else getattr(f, name)) for f in figures]
            rows.append((scorer, *cells))
        lines += [table_text((f"{kind}, {name}", *domains), rows, n_left=1), ""]
    return lines

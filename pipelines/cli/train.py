"""`assay train`, `evaluate`, `export`, `negatives` and `reinforce`: what learns, and how well."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipelines.cli.common import DONE, INTERRUPTED, fail, show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.settings.export import ExportSettings
from pipelines.settings.negatives import NegativesSettings
from pipelines.settings.reinforce import ReinforceSettings
from pipelines.settings.train import TrainSettings
from sms.naming import counted

if TYPE_CHECKING:
    from pipelines.evaluate import DomainResult
    from pipelines.export import ExportedScorer
    from pipelines.negatives import NegativesRun
    from pipelines.reinforcement import ReinforcedSummarisers
    from pipelines.train_model import Preferred, TrainedScorer
    from pipelines.train_on_ratings import RatedFit, RatedTraining
    from reffree.neural.checkpoint import TrainNews
    from reffree.scorers.evaluation import KindFigures

_INTERRUPTED = "interrupted; run the same command (without `--fresh`) to continue"


@command(TrainSettings, "PAIRS...")
def train(pairs: tuple[str, ...], settings: TrainSettings) -> int:
    """Train on PAIRS a scorer that needs no references.

    The scorer learns from the good summaries in PAIRS and from wrong ones made from them. One row
    of PAIRS is one document: `document_id`, `source`, `reference` or `references`, and optionally
    `split`; or one candidate with a `label`, as `assay negatives` writes it. To continue the
    interrupted training of a neural scorer, give the same command again.
    """
    from pipelines.train import train as run
    from pipelines.train_model import TrainedScorer

    try:
        with shown_progress(settings, on_news=_show_news) as settings:
            trained = run(pairs, settings)
    except KeyboardInterrupt:
        return fail(_INTERRUPTED, INTERRUPTED)
    lines = _trained(trained) if isinstance(trained, TrainedScorer) else _fitted(trained)
    show("\n".join(lines))
    return DONE


@command(EvaluateSettings, "SCORER", "PAIRS...")
def evaluate(scorer: str, pairs: tuple[str, ...], settings: EvaluateSettings) -> int:
    """Measure how well SCORER tells references from negatives.

    The scorer is tested on each file of PAIRS. Only documents that it was not trained on are used.
    With several files of PAIRS, or several scorers, the result begins with a table that has a row
    for each scorer and a column for each file.
    """
    from cluster.output import output_of
    from pipelines.evaluate import evaluate as run

    output = output_of(settings.json, apart=pairs, option="--json")
    with shown_progress(settings) as settings:
        results = run(scorer, pairs, settings)
    show("\n".join(_report(results)))
    if output:
        output.write(f"{json.dumps([*map(asdict, results)], indent=1)}\n".encode())
    return DONE


@command(ExportSettings, "WHAT", "DIR")
def export(what: str, folder: str, settings: ExportSettings) -> None:
    """Export a trained scorer: WHAT is `scorer`, DIR its folder.

    Its files and a model card (README.md) are written to a new folder, or uploaded to the Hugging
    Face hub in one commit, from where `reffree@hf:OWNER/NAME` loads the scorer. Log in first with
    `hf auth login`. To edit the card, export to a folder first, then export that folder.
    """
    from pipelines.export import export as run

    show("\n".join(_handed_over(run(what, folder, settings))))


@command(NegativesSettings, "PAIRS...")
def negatives(pairs: tuple[str, ...], settings: NegativesSettings) -> None:
    """Make labelled wrong summaries from the good ones in PAIRS.

    The good summaries are written to the file, too. One row of PAIRS (Parquet, JSONL or CSV; files,
    folders, globs or URLs) is one document: `document_id`, `source`, `reference` or `references`,
    and optionally `split`. Documents without a split are split 80/10/10; documents with a common
    text stay in the same part.
    """
    from pipelines.negatives import negatives as run

    with shown_progress(settings) as settings:
        made = run(pairs, settings)
    show("\n".join(_negatives(made)))


@command(ReinforceSettings, "PAIRS...")
def reinforce(pairs: tuple[str, ...], settings: ReinforceSettings) -> int:
    """Train a summariser with a metric as reward.

    The result is compared with a summariser trained without a reward. One row of PAIRS is one
    document: `document_id`, `source`, `reference` or `references`, and optionally `split`. The
    summariser is trained by maximum likelihood first, then by likelihood and reward (Clark et al.
    2019, section 5). To continue an interrupted run, give the same command again.
    """
    from pipelines.reinforcement import reinforce as run

    try:
        with shown_progress(settings, on_news=_show_news) as settings:
            summarisers = run(pairs, settings)
    except KeyboardInterrupt:
        return fail(_INTERRUPTED, INTERRUPTED)
    show("\n".join(_reinforced(summarisers)))
    return DONE


def shown(value: float | int | str | None) -> str:
    """Write a cell: a text, a count, a figure, or a dash where there is none.

    Examples
    --------
    >>> shown(0.25), shown(1200), shown(None), shown(float("nan"))
    ('0.250', '1,200', '–', '–')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None or math.isnan(value) else f"{value:.3f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]], n_left: int = 1) -> str:
    from pipelines.reports.terminal import table_text

    return table_text(header, ([shown(cell) for cell in row] for row in rows), n_left=n_left)


def _figures_table(figures: Mapping[str, KindFigures]) -> str:
    columns = {
        "rows": "n",
        "accuracy": "accuracy",
        "AUC": "auc",
        "preferred": "preferred",
        "MSE": "mse",
        "Pearson": "pearson",
        "calibration": "calibration_error",
        "cut": "n_cut",
    }
    rows = [
        (kind, *(getattr(of_kind, field) for field in columns.values()))
        for kind, of_kind in figures.items()
    ]
    return _table(("negatives", *columns), rows)


_SHOWN_FIGURES = {
    "train_loss": "training loss",
    "mle_loss": "likelihood loss",
    "reward_drawn": "reward of drawn",
    "reward_greedy": "reward of greedy",
    "validation_loss": "validation loss",
    "validation_reward": "validation reward",
}
"""Figures that are shown while it trains, and what they are called."""


def _show_news(news: TrainNews) -> None:
    line = news.line()
    if "validation_reward" in line:  # the validation loss is minus the reward
        del line["validation_loss"]
    figures = [f"{name} {line[key]:.4g}" for key, name in _SHOWN_FIGURES.items() if key in line]
    print(f"epoch {news.epoch + 1}, step {news.step}: {', '.join(figures)}", file=sys.stderr)


# What training has brought


def _trained(trained: TrainedScorer) -> list[str]:
    called = "Rows" if trained.preferences else "Pairs"
    sides = [f"{side} {n:,}" for side, n in trained.n_pairs.items() if n or called == "Pairs"]
    lines = [f"{called}: {', '.join(sides)}."]
    if state := trained.state:
        lines.append(
            f"{state.step:,} steps in {state.epoch} epochs; the best validation loss, "
            f"{state.best_loss:.4f}, came after step {state.best_step:,}."
        )
    if trained.tried:
        from pipelines.train_on_ratings import STATISTIC

        lines += [f"Tried {len(trained.tried)} recipes on the development set ({STATISTIC}):"]
        lines += [f"  {shown(value)}  {name}" for name, value in trained.tried.items()]
        lines += ["The first is kept."]
    lines += ["", *map(_preferred, trained.preferences)]
    if trained.held_out:
        lines.append(_figures_table(trained.held_out))
    lines.append("")
    lines += [f"Left out: {n:,}, {reason}." for reason, n in trained.left_out.items()]
    return [*lines, f"Signature: {trained.signature}", f"The scorer is in {trained.out}"]


def _preferred(preferred: Preferred) -> str:
    """Say of how many preferences a head is right that it had not seen."""
    fitted = (
        f"{preferred.head}: fitted to {counted(preferred.n_fitted, 'preference')} of "
        f"{counted(preferred.n_fitted_documents, 'document')}."
    )
    if not preferred.n_judged:
        return f"{fitted} These are too few documents to say how good it is on others."
    others = ", ".join(f"{name} {right:g}" for name, right in preferred.others.items())
    how = "those of the test documents"
    if preferred.is_cross_validated:
        how = "cross-validated: each document was judged by weights fitted to the others"
    return (
        f"{fitted} It agrees with {preferred.n_right:g} of "
        f"{counted(preferred.n_judged, 'preference')} that it had not seen; {others} ({how})."
    )


def _fitted(trained: RatedTraining) -> list[str]:
    others = list(trained.fits[0].others)
    rows = [
        (
            fit.aspect,
            f"{fit.n_fitted:,}" + (f" of {fit.n_documents:,}" if fit.differences else ""),
            fit.cross_validated,
            *(fit.others[name] for name in others),
        )
        for fit in trained.fits
    ]
    how = "other documents, but the same systems (fewer than ten)"
    if trained.leaves_systems_out:
        how = "other documents and other systems"
    return [
        f"{trained.n_candidates:,} rated candidates of "
        f"{counted(trained.n_documents, 'document')} by {counted(trained.n_systems, 'system')}.",
        *(f"{note}." for note in trained.notes),
        f"Spearman inside documents. Cross-validated: `fitted` was fitted to {how}.",
        "",
        _table(("aspect", "documents", "fitted", *others), rows),
        "",
        "Difference of the correlations, with a 95 % interval (bootstrap over documents):",
        *(verdict(fit) for fit in trained.fits if fit.differences),
        "",
        f"Signature: {trained.signature}",
        f"The scorer is in {trained.out}; it is fitted to all documents. The figures are in "
        "`scorer.json` there.",
    ]


def verdict(fit: RatedFit) -> str:
    """Say what the fitted weights are better than, with the differences of the correlations."""
    by_verdict: dict[str, list[str]] = {}
    for name, difference in fit.differences.items():
        shown_as = (
            f"{name} ({difference.value:+.3f} [{difference.low:+.2f}, {difference.high:+.2f}])"
        )
        if math.isnan(difference.low):
            said, shown_as = "no verdict on", f"{name} ({difference.reason})"
        elif difference.low > 0:
            said = "better than"
        else:
            said = "worse than" if difference.high < 0 else "not shown to be better than"
        by_verdict.setdefault(said, []).append(shown_as)
    verdicts = (f"{said} {', '.join(names)}" for said, names in by_verdict.items())
    return f"{fit.aspect}: {'; '.join(verdicts)}"


# What evaluation has brought


def _report(results: Sequence[DomainResult]) -> list[str]:
    lines = _matrices(results) if len(results) > 1 else []
    for result in results:
        lines += [f"{result.scorer} on {result.domain}, {counted(result.n_pairs, 'pair')}", ""]
        lines += [_figures_table(result.kinds), ""]
        related = ", ".join(f"{name} {shown(r)}" for name, r in result.confounders.items())
        lines.append(f"Pearson (a~b|c: of a and b, with c held fixed): {related}.")
        lines += [f"Left out: {n:,} {reason}." for reason, n in result.left_out.items()]
        lines.append("")
    return lines[:-1]


def _matrices(results: Sequence[DomainResult]) -> list[str]:
    """Show trained on (rows) against judged by (columns), a table for each kind of negative.

    They are compared by `evaluation.main_figure`.
    """
    from reffree.scorers.evaluation import main_figure

    domains = list(dict.fromkeys(result.domain for result in results))
    scorers = list(dict.fromkeys(result.scorer for result in results))
    by_place = {(result.scorer, result.domain): result for result in results}
    lines = []
    for kind in dict.fromkeys(kind for result in results for kind in result.kinds):
        name = main_figure(kind, (result.kinds[kind] for result in results if kind in result.kinds))
        rows = [
            (scorer, *(getattr(by_place[scorer, d].kinds.get(kind), name, None) for d in domains))
            for scorer in scorers
        ]
        lines += [_table((f"{kind}, {name}", *domains), rows), ""]
    return lines


# What was handed over


def _handed_over(exported: ExportedScorer) -> list[str]:
    files = ", ".join(f"{name} ({n:,} bytes)" for name, n in exported.files.items())
    signature = f"Signature: {exported.signature}"
    if not exported.page:
        return [f"Written to {exported.to}: {files}.", signature]
    name, _, commit = exported.to.partition("@")
    return [
        f"Uploaded to {exported.page} as commit {commit}: {files}.",
        signature,
        f"It is the metric reffree@{name}; this commit of it is reffree@{exported.to}",
    ]


# Negatives


def _negatives(run: NegativesRun) -> list[str]:
    pairs = run.pairs
    sides = ", ".join(f"{side} {n:,}" for side, n in pairs.n_pairs.items())
    rule = "by the column `split`" if pairs.has_own_split else "by document"
    left_out = {**pairs.left_out, **run.left_out}
    return [
        f"{counted(pairs.n_rows, 'row')} read; pairs: {sides} (split {rule}).",
        f"{counted(pairs.n_shared, 'document shares', 'documents share')} a text with another one; "
        "no text is in two of these parts.",
        "",
        _table(
            ("kind", "rows", "mean label"),
            [(kind, count.n, count.mean_label) for kind, count in run.kinds.items()],
        ),
        "",
        *(f"Left out: {n:,}, {reason}." for reason, n in left_out.items()),
        f"{counted(run.n_rows, 'row')} in {run.out}",
    ]


def _reinforced(summarisers: ReinforcedSummarisers) -> list[str]:
    from pipelines.reinforcement import SCORES_FOLDER, SUMMARIES_FILE
    from pipelines.reports.comparison import comparison_sheet

    sides = ", ".join(f"{side} {n:,}" for side, n in summarisers.pairs.n_pairs.items())
    left_out = [
        f"Left out: {counted(n, 'row or text', 'rows or texts')}, {why}."
        for why, n in summarisers.pairs.left_out.items()
    ]
    compared = comparison_sheet(summarisers.comparison).text(is_terminal=sys.stdout.isatty())
    return [
        f"Pairs: {sides}. Test documents: {summarisers.n_test_documents:,}.",
        *left_out,
        "",
        compared,
        "",
        f"Summaries, as a corpus for `assay score` and `assay explain`: "
        f"{summarisers.out}/{SUMMARIES_FILE}",
        f"Their scores, for `assay compare`: {summarisers.out}/{SCORES_FOLDER}",
    ]

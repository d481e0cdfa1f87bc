"""`assay train`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pipelines import verbs
from pipelines.cli.common import DONE, INTERRUPTED, fail, show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.train import TrainSettings

if TYPE_CHECKING:
    from pipelines.learning_curve import CurvePoint
    from pipelines.train import TrainedScorer
    from pipelines.train_on_ratings import RatedTraining
    from reffree.checkpoint import TrainNews
    from reffree.evaluation import KindFigures

_SHOWN_LOSS = 4  # digits


@command(TrainSettings, "PAIRS...")
def train(pairs: tuple[str, ...], settings: TrainSettings) -> int:
    """Train a scorer that needs no references from PAIRS.

    It learns from the right summaries in PAIRS and from wrong ones made of them. One row of PAIRS
    is one document: `document_id`, `source`, `reference` or `references`, and optionally `split`;
    or one candidate with a `label`, as `assay negatives` writes it. To continue the interrupted
    training of a model, give the same command again.
    """
    out = str(settings.out)
    try:
        with shown_progress(settings, on_news=_show_news) as settings:
            found = verbs.train(pairs, settings)
    except KeyboardInterrupt:
        return fail(
            "interrupted; run the same command (without `--fresh`) to continue",
            INTERRUPTED,
        )
    from pipelines.train import TrainedScorer

    if isinstance(found, TrainedScorer):
        show("\n".join(_summary(found)))
    else:
        show("\n".join(_curve(found, out) if isinstance(found, list) else _rated(found)))
    return DONE


def _rated(trained: RatedTraining) -> list[str]:
    """Show what fitting to ratings would reach elsewhere, by cross-validation."""
    from pipelines.reports.terminal import table_text

    others = list(trained.fits[0].others)
    rows = [
        (
            fit.aspect,
            f"{fit.n_documents:,}",
            shown(fit.cross_validated),
            *(shown(fit.others[name]) for name in others),
        )
        for fit in trained.fits
    ]
    return [
        f"{trained.n_candidates:,} rated candidates of {trained.n_documents:,} documents by "
        f"{trained.n_systems:,} systems. Spearman inside documents, fitted to other documents and "
        "systems:",
        "",
        table_text(("aspect", "documents", "fitted", *others), rows, n_left=1),
        "",
        trained.signature,
        f"The scorer is in {trained.out}",
    ]


def _curve(points: Sequence[CurvePoint], out: str) -> list[str]:
    """Show what every kind of negative is judged by, for every number of training documents."""
    from pipelines.learning_curve import CURVE_FILE, curve_figure
    from pipelines.reports.terminal import table_text

    kinds = list(dict.fromkeys(kind for point in points for kind in point.kinds))
    judged_by = {kind: curve_figure(kind, points) for kind in kinds}
    header = ("documents", "steps", *(f"{kind}, {name}" for kind, name in judged_by.items()))
    rows = []
    for point in points:
        found = [
            getattr(point.kinds[kind], judged_by[kind]) if kind in point.kinds else None
            for kind in kinds
        ]
        rows.append((f"{point.n_documents:,}", f"{point.steps:,}", *map(shown, found)))
    place = f"{out.rstrip('/')}/{CURVE_FILE}"
    return [
        table_text(header, rows, n_left=0),
        "",
        f"All figures: {place}.json; the curve: {place}.svg and .png",
    ]


def _show_news(news: TrainNews) -> None:
    figures = [
        f"{name} loss {value:.{_SHOWN_LOSS}f}"
        for name, value in (
            ("training", news.train_loss),
            ("validation", news.validation_loss),
        )
        if value is not None
    ]
    print(f"epoch {news.epoch + 1}, step {news.step}: {', '.join(figures)}", file=sys.stderr)


def _summary(trained: TrainedScorer) -> list[str]:
    sides = ", ".join(f"{side} {n:,}" for side, n in trained.n_pairs.items())
    lines = [f"Pairs: {sides}."]
    if state := trained.state:
        lines.append(
            f"{state.step:,} steps in {state.epoch} epochs; the best validation loss, "
            f"{state.best_loss:.{_SHOWN_LOSS}f}, came after step {state.best_step:,}."
        )
    if trained.tried:
        from pipelines.development import STATISTIC

        lines += [f"Tried {len(trained.tried)} recipes on the development set ({STATISTIC}):"]
        lines += [f"  {shown(value)}  {name}" for name, value in trained.tried.items()]
        lines += ["The first is kept."]
    lines += ["", figures_table(trained.held_out), ""]
    lines += [f"Left out: {n:,}, {reason}." for reason, n in trained.left_out.items()]
    return [*lines, trained.signature, f"The scorer is in {trained.out}"]


def figures_table(figures: Mapping[str, KindFigures]) -> str:
    """Lay out the figures of every kind of negative."""
    from pipelines.reports.terminal import table_text

    header = (
        "negatives", "rows", "accuracy", "AUC", "preferred", "MSE", "Pearson", "calibration", "cut",
    )  # fmt: skip
    rows = [
        (
            kind,
            f"{found.n:,}",
            shown(found.accuracy),
            shown(found.auc),
            shown(found.preferred),
            shown(found.mse),
            shown(found.pearson),
            shown(found.calibration_error),
            f"{found.n_cut:,}",
        )
        for kind, found in figures.items()
    ]
    return table_text(header, rows, n_left=1)


def shown(value: float | None) -> str:
    """Write a figure, or a dash where there is none.

    Examples
    --------
    >>> shown(0.25), shown(None), shown(float("nan"))
    ('0.250', '–', '–')
    """
    return "–" if value is None or math.isnan(value) else f"{value:.3f}"

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
from sms.naming import counted

if TYPE_CHECKING:
    from pipelines.learning_curve import CurvePoint
    from pipelines.train import TrainedScorer
    from pipelines.train_on_preferences import Preferred
    from pipelines.train_on_ratings import RatedFit, RatedTraining
    from reffree.checkpoint import TrainNews
    from reffree.evaluation import KindFigures

_SHOWN_LOSS = 4  # digits


@command(TrainSettings, "PAIRS...")
def train(pairs: tuple[str, ...], settings: TrainSettings) -> int:
    """Train on PAIRS a scorer that needs no references.

    The scorer learns from the good summaries in PAIRS and from wrong ones made of them. One row of
    PAIRS is one document: `document_id`, `source`, `reference` or `references`, and optionally
    `split`; or one candidate with a `label`, as `assay negatives` writes it. To continue the
    interrupted training of a model, give the same command again.
    """
    out = str(settings.out)
    try:
        with shown_progress(settings, on_news=_show_news) as settings:
            trained = verbs.train(pairs, settings)
    except KeyboardInterrupt:
        return fail(
            "interrupted; run the same command (without `--fresh`) to continue",
            INTERRUPTED,
        )
    from pipelines.train import TrainedScorer

    if isinstance(trained, TrainedScorer):
        show("\n".join(_summary(trained)))
    else:
        show("\n".join(_curve(trained, out) if isinstance(trained, list) else _rated(trained)))
    return DONE


def _rated(trained: RatedTraining) -> list[str]:
    """Show what fitting to ratings would reach elsewhere, by cross-validation."""
    from pipelines.reports.terminal import table_text
    from pipelines.train_on_ratings import FIGURES_FILE

    others = list(trained.fits[0].others)
    rows = [
        (
            fit.aspect,
            f"{fit.n_fitted:,}" + (f" of {fit.n_documents:,}" if fit.differences else ""),
            shown(fit.cross_validated),
            *(shown(fit.others[name]) for name in others),
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
        table_text(("aspect", "documents", "fitted", *others), rows, n_left=1),
        "",
        "Difference of the correlations, with a 95 % interval (bootstrap over documents):",
        *(verdict(fit) for fit in trained.fits if fit.differences),
        "",
        f"Signature: {trained.signature}",
        f"The scorer is in {trained.out}; it is fitted to all documents. The figures are in "
        f"{FIGURES_FILE} there.",
    ]


def verdict(fit: RatedFit) -> str:
    """Say what the fitted weights are better than, with the differences of the correlations."""
    told: dict[str, list[str]] = {
        "better than": [],
        "worse than": [],
        "not shown to be better than": [],
    }
    for name, own in fit.differences.items():
        if math.isnan(own.low):
            told.setdefault("no verdict on", []).append(f"{name} ({own.reason})")
            continue
        differs = "better than" if own.low > 0 else "worse than" if own.high < 0 else None
        told_as = differs or "not shown to be better than"
        told[told_as].append(f"{name} ({own.value:+.3f} [{own.low:+.2f}, {own.high:+.2f}])")
    said = (f"{told_as} {', '.join(names)}" for told_as, names in told.items() if names)
    return f"{fit.aspect}: {'; '.join(said)}"


def _curve(points: Sequence[CurvePoint], out: str) -> list[str]:
    """Show what every kind of negative is judged by, for every number of training documents."""
    from pipelines.learning_curve import CURVE_FILE, curve_figure
    from pipelines.reports.terminal import table_text

    kinds = list(dict.fromkeys(kind for point in points for kind in point.kinds))
    judged_by = {kind: curve_figure(kind, points) for kind in kinds}
    header = ("documents", "steps", *(f"{kind}, {name}" for kind, name in judged_by.items()))
    rows = []
    for point in points:
        figures = [
            getattr(point.kinds[kind], judged_by[kind]) if kind in point.kinds else None
            for kind in kinds
        ]
        rows.append((f"{point.n_documents:,}", f"{point.steps:,}", *map(shown, figures)))
    return [
        table_text(header, rows, n_left=0),
        "",
        f"All figures: {out.rstrip('/')}/{CURVE_FILE}",
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
    called = "Rows" if trained.preferences else "Pairs"
    sides = [f"{side} {n:,}" for side, n in trained.n_pairs.items() if n or called == "Pairs"]
    lines = [f"{called}: {', '.join(sides)}."]
    if state := trained.state:
        lines.append(
            f"{state.step:,} steps in {state.epoch} epochs; the best validation loss, "
            f"{state.best_loss:.{_SHOWN_LOSS}f}, came after step {state.best_step:,}."
        )
    if trained.tried:
        from pipelines.train_on_ratings import STATISTIC

        lines += [f"Tried {len(trained.tried)} recipes on the development set ({STATISTIC}):"]
        lines += [f"  {shown(value)}  {name}" for name, value in trained.tried.items()]
        lines += ["The first is kept."]
    lines += ["", *map(_preferred, trained.preferences)]
    if trained.held_out:
        lines.append(figures_table(trained.held_out))
    lines.append("")
    lines += [f"Left out: {n:,}, {reason}." for reason, n in trained.left_out.items()]
    return [*lines, f"Signature: {trained.signature}", f"The scorer is in {trained.out}"]


def _preferred(own: Preferred) -> str:
    """Say of how many preferences a head is right that it had not seen."""
    fitted = (
        f"{own.head}: fitted to {counted(own.n_fitted, 'preference')} of "
        f"{counted(own.n_fitted_documents, 'document')}."
    )
    if not own.n_judged:
        return f"{fitted} That is too few documents to say how good it is on others."
    others = ", ".join(f"{name} {right:g}" for name, right in own.others.items())
    how = "those of the test documents"
    if own.is_cross_validated:
        how = "cross-validated: each document was judged by weights fitted to the others"
    return (
        f"{fitted} It agrees with {own.n_right:g} of {counted(own.n_judged, 'preference')} that "
        f"it had not seen; {others} ({how})."
    )


def figures_table(figures: Mapping[str, KindFigures]) -> str:
    """Lay out the figures of every kind of negative."""
    from pipelines.reports.terminal import table_text

    header = (
        "negatives", "rows", "accuracy", "AUC", "preferred", "MSE", "Pearson", "calibration", "cut",
    )  # fmt: skip
    rows = [
        (
            kind,
            f"{own.n:,}",
            shown(own.accuracy),
            shown(own.auc),
            shown(own.preferred),
            shown(own.mse),
            shown(own.pearson),
            shown(own.calibration_error),
            f"{own.n_cut:,}",
        )
        for kind, own in figures.items()
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

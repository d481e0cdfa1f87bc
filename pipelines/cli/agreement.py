"""`assay judge`, `correlate`, `compare`, `explain` and `preferences`: what scores are worth."""

from __future__ import annotations

import click

from pipelines.cli.common import show, terminal
from pipelines.cli.options import command, shown_progress
from pipelines.settings.compare import CompareSettings
from pipelines.settings.correlate import CorrelateSettings
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.judge import JudgeSettings
from pipelines.settings.preferences import PreferencesSettings
from sms.naming import counted


@command(JudgeSettings, "DATA...")
def judge(data: tuple[str, ...], settings: JudgeSettings) -> None:
    """Find out from some ratings which metric to trust on DATA.

    DATA is what `assay score` reads, with `document_id` and `system_id`. The rated rows are scored
    and compared with the ratings. You learn which metric agrees best with each aspect, which
    metrics cannot be told apart from it, and whether any metric beats the baselines `length` and
    `density`. You also get the command that scores all of DATA, and its time on this machine.
    """
    from pipelines.judge import judge as run

    with shown_progress(settings) as settings:
        judgement = run(data, settings)
    show(judgement.text(terminal()["width"]))


@command(CorrelateSettings, "SCORES...")
def correlate(scores: tuple[str, ...], settings: CorrelateSettings) -> None:
    """Correlate SCORES with human ratings.

    SCORES are folders of `assay score`, or files of any tool (Parquet, CSV, JSONL). A file has one
    row per candidate: `document_id`, `system_id`, and one column of numbers per metric. The ratings
    have one such column per aspect, and may have a column `rater`. A metric that several inputs
    have is called INPUT/METRIC. Rows without a score or a rating are left out. DIR gets
    report.html, report.md, report.json and correlations.parquet.
    """
    if settings.out is None:
        raise click.UsageError("`--out DIR` is missing: name a folder for the report")
    from pipelines.correlation.run import correlate as run
    from pipelines.correlation.summary import summary_text

    with shown_progress(settings) as settings:
        result = run(scores, settings)
    show(summary_text(result, str(settings.out).rstrip("/"), **terminal()))


@command(CompareSettings, "SCORES_A", "[SCORES_B]")
def compare(scores_a: str, scores_b: str | None, settings: CompareSettings) -> None:
    """Compare scores of systems or runs without human ratings.

    SCORES_A and SCORES_B are folders of `assay score` or files of scores. With SCORES_A alone,
    every pair of its systems is compared: the table has means, intervals, and letters that say
    which systems differ. If both have the same systems, the runs of each are compared. Otherwise
    every system of A is compared with every system of B. Only documents that both have are used. A
    metric is refused if its signatures differ.
    """
    from pipelines.compare import compare as run
    from pipelines.reports.comparison import comparison_sheet

    result = run(scores_a, scores_b, settings)
    show(comparison_sheet(result).text(**terminal()))


@command(ExplainSettings, "[CORPUS...]")
def explain(corpora: tuple[str, ...], settings: ExplainSettings) -> None:
    """Show what a score is made of.

    CORPUS is read as by `assay score`. For a mover (sms, wms, s+wms), you see how words and
    sentences of the summary are matched with those of the reference, and at what cost. For other
    metrics, you see how the score changes without each sentence; trained scorers, likelihoods and
    judges show more details. For `ask`, you see the question, the answer and its probabilities.
    """
    if settings.out is None:
        raise click.UsageError("`--out FILE` is missing: name a page (.html) or a picture (.svg)")
    from pipelines.explain import explain as run
    from sms.writing import isolated

    for system in run(corpora, settings):
        explanation = system.explanation
        shown = (
            f"no score: {explanation.status}" if explanation.score is None else explanation.score
        )
        show(f"{isolated(system.system_id)}\t{explanation.metric}\t{shown}")
    show(f"{'Picture' if str(settings.out).endswith('.svg') else 'Page'}: {settings.out}")


@command(PreferencesSettings, "[JUDGEMENTS...]")
def preferences(judgements: tuple[str, ...], settings: PreferencesSettings) -> None:
    """Say which system people prefer, from their JUDGEMENTS.

    A judgement compares two texts. A file (Parquet, CSV, JSONL) has one row per judgement:
    `document_id`, `system_a`, `system_b`, `winner` (one of the two systems, or tie), and
    optionally `judge` and `criterion`. A file may also hold counts: `system_a`, `system_b`,
    and the `wins`, `losses` and `ties` of `system_a`. Or it is a sheet made by `--make-sheet`,
    filled with left, right or =, and read with its `--key`.
    """
    from pipelines.judging_sheet import JudgingSheet
    from pipelines.preferences import preferences as run
    from pipelines.reports.preferences import preferences_sheet

    made = run(judgements, settings)
    if not isinstance(made, JudgingSheet):
        show(preferences_sheet(made).text(**terminal()))
        return
    print(
        f"Sheet: {made.sheet}, {counted(made.n_rows, 'row')} on {made.n_documents:,} of "
        f"{counted(made.n_eligible, 'document')}"
    )
    print(f"Key: {made.key}; keep it from the judges")
    print("Judges write left, right or = under each criterion; give each a copy named after them")

"""Every verb as a function of its data and its settings, which the command and the door call.

What a verb does is in the module that it imports when it is called: this file is quick to import.
Those that need threads have them in a forked process, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines.runs.forks import with_threads
from pipelines.settings.compare import CompareSettings
from pipelines.settings.correlate import CorrelateSettings
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.negatives import NegativesSettings
from pipelines.settings.preferences import PreferencesSettings
from pipelines.settings.reinforce import ReinforceSettings
from pipelines.settings.score import ScoreSettings
from pipelines.settings.train import TrainSettings
from sms.naming import AnyPath, OneOrMore, several

if TYPE_CHECKING:
    from cluster.output import Output
    from pipelines.evaluate import DomainResult
    from pipelines.judging_sheet import JudgingSheet
    from pipelines.negatives import NegativesRun
    from pipelines.reinforcement import ReinforcedSummarisers
    from pipelines.reports.comparison import ScoreComparison
    from pipelines.reports.explain_page import ExplainedSystem
    from pipelines.reports.preferences import Preferences
    from pipelines.runs.score_run import ScoreRun
    from pipelines.tables.records import AgreementResult
    from pipelines.train import TrainedScorer
    from pipelines.train_on_ratings import RatedTraining


def score(corpora: OneOrMore, settings: ScoreSettings) -> ScoreRun:
    """Score every row of a corpus into a folder, and write a page about it."""
    from pipelines.score import score_corpus

    run = score_corpus(corpora, **vars(settings))
    if run.is_complete:
        _write_page(run, settings.explain)
    return run


@with_threads
def _write_page(run: ScoreRun, is_explained: bool) -> None:
    """Write the page about a run, and explanations of its extremes."""
    from cluster.manifest import PAGE_FILE
    from cluster.store import join, write_whole
    from pipelines.reports.scores_page import render_run
    from pipelines.summary import higher_is

    if is_explained:
        from pipelines.explain import explain_extremes  # brings encoders

        explain_extremes(run)
    page = render_run(run, {name: higher_is(name) for name in run.main_columns})
    write_whole(join(run.out, PAGE_FILE), page.encode("utf-8", "replace"))


@with_threads
def correlate(scores: OneOrMore, settings: CorrelateSettings) -> AgreementResult:
    """Correlate scores with human ratings, at every level, with intervals and tests.

    `scores` are folders of `assay score`, or files of any tool with a row per candidate:
    `document_id`, `system_id` and a column of numbers per metric. Returns all tables.
    """
    from pipelines.correlation.run import correlate as run

    return run(scores, settings)


@with_threads
def compare(scores_a: AnyPath, scores_b: AnyPath, settings: CompareSettings) -> ScoreComparison:
    """Say which system has the higher scores, without ratings.

    Both are folders of `assay score` or files of scores. Where they hold the same systems, two
    runs of each are compared, else every system of the one with every system of the other, on
    the documents both have. A metric whose signature differs is refused.
    """
    from pipelines.compare import compare_scores
    from pipelines.reports.comparison import comparison_sheet, render_comparison
    from pipelines.reports.tables import SUFFIXES

    output = output_of(settings.out, *SUFFIXES, ".html", apart=several([scores_a, scores_b]))
    result = compare_scores(scores_a, scores_b, settings)
    if output and output.suffix == ".html":
        output.write(render_comparison(result).encode("utf-8", "replace"))
    elif output:
        output.write(comparison_sheet(result).content(output.suffix).encode())
    return result


@with_threads
def preferences(judgements: OneOrMore, settings: PreferencesSettings) -> Preferences | JudgingSheet:
    """Say which system people prefer, from judgements of two texts each.

    A file has a row per judgement: `document_id`, `system_a`, `system_b`, `winner` (one of the
    two, or tie), perhaps `judge` and `criterion`; or counts of `wins`, `losses` and `ties`; or it
    is a filled sheet. With `make_sheet` a new sheet is made instead, and there are no judgements.
    """
    from pipelines.judging_sheet import make_sheet
    from pipelines.preferences import compare_preferences
    from pipelines.reports.preferences import preferences_sheet
    from pipelines.reports.tables import SUFFIXES

    judgements = several(judgements)
    if settings.make_sheet is not None:
        if judgements:
            raise ValueError("`--make-sheet` makes a sheet; leave out the judgements")
        return make_sheet(settings)
    if not judgements:
        raise ValueError("name at least one file of judgements, or `--make-sheet CORPUS`")
    apart = [*judgements, *([str(settings.key)] if settings.key else [])]
    output = output_of(settings.out, *SUFFIXES, apart=apart)
    result = compare_preferences(judgements, settings)
    if output:
        output.write(preferences_sheet(result).content(output.suffix).encode())
    return result


@with_threads
def explain(corpora: OneOrMore, settings: ExplainSettings) -> list[ExplainedSystem]:
    """Show what the scores of a document are made of, for each of its systems.

    Mover's similarities are explained by their transport plan (which words and sentences move
    where, and at what cost), other metrics by what the score loses when a sentence is left out.
    `corpora` is what `assay score` reads; it may be empty where `scores` names a run.
    """
    from pipelines.explain import open_explainer
    from pipelines.reports.explain_page import picture_of, render_explanations
    from sms.options import encoders_of

    output = output_of(settings.out, ".html", ".svg")
    not_passed_on = ("document", "system", "encoder", "out")
    given = {
        name: x for name, x in vars(settings).items() if name not in not_passed_on and x is not None
    }
    if settings.encoder is not None:  # called as the metric calls it
        alias = settings.metric.partition(":")[0].partition("@")[2]
        spec = f"{alias}={settings.encoder}" if alias else settings.encoder
        given["encoders"] = encoders_of(spec)
    document = settings.document
    systems = open_explainer(corpora, **given).explain({document: settings.system})[document]
    if output:
        make = picture_of if output.suffix == ".svg" else render_explanations
        output.write(make(document, systems).encode("utf-8", "surrogateescape"))
    return systems


@with_threads
def train(pairs: OneOrMore, settings: TrainSettings) -> TrainedScorer | RatedTraining:
    """Train a scorer that needs no reference on right and made-up wrong summaries.

    One row of `pairs` is one document: `document_id`, `source`, `reference` or `references`, and
    perhaps `split`; or one candidate with a `label`, as `negatives` writes; or with `ratings` a row
    as `score` reads. The same call continues the interrupted training of a model.
    """
    if settings.ratings is not None:
        from pipelines.train_on_ratings import train_on_ratings

        return train_on_ratings(pairs, settings)
    recipe = settings.recipe()
    from cluster.schema import MissingColumnError
    from pipelines.tables.ratings import columns_apart
    from pipelines.train import train_scorer
    from pipelines.train_features import train_features
    from pipelines.train_on_ratings import development_agreement
    from reffree.scorers.fitting import LinearRecipe

    agreement = development_agreement(settings)
    settings = replace(settings, columns=columns_apart(settings.columns)[0] or None)
    try:
        if isinstance(recipe, LinearRecipe):
            return train_features(pairs, settings, recipe, agreement)
        return train_scorer(pairs, settings, recipe)
    except MissingColumnError as error:
        if error.column != "reference":
            raise
        remedy = "or, if people rated these summaries, give `--ratings FILE` (it may be the same)"
        raise MissingColumnError(f"{error}, {remedy}", column=error.column) from error


@with_threads
def evaluate(scorer: AnyPath, pairs: OneOrMore, settings: EvaluateSettings) -> list[DomainResult]:
    """Say how well a trained scorer tells references from negatives, for each file of pairs.

    Only documents it was not trained on count.
    """
    if not (pairs := several(pairs)):
        raise ValueError("name a scorer's folder, then at least one file with pairs")
    from pipelines.evaluate import evaluate_scorer

    return evaluate_scorer(several([scorer, *settings.also]), pairs, settings)


@with_threads
def negatives(pairs: OneOrMore, settings: NegativesSettings) -> NegativesRun:
    """Make wrong summaries from the right ones, with labels, and write them to a file.

    One row of `pairs` is one document: `document_id`, `source`, `reference` or `references`, and
    perhaps `split`. Documents without one are split 80/10/10.
    """
    from pipelines.negatives import write_negatives

    return write_negatives(pairs, settings)


@with_threads
def reinforce(pairs: OneOrMore, settings: ReinforceSettings) -> ReinforcedSummarisers:
    """Train a summariser with a metric as reward, and compare it with one that has none.

    First by maximum likelihood, then by likelihood and reward (Clark et al. 2019, section 5).
    `pairs` are as for `train`; the same call continues an interrupted run.
    """
    from pipelines.reinforcement import reinforce_summariser

    return reinforce_summariser(pairs, settings)


def output_of(
    file: AnyPath | None, *suffixes: str, apart: Sequence[str] = (), option: str = "--out"
) -> Output | None:
    """Name the file of an option, if there is one, once it is sure that it can be written."""
    from cluster.output import Output

    if file is None:
        return None
    output = Output.named(option, file)
    output.check_file(*suffixes)
    output.check_apart(apart)
    return output

"""The public functions of `assay`: the verbs with their settings as keywords.

What a verb does is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from pipelines.settings.compare import CompareSettings
from pipelines.settings.correlate import CorrelateSettings
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.export import ExportSettings
from pipelines.settings.form import as_call, keywords, shared_fields
from pipelines.settings.judge import JudgeSettings
from pipelines.settings.negatives import NegativesSettings
from pipelines.settings.preferences import PreferencesSettings
from pipelines.settings.reinforce import ReinforceSettings
from pipelines.settings.reproduce import ReproduceSettings
from pipelines.settings.score import ScorerSettings, ScoreSettings
from pipelines.settings.train import TrainSettings
from sms.naming import AnyPath, OneOrMore
from sms.settings import settings_of, shown

if TYPE_CHECKING:
    from assay._rows import Rows
    from pipelines.evaluate import DomainResult
    from pipelines.export import ExportedScorer
    from pipelines.judge import Judgement
    from pipelines.judging_sheet import JudgingSheet
    from pipelines.negatives import NegativesRun
    from pipelines.papers.reproduction import Reproduction
    from pipelines.reinforcement import ReinforcedSummarisers
    from pipelines.reports.comparison import ScoreComparison
    from pipelines.reports.explain_page import ExplainedSystem
    from pipelines.reports.preferences import Preferences
    from pipelines.runs.score_run import ScoreRun
    from pipelines.status import RunStatus
    from pipelines.tables.records import AgreementResult
    from pipelines.train_model import TrainedScorer
    from pipelines.train_on_ratings import RatedTraining
    from sms.encoders.registry import EncoderKind
    from sms.metric import Metric


@dataclass(frozen=True, kw_only=True)
class _Call(ScoreSettings):
    """The settings of `score`, and which columns or texts are what."""

    candidate: Annotated[str | None, "python"] = None
    """Column with the texts to score. Default: `candidate`."""
    reference: Annotated[Any, "python"] = None
    """Column with the reference, or a list of several; where `data` is a list of texts, the
    references themselves. Default: `reference` or `references`."""
    source: Annotated[Any, "python"] = None
    """Column with the source, or a list of several; where `data` is a list of texts, the sources
    themselves. Default: `source`."""
    out: Annotated[AnyPath | None, "python"] = None  # type: ignore[assignment]
    """Score into this folder or URL, and return the run. Must be given if `data` are files."""


@keywords(_Call)
def score(data: Rows, settings: _Call) -> Any:
    """Score candidates.

    `data` are rows: a list of dicts, a dict of lists, a pandas, polars or Arrow table, a Hugging
    Face data set, or a list of texts (with `reference` or `source` as lists of the same length).
    The same kind of table is returned, in the same order, with a column of floats per score and a
    column `status`, which is null where the row has its scores and otherwise says why not. Columns
    of `data` do not change: if one is called `status`, the new one is `assay.status`, and so on. No
    ids are needed. Signatures are in `attrs` of a pandas table and in the metadata of an Arrow
    table, under `assay.signatures`. The models stay in memory for the next call with the same
    settings; a `Scorer` keeps them for as long as you like.

    Or `data` are files: paths, folders, globs or URLs, as for `assay score`. For files, and for
    rows with `out`, the result is a `ScoreRun` in that folder; the same call continues it.
    """
    from assay._rows import files_of, rows_of  # takes a moment

    columns = {
        name: getattr(settings, name)
        for name in ("candidate", "reference", "source")
        if getattr(settings, name) is not None
    }
    rows = rows_of(data, columns, settings.columns)
    if rows is None:
        return _score_files(files_of(data), columns, settings)
    if not rows.n_rows:
        or_file = "" if rows.columns else " or name at least one file,"
        raise ValueError(f"`data` must have at least one row,{or_file} got none")
    arguments = shared_fields(ScoreSettings, settings)
    if settings.out is not None:
        if settings.limit is not None:
            raise ValueError("`limit` is for files; give the first rows of `data` instead")
        return rows.run(arguments)
    from assay._scorer import warm_scorer

    return warm_scorer(_scorer_settings(settings))._put_to(rows)


def _scorer_settings(settings: _Call) -> ScorerSettings:
    """Return the settings of a scorer; refuse those of a run, which makes files."""
    shared = shared_fields(ScorerSettings, settings)
    for setting in settings_of(ScoreSettings):
        value = getattr(settings, setting.name)
        if setting.name not in ("out", "keep", *shared) and value != setting.checked(
            setting.default
        ):
            raise ValueError(
                f"`{setting.name}` is for files, and for rows with `out`; leave it out, or add "
                "`out=FOLDER`"
            )
    columns = ("candidate", "reference", "source", "columns")
    return ScorerSettings(**{name: x for name, x in shared.items() if name not in columns})


def _score_files(files: OneOrMore, columns: Mapping[str, Any], settings: _Call) -> ScoreRun:
    from pipelines.score import score as run

    if settings.out is None:
        raise ValueError(
            "`out` must name a folder for the scores of files, got none (to score texts, not "
            "files, give `reference` or `source` as lists, too)"
        )
    for ours, theirs in columns.items():
        if not isinstance(theirs, str):
            raise TypeError(
                f"`{ours}` must be the name of one column of the files, got {shown(theirs)}"
            )
    arguments = shared_fields(ScoreSettings, settings)
    arguments["columns"] = {**(settings.columns or {}), **columns} or None
    return run(files, ScoreSettings(**arguments))


@dataclass(frozen=True, kw_only=True)
class _Judged(JudgeSettings):
    """What `judge` takes: settings, with ratings that may be rows, too."""

    ratings: Annotated[Any, "python"]
    """Human ratings of some rows, a file or a table: `document_id`, `system_id`, perhaps `rater`,
    and an aspect per column."""


@keywords(_Judged)
def judge(data: Rows, settings: _Judged) -> Judgement:
    """Say which metric to trust on partly rated data, and how long scoring all of it takes.

    `data` are rows or files as `score` takes them, with `document_id` and `system_id`. The usual
    metrics are computed for the rated rows and compared with the ratings; `print(judgement.text())`
    says which metric to use for which aspect, which cannot be told apart from it, whether any
    beats `length` and `density`, and how long the whole corpus takes.
    """
    from assay._rows import called, files_of, rows_of
    from pipelines.judge import judge as run

    arguments = shared_fields(JudgeSettings, settings)
    with TemporaryDirectory() as folder:
        paths: dict[str, Any] = {}
        names = {f"{folder}/rows.parquet": "data", f"{folder}/ratings.parquet": "ratings"}
        for (path, name), given in zip(names.items(), (data, settings.ratings), strict=True):
            if (table := rows_of(given, {})) is None:
                paths[name] = files_of(given)
            else:
                paths[name] = path
                table.write_table(path, name)
        with called(names):
            judged = run(paths["data"], JudgeSettings(**arguments | {"ratings": paths["ratings"]}))
    if paths["data"] in names:  # rows of Python, of which no command knows
        judged = replace(judged, command=as_call("score", "rows", judged.scoring))
    return judged


@keywords(CorrelateSettings)
def correlate(scores: OneOrMore, settings: CorrelateSettings) -> AgreementResult:
    """Correlate scores with human ratings, at every level, with intervals and tests.

    `scores` are folders of `assay score`, or files of any tool with a row per candidate:
    `document_id`, `system_id` and a column of numbers per metric. Returns all tables.
    """
    from pipelines.correlation.run import correlate as run

    return run(scores, settings)


@keywords(CompareSettings)
def compare(
    scores_a: AnyPath, scores_b: AnyPath | None, settings: CompareSettings
) -> ScoreComparison:
    """Say which system has the higher scores, without ratings.

    Both are folders of `assay score` or files of scores. Without `scores_b`, every pair of systems
    of `scores_a` is compared; `means` then has letters that say which differ. If both have the same
    systems, the two runs of each are compared; otherwise, every system of `scores_a` with every
    system of `scores_b`. Only documents that both have are used. A metric is refused if its
    signatures differ.
    """
    from pipelines.compare import compare as run

    return run(scores_a, scores_b, settings)


@keywords(PreferencesSettings)
def preferences(judgements: OneOrMore, settings: PreferencesSettings) -> Preferences | JudgingSheet:
    """Say which system people prefer, from judgements of two texts each.

    A file has a row per judgement: `document_id`, `system_a`, `system_b`, `winner` (one of the
    two, or tie), perhaps `judge` and `criterion`; or counts of `wins`, `losses` and `ties`; or it
    is a filled sheet. With `make_sheet` a new sheet is made instead, and there are no judgements.
    """
    from pipelines.preferences import preferences as run

    return run(judgements, settings)


@keywords(ExplainSettings)
def explain(corpora: OneOrMore, settings: ExplainSettings) -> list[ExplainedSystem]:
    """Show what the scores of a document are made of, for each of its systems.

    Mover's similarities are explained by their transport plan (which words and sentences move
    where, and at what cost), other metrics by what the score loses when a sentence is left out.
    `corpora` is what `assay score` reads; it may be empty where `scores` names a run.
    """
    from pipelines.explain import explain as run

    return run(corpora, settings)


@keywords(TrainSettings)
def train(pairs: OneOrMore, settings: TrainSettings) -> TrainedScorer | RatedTraining:
    """Train a scorer that needs no reference, on good summaries and wrong ones made from them.

    One row of `pairs` is one document: `document_id`, `source`, `reference` or `references`, and
    perhaps `split`; or one candidate with a `label`, as `negatives` writes; or with `ratings` a row
    as `score` reads. The same call continues an interrupted training of a neural scorer.
    """
    from pipelines.train import train as run

    return run(pairs, settings)


@keywords(EvaluateSettings)
def evaluate(scorer: AnyPath, pairs: OneOrMore, settings: EvaluateSettings) -> list[DomainResult]:
    """Say how well a trained scorer tells references from negatives, for each file of pairs.

    Only documents that it was not trained on are used.
    """
    from pipelines.evaluate import evaluate as run

    return run(scorer, pairs, settings)


@keywords(ExportSettings)
def export(what: str, scorer: AnyPath, settings: ExportSettings) -> ExportedScorer:
    """Export a trained scorer with a card, to a new folder or to the Hugging Face hub.

    `what` is "scorer", `scorer` the folder. An upload is one commit; those who may read it name
    the scorer `reffree@hf:OWNER/NAME`.
    """
    from pipelines.export import export as run

    return run(what, scorer, settings)


@keywords(NegativesSettings)
def negatives(pairs: OneOrMore, settings: NegativesSettings) -> NegativesRun:
    """Make wrong summaries from the right ones, with labels, and write them to a file.

    One row of `pairs` is one document: `document_id`, `source`, `reference` or `references`, and
    perhaps `split`. Documents without one are split 80/10/10.
    """
    from pipelines.negatives import negatives as run

    return run(pairs, settings)


@keywords(ReinforceSettings)
def reinforce(pairs: OneOrMore, settings: ReinforceSettings) -> ReinforcedSummarisers:
    """Train a summariser with a metric as reward, and compare it with one that has none.

    First by maximum likelihood, then by likelihood and reward (Clark et al. 2019, section 5).
    `pairs` are as for `train`; the same call continues an interrupted run.
    """
    from pipelines.reinforcement import reinforce as run

    return run(pairs, settings)


@keywords(ReproduceSettings)
def reproduce(tables: str | Sequence[str], settings: ReproduceSettings) -> list[Reproduction]:
    """Make tables of the three papers: published, ours, and the difference.

    `tables` are names such as "clark2019-table2". Assay computes everything that the files in
    `data` allow, and names what is missing.
    """
    from pipelines.papers.run import reproduce as run

    return run(tables, settings)


def status(out: AnyPath) -> RunStatus:
    """Say how far the run in a folder or URL has got, while it is running or after its end.

    Raises
    ------
    ValueError
        If there is no run.
    """
    from pipelines.status import run_status

    return run_status(out)


def metrics() -> Mapping[str, Metric]:
    """Return the metrics by name: what each needs and what a higher value means."""
    from sms.metrics import all_metrics

    return dict(all_metrics())


def encoders() -> Mapping[str, EncoderKind]:
    """Return the encoders by kind: their vectors and their options."""
    from sms.encoders.registry import all_encoders

    return dict(all_encoders())

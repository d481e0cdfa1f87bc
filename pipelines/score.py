"""Scores a corpus of files into a folder: checks everything first, then runs what is left to do.

The order: configuration, inputs, output folder, encoders; then `run.json`, the shards, the totals.
Nothing is scored before all checks have passed. A finished run that is asked for more metrics
computes these alone, and puts them beside the scores it has. How a shard is scored is in
`cluster`, what a score is in `sms`, what is in the folder in `cluster.manifest`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from cluster import (
    InputFile,
    Job,
    Shard,
    ShardReport,
    committed,
    committed_parts,
    longest_first,
    plan_shards,
    with_file_facts,
)
from cluster.corpus import check_kept, find_inputs, with_copies
from cluster.driver import Driver
from cluster.facts import Description
from cluster.history import History, read_history
from cluster.live import LiveRun
from cluster.manifest import (
    OWN_NAMES,
    PAGE_FILE,
    PROGRESS_FILE,
    SUCCESS_FILE,
    Manifest,
    by_path,
    changed,
    delete_own_files,
    holds_copies_only,
    read_manifest,
    refusal,
    write_manifest,
)
from cluster.output import Output
from cluster.progress import COMPILING, SCORING, Progress
from cluster.reading import COPIES_FOLDER, read_batches
from cluster.runners import describe_on_ray
from cluster.schema import CANDIDATE, ONE_SYSTEM, Wanted
from cluster.store import StorageFull, absolute, delete_file, join, local_folder, write_whole
from pipelines.fetched import fetched_config, open_scorer
from pipelines.runs.forks import with_threads
from pipelines.runs.machines import Machines
from pipelines.runs.score_run import RunInterrupted, ScoreRun, close
from pipelines.settings.form import shared_fields
from pipelines.settings.score import ScoreSettings
from reffree.scorers.naming import is_on_hub
from sms.compiling import is_compiled
from sms.config import ScoringConfig
from sms.naming import OneOrMore, counted, several
from sms.noticing import TEXTS_LOOKED_AT, Notices
from sms.options import places_of
from sms.scoring import SummaryScorer
from sms.signature import library_versions
from sms.text.sentences import sentence_end
from sms.urls import check_no_secrets

ROWS_PER_SHARD = 20_000
"""Where no metric needs a neural model: about a second of work on a core."""
ROWS_PER_SHARD_NEURAL = 1_000
"""Where one does: some ten seconds of work on a core."""
ROWS_PER_SHARD_GPU = 100_000
"""Where it runs on GPUs: a second or more of work. A driver hands out a thousand shards a second,
so with smaller ones a few dozen GPUs would keep it busy."""
SHARDS_LOOKED_AT = 4
"""Of so many shards the first texts are looked at for the language that they are in."""
WRITE_EVERY_S, WRITE_SHARE = 10.0, 0.05
"""`run.json` is written so often while a run goes on, but in no more than this share of the time.
It has a line for every shard."""


def score(corpora: OneOrMore, settings: ScoreSettings) -> ScoreRun:
    """Score every row of a corpus, and write a page about it; errors as of `score_corpus`."""
    run = score_corpus(corpora, settings)
    if run.is_complete:
        _write_page(run, settings.explain)
    return run


@with_threads
def _write_page(run: ScoreRun, is_explained: bool) -> None:
    """Write the page about a run, and explanations of its extremes."""
    from pipelines.reports.scores_page import render_run
    from pipelines.summary import higher_is

    pictures = {}
    if is_explained:
        from pipelines.explain import explain_extremes  # brings encoders

        pictures = explain_extremes(run)
    page = render_run(run, {name: higher_is(name) for name in run.main_columns}, pictures)
    write_whole(join(run.out, PAGE_FILE), page.encode("utf-8", "replace"))


def score_corpus(corpora: OneOrMore, settings: ScoreSettings) -> ScoreRun:
    """Score every row of a corpus.

    A run that was interrupted, or had shards that failed, goes on where it stopped when it is
    asked for again with the same settings, inputs and versions. A finished run that is asked for
    with more metrics computes only these.

    Raises
    ------
    ValueError, OSError
        If the request is wrong, most often before anything is scored.
    RunInterrupted
        If it is interrupted from the keyboard once scoring has begun.
    FolderInUse
        If another driver works in the folder.
    StorageFull
        If there is no room left for the scores.
    RuntimeError
        If no worker can be kept alive, or an input changed while it was being scored.
    """
    started = time.monotonic()
    run = _Run(several(corpora), settings)
    with run.started_workers():  # they load while the inputs are read here
        run.tell(Progress(stage="reading the inputs"))
        found = find_inputs(run.corpora, run.out, run.wanted, run.settings.limit)
        run.wanted = found.wanted
        Output("--out", run.out).check_folder(*OWN_NAMES)
        run.start_workers_for(found.files)
        with LiveRun(
            run.out, lambda driver: run.tell(Progress(stage=f"waiting for {driver}"))
        ) as live:
            scored = run.finish(found.files, live, started)
    return replace(scored, n_corpus_rows=found.n_rows)


class _Run:
    """What is asked for, checked; then what is left to do in a folder that is held."""

    def __init__(self, corpora: Sequence[str], settings: ScoreSettings) -> None:
        """Check all that can be checked without looking at a file."""
        out = os.fspath(settings.out)
        paths = places_of(settings.models or {})
        for text in (*corpora, out, *settings.metrics, *settings.specs.values(), *paths):
            check_no_secrets(text)
        self.corpora, self.settings = corpora, settings
        self.config = ScoringConfig(**shared_fields(ScoringConfig, settings))
        self.machines = Machines.of(settings, is_neural=self.config.is_neural)
        self.shares = self.machines.shares_of_limits(self.config.asked)
        if self.config.precision == "auto" and self.config.is_neural:
            self.config = replace(self.config, precision=self.machines.precision)
        if (replaced := self.config.replaced) and not self.machines.is_local:
            raise ValueError(
                f"this program replaces Assay's `{replaced[0]}`, but workers would use Assay's; "
                "leave out `--workers`, or rename yours"
            )
        self.fields = self.config.columns
        self.out = absolute(out).rstrip("/")
        self.wanted = Wanted(
            needed=self.config.input_columns,
            columns=dict(settings.columns or {}),
            keep=tuple(settings.keep),
            system=settings.system or ONE_SYSTEM,
            sentence_end=sentence_end(settings.sentences),
        )
        cache = settings.embedding_cache
        self.cache_folder = None if cache is None else str(local_folder("embedding_cache", cache))
        self.scorer: SummaryScorer | None = None
        self.workers: Driver | None = None
        self.alone: Machines | None = None
        """What would score without workers, where nobody has asked for these."""

    def tell(self, progress: Progress) -> None:
        """Say how far the run is."""
        if self.settings.on_progress is not None:
            self.settings.on_progress(progress)

    @contextmanager
    def started_workers(self) -> Iterator[None]:
        """Have the processes of this machine that will score, if any, load their scorer."""
        self._pin_models()
        try:
            self._start_workers()
            yield
        finally:
            self._end_workers()

    def start_workers_for(self, inputs: Sequence[InputFile]) -> None:
        """Have processes of this machine score what is long for one, unless it is said who scores.

        They may not find what this program has added to the metrics or encoders: see `_described`.
        """
        shares_limit = any(metric.most_workers is not None for metric in self.config.asked)
        if self.config.is_neural or shares_limit or self.config.replaced:
            return
        n_rows = sum(file.likely_rows for file in inputs)
        suited = self.machines.suited_to(min(n_rows, self.settings.limit or n_rows))
        if suited is not self.machines:
            self.alone, self.machines = self.machines, suited
            try:
                self._start_workers()
            except Exception:  # noqa: BLE001  (whatever is wrong is said where it is scored here)
                self._score_alone()

    def _start_workers(self) -> None:
        if not (self.machines.is_local or self.machines.is_on_ray):
            fetched_config(self.config)  # from a store, by this process alone
            maker = self._scorer_maker()
            self.workers = self.machines.start_processes(maker, describe=_description)

    def _score_alone(self) -> None:
        """Score here after all, where nobody has asked for workers."""
        assert self.alone is not None  # noqa: S101
        self._end_workers()
        self.machines, self.alone = self.alone, None

    def _pin_models(self) -> None:
        """Have all workers, and a run that goes on, load the same commit of a scorer on the hub."""
        if any(map(is_on_hub, self.config.model_paths.values())):
            self.tell(Progress(stage="fetching from the hub"))
            earlier = None if self.settings.fresh else read_manifest(self.out)
            self.config = self.config.pinned(earlier.signatures if earlier else {})

    def finish(self, inputs: Sequence[InputFile], live: LiveRun, started: float) -> ScoreRun:
        """Check what is in the folder, load the scorer, make the plan, and do what is left."""
        found, is_fresh = self._found(), self.settings.fresh
        earlier = None if is_fresh else found
        versions = library_versions()
        described = self._described(versions)
        check_kept(self.wanted.keep, self.fields)
        manifest = Manifest(
            configuration=self._configuration(earlier),
            signatures=described["signatures"],
            encoders=described["files"],
            versions=versions,
            inputs=[file.without_outline() for file in inputs],
            shards=[],
        )
        if found is not None and is_fresh:
            delete_own_files(self.out)
        base = _base_of(self.out, earlier, manifest)
        manifest = replace(manifest, shards=self._plan(inputs, earlier, manifest), base=base)
        history = History()
        if earlier is not None and earlier.fingerprint == manifest.fingerprint:
            history = read_history(self.out, manifest, earlier.result)
        if base:  # compute only added metrics, by workers that load only those
            metrics = [name for name in self.config.metrics if name not in base["metrics"]]
            self.config = replace(self.config, metrics=tuple(metrics))
            self._end_workers()
            self.scorer = None
        found = earlier = None  # frees memory: a manifest can list a million shards
        before = (history.n_rows, history.n_done)
        job = self._job(manifest)
        try:
            if len(history) < len(manifest.shards):
                self._score_rest(job, manifest, history, live)
            return close(
                *(self.out, manifest, history, before, self.tell),
                started=started,
                is_strict=self.settings.strict,
            )
        except KeyboardInterrupt as interrupt:
            done = committed(self.out, manifest.shards, manifest.fingerprint)
            raise RunInterrupted(len(done), len(manifest.shards)) from interrupt

    def _found(self) -> Manifest | None:
        """Read what run is in the output folder, which may hold nothing else if there is none."""
        found = read_manifest(self.out)
        names = Output("--out", self.out).names()
        # While the progress file is being written, it has a longer name.
        progress_name = re.compile(rf"{re.escape(PROGRESS_FILE)}(\.[0-9a-f]+\.partial)?")
        foreign = [name for name in names if not progress_name.fullmatch(name)]
        if foreign == [COPIES_FOLDER] and holds_copies_only(self.out):
            foreign = []
        if found is None and foreign:
            raise ValueError(
                f"{self.out} holds files that are not from an assay run ({', '.join(foreign[:3])}"
                f"{', …' if len(foreign) > 3 else ''}); choose an empty or a new folder"
            )
        return found

    def _described(self, versions: Mapping[str, str]) -> Description:
        """Return the `_description` of the scorer, which is kept if it was made here.

        Where others score, this process has no use for the encoders. Workers that nobody has asked
        for and that cannot make it are done without.
        """
        machines = self.machines
        loaded = ", ".join(self.config.used_encoders) or "the metrics"
        self.tell(Progress(stage=f"loading {loaded}"))
        if self.workers is not None:
            # while they load, what is needed at the end: it takes a moment, too
            from pipelines.reports import scores_page  # noqa: F401

            try:
                return self.workers.description()
            except Exception:
                if self.alone is None:
                    raise
            self._score_alone()
            machines = self.machines
        if machines.is_on_ray:
            options = replace(machines.ray, versions=versions)
            return describe_on_ray(self._scorer_maker(), _description, self.out, options)
        self.scorer = self._scorer_maker()(machines.driver_threads)
        return _description(self.scorer)

    def _configuration(self, earlier: Manifest | None) -> dict[str, Any]:
        """Return what the scores depend on; a run that goes on keeps the size of its shards."""
        rows = ROWS_PER_SHARD
        if self.config.is_neural:
            rows = ROWS_PER_SHARD_GPU if self.machines.uses_gpu else ROWS_PER_SHARD_NEURAL
        if earlier is not None:
            rows = earlier.configuration["rows_per_shard"]
        return {
            **self.config.as_dict(),
            "columns": dict(self.wanted.columns),
            "keep": list(self.wanted.keep),
            "system": self.wanted.system,
            "rows_per_shard": self.settings.rows_per_shard or rows,
            "limit": self.settings.limit,
        }

    def _scorer_maker(self) -> Callable[..., SummaryScorer]:
        """Return what makes the scorer, where it scores."""
        return partial(
            open_scorer,
            self.config,
            device=self.machines.worker_device,
            cache_folder=self.cache_folder,
            n_workers=self.machines.n_scoring or 1,
        )

    def _end_workers(self) -> None:
        if self.workers is not None:
            self.workers.close()
        self.workers = None

    def _plan(
        self, inputs: Sequence[InputFile], earlier: Manifest | None, manifest: Manifest
    ) -> list[Shard]:
        """Cut the inputs into shards, or take the plan of the run that goes on."""
        limit = self.settings.limit
        if earlier is not None:
            done = committed(self.out, earlier.shards, manifest.fingerprint)
            if len(done) == len(earlier.shards):
                return with_file_facts(earlier.shards, inputs)
        if any(file.needs_copy for file in inputs):
            self.tell(Progress(stage="converting the inputs to Parquet"))
            inputs = with_copies(inputs, self.out, self.wanted, limit)
        if earlier is not None:
            return with_file_facts(earlier.shards, inputs)
        rows_per_shard = manifest.configuration["rows_per_shard"]
        return with_file_facts(plan_shards(inputs, rows_per_shard, limit), inputs)

    def _job(self, manifest: Manifest) -> Job:
        """Say what is the same for every shard."""
        base: Mapping[int, str] = {}
        if manifest.base:
            base = committed_parts(self.out, manifest.shards, manifest.base["fingerprint"])
            done = {*base, *committed(self.out, manifest.shards, manifest.fingerprint)}
            if lost := [shard for shard in manifest.shards if shard.index not in done]:
                raise ValueError(
                    f"no metrics can be added to the run in {self.out}, which has lost the scores "
                    f"of {lost[0]}; put their file back, or use `--fresh` to score all again"
                )
        return Job(
            out=self.out,
            fingerprint=manifest.fingerprint,
            wanted=self.wanted,
            base=base,
            fields=self.fields,
            batch_rows=self.config.batch_rows,
            has_gpu=self.config.is_neural and self.machines.uses_gpu,
            metadata={
                "assay.version": manifest.versions["assay"],
                "assay.signatures": json.dumps(dict(manifest.signatures), ensure_ascii=False),
            },
        )

    def _expected(self, manifest: Manifest) -> Description:
        """Return what a worker's scorer must be; it may compute the added metrics alone."""
        # what comes along with an encoder is that of all metrics, and none of these
        asked = {column for metric in self.config.asked for column in metric.columns}
        signatures = {name: text for name, text in manifest.signatures.items() if name in asked}
        return {"signatures": signatures, "files": manifest.encoders}

    def _score_rest(self, job: Job, manifest: Manifest, history: History, live: LiveRun) -> None:
        """Score the shards that are not done, and add them to the history."""
        n_rows, n_done = sum(shard.n_rows for shard in manifest.shards), history.n_rows
        found = self.machines.found(is_neural=self.config.is_neural)
        note = "\n".join(filter(None, [found, *self.shares]))
        so_far = Progress(stage=SCORING, n_rows=n_rows, n_done=n_done, n_earlier=n_done, note=note)
        make_scorer = self._scorer_maker()
        if self.machines.is_local and self.scorer is not None:
            make_scorer = partial(_already_made, [self.scorer], make_scorer)
        self.scorer = None  # on Ray every worker loads its own: the driver has no more use for it
        written, cost_s = time.monotonic(), 0.0

        def write() -> None:
            nonlocal written, cost_s
            began = time.monotonic()
            try:
                write_manifest(self.out, replace(manifest, result=history.to_json()))
            finally:
                written = time.monotonic()
                cost_s = written - began

        notices = Notices(self.config.language)

        def on_report(report: ShardReport) -> None:
            nonlocal so_far
            history.add(report)
            notices.look_at_counts(history.counters)
            so_far = replace(so_far, n_done=history.n_rows, n_failed_shards=len(history.errors))
            live.reported(report.index, report.error, so_far)
            self.tell(so_far)
            if time.monotonic() - written >= max(WRITE_EVERY_S, cost_s / WRITE_SHARE):
                with suppress(OSError):  # storage that is away for a while
                    write()
            if len(history) < len(manifest.shards):
                self._check_budgets(history)
            if report.is_out_of_room and report.error is not None:  # nor is there for the others
                raise StorageFull(report.error.removeprefix(f"{StorageFull.__name__}: "))

        self._check_budgets(history)
        delete_file(join(self.out, SUCCESS_FILE))
        write()
        live.begin(manifest.fingerprint, so_far)
        self.machines.warn_of_idle_gpus()
        notices.look_at(self._sample_of_texts(manifest.shards))
        self.tell(so_far if is_compiled() else replace(so_far, stage=COMPILING))
        left = longest_first(shard for shard in manifest.shards if shard.index not in history)
        work = (left, make_scorer, job, on_report, live.started)
        try:
            self.machines.run(
                *work,
                versions=manifest.versions,
                started=self.workers,
                describe=_description,
                expected=self._expected(manifest),
            )
        except BaseException:
            with suppress(OSError):  # what has ended the run is the error to tell of
                write()
            raise

    def _check_budgets(self, history: History) -> None:
        """Stop where a metric may take no more; `RuntimeError` with what to do."""
        for metric in self.config.asked:
            if why := metric.why_stop(history.counters):
                raise RuntimeError(f"{why}; {counted(history.n_rows, 'row')} are scored")

    def _sample_of_texts(self, shards: Sequence[Shard]) -> list[str | None]:
        """Read the first candidates of some shards, which lie apart."""
        chosen = shards[:: max(1, len(shards) // SHARDS_LOOKED_AT)][:SHARDS_LOOKED_AT]
        wanted = replace(self.wanted, needed=(CANDIDATE,), keep=())
        texts: list[str | None] = []
        for shard in chosen:
            first = replace(shard, pieces=shard.pieces[:1])
            # what is wrong with a file is said where it is scored
            with suppress(OSError, ValueError, pa.ArrowException):
                rows = next(read_batches(first, wanted, TEXTS_LOOKED_AT // len(chosen)))
                texts += rows[CANDIDATE].to_pylist()
        return texts


def _base_of(out: str, earlier: Manifest | None, manifest: Manifest) -> Mapping[str, Any]:
    """Return which finished run is only asked for more metrics; refuse any other."""
    if earlier is None:
        return {}
    if earlier.fingerprint == manifest.fingerprint:
        return earlier.base
    if not is_only_more_metrics(earlier, manifest):
        raise ValueError(refusal(out, earlier, manifest))
    if len(committed(out, earlier.shards, earlier.fingerprint)) < len(earlier.shards):
        raise ValueError(
            f"metrics can only be added to a finished run, but the run in {out} has not finished; "
            "finish it with its earlier metrics first, or use `--fresh` to replace it"
        )
    metrics = list(earlier.configuration["metrics"])
    return {"fingerprint": earlier.fingerprint, "metrics": metrics}


def is_only_more_metrics(old: Manifest, new: Manifest) -> bool:
    """Say whether a run asks for the metrics of another and more, and all else is the same."""
    may_differ = {"metrics", "encoders"}  # which encoder a metric reads is in its signature
    if old.configuration["precision"] == "auto":
        may_differ.add("precision")
    return (
        set(old.configuration["metrics"]) < set(new.configuration["metrics"])
        and {name for name, *_ in changed(old.configuration, new.configuration)} <= may_differ
        and old.signatures.items() <= new.signatures.items()
        and old.encoders.items() <= new.encoders.items()
        and old.versions == new.versions
        and by_path(old.inputs) == by_path(new.inputs)
    )


def _description(scorer: SummaryScorer) -> Description:
    """Return the signatures of a scorer's columns, and the hashes of its files."""
    return {"signatures": scorer.signatures, "files": scorer.content}


def _already_made(
    made: list[SummaryScorer], make_scorer: Callable[..., SummaryScorer], threads: int
) -> SummaryScorer:
    """Hand out the scorer there is, once; make another one after that."""
    return made.pop() if made else make_scorer(threads)

"""Scores a corpus of files into a folder: checks everything first, then runs what is left to do.

The order: configuration, inputs, output folder, encoders; then `run.json`, the shards, the sums.
Nothing is scored before all checks have passed. How a shard is scored is in `cluster`, what a
score is in `sms`, what is in the folder in `manifest`.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset

from cluster import (
    InputFile,
    Job,
    Scorer,
    Shard,
    ShardReport,
    canonical_table,
    column_names,
    committed,
    list_inputs,
    part_path,
    plan_shards,
    report_from_file,
    resolve_columns,
    run_local,
)
from cluster.schema import IDS
from cluster.store import absolute, filesystem_for, is_url, open_input
from cluster.worker import one_line
from pipelines.learned_columns import AskedMetrics, WithLearned, with_learned, with_sources
from pipelines.manifest import (
    SUCCESS_FILE,
    Manifest,
    check_can_write,
    delete_file,
    delete_own_files,
    delete_partial_files,
    differences,
    folder_entries,
    library_versions,
    read_manifest,
    refusal,
    write_manifest,
    write_success,
)
from pipelines.progress import SCORING, Progress
from sms.encoders import EncoderRuntime
from sms.encoders.registry import parse_spec
from sms.scoring import ScoringConfig, SummaryScorer

ROWS_PER_SHARD = 20_000
"""Where no metric needs a neural model: about a second of work on a core."""
ROWS_PER_SHARD_NEURAL = 1_000
"""Where one does: some ten seconds of work on a core."""
BATCH_ROWS, BATCH_ROWS_NEURAL = 4_096, 1_024
"""Rows the scorer gets at a time. Larger batches cost less a row; vectors of words in context
bound them."""

_READERS = 16  # threads that wait for files
_KEPT_FROM_PAST = ("seconds", "stage_seconds", "counters", "attempts")
_KEY_ROWS_AT_ONCE = 20_000_000

_Path: TypeAlias = str | os.PathLike[str]
_Runner: TypeAlias = Callable[
    [Sequence[Shard], Job, Callable[[ShardReport], None]], Sequence[ShardReport]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRun:
    """What came of a run."""

    out: str
    scores: str
    """Folder of the scores files; `_SUCCESS` lists those that count."""
    n_rows: int
    """Rows that have been scored, by this run and those before it."""
    n_planned_rows: int
    n_earlier_rows: int
    """Rows an earlier run had scored."""
    n_with_status: int
    """Rows among `n_rows` that lack a score, or whose score comes with a remark."""
    statuses: Mapping[str, int]
    """Rows by status."""
    n_duplicate_keys: int
    """Pairs of document_id and system_id that more than one row has."""
    means: Mapping[str, Mapping[str, float]]
    """By system, then by column; NaN where a system has no score."""
    signatures: Mapping[str, str]
    """By column."""
    n_shards: int
    n_new_shards: int
    """Shards that this run has scored; 0 if there was nothing left to do."""
    failed_shards: Mapping[int, str]
    """Why a shard failed, by its place in the plan."""
    counters: Mapping[str, int]
    """What the encoders counted over all shards, `ALIAS.NAME`: tokens, sentences, cached."""
    seconds: float
    """From the first check to the last file."""
    is_strict: bool

    @property
    def is_complete(self) -> bool:
        """Whether every row of the corpus is scored."""
        return not self.failed_shards

    @property
    def is_accepted(self) -> bool:
        """Whether the run is complete and, if it is strict, no row has a status."""
        return self.is_complete and not (self.is_strict and self.n_with_status)

    @property
    def n_unreadable(self) -> int:
        """Rows that could not be read; `errors/` says where they are."""
        return sum(n for status, n in self.statuses.items() if status.startswith("unreadable"))


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted from the keyboard; what is committed stays."""

    def __init__(self, n_committed: int, n_shards: int) -> None:
        super().__init__(f"{n_committed} of {n_shards} shards are committed")
        self.n_committed = n_committed
        self.n_shards = n_shards


def score_corpus(
    corpora: _Path | Sequence[_Path],
    out: _Path,
    *,
    metrics: Sequence[str] = ("sms", "wms", "s+wms", "cosine", "rougeL"),
    encoders: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    preset: str = "default",
    multi_reference: str = "best",
    language: str = "en",
    source_tokens: int | None = None,
    precision: str = "auto",
    device: str = "auto",
    embedding_cache: _Path | None = None,
    workers: int | None = None,
    cpus_per_worker: int = 1,
    gpus_per_worker: float = 0,
    address: str | None = None,
    local: bool = False,
    fresh: bool = False,
    limit: int | None = None,
    strict: bool = False,
    rows_per_shard: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ScoreRun:
    """Score every row of a corpus.

    A run that was interrupted, or had shards that failed, goes on where it stopped when it is
    asked for again with the same settings, inputs and versions.

    Parameters
    ----------
    corpora : path or sequence of paths
        Parquet, JSONL or CSV: files, folders, globs or URLs.
    out : path
        Folder or URL for `scores/`, `run.json`, `errors/` and `_SUCCESS`.
    metrics : sequence of str
        `METRIC[@ENCODER][:AGAINST]`, see `assay metrics`.
    encoders : mapping of str to str, optional
        Alias to specification, see `assay encoders`; the first is the default. Without: `minilm`.
    columns : mapping of str to str, optional
        Our column name to the file's, where they differ.
    preset, multi_reference, language, source_tokens
        As in `sms.scoring.ScoringConfig`.
    precision : {"auto", "fp32", "bf16", "fp16"}
        What neural encoders compute in; `auto` is fp32 on CPUs and bf16 on GPUs.
    device : {"auto", "cpu", "cuda"}
        Where neural encoders run; `auto` takes a GPU where the worker has one.
    embedding_cache : path, optional
        Folder that keeps embeddings for later runs; workers may share it.
    workers : int, optional
        Workers on Ray; as many as the cluster has room for.
    cpus_per_worker : int
        Cores, and threads, of one worker.
    gpus_per_worker : float
        GPUs of one worker; may be a fraction.
    address : str, optional
        Ray cluster to join; without, one is started on this machine.
    local : bool
        Score in this process, without Ray. It uses as many threads as the workers together would.
    fresh : bool
        Replace the run that is in `out`.
    limit : int, optional
        Score only the first rows.
    strict : bool
        Do not accept a run in which a row has a status (`ScoreRun.is_accepted`).
    rows_per_shard : int, optional
        Rows of one scores file, the unit of restart; chosen by the encoders.
    on_progress : callable, optional
        Called with a `Progress` at every stage and after every shard.

    Returns
    -------
    ScoreRun
        Counts, means and failed shards.

    Raises
    ------
    ValueError, OSError
        If the request is wrong, most often before anything is scored.
    RunInterrupted
        If it is interrupted from the keyboard once scoring has begun.
    RuntimeError
        If no worker can be kept alive, or an input changed while it was being scored.
    """
    started = time.monotonic()
    tell = on_progress or _nobody_listens
    asked_metrics = AskedMetrics.of(metrics)
    config = ScoringConfig(
        metrics=asked_metrics.of_sms,
        encoders={"minilm": "minilm"} if encoders is None else dict(encoders),
        preset=preset,
        multi_reference=multi_reference,
        language=language,
        source_tokens=source_tokens,
        precision=precision,
    )
    machines = _Machines(
        workers=workers,
        cpus_per_worker=cpus_per_worker,
        gpus_per_worker=gpus_per_worker,
        address=address,
        is_local=local,
        device=device,
    )
    config = replace(config, precision=_precision(config, machines))
    cache_folder = _cache_folder(embedding_cache)
    out = absolute(os.fspath(out)).rstrip("/")
    if _is_neural(config) or asked_metrics.folders:
        shard_rows, batch_rows = ROWS_PER_SHARD_NEURAL, BATCH_ROWS_NEURAL
    else:
        shard_rows, batch_rows = ROWS_PER_SHARD, BATCH_ROWS
    asked = {
        **config.as_dict(),
        "metrics": list(metrics),
        "columns": dict(columns or {}),
        "rows_per_shard": rows_per_shard or shard_rows,
        "limit": limit,
    }

    tell(Progress(stage="reading the inputs"))
    files = _inputs(corpora, out)
    needed = config.input_columns
    plan = _checked_plan(files, with_sources(needed) if asked_metrics.folders else needed, asked)
    earlier = _earlier_run(out)

    tell(Progress(stage=f"loading {', '.join(config.used_encoders) or 'the metrics'}"))
    make_scorer: Callable[[int], Scorer] = partial(
        _make_scorer,
        config,
        asked_metrics,
        device=machines.worker_device,
        cache_folder=cache_folder,
    )
    scorer = _make_scorer(
        config,
        asked_metrics,
        machines.driver_threads,
        device=machines.driver_device,
        cache_folder=cache_folder,
    )
    manifest = Manifest(
        configuration=asked,
        signatures=scorer.signatures,
        encoders=scorer.content,
        versions=library_versions(),
        inputs=files,
        shards=plan,
    )
    if machines.is_local:
        make_scorer = partial(_already_made, scorer)
    del scorer  # on Ray every worker loads its own, and the driver has no more use for it
    if earlier is not None and not fresh and earlier.fingerprint != manifest.fingerprint:
        raise ValueError(refusal(out, earlier, manifest))
    if earlier is not None and fresh:
        delete_own_files(out)
        earlier = None

    done = _committed_reports(out, manifest, earlier)
    try:
        reports = _score_rest(
            out, manifest, done, machines.runner(make_scorer), tell, batch_rows=batch_rows
        )
        run = _sum_up(out, manifest, done, reports, started, is_strict=strict)
        _close(out, manifest, run, reports)
    except KeyboardInterrupt as interrupt:
        n_committed = len(committed(out, plan, manifest.fingerprint))
        raise RunInterrupted(n_committed, len(plan)) from interrupt
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machines:
    """Where the work is done."""

    workers: int | None
    cpus_per_worker: int
    gpus_per_worker: float
    address: str | None
    is_local: bool
    device: str
    """Where encoders run: `auto`, `cpu` or `cuda`."""

    def __post_init__(self) -> None:
        EncoderRuntime(device=self.device)
        for name, value, least in (
            ("workers", 1 if self.workers is None else self.workers, 1),
            ("cpus_per_worker", self.cpus_per_worker, 1),
            ("gpus_per_worker", self.gpus_per_worker, 0),
        ):
            if value < least:
                raise ValueError(f"`{name}` must be at least {least}, got {value}")
        if self.is_local and (self.address is not None or self.gpus_per_worker):
            raise ValueError(
                "`--local` scores in one process without Ray; leave out `--address` and "
                "`--gpus-per-worker`, or `--local`"
            )

        if not self.is_local and self.device == "cuda" and not self.gpus_per_worker:
            raise ValueError(
                "`--device cuda` needs GPUs for the workers; add `--gpus-per-worker 1`, or a "
                "fraction"
            )

    @property
    def worker_device(self) -> str:
        """Where a worker's encoders run; Ray hides from a worker the GPUs it was not given."""
        if self.is_local or self.device != "auto":
            return self.device
        return "cuda" if self.gpus_per_worker else "cpu"

    @property
    def driver_device(self) -> str:
        """Where the driver's encoders run, which on Ray only have to name themselves."""
        return self.device if self.is_local else "cpu"

    @property
    def driver_threads(self) -> int:
        """As many as the workers would have together, or all there are where Ray is used."""
        from sms.compiled import available_threads  # brings the compiler, which takes a moment

        n_cpus = available_threads()
        if not self.is_local:
            return n_cpus
        return (self.workers or max(1, n_cpus // self.cpus_per_worker)) * self.cpus_per_worker

    def runner(self, make_scorer: Callable[[int], Scorer]) -> _Runner:
        """Return what scores shards, given them, a job and whom to tell of each."""
        if self.is_local:
            threads = self.driver_threads
            return lambda shards, job, on_report: run_local(
                shards, make_scorer, replace(job, threads=threads), on_report
            )
        from cluster import run_ray

        return lambda shards, job, on_report: run_ray(
            shards,
            make_scorer,
            job,
            on_report,
            workers=self.workers,
            cpus_per_worker=self.cpus_per_worker,
            gpus_per_worker=self.gpus_per_worker,
            address=self.address,
        )


def _nobody_listens(progress: Progress) -> None:
    pass


def _already_made(scorer: Scorer, threads: int) -> Scorer:
    return scorer


def _make_scorer(
    config: ScoringConfig,
    metrics: AskedMetrics,
    threads: int | None,
    *,
    device: str,
    cache_folder: str | None,
) -> SummaryScorer | WithLearned:
    base = SummaryScorer(config, threads, device=device, cache_folder=cache_folder)
    return with_learned(base, metrics, device=device, cache_folder=cache_folder)


def _is_neural(config: ScoringConfig) -> bool:
    specs = (parse_spec(config.encoders[alias]) for alias in config.used_encoders)
    return any(not spec.kind.is_static for spec in specs)


def _precision(config: ScoringConfig, machines: _Machines) -> str:
    """Decide what `auto` means before anything runs: the scores depend on it."""
    if config.precision != "auto" or not _is_neural(config):
        return config.precision
    if machines.is_local:
        from sms.encoders.devices import Machine  # brings torch

        return Machine.choose(EncoderRuntime(device=machines.device)).precision
    return "bf16" if machines.worker_device == "cuda" else "fp32"


def _cache_folder(folder: _Path | None) -> str | None:
    """Return the folder as every worker can find it."""
    if folder is None:
        return None
    if is_url(os.fspath(folder)):
        raise ValueError(
            f"`embedding_cache` must be a folder, got {os.fspath(folder)}; name one that all "
            "workers can reach"
        )
    return absolute(os.fspath(folder))


def _inputs(corpora: _Path | Sequence[_Path], out: str) -> list[InputFile]:
    """List the input files, none of which may be output."""
    names = [corpora] if isinstance(corpora, str | os.PathLike) else corpora
    paths = [os.fspath(name) for name in names]
    files = list_inputs(paths)
    folders = [absolute(path).rstrip("/") for path in paths if os.path.isdir(path)]
    if any(f"{out}/".startswith(f"{corpus}/") for corpus in folders) or any(
        file.path.startswith(f"{out}/") for file in files
    ):
        raise ValueError(
            f"`--out` must not lie inside the corpus, got {out}; what is written there would be "
            "read as input the next time"
        )
    return files


def _checked_plan(
    files: Sequence[InputFile], needed: Sequence[str], asked: Mapping[str, Any]
) -> list[Shard]:
    """Cut the files into shards, once every file has the columns."""
    columns = asked["columns"]
    with ThreadPoolExecutor(_READERS) as pool:
        names = list(pool.map(lambda file: _names_checked(file, needed, columns), files))
    plan = plan_shards(files, asked["rows_per_shard"], asked["limit"])
    planned = {shard.path for shard in plan}
    for file, found in zip(files, names, strict=True):
        if not found and file.path in planned:
            raise ValueError(f"no line of {file.path} is a JSON object with columns")
    return plan


def _names_checked(file: InputFile, needed: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """Check the columns of one file, and their types where it has types; return their names."""
    try:
        names = column_names(file.path, file.format)
        if names or file.format != "jsonl":
            resolve_columns(names, needed, columns, where=file.path)
        if file.format == "parquet":
            with open_input(file.path) as stream:
                empty = pq.read_schema(stream).empty_table()
            canonical_table(empty, needed, columns, where=file.path)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"cannot read {file.path}: {one_line(error)}") from error
    return names


def _earlier_run(out: str) -> Manifest | None:
    """Read what run is in the output folder, which may hold nothing else if there is none."""
    check_can_write(out)
    earlier = read_manifest(out)
    if earlier is None and (foreign := folder_entries(out)):
        raise ValueError(
            f"{out} holds files but no run of assay ({', '.join(foreign[:3])}"
            f"{', …' if len(foreign) > 3 else ''}); choose an empty or a new folder"
        )
    return earlier


def _committed_reports(
    out: str, manifest: Manifest, earlier: Manifest | None
) -> dict[int, ShardReport]:
    """Count again what earlier runs have scored; how long it took is in their `run.json`."""
    n_rows = {shard.index: shard.n_rows for shard in manifest.shards}
    past = {} if earlier is None else {s["index"]: s for s in earlier.result.get("shards", [])}

    def count(index: int) -> ShardReport:
        path = part_path(out, index, manifest.fingerprint)
        try:
            report = report_from_file(path)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise ValueError(
                f"scores file {path} is damaged ({one_line(error)}); delete it to have its "
                "rows scored again"
            ) from error
        if report.n_rows != n_rows[index]:
            raise ValueError(
                f"scores file {path} must have {n_rows[index]} rows, got {report.n_rows}; "
                "delete it to have its rows scored again"
            )
        past_shard = past.get(index, {})
        return replace(report, **{k: past_shard[k] for k in _KEPT_FROM_PAST if k in past_shard})

    indices = sorted(committed(out, manifest.shards, manifest.fingerprint))
    with ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(indices, pool.map(count, indices), strict=True))


def _score_rest(
    out: str,
    manifest: Manifest,
    done: Mapping[int, ShardReport],
    runner: _Runner,
    tell: Callable[[Progress], None],
    *,
    batch_rows: int,
) -> dict[int, ShardReport]:
    """Score the shards that are not done; return the reports of all."""
    reports = dict(done)
    left = [shard for shard in manifest.shards if shard.index not in done]
    if not left:
        return reports
    delete_file(f"{out}/{SUCCESS_FILE}")
    write_manifest(out, replace(manifest, result=_result(reports)))
    n_earlier = sum(report.n_rows for report in done.values())
    so_far = Progress(
        stage=SCORING,
        n_rows=sum(shard.n_rows for shard in manifest.shards),
        n_done=n_earlier,
        n_earlier=n_earlier,
    )

    def on_report(report: ShardReport) -> None:
        nonlocal so_far
        reports[report.index] = report
        so_far = replace(
            so_far,
            n_done=so_far.n_done + report.n_rows,
            n_failed_shards=so_far.n_failed_shards + (report.error is not None),
        )
        tell(so_far)

    job = Job(
        out=out,
        fingerprint=manifest.fingerprint,
        columns=manifest.configuration["columns"],
        batch_rows=batch_rows,
        metadata={
            "assay.version": manifest.versions["assay"],
            "assay.fingerprint": manifest.fingerprint,
            "assay.signatures": json.dumps(dict(manifest.signatures), ensure_ascii=False),
        },
    )
    try:
        tell(so_far)
        runner(left, job, on_report)
    finally:  # how long the shards took is written nowhere else
        write_manifest(out, replace(manifest, result=_result(reports)))
    return dict(sorted(reports.items()))


def _sum_up(
    out: str,
    manifest: Manifest,
    done: Mapping[int, ShardReport],
    reports: Mapping[int, ShardReport],
    started: float,
    *,
    is_strict: bool,
) -> ScoreRun:
    """Add up the reports of all shards, and count duplicate keys over what they wrote."""
    failed = {index: report.error for index, report in reports.items() if report.error is not None}
    parts = [
        part_path(out, index, manifest.fingerprint) for index in reports if index not in failed
    ]
    statuses: Counter[str] = Counter()
    for report in reports.values():
        statuses.update(report.n_status)
    n_rows = sum(report.n_rows for report in reports.values())
    return ScoreRun(
        out=out,
        scores=f"{out}/scores",
        n_rows=n_rows,
        n_planned_rows=sum(shard.n_rows for shard in manifest.shards),
        n_earlier_rows=sum(report.n_rows for report in done.values()),
        n_with_status=statuses.total(),
        statuses=dict(sorted(statuses.items())),
        n_duplicate_keys=count_duplicate_keys(parts, n_rows),
        means=_means(list(reports.values())),
        signatures=manifest.signatures,
        counters=_counters(reports.values()),
        n_shards=len(manifest.shards),
        n_new_shards=len(reports) - len(done) - len(failed),
        failed_shards=failed,
        seconds=time.monotonic() - started,
        is_strict=is_strict,
    )


def count_duplicate_keys(parts: Sequence[str], n_rows: int) -> int:
    """Count the pairs of document_id and system_id that more than one row has.

    Only the two columns are read, and for many rows one portion of the keys after the other, so
    that memory does not grow with the corpus. Rows without one of the ids have no key.
    """
    if not parts:
        return 0
    import polars as pl

    if is_url(parts[0]):
        filesystem, _ = filesystem_for(parts[0])
        inner = [filesystem_for(part)[1] for part in parts]
        keys = pl.scan_pyarrow_dataset(dataset.dataset(inner, filesystem=filesystem))
    else:
        keys = pl.scan_parquet(list(parts), glob=False)
    keys = keys.select(IDS).drop_nulls()
    n_portions = n_rows // _KEY_ROWS_AT_ONCE + 1
    portion = pl.struct(IDS).hash() % n_portions
    return sum(
        keys.filter(portion == i)
        .group_by(IDS)
        .len()
        .filter(pl.col("len") > 1)
        .select(pl.len())
        .collect(engine="streaming")
        .item()
        for i in range(n_portions)
    )


def _means(reports: Sequence[ShardReport]) -> dict[str, dict[str, float]]:
    """Average over all rows of a system that have a score; in the order of system and column."""
    sums: dict[str, dict[str, list[float]]] = {}
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        for system, by_column in report.sums.items():
            held = sums.setdefault(system, {})
            for column, value in by_column.items():
                held.setdefault(column, []).append(value)
            counts.setdefault(system, Counter()).update(report.counts[system])
    return {
        system: {
            column: math.fsum(values) / counts[system][column]
            if counts[system][column]
            else math.nan
            for column, values in sums[system].items()
        }
        for system in sorted(sums)
    }


def _counters(reports: Iterable[ShardReport]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counters)
    return dict(counts)


def _close(out: str, manifest: Manifest, run: ScoreRun, reports: Mapping[int, ShardReport]) -> None:
    """Write down what came of the run, and `_SUCCESS` if nothing is missing."""
    result = {
        "n_rows": run.n_rows,
        "n_with_status": run.n_with_status,
        "statuses": dict(run.statuses),
        "n_duplicate_keys": run.n_duplicate_keys,
        "counters": dict(run.counters),
        "means": {
            system: {name: None if math.isnan(mean) else mean for name, mean in means.items()}
            for system, means in run.means.items()
        },
        **_result(reports),
    }
    write_manifest(out, replace(manifest, result=result))
    if run.failed_shards:
        return
    if run.n_new_shards:
        _check_inputs_unchanged(manifest)
    there = committed(out, manifest.shards, manifest.fingerprint)
    if run.n_rows != run.n_planned_rows or len(there) != run.n_shards:
        raise RuntimeError(
            f"{out} must have {run.n_planned_rows} rows in {run.n_shards} files, got "
            f"{run.n_rows} in {len(there)}; was something deleted meanwhile?"
        )
    parts = (part_path(out, index, manifest.fingerprint) for index in sorted(there))
    write_success(out, (part.removeprefix(f"{out}/") for part in parts))
    delete_partial_files(out)


def _check_inputs_unchanged(manifest: Manifest) -> None:
    now = list_inputs([file.path for file in manifest.inputs])
    changed = differences(manifest, replace(manifest, inputs=now))
    if changed:
        raise RuntimeError(f"{changed[0]} while it was being scored; score it again with `--fresh`")


def _result(reports: Mapping[int, ShardReport]) -> dict[str, Any]:
    """Return what `run.json` keeps of every shard: all but the sums, which its file has."""
    kept = ("index", "n_rows", "n_status", *_KEPT_FROM_PAST, "error")
    shards = [{name: asdict(report)[name] for name in kept} for report in reports.values()]
    return {"shards": shards}

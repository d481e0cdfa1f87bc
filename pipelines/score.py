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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from cluster import (
    InputFile,
    Job,
    RayOptions,
    Scorer,
    Shard,
    ShardReport,
    canonical_table,
    column_names,
    committed,
    is_unchanged,
    knowing,
    list_inputs,
    longest_first,
    part_path,
    plan_shards,
    resolve_columns,
    run_local,
    run_ray,
    with_content,
)
from cluster.inputs import READERS
from cluster.on_ray import cluster_address
from cluster.output import Output
from cluster.store import (
    StorageFull,
    absolute,
    base_name,
    delete_file,
    is_inside,
    join,
    local_folder,
)
from cluster.worker import SCORES_FOLDER, node_name, one_line
from pipelines import learned_columns  # noqa: F401  (adds reffree@DIR to the metrics)
from pipelines.fetched import fetched_config
from pipelines.runs.duplicate_keys import count_duplicate_keys
from pipelines.runs.history import History, delete_history, read_history
from pipelines.runs.live import LOCK_FILE, LiveRun, LockLost
from pipelines.runs.manifest import (
    OWN_NAMES,
    PROGRESS_FILE,
    SUCCESS_FILE,
    Manifest,
    delete_own_files,
    delete_partial_files,
    library_versions,
    read_manifest,
    refusal,
    write_manifest,
    write_success,
)
from pipelines.runs.progress import SCORING, Progress
from sms.encoders import EncoderRuntime
from sms.encoders.registry import parse_spec
from sms.naming import AnyPath, OneOrMore, several
from sms.scoring import ScoringConfig, SummaryScorer
from sms.sentences import sentence_end
from sms.urls import check_no_secrets

ROWS_PER_SHARD = 20_000
"""Where no metric needs a neural model: about a second of work on a core."""
ROWS_PER_SHARD_NEURAL = 1_000
"""Where one does: some ten seconds of work on a core."""
ROWS_PER_SHARD_GPU = 100_000
"""Where it runs on GPUs: a second or more of work. A driver hands out a thousand shards a second,
so with smaller ones a few dozen GPUs would keep it busy."""
BATCH_ROWS, BATCH_ROWS_NEURAL = 4_096, 1_024
"""Rows the scorer gets at a time. Larger batches cost less a row; vectors of words in context
bound them."""

_Runner: TypeAlias = Callable[
    [Sequence[Shard], Job, Callable[[ShardReport], None], Callable[[int, str], None]],
    Sequence[ShardReport],
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


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What runs before this one have done."""

    n_rows: int
    n_shards: int


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted from the keyboard; what is committed stays."""

    def __init__(self, n_committed: int, n_shards: int) -> None:
        super().__init__(f"{n_committed} of {n_shards} shards are committed")
        self.n_committed = n_committed
        self.n_shards = n_shards


def score_corpus(
    corpora: OneOrMore,
    out: AnyPath,
    *,
    metrics: str | Sequence[str] = ("sms", "wms", "s+wms", "cosine", "rougeL"),
    encoders: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    preset: str = "default",
    multi_reference: str = "best",
    language: str = "en",
    sentences: str = "split",
    source_tokens: int | None = None,
    precision: str = "auto",
    device: str = "auto",
    embedding_cache: AnyPath | None = None,
    workers: int | Literal["auto"] | None = None,
    cpus_per_worker: int | None = None,
    gpus_per_worker: float = 0,
    address: str | None = None,
    insecure_cluster: bool = False,
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
    metrics : str or sequence of str
        `METRIC[@ENCODER][:AGAINST]`, see `assay metrics`.
    encoders : mapping of str to str, optional
        Alias to specification, see `assay encoders`; the first is the default. Without: `minilm`.
    columns : mapping of str to str, optional
        Our column name to the file's, where they differ.
    preset, multi_reference, language, sentences, source_tokens
        As in `sms.scoring.ScoringConfig`.
    precision : {"auto", "fp32", "bf16", "fp16"}
        What neural encoders compute in; `auto` is fp32 on CPUs and bf16 on GPUs.
    device : {"auto", "cpu", "cuda"}
        Where neural encoders run; `auto` takes a GPU where the worker has one.
    embedding_cache : path, optional
        Folder that keeps embeddings for later runs; workers may share it.
    workers : int or "auto", optional
        More than one, or ``"auto"``, which is as many as there is room for, are processes on Ray;
        ``"auto"`` goes on filling a cluster when nodes join. One, or None, is this process, unless
        a cluster is joined or GPUs are given out: there None is ``"auto"``.
    cpus_per_worker : int, optional
        Cores, and threads, of one worker. None is 1, and beside a GPU its share of the node's. In
        this process None is all there are, where `workers` does not say how many workers these
        stand for.
    gpus_per_worker : float
        GPUs of one worker on Ray; may be a fraction.
    address : str, optional
        Ray cluster to join; without, the one in `RAY_ADDRESS`, which Ray sets within its jobs. With
        neither, workers that need Ray get a cluster of their own on this machine.
    insecure_cluster : bool
        Join a Ray cluster that asks for no token: whoever reaches its ports runs code on it.
    local : bool
        Score in this process whatever `workers` and `RAY_ADDRESS` say, with as many threads as the
        workers together would have.
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
    FolderInUse
        If another driver works in `out`.
    StorageFull
        If there is no room left for the scores.
    RuntimeError
        If no worker can be kept alive, an input changed while it was being scored, or another
        driver has taken `out` over.
    """
    started = time.monotonic()
    tell = on_progress or _nobody_listens
    corpora, metrics = several(corpora), several(metrics)
    for text in (*corpora, os.fspath(out), *metrics, *(encoders or {}).values()):
        check_no_secrets(text)
    config = ScoringConfig(
        metrics=tuple(metrics),
        encoders={"minilm": "minilm"} if encoders is None else dict(encoders),
        preset=preset,
        multi_reference=multi_reference,
        language=language,
        sentences=sentences,
        source_tokens=source_tokens,
        precision=precision,
    )
    machines = _Machines(
        workers=workers,
        cpus_per_worker=cpus_per_worker,
        gpus_per_worker=gpus_per_worker,
        address=address if local else cluster_address(address),
        is_open_allowed=insecure_cluster,
        asks_for_local=local,
        device=device,
    )
    config = replace(config, precision=_precision(config, machines))
    cache_folder = None
    if embedding_cache is not None:
        cache_folder = str(local_folder("embedding_cache", embedding_cache))
    out = absolute(os.fspath(out)).rstrip("/")
    if _is_neural(config) or config.models:
        is_fast = machines.worker_device == "cuda"
        shard_rows = ROWS_PER_SHARD_GPU if is_fast else ROWS_PER_SHARD_NEURAL
        batch_rows = BATCH_ROWS_NEURAL
    else:
        shard_rows, batch_rows = ROWS_PER_SHARD, BATCH_ROWS
    asked = {
        **config.as_dict(),
        "columns": dict(columns or {}),
        "rows_per_shard": rows_per_shard or shard_rows,
        "limit": limit,
    }

    tell(Progress(stage="reading the inputs"))
    files = _inputs(corpora, out)
    plan = _checked_plan(files, config.input_columns, asked)
    inputs, plan = _known_by_content(files, plan)
    Output("--out", out).check_folder(*OWN_NAMES, LOCK_FILE)
    with LiveRun(out, lambda driver: tell(Progress(stage=f"waiting for {driver}"))) as live:
        earlier = _earlier_run(out)

        tell(Progress(stage=f"loading {', '.join(config.used_encoders) or 'the metrics'}"))
        make_scorer: Callable[..., Scorer] = partial(
            _make_scorer,
            config,
            device=machines.worker_device,
            cache_folder=cache_folder,
        )
        scorer = _make_scorer(
            config,
            machines.driver_threads,
            device=machines.driver_device,
            cache_folder=cache_folder,
        )
        manifest = Manifest(
            configuration=asked,
            signatures=scorer.signatures,
            encoders=scorer.content,
            versions=library_versions(),
            inputs=inputs,
            shards=plan,
        )
        make_scorer = partial(make_scorer, expected=manifest.encoders)
        if machines.is_local:
            make_scorer = partial(_already_made, [scorer], make_scorer)
        del scorer  # on Ray every worker loads its own, and the driver has no more use for it
        if earlier is not None and not fresh and earlier.fingerprint != manifest.fingerprint:
            raise ValueError(refusal(out, earlier, manifest))
        live.check()
        if earlier is not None and fresh:
            delete_own_files(out)
            earlier = None

        history = read_history(out, manifest, earlier)
        n_earlier = _Earlier(history.n_rows, history.n_done)
        try:
            if len(history) < len(plan):
                _begin(out, manifest, history, live)
                runner = machines.runner(make_scorer, manifest.versions)
                _score_rest(out, manifest, history, runner, tell, live, batch_rows)
            live.check()
            run = _sum_up(out, manifest, history, n_earlier, started, is_strict=strict)
            _close(out, manifest, run, history)
        except KeyboardInterrupt as interrupt:
            n_committed = len(committed(out, plan, manifest.fingerprint))
            raise RunInterrupted(n_committed, len(plan)) from interrupt
        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machines:
    """Where the work is done."""

    workers: int | Literal["auto"] | None
    cpus_per_worker: int | None
    gpus_per_worker: float
    address: str | None
    is_open_allowed: bool
    asks_for_local: bool
    device: str
    """Where encoders run: `auto`, `cpu` or `cuda`."""

    def __post_init__(self) -> None:
        EncoderRuntime(device=self.device)
        if isinstance(self.workers, str) and self.workers != "auto":
            raise ValueError(f"`workers` must be a number or `auto`, got {self.workers!r}")
        self.ray_options()  # checks the numbers
        if self.asks_for_local and (self.address is not None or self.gpus_per_worker):
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
    def is_local(self) -> bool:
        """Whether this process scores, without Ray."""
        if self.asks_for_local:
            return True
        return self.address is None and not self.gpus_per_worker and self.workers in (None, 1)

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
        """As many as the workers that are asked for would have together, else all there are."""
        from sms.compiled import available_threads  # brings the compiler, which takes a moment

        n_cpus = available_threads()
        if not self.is_local:
            return n_cpus
        if self.workers is None:
            return self.cpus_per_worker or n_cpus
        cpus = self.cpus_per_worker or 1
        n_workers = max(1, n_cpus // cpus) if self.workers == "auto" else self.workers
        return n_workers * cpus

    def ray_options(self) -> RayOptions:
        """Return what Ray is asked for."""
        return RayOptions(
            workers=None if self.workers == "auto" else self.workers,
            cpus_per_worker=self.cpus_per_worker,
            gpus_per_worker=self.gpus_per_worker,
            address=self.address,
            is_open_allowed=self.is_open_allowed,
        )

    def runner(self, make_scorer: Callable[[int], Scorer], versions: Mapping[str, str]) -> _Runner:
        """Return what scores shards, given them, a job and whom to tell of each."""
        if self.is_local:
            threads = self.driver_threads
            return lambda shards, job, on_report, on_start: run_local(
                shards, make_scorer, replace(job, threads=threads), on_report, on_start=on_start
            )
        options = replace(self.ray_options(), versions=versions)
        return lambda shards, job, on_report, on_start: run_ray(
            shards, make_scorer, job, on_report, on_start=on_start, options=options
        )


def _nobody_listens(progress: Progress) -> None:
    pass


def _already_made(made: list[Scorer], make_scorer: Callable[[int], Scorer], threads: int) -> Scorer:
    """Hand out the scorer there is, once; make another one after that."""
    return made.pop() if made else make_scorer(threads)


def _make_scorer(
    config: ScoringConfig,
    threads: int | None,
    *,
    device: str,
    cache_folder: str | None,
    expected: Mapping[str, str] | None = None,
) -> SummaryScorer:
    """Make the scorer, whose content must be as `expected` where that is known."""
    local = fetched_config(config)
    scorer = SummaryScorer(local, threads, device=device, cache_folder=cache_folder)
    for name, content in scorer.content.items():
        if expected is not None and content != expected[name]:
            raise ValueError(
                f"the files of `{name}` on {node_name()} are not those the run began with; make "
                "them the same on all nodes and run the same command again"
            )
    return scorer


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


def _inputs(paths: Sequence[str], out: str) -> list[InputFile]:
    """List the input files, none of which may be output."""
    files = list_inputs(paths)
    if any(is_inside(out, path) for path in paths) or any(
        is_inside(file.path, out) for file in files
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
    seen: set[int] = set()
    without: list[str] = []
    with ThreadPoolExecutor(READERS) as pool:
        unknown = [file for file in files if file.outline is None]
        names = dict(zip(unknown, pool.map(_names_of, unknown), strict=True))
    for file in files:
        if file.outline is None and names[file]:
            resolve_columns(names[file], needed, columns, where=file.path)
        elif file.outline is None:
            without.append(file.path)
        elif id(file.outline.schema) not in seen:  # one object for all files that have it
            seen.add(id(file.outline.schema))
            _check_schema(file, file.outline.schema, needed, columns, asked["sentences"])
    plan = plan_shards(files, asked["rows_per_shard"], asked["limit"])
    planned = {piece.path for shard in plan for piece in shard.pieces} if without else set()
    for path in without:
        if path in planned:
            raise ValueError(f"no line of {path} is a JSON object with columns")
    return plan


def _known_by_content(
    files: Sequence[InputFile], plan: Sequence[Shard]
) -> tuple[list[InputFile], list[Shard]]:
    """Look at all bytes of the files that are read; return them, and the plan that knows them."""
    read = {piece.path for shard in plan for piece in shard.pieces}
    inputs = with_content([file.without_outline() for file in files if file.path in read])
    return inputs, knowing(plan, {file.path: file.content for file in inputs})


def _names_of(file: InputFile) -> list[str]:
    try:
        return column_names(file.path, file.format)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"cannot read {file.path}: {one_line(error)}") from error


def _check_schema(
    file: InputFile,
    schema: pa.Schema,
    needed: Sequence[str],
    columns: Mapping[str, str],
    sentences: str,
) -> None:
    """Check the names and types of the columns of a Parquet file."""
    resolve_columns(schema.names, needed, columns, where=file.path)
    try:
        canonical_table(
            schema.empty_table(),
            needed,
            columns,
            where=file.path,
            sentence_end=sentence_end(sentences),
        )
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"cannot read {file.path}: {one_line(error)}") from error


def _earlier_run(out: str) -> Manifest | None:
    """Read what run is in the output folder, which may hold nothing else if there is none."""
    earlier = read_manifest(out)
    foreign = [name for name in Output("--out", out).names() if name != PROGRESS_FILE]
    if earlier is None and foreign:
        raise ValueError(
            f"{out} holds files but no run of assay ({', '.join(foreign[:3])}"
            f"{', …' if len(foreign) > 3 else ''}); choose an empty or a new folder"
        )
    return earlier


def _begin(out: str, manifest: Manifest, history: History, live: LiveRun) -> None:
    """Say in the output folder that a run goes on."""
    delete_file(join(out, SUCCESS_FILE))
    write_manifest(out, replace(manifest, result=history.to_json()))
    delete_history(out)
    live.begin(manifest, _progress(manifest, history))


def _score_rest(
    out: str,
    manifest: Manifest,
    history: History,
    runner: _Runner,
    tell: Callable[[Progress], None],
    live: LiveRun,
    batch_rows: int,
) -> None:
    """Score the shards that are not done, and add them to the history."""
    so_far = _progress(manifest, history)
    tell(so_far)

    def on_report(report: ShardReport) -> None:
        nonlocal so_far
        history.add(report)
        so_far = replace(so_far, n_done=history.n_rows, n_failed_shards=len(history.errors))
        live.reported(report, so_far)
        tell(so_far)
        live.check()
        if report.is_out_of_room and report.error is not None:  # nor is there any for the others
            raise StorageFull(report.error.removeprefix(f"{StorageFull.__name__}: "))

    job = Job(
        out=out,
        fingerprint=manifest.fingerprint,
        columns=manifest.configuration["columns"],
        sentence_end=sentence_end(manifest.configuration["sentences"]),
        batch_rows=batch_rows,
        metadata={
            "assay.version": manifest.versions["assay"],
            "assay.fingerprint": manifest.fingerprint,
            "assay.signatures": json.dumps(dict(manifest.signatures), ensure_ascii=False),
        },
    )
    left = longest_first(shard for shard in manifest.shards if shard.index not in history)
    try:
        runner(left, job, on_report, live.started)
    except LockLost:  # `run.json` is that of the driver that took over
        raise
    except BaseException:
        write_manifest(out, replace(manifest, result=history.to_json()))
        raise


def _progress(manifest: Manifest, history: History) -> Progress:
    return Progress(
        stage=SCORING,
        n_rows=sum(shard.n_rows for shard in manifest.shards),
        n_done=history.n_rows,
        n_earlier=history.n_rows,
    )


def _sum_up(
    out: str,
    manifest: Manifest,
    history: History,
    earlier: _Earlier,
    started: float,
    *,
    is_strict: bool,
) -> ScoreRun:
    """Sum up what became of all shards, and count duplicate keys over what they wrote."""
    parts = [
        part_path(out, shard.index, manifest.fingerprint)
        for shard in manifest.shards
        if shard.index not in history.errors
    ]
    return ScoreRun(
        out=out,
        scores=join(out, SCORES_FOLDER),
        n_rows=history.n_rows,
        n_planned_rows=sum(shard.n_rows for shard in manifest.shards),
        n_earlier_rows=earlier.n_rows,
        n_with_status=history.statuses.total(),
        statuses=dict(sorted(history.statuses.items())),
        n_duplicate_keys=count_duplicate_keys(parts),
        means=history.sums.means(),
        signatures=manifest.signatures,
        counters=dict(history.counters),
        n_shards=len(manifest.shards),
        n_new_shards=history.n_done - earlier.n_shards,
        failed_shards=dict(sorted(history.errors.items())),
        seconds=time.monotonic() - started,
        is_strict=is_strict,
    )


def _close(out: str, manifest: Manifest, run: ScoreRun, history: History) -> None:
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
        **history.to_json(),
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
    write_success(out, (f"{SCORES_FOLDER}/{base_name(part)}" for part in parts))
    delete_partial_files(out)


def _check_inputs_unchanged(manifest: Manifest) -> None:
    def check(file: InputFile) -> None:
        if not is_unchanged(file.path, file.version, file.content):
            raise RuntimeError(
                f"input file changed: {file.path} while it was being scored; score it again with "
                "`--fresh`"
            )

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(check, manifest.inputs))

"""Settings of `assay score`, `assay status` and `assay.Scorer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from sms.naming import AnyPath
from sms.options import ScoringOptions
from sms.settings import AtLeast, Settings


@dataclass(frozen=True, kw_only=True)
class _Output(Settings):
    out: Annotated[AnyPath, "DIR"]
    """Write the scores to this folder or URL."""


@dataclass(frozen=True, kw_only=True)
class _Corpus(Settings):
    columns: Mapping[str, str] | None = None
    """Read our column OURS from the column THEIRS of the files, for example candidate=summary.
    Repeat the option or separate pairs by commas."""
    system: Annotated[str | None, "NAME"] = None
    """Name the system of files without a column `system_id`. Default: system. In files without
    `document_id`, the row number in the whole input is the id, from 0."""
    keep: Annotated[Sequence[str], "COLUMN,...|all"] = ()
    """Copy these columns of the input into the scores. Every row of scores also names its file and
    row of the input."""


@dataclass(frozen=True, kw_only=True)
class _Encoding(Settings):
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Run neural encoders on this device; auto is a GPU where the worker has one."""
    embedding_cache: Annotated[AnyPath | None, "DIR"] = None
    """Keep embeddings and the answers of models in this folder for later runs. Workers may share
    it."""


@dataclass(frozen=True, kw_only=True)
class _Running(Settings):
    workers: int | Literal["auto"] | None = None
    """Score with N processes. auto starts as many as fit, and more when nodes join a cluster.
    Default: one process with all cores; a process for each core from 80,000 rows if no neural model
    runs; auto with `--address` or `--gpus-per-worker`."""
    cpus_per_worker: Annotated[int | None, "N"] = None
    """Give each worker N cores and threads. Default: 1, or with a GPU its share of the node's
    cores; without workers, this process uses all cores."""
    gpus_per_worker: Annotated[float | Literal["auto"], "G"] = "auto"
    """Give each worker G GPUs; a fraction is allowed. If a neural model runs, auto shares the GPUs
    out among the workers."""
    address: Annotated[str | None, "auto|HOST"] = None
    """Join this Ray cluster. Default: the one in RAY_ADDRESS, which Ray sets in its jobs. Without
    it, workers are processes of this machine."""
    insecure_cluster: Annotated[bool, "rare"] = False
    """Join a Ray cluster that asks for no token. Whoever reaches its ports can run code on it."""
    local: bool = False
    """Score in this process, whatever `--workers` and RAY_ADDRESS say, with as many threads as the
    workers would have."""
    fresh: bool = False
    """Replace the run in DIR."""
    limit: int | None = None
    """Score only the first N rows."""
    strict: bool = False
    """Exit with code 1 if a row has a status: the reason why a score is missing or a text was
    cut."""
    explain: Annotated[bool, "rare"] = False
    """Also explain the lowest and the highest rows of each metric: scores.html shows why, and links
    to a page for each."""
    rows_per_shard: Annotated[int | None, "rare"] = None
    """Write N rows to each scores file; an interrupted run goes on after the last whole file.
    Default: a number that suits the encoders."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage and after every shard."""


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(_Output, ScoringOptions, _Corpus, _Encoding, _Running):
    """How a corpus is scored."""


@dataclass(frozen=True, kw_only=True)
class ScorerSettings(ScoringOptions, _Encoding):
    """What a scorer computes, where, and which columns it reads."""

    candidate: str | None = None
    """Column with the texts to score. Default: `candidate`."""
    reference: Any = None
    """Column with the reference, or a list of several. Default: `reference` or `references`."""
    source: Any = None
    """Column with the source, or a list of several. Default: `source`."""
    columns: Mapping[str, str] | None = None
    """The same as a table: our column OURS is the column THEIRS of the rows."""
    threads: Annotated[int | None, AtLeast(1)] = None
    """Use N threads. Default: a thread for every core of this process."""


@dataclass(frozen=True, kw_only=True)
class StatusSettings(Settings):
    """How the state of a run is shown."""

    json: Annotated[AnyPath | None, "FILE"] = None
    """Write the status as a JSON object to FILE instead of text; `-` means standard output."""

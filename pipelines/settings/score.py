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
    """Read Assay's column OURS from your column THEIRS, for example candidate=summary.
    Repeat the option or separate pairs by commas."""
    system: Annotated[str | None, "NAME"] = None
    """Name of the system in files without a column `system_id`. Default: system. In files without
    `document_id`, rows are numbered from 0 over the whole input, and the number is the id."""
    keep: Annotated[Sequence[str], "COLUMN,...|all"] = ()
    """Copy these columns of the input into the scores. Every row of scores also says which file and
    row it is from."""


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
    """Score with N processes; auto starts as many as fit, and more when nodes join the cluster.
    Default: auto on a Ray cluster or with `--gpus-per-worker`. Otherwise one process that uses all
    cores, or one process per core from 80,000 rows on if no neural model runs."""
    cpus_per_worker: Annotated[int | None, "N"] = None
    """Give each worker N cores, and as many threads. Default: 1, or for a worker with a GPU an
    equal share of its node's cores. Without workers, this process uses all cores."""
    gpus_per_worker: Annotated[float | Literal["auto"], "G"] = "auto"
    """Give each worker G GPUs, or a fraction of one. auto divides the GPUs among the workers if a
    neural model runs."""
    address: Annotated[str | None, "auto|HOST"] = None
    """Join this Ray cluster. Default: the cluster in RAY_ADDRESS, which Ray sets in its jobs.
    Without a cluster, workers are processes on this machine."""
    insecure_cluster: Annotated[bool, "rare"] = False
    """Join a Ray cluster without a token. Anyone who can reach its ports can run code on it."""
    local: bool = False
    """Ignore `--workers` and RAY_ADDRESS, and score in this process with as many threads as the
    workers would have together."""
    fresh: bool = False
    """Replace the run in DIR."""
    limit: int | None = None
    """Score only the first N rows."""
    strict: bool = False
    """Exit with code 1 if a row has a status. A status says why a score is missing or a text was
    cut."""
    explain: Annotated[bool, "rare"] = False
    """Also explain the rows with the lowest and highest scores of each metric, in scores.html and
    on a page for each row."""
    rows_per_shard: Annotated[int | None, "rare"] = None
    """Write N rows to each scores file; an interrupted run continues after the last full one.
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
    """The columns as one table, such as {"candidate": "summary"}: our name, then yours."""
    threads: Annotated[int | None, AtLeast(1)] = None
    """Use N threads. Default: a thread for every core of this process."""


@dataclass(frozen=True, kw_only=True)
class StatusSettings(Settings):
    """How the state of a run is shown."""

    json: Annotated[AnyPath | None, "FILE"] = None
    """Write the status as a JSON object to FILE instead of text; `-` means standard output."""

"""Settings of `assay score`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(Settings):
    """How a corpus is scored."""

    out: Annotated[AnyPath, "DIR"]
    """Folder or URL for the scores."""
    metrics: Sequence[str] = ("sms", "wms", "s+wms", "cosine", "rougeL")
    """METRIC[@ENCODER][:AGAINST], separated by commas; see `assay metrics`."""
    encoders: Annotated[
        Mapping[str, str] | Sequence[str], "[ALIAS=]SPEC", "--encoder", "encoders"
    ] = "minilm"
    """May be repeated, the first is the default; see `assay encoders`. Added to the tables
    [encoders.ALIAS] of the configuration file, in place of one with the same alias."""
    models: Annotated[Mapping[str, Any] | None, "rare", "models"] = None
    """Tables [models.ALIAS] of the models of `likelihood@ALIAS` and `pair@ALIAS`, with `path` and
    settings."""
    columns: Mapping[str, str] | None = None
    """What the files call a column, for example candidate=summary; repeated or with commas."""
    system: Annotated[str | None, "NAME"] = None
    """Name of the system of files without `system_id`, whose rows are all of one. Without
    `document_id` a document is the number of its row in the whole input, from 0. Default:
    system."""
    keep: Annotated[Sequence[str], "COLUMN,...|all"] = ()
    """Columns of the input that the scores get too; their place in the input they always have."""
    preset: Literal["default", "clark2019"] = "default"
    """How text is handled; `clark2019` does it as the released sentence mover code."""
    multi_reference: Literal["best", "mean", "first"] = "best"
    """What counts where there are several references."""
    language: Literal["en", "de", "fr", "es", "ar", "zh", "ja"] = "en"
    """Language of the texts; zh and ja need the extra of the same name."""
    sentences: Annotated[Literal["split", "given"], "rare"] = "split"
    """`given` takes every text as a list of sentences and cuts none; several references or
    sources are lists of such lists."""
    source_tokens: Annotated[int | None, "rare"] = None
    """Read only the first N tokens of a source."""
    precision: Annotated[Literal["auto", "fp32", "bf16", "fp16"], "rare"] = "auto"
    """What neural encoders compute in; auto is fp32 on CPUs and bf16 on GPUs."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where neural encoders run; auto takes a GPU where the worker has one."""
    embedding_cache: Annotated[AnyPath | None, "DIR"] = None
    """Folder that keeps embeddings, and what models answered, for later runs; workers may share
    it."""
    workers: int | Literal["auto"] | None = None
    """Processes that score; auto is as many as there is room for, on a cluster more when nodes
    join. Default: this process with all cores; auto with `--address` or `--gpus-per-worker`."""
    cpus_per_worker: Annotated[int | None, "N"] = None
    """Cores, and threads, of a worker. Default: 1, and with a GPU its share of the node's; in this
    process all."""
    gpus_per_worker: Annotated[float | Literal["auto"], "G"] = "auto"
    """GPUs of a worker, which may be a fraction; auto shares out the GPUs there are among
    the workers where a neural model runs."""
    address: Annotated[str | None, "auto|HOST"] = None
    """Ray cluster to join. Default: that of RAY_ADDRESS, which Ray sets within its jobs; else
    there is none, but for one of this machine where workers share out its GPUs."""
    insecure_cluster: Annotated[bool, "rare"] = False
    """Join a Ray cluster that asks for no token: whoever reaches its ports runs code on it."""
    local: bool = False
    """Score in this process whatever `--workers` and RAY_ADDRESS say, with as many threads as the
    workers would have."""
    fresh: bool = False
    """Replace the run that is in DIR."""
    limit: int | None = None
    """Score only the first N rows."""
    strict: bool = False
    """Exit with status 1 if a row has a status."""
    rows_per_shard: Annotated[int | None, "rare"] = None
    """Rows of one scores file, the unit of restart. Default: chosen by the encoders."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage and after every shard."""

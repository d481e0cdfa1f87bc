"""`assay score`."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.common import (
    DONE,
    ENCODERS,
    INTERRUPTED,
    NOT_ACCEPTED,
    columns_of,
    columns_option,
    config_option,
    device_option,
    fail,
    insecure_cluster_option,
    quiet_option,
    show,
    split,
)

if TYPE_CHECKING:
    from pipelines.score import ScoreRun

_ALIAS = re.compile(r"([^=:/\\,]+)=(.*)", re.DOTALL)
_AFTER_KIND = re.compile(r"[:,]")
_SHOWN_FAILURES = 5


class CountOrAuto(click.ParamType[int | str | None]):
    """A number, or what stands for `auto`."""

    name = "integer"

    def __init__(self, auto: str | None) -> None:
        self.auto = auto

    def convert(
        self,
        value: Any,  # noqa: ANN401  (what click hands over)
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int | str | None:
        """Read one."""
        return self.auto if value == "auto" else click.INT.convert(value, param, ctx)


@click.command()
@click.argument("corpora", nargs=-1, metavar="CORPORA...")
@config_option("options, written with underscores, and tables [encoders.ALIAS]")
@click.option("--out", metavar="DIR", help="Folder or URL for the scores. Required.")
@click.option(
    "--metrics",
    metavar="LIST",
    default="sms,wms,s+wms,cosine,rougeL",
    show_default=True,
    help="METRIC[@ENCODER][:AGAINST], separated by commas; see `assay metrics`.",
)
@click.option(
    "--encoder",
    metavar="[ALIAS=]SPEC",
    multiple=True,
    help="May be repeated, the first is the default; see `assay encoders`. Added to the tables "
    "[encoders.ALIAS] of the configuration file, in place of one with the same alias; then the "
    "file's first is the default.  [default: minilm]",
)
@columns_option("candidate=summary")
@click.option(
    "--preset",
    metavar="NAME",
    default="default",
    show_default=True,
    help="`clark2019` handles text as the released sentence mover code does.",
)
@click.option(
    "--multi-reference",
    metavar="best|mean|first",
    default="best",
    show_default=True,
    help="What counts where there are several references.",
)
@click.option(
    "--language",
    metavar="CODE",
    default="en",
    show_default=True,
    help="Language of the texts: en, de, fr, es, ar, zh or ja; the last two need the extra of the "
    "same name.",
)
@click.option(
    "--sentences",
    metavar="split|given",
    default="split",
    show_default=True,
    help="`given` takes every text as a list of sentences and cuts none; several references or "
    "sources are lists of such lists.",
)
@click.option(
    "--source-tokens",
    metavar="N",
    type=int,
    help="Read only the first N tokens of a source.",
)
@click.option(
    "--precision",
    metavar="auto|fp32|bf16|fp16",
    default="auto",
    show_default=True,
    help="What neural encoders compute in; auto is fp32 on CPUs and bf16 on GPUs.",
)
@device_option("Where neural encoders run; auto takes a GPU where the worker has one.")
@click.option(
    "--embedding-cache",
    metavar="DIR",
    help="Folder that keeps embeddings for later runs; workers may share it.",
)
@click.option(
    "--workers",
    metavar="auto|N",
    type=CountOrAuto("auto"),
    help="Processes that score, on Ray where that is more than one; auto is as many as there is "
    "room for, and more when nodes join.  [default: this process with all cores; auto with "
    "`--address` or GPUs]",
)
@click.option(
    "--cpus-per-worker",
    metavar="auto|N",
    type=CountOrAuto(None),
    default="auto",
    show_default=True,
    help="Cores of a worker; auto is 1, and beside a GPU its share of the node's. Without "
    "`--workers` they are of this process, and auto is all.",
)
@click.option(
    "--gpus-per-worker",
    metavar="G",
    type=float,
    default=0.0,
    show_default=True,
    help="GPUs of a worker on Ray; may be a fraction.",
)
@click.option(
    "--address",
    metavar="auto|HOST",
    help="Ray cluster to join.  [default: that of RAY_ADDRESS, which Ray sets within its jobs; "
    "else one is started on this machine where Ray is needed]",
)
@insecure_cluster_option
@click.option(
    "--local",
    is_flag=True,
    help="Score in this process whatever `--workers` and RAY_ADDRESS say, with as many threads as "
    "the workers would have.",
)
@click.option("--fresh", is_flag=True, help="Replace the run that is in DIR.")
@click.option("--limit", metavar="N", type=int, help="Score only the first N rows.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if a row has a status.")
@quiet_option
@click.pass_context
def score(
    ctx: click.Context,
    /,
    corpora: tuple[str, ...],
    out: str | None,
    metrics: str,
    encoder: tuple[str, ...],
    columns: tuple[str, ...],
    quiet: bool,
    **options: Any,  # noqa: ANN401  (handed on as they are)
) -> int:
    """Score the summaries in CORPORA: Parquet, JSONL or CSV; files, folders, globs or URLs.

    One row is one candidate: `document_id`, `system_id`, `candidate`, and `reference` or
    `references` and `source` where a metric needs them. A run that was interrupted goes on when
    the same command is given again.
    """
    if not corpora:
        raise click.UsageError("name at least one file, folder, glob or URL to score")
    if not out:
        raise click.UsageError("`--out` is missing; name a folder for the scores")
    asked = {
        "metrics": split(metrics),
        "encoders": {**ctx.meta.get(ENCODERS, {}), **_encoders(encoder)} or None,
        "columns": columns_of(columns),
        **options,
    }
    try:
        return _score(corpora, out, asked, is_quiet=quiet)
    except KeyboardInterrupt:
        return fail("interrupted; this command has scored nothing yet", INTERRUPTED)


def _score(corpora: Sequence[str], out: str, asked: Mapping[str, Any], *, is_quiet: bool) -> int:
    from pipelines.runs.progress import show_progress
    from pipelines.score import RunInterrupted, score_corpus
    from pipelines.summary import summary_text

    shown = show_progress(sys.stderr, is_terminal=sys.stderr.isatty())
    try:
        with nullcontext() if is_quiet else shown as on_progress:
            result = score_corpus(corpora, out, on_progress=on_progress, **asked)
    except RunInterrupted as interrupt:
        return fail(
            f"interrupted; {interrupt.n_committed} of {interrupt.n_shards} shards are committed, "
            "the same command (without `--fresh`) goes on from there",
            INTERRUPTED,
        )
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    show(summary_text(result, is_terminal=is_terminal, width=width))
    for line in _cut(result.counters):
        show(line)
    return _status(result)


def _cut(counters: Mapping[str, int]) -> Iterator[str]:
    """Say of every encoder that cut sentences how many they were."""
    for name, n_cut in counters.items():
        alias, _, what = name.rpartition(".")
        if what == "truncated" and n_cut:
            n_sentences = counters[f"{alias}.sentences"]
            yield f"Sentences too long for {alias}, which cut them: {n_cut:,} of {n_sentences:,}"


def _status(result: ScoreRun) -> int:
    if result.failed_shards:
        shown = list(result.failed_shards.items())[:_SHOWN_FAILURES]
        text = "; ".join(f"shard {index}: {error}" for index, error in shown)
        more = len(result.failed_shards) - len(shown)
        others = f"; and {more} more, all in run.json" if more else ""
        return fail(
            f"{len(result.failed_shards)} of {result.n_shards} shards failed, the same command "
            f"(without `--fresh`) tries them again: {text}{others}",
            NOT_ACCEPTED,
        )
    if not result.is_accepted:
        return fail(
            f"{result.n_with_status} rows have a status, which `--strict` does not accept",
            NOT_ACCEPTED,
        )
    return DONE


def _encoders(specs: Sequence[str]) -> dict[str, str]:
    """Read `[ALIAS=]SPEC`; without an alias an encoder is called by its kind."""
    found: dict[str, str] = {}
    for text in specs:
        named = _ALIAS.fullmatch(text)
        alias, spec = named.groups() if named else (_AFTER_KIND.split(text, maxsplit=1)[0], text)
        if alias in found:
            raise click.UsageError(
                f"two encoders are called `{alias}`; give one another name: "
                f"--encoder {shlex.quote(f'ALIAS={spec}')}"
            )
        found[alias] = spec
    return found

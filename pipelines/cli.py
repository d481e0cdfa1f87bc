"""The command `assay`: reads the command line, calls the function, prints what came of it.

Exit status: 0 done; 1 finished with failed shards, or with rows that `--strict` does not accept;
2 the request was wrong (one line on standard error); 130 interrupted from the keyboard. Progress
goes to standard error, results to standard output.
"""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pipelines.score_corpus import ScoreRun

# Everything heavier is imported by the command that needs it, so that `--help` is quick.

DONE, NOT_ACCEPTED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130

_ALIAS = re.compile(r"([^=:/\\]+)=(.*)", re.DOTALL)
_SHOWN_FAILURES = 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status; what is wrong is said in one line."""
    try:
        status = app.main(args=list(arguments), prog_name="assay", standalone_mode=False)
    except click.ClickException as error:
        return _fail(error.format_message(), WRONG_REQUEST)
    except click.Abort:
        return _fail("interrupted", INTERRUPTED)
    except (ValueError, OSError) as error:
        return _fail(_sentence(error), WRONG_REQUEST)
    except RuntimeError as error:
        return _fail(_sentence(error), NOT_ACCEPTED)
    return status if isinstance(status, int) else DONE


class _Group(click.Group):
    """Names the nearest command when there is none of that name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(f"no such command `{name}`; {_nearest(name, self.commands)}")
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from importlib import metadata

        try:
            print(f"assay {metadata.version('assay')}")
        except metadata.PackageNotFoundError:
            print("assay, not installed (run from its source)")
        ctx.exit()


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def app(ctx: click.Context) -> None:
    """Score summaries at scale, and learn whether the scores mean anything."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def _load_config(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    """Make the values of a TOML file the defaults of this command."""
    if path is None:
        return
    try:
        with open(path, "rb") as stream:
            values = tomllib.load(stream)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from error
    except OSError as error:
        raise click.UsageError(f"`--config`: {_sentence(error)}") from error
    is_flag = {
        parameter.name: isinstance(parameter, click.Option) and parameter.is_flag
        for parameter in ctx.command.params
        if parameter.name not in (None, "config")
    }
    for name, value in values.items():
        if name not in is_flag:
            raise click.UsageError(f"unknown key `{name}` in {path}; {_nearest(name, is_flag)}")
        if isinstance(value, bool) != is_flag[name]:
            rule = "true or false" if is_flag[name] else "a value"
            raise click.UsageError(f"`{name}` in {path} must be {rule}, got {value!r}")
    ctx.default_map = {name: _as_typed(name, value) for name, value in values.items()}


@app.command()
@click.argument("corpora", nargs=-1, metavar="CORPORA...")
@click.option(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_load_config,
    help="TOML file with options, written with underscores; the command line wins.",
)
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
    help="May be repeated, the first is the default; see `assay encoders`.  [default: minilm]",
)
@click.option(
    "--columns",
    metavar="OURS=THEIRS",
    multiple=True,
    help="What the corpus calls a column, e.g. candidate=summary; repeated or with commas.",
)
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
    help="Language of the texts.",
)
@click.option(
    "--source-tokens",
    metavar="N",
    type=int,
    help="Read only the first N tokens of a source.",
)
@click.option(
    "--workers",
    metavar="N",
    type=int,
    help="Workers.  [default: as many as there is room for]",
)
@click.option(
    "--cpus-per-worker",
    metavar="N",
    type=int,
    default=1,
    show_default=True,
    help="Cores of a worker.",
)
@click.option(
    "--gpus-per-worker",
    metavar="G",
    type=float,
    default=0.0,
    show_default=True,
    help="GPUs of a worker; may be a fraction.",
)
@click.option(
    "--address",
    metavar="auto|HOST",
    help="Ray cluster to join.  [default: one is started on this machine]",
)
@click.option("--local", is_flag=True, help="Score in this process, without Ray.")
@click.option("--fresh", is_flag=True, help="Replace the run that is in DIR.")
@click.option("--limit", metavar="N", type=int, help="Score only the first N rows.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if a row has a status.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def score(
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
        "metrics": _split(metrics),
        "encoders": _encoders(encoder),
        "columns": _columns(columns),
        **options,
    }
    try:
        return _score(corpora, out, asked, is_quiet=quiet)
    except KeyboardInterrupt:
        return _fail("interrupted; this command has scored nothing yet", INTERRUPTED)


@app.command()
def metrics() -> None:
    """List the metrics, what each needs and what a higher value means."""
    from pipelines.summary import table_text
    from sms.metrics import METRICS

    rows = [(m.name, m.higher_is, ", ".join(m.needs) or "–", m.summary) for m in METRICS.values()]
    print(table_text(("metric", "higher means", "needs", "what it is"), rows, n_left=4))
    print("\nWrite METRIC[@ENCODER][:AGAINST], for example sms, wms@glove, cosine:source.")


@app.command()
def encoders() -> None:
    """List the encoders and the vectors each gives."""
    from pipelines.summary import table_text
    from sms.encoders.registry import ENCODERS

    rows = [(e.spec, ", ".join(e.vectors), e.summary) for e in ENCODERS.values()]
    print(table_text(("encoder", "vectors of", "what it is"), rows, n_left=3))
    print("\nWrite --encoder [ALIAS=]SPEC, for example --encoder news=glove:vectors.txt.")


def _score(corpora: Sequence[str], out: str, asked: Mapping[str, Any], *, is_quiet: bool) -> int:
    from pipelines.progress import show_progress
    from pipelines.score_corpus import RunInterrupted, score_corpus
    from pipelines.summary import summary_text

    shown = show_progress(sys.stderr, is_terminal=sys.stderr.isatty())
    try:
        with nullcontext() if is_quiet else shown as on_progress:
            result = score_corpus(corpora, out, on_progress=on_progress, **asked)
    except RunInterrupted as interrupt:
        return _fail(
            f"interrupted; {interrupt.n_committed} of {interrupt.n_shards} shards are committed, "
            "the same command (without `--fresh`) goes on from there",
            INTERRUPTED,
        )
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    print(summary_text(result, is_terminal=is_terminal, width=width))
    return _status(result)


def _status(result: ScoreRun) -> int:
    if result.failed_shards:
        shown = list(result.failed_shards.items())[:_SHOWN_FAILURES]
        text = "; ".join(f"shard {index}: {error}" for index, error in shown)
        more = len(result.failed_shards) - len(shown)
        others = f"; and {more} more, all in run.json" if more else ""
        return _fail(
            f"{len(result.failed_shards)} of {result.n_shards} shards failed, the same command "
            f"(without `--fresh`) tries them again: {text}{others}",
            NOT_ACCEPTED,
        )
    if not result.is_accepted:
        return _fail(
            f"{result.n_with_status} rows have a status, which `--strict` does not accept",
            NOT_ACCEPTED,
        )
    return DONE


def _fail(message: str, status: int) -> int:
    print(f"assay: {' '.join(message.split())}", file=sys.stderr)
    return status


def _sentence(error: Exception) -> str:
    """Say what an exception says, in the way of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _encoders(specs: Sequence[str]) -> dict[str, str] | None:
    """Read `[ALIAS=]SPEC`; without an alias an encoder is called by its kind."""
    found: dict[str, str] = {}
    for text in specs:
        named = _ALIAS.fullmatch(text)
        alias, spec = named.groups() if named else (text.partition(":")[0], text)
        if alias in found:
            raise click.UsageError(
                f"two encoders are called `{alias}`; give one another name: "
                f"--encoder {shlex.quote(f'ALIAS={spec}')}"
            )
        found[alias] = spec
    return found or None


def _columns(items: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in (pair for text in items for pair in _split(text)):
        ours, equals, theirs = item.partition("=")
        if not (ours and equals and theirs):
            raise click.UsageError(
                f"`--columns` must be written OURS=THEIRS, got `{item}`; for example "
                "--columns candidate=summary"
            )
        found[ours.strip()] = theirs.strip()
    return found


def _as_typed(name: str, value: Any) -> Any:  # noqa: ANN401  (any TOML)
    """Turn a value of a TOML file into what would stand on the command line."""
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        value = [f"{key}={item}" for key, item in value.items()]
    items = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    if name in ("corpora", "encoder", "columns"):
        return items
    return ",".join(items)


if __name__ == "__main__":
    main()

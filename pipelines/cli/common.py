"""What the commands share: exit statuses, one-line errors, reading lists and TOML files."""

from __future__ import annotations

import csv
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

import click

from sms.naming import nearest
from sms.urls import redacted

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

DONE, NOT_ACCEPTED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130
MAX_MESSAGE = 2_000
"""Characters of an error; of a longer one the middle is left out."""

# Control characters but tab and line feed, separators of lines, direction marks, half characters.
_STEERING_BUT_ESCAPE = (
    r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f"
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_STEERING = re.compile(rf"\x1b|{_STEERING_BUT_ESCAPE}")
_STEERING_BUT_COLOURS = re.compile(rf"\x1b(?!\[[0-9;]*m)|{_STEERING_BUT_ESCAPE}")


def fail(message: str, status: int) -> int:
    """Print one line on standard error and return the exit status."""
    line = printable(redacted(" ".join(message.split())))
    if len(line) > MAX_MESSAGE:
        line = f"{line[: MAX_MESSAGE // 2]} … {line[-MAX_MESSAGE // 2 :]}"
    print(f"assay: {line}", file=sys.stderr)
    return status


def show(text: str) -> None:
    """Print a result; what a file's ids or names hold cannot steer the terminal."""
    print(printable(text, keeps_colours=sys.stdout.isatty()))


def printable(text: str, *, keeps_colours: bool = False) -> str:
    r"""Write control characters, and those that turn the direction of writing, as escapes.

    Examples
    --------
    >>> printable("a system called \x1b[2J")
    'a system called \\x1b[2J'
    """
    steering = _STEERING_BUT_COLOURS if keeps_colours else _STEERING
    return steering.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def sentence_of(error: Exception) -> str:
    """Say what an exception says, in the way of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def split(text: str) -> list[str]:
    """Read a list separated by commas; an item that has one stands in quotation marks, as in CSV.

    Examples
    --------
    >>> split('rougeL, "clear, short"')
    ['rougeL', 'clear, short']
    """
    try:
        found = [item.strip() for row in csv.reader([text], _Items) for item in row]
    except csv.Error as error:
        raise click.UsageError(
            f"a list must be separated by commas, and an item with a comma stand in quotation "
            f"marks, got `{text}` ({error})"
        ) from error
    return [item for item in found if item]


class _Items(csv.excel):
    skipinitialspace = True
    strict = True


def _quoted(item: str) -> str:
    """Write an item so that `split` returns it whole."""
    return '"' + item.replace('"', '""') + '"' if {",", '"'} & {*item} else item


def columns_of(items: Iterable[str]) -> dict[str, str]:
    """Read `OURS=THEIRS`, several separated by commas, into our column name to theirs."""
    found: dict[str, str] = {}
    for item in (pair for text in items for pair in split(text)):
        ours, equals, theirs = item.partition("=")
        if not (ours and equals and theirs):
            raise click.UsageError(
                f"`--columns` must be written OURS=THEIRS, got `{item}`; for example "
                "--columns candidate=summary, and --columns '\"candidate=short, final\"' where a "
                "name has a comma"
            )
        found[ours.strip()] = theirs.strip()
    return found


ENCODERS = "encoders"
"""Key of the tables `[encoders.ALIAS]` in a TOML file, and of what they say in `ctx.meta`."""


def load_config(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    """Make the values of a TOML file the defaults of this command.

    Tables `[encoders.ALIAS]` are no option: where the command has `--encoder`, they are checked
    and put into `ctx.meta`.
    """
    if path is None:
        return
    from cluster.store import read_whole

    try:
        values = tomllib.loads(read_whole(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from error
    except OSError as error:
        raise click.UsageError(f"`--config`: {sentence_of(error)}") from error
    known = {_key_of(p): p for p in ctx.command.params if p.name not in (None, "config")}
    if "encoder" in known and ENCODERS in values:
        ctx.meta[ENCODERS] = _encoder_tables(values.pop(ENCODERS), path)
    names = [*known, *([ENCODERS] if "encoder" in known else [])]
    for name, value in values.items():
        if name not in known:
            raise click.UsageError(f"unknown key `{name}` in {path}; {nearest(name, names)}")
        if rule := _broken_rule(known[name], value):
            raise click.UsageError(f"`{name}` in {path} must be {rule}, got {value!r}")
    ctx.default_map = {known[key].name: _typed(known[key], value) for key, value in values.items()}


def _encoder_tables(tables: object, path: str) -> dict[str, str]:
    from pipelines.cli.encoder_tables import encoder_specs

    try:
        return encoder_specs(tables)
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from error


def _key_of(parameter: click.Parameter) -> str:
    """Return what a parameter is called in a TOML file: the option, written with underscores."""
    options = [text for text in parameter.opts if text.startswith("--")]
    return (options or [parameter.name or ""])[0].lstrip("-").replace("-", "_")


def _broken_rule(parameter: click.Parameter, value: object) -> str | None:
    """Return what a TOML value must be for this parameter, None if it is that."""
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    if isinstance(value, bool) != is_flag:
        return "true or false" if is_flag else "a value"
    if isinstance(value, dict) and not parameter.multiple:
        return "a value, not a table"
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if any(isinstance(item, dict | list) for item in items):
        return "made of single values"
    return None


def _typed(parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401  (any TOML)
    """Turn a value of a TOML file into what would stand on the command line."""
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        value = [f"{key}={item}" for key, item in value.items()]
        if parameter.name == "columns":  # the one table that is read by `split`
            value = [_quoted(pair) for pair in value]
    takes_several = parameter.nargs == -1 or parameter.multiple
    if isinstance(value, list) and not takes_several:
        return ",".join(_quoted(str(item)) for item in value)
    items = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    return items if takes_several else items[0]


def config_option(holds: str = "options, written with underscores") -> Decorator:
    """Make `--config`: a TOML file that gives the command's other options other defaults."""
    return click.option(
        "--config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=load_config,
        help=f"TOML file with {holds}; the command line wins.",
    )


def device_option(summary: str) -> Decorator:
    """Make `--device`."""
    return click.option(
        "--device", metavar="auto|cpu|cuda", default="auto", show_default=True, help=summary
    )


def columns_option(example: str) -> Decorator:
    """Make `--columns`; `columns_of` reads it."""
    return click.option(
        "--columns",
        metavar="OURS=THEIRS",
        multiple=True,
        help=f"What the files call a column, e.g. {example}; repeated or with commas. Put a pair "
        f"whose name has a comma in quotation marks inside the shell's: '\"{example}, new\"'.",
    )


quiet_option = click.option("--quiet", is_flag=True, help="Show no progress.")
insecure_cluster_option = click.option(
    "--insecure-cluster",
    is_flag=True,
    help="Join a Ray cluster that asks for no token: whoever reaches its ports runs code on it.",
)

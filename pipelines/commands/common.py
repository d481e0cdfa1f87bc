"""What the commands share: exit statuses, one-line errors, reading lists and TOML files."""

from __future__ import annotations

import difflib
import sys
import tomllib
from collections.abc import Iterable
from typing import Any

import click

DONE, NOT_ACCEPTED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130


def fail(message: str, status: int) -> int:
    """Print one line on standard error and return the exit status."""
    print(f"assay: {' '.join(message.split())}", file=sys.stderr)
    return status


def sentence_of(error: Exception) -> str:
    """Say what an exception says, in the way of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def nearest(name: str, known: Iterable[str]) -> str:
    """Ask whether the most similar known name was meant, or list them all."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"


def split(text: str) -> list[str]:
    """Read a list separated by commas."""
    return [item.strip() for item in text.split(",") if item.strip()]


def load_config(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    """Make the values of a TOML file the defaults of this command."""
    if path is None:
        return
    try:
        with open(path, "rb") as stream:
            values = tomllib.load(stream)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from error
    except OSError as error:
        raise click.UsageError(f"`--config`: {sentence_of(error)}") from error
    is_flag = {
        parameter.name: isinstance(parameter, click.Option) and parameter.is_flag
        for parameter in ctx.command.params
        if parameter.name not in (None, "config")
    }
    for name, value in values.items():
        if name not in is_flag:
            raise click.UsageError(f"unknown key `{name}` in {path}; {nearest(name, is_flag)}")
        if isinstance(value, bool) != is_flag[name]:
            rule = "true or false" if is_flag[name] else "a value"
            raise click.UsageError(f"`{name}` in {path} must be {rule}, got {value!r}")
    ctx.default_map = {name: _as_typed(name, value) for name, value in values.items()}


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

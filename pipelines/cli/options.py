"""A command made from the settings of its verb: options, `--config FILE`, `--quiet`, help.

`pipelines.settings.form` says how settings are written. A command is then a function that takes
its arguments and the settings, checked:

    @command(ScoreSettings, "CORPORA...")
    def score(corpora: tuple[str, ...], settings: ScoreSettings) -> int:

An argument is written as help shows it: `NAME` is one text, `FILES...` a tuple of them, `[NAME]`
may be left out and is None then. What is not given is not passed on: the default is the
dataclass's. The command line wins over `--config FILE`, whose keys are the fields.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, replace
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from pipelines.cli.common import sentence_of
from pipelines.settings.form import Option, options_of
from sms.naming import counted, nearest
from sms.options import encoders_of
from sms.settings import Settings

S = TypeVar("S", bound=Settings)
Run = Callable[..., int | None]


class SettingsCommand(click.Command):
    """A command that was made by `command`."""

    settings: tuple[Option, ...]


def command(
    settings: type[S], *arguments: str, name: str | None = None
) -> Callable[[Run], SettingsCommand]:
    """Make a command of a function that takes the arguments and the settings."""
    known = options_of(settings)
    parameters: list[click.Parameter] = [_argument(written) for written in arguments]
    must_be_named = [str(one.name) for one in parameters if str(one.metavar)[0] != "["]
    options = [_option(setting) for setting in known if "python" not in setting.words]
    if n_rare := sum("rare" in setting.words for setting in known):
        help_text = (
            "Read options from this TOML file. Keys have underscores; the command line overrides "
            "them."
        )
        options.append(click.Option(["--config"], metavar="FILE", help=help_text))
        options.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help=f"Show {counted(n_rare, 'rarer option')} too and exit.",
            )
        )
    if any(setting.name == "on_progress" for setting in known):
        options.append(click.Option(["--quiet"], is_flag=True, help="Show no progress."))

    def decorate(function: Run) -> SettingsCommand:
        def run(**given: Any) -> int | None:  # noqa: ANN401  (what click has read)
            path = given.pop("config", None)
            arguments_given = {str(one.name): given.pop(str(one.name)) for one in parameters}
            values = _on_the_line(known, given)
            if path is not None:
                values = _in_the_file(path, known) | values
            if any(arguments_given[name] == () for name in must_be_named):
                raise click.UsageError("name at least one file, folder, glob or URL")
            for setting in known:
                if setting.default is MISSING and setting.name not in values:
                    text = f"{setting.help[0].lower()}{setting.help[1:].rstrip('.')}"
                    what = f"`{setting.option} {setting.metavar}`"
                    raise click.UsageError(f"{what} is missing: {text}")
            return function(*arguments_given.values(), settings(**values))

        made = SettingsCommand(
            name or function.__name__,
            callback=run,
            params=[*parameters, *options],
            help=function.__doc__,
        )
        made.settings = known
        return made

    return decorate


def _show_all(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Print the help with the rare options."""
    if is_asked and not context.resilient_parsing:
        for parameter in context.command.params:
            if isinstance(parameter, click.Option):
                parameter.hidden = False
        click.echo(context.get_help())
        context.exit()


@contextmanager
def shown_progress(settings: S, **listeners: Callable[..., None]) -> Iterator[S]:
    """Show progress on standard error while the block runs, unless `--quiet` was given.

    `listeners` are set in the same way, such as `on_news`.
    """
    from pipelines.runs.progress import show_progress

    if click.get_current_context().params["quiet"]:
        yield settings
        return
    with show_progress(sys.stderr, is_terminal=sys.stderr.isatty()) as on_progress:
        yield replace(settings, on_progress=on_progress, **listeners)  # type: ignore[call-arg]


def _argument(written: str) -> click.Argument:
    has_many = written.rstrip("]").endswith("...")
    return click.Argument(
        [written.strip("[].").lower()],
        nargs=-1 if has_many else 1,
        required=not (has_many or written.startswith("[")),
        metavar=written,
    )


def _option(setting: Option) -> click.Option:
    default, text, is_rare = setting.default, setting.help, "rare" in setting.words
    if setting.kind is bool:
        both = f"/--no-{setting.option.removeprefix('--')}" if default is not False else ""
        names = [f"{setting.option}{both}", setting.name]
        return click.Option(names, is_flag=True, default=None, help=text, hidden=is_rare)
    if default is MISSING:
        text += " Required."
    elif default not in (None, ()) and "Default" not in text:
        written = ",".join(map(str, default)) if isinstance(default, tuple) else default
        text += f"  [default: {written}]"
    return click.Option(
        [setting.option, setting.name],
        metavar=setting.metavar,
        multiple=setting.form != "one",
        default=None,
        help=text,
        hidden=is_rare,
    )


def _on_the_line(known: tuple[Option, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the texts of the options that were given."""
    source = click.get_current_context().get_parameter_source
    values: dict[str, Any] = {}
    for setting in known:
        name, value = setting.name, given.get(setting.name, ())
        if name not in given or source(name) is not ParameterSource.COMMANDLINE:
            continue
        if setting.form == "one" or setting.reader is encoders_of:
            values[name] = setting.read(value) if isinstance(value, str) else value
        elif setting.form == "table":
            values[name] = dict(pair for text in value for pair in setting.read(text).items())
        else:
            values[name] = tuple(item for text in value for item in setting.read(text))
    return values


def _in_the_file(path: str, known: tuple[Option, ...]) -> dict[str, Any]:
    """Read a TOML file into the values of fields, checked."""
    from cluster.store import read_whole

    try:
        values = tomllib.loads(read_whole(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from error
    except OSError as error:
        raise click.UsageError(f"`--config`: {sentence_of(error)}") from error
    by_name = {setting.name: setting for setting in known if "python" not in setting.words}
    for name, value in values.items():
        if name not in by_name:
            raise click.UsageError(f"unknown key `{name}` in {path}; {nearest(name, by_name)}")
        setting = by_name[name]
        if setting.form == "list" and isinstance(value, str):
            value = setting.read(value)
        try:
            values[name] = setting.checked(value)
        except ValueError as error:
            raise click.UsageError(f"{path}: {error}") from error
    return values

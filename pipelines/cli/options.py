"""A command made from the settings of its verb: options, `--config FILE`, `--quiet`, help.

`pipelines.settings.form` says how settings are written. A command is then a function that takes
its arguments and the settings, checked:

    @command(ScoreSettings, "CORPORA...")
    def score(corpora: tuple[str, ...], settings: ScoreSettings) -> int:
        \"\"\"Score the summaries in CORPORA.\"\"\"
        with shown_progress(settings) as settings:
            run = score_corpus(corpora, settings)
        show(...)

- An argument is written as help shows it: `NAME` is one text, `FILES...` a tuple of them,
  `[NAME]` may be left out and is None then.
- Every field is an option, but for those marked `rare` (TOML and Python) or `python`. What is not
  given is not passed on: the default is the dataclass's.
- `--config FILE` is a TOML file whose keys are the fields, the options as they are written and the
  arguments, all with underscores. The command line wins; a table of columns and the encoders of
  both are joined.
- Settings that refuse a value raise `ValueError`, which `pipelines.cli.app` prints in one line.

To add an option, add a field.
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
from pipelines.settings.form import Setting, Settings, settings_of
from sms.naming import nearest

S = TypeVar("S", bound=Settings)
Run = Callable[..., int | None]


class SettingsCommand(click.Command):
    """A command that was made by `command`."""

    settings: tuple[Setting, ...]


def command(
    settings: type[S], *arguments: str, name: str | None = None
) -> Callable[[Run], SettingsCommand]:
    """Make a command of a function that takes the arguments and the settings."""
    known = settings_of(settings)
    parameters: list[click.Parameter] = [_argument(written) for written in arguments]
    must_be_named = [str(one.name) for one in parameters if str(one.metavar)[0] != "["]
    options = [_option(setting) for setting in known if not setting.words & {"rare", "python"}]
    if any("rare" in setting.words for setting in known):
        help_text = (
            "Read options from this TOML file, also rarer ones that have no option here. Keys have "
            "underscores; the command line overrides them."
        )
        options.append(click.Option(["--config"], metavar="FILE", help=help_text))
    if any(setting.name == "on_progress" for setting in known):
        options.append(click.Option(["--quiet"], is_flag=True, help="Show no progress."))

    def decorate(function: Run) -> SettingsCommand:
        def run(**given: Any) -> int | None:  # noqa: ANN401  (what click has read)
            path = given.pop("config", None)
            own = {str(one.name): given.pop(str(one.name)) for one in parameters}
            values = _on_the_line(known, given)
            if path is not None:
                in_file = _in_the_file(path, known, own)
                own = {name: value or in_file.get(name, value) for name, value in own.items()}
                in_file = {name: value for name, value in in_file.items() if name not in own}
                both = in_file | values
                values = {key: _joined(in_file.get(key), values.get(key)) for key in both}
            if any(own[name] == () for name in must_be_named):
                raise click.UsageError("name at least one file, folder, glob or URL")
            for setting in known:
                if setting.default is MISSING and setting.name not in values:
                    text = f"{setting.help[0].lower()}{setting.help[1:].rstrip('.')}"
                    what = f"`{setting.option} {setting.metavar}`"
                    raise click.UsageError(f"{what} is missing: {text}")
            return function(*own.values(), settings(**values))

        made = SettingsCommand(
            name or function.__name__,
            callback=run,
            params=[*parameters, *options],
            help=function.__doc__,
        )
        made.settings = known
        return made

    return decorate


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
    plain = written.strip("[].")
    has_many = written.rstrip("]").endswith("...")
    return click.Argument(
        [plain.lower()],
        nargs=-1 if has_many else 1,
        required=not (has_many or written.startswith("[")),
        metavar=written,
    )


def _option(setting: Setting) -> click.Option:
    default = setting.default
    if setting.kind is bool:
        both = f"/--no-{setting.option.removeprefix('--')}" if default is not False else ""
        return click.Option(
            [f"{setting.option}{both}", setting.name], is_flag=True, default=None, help=setting.help
        )
    text = setting.help
    if default is MISSING:
        text += " Required."
    elif default not in (None, ()) and "Default" not in text:
        written = ",".join(map(str, default)) if isinstance(default, tuple) else default
        text += f"  [default: {written}]"
    return click.Option(
        [setting.option, setting.name],
        metavar=setting.metavar,
        type=_Choice(setting.choices) if setting.choices and not setting.kind else str,
        multiple=setting.form != "one",
        default=None,
        help=text,
    )


class _Choice(click.Choice[str]):
    """Choices for help and for shells; the settings check them, and know the nearest."""

    def convert(self, value: Any, *_: Any) -> Any:  # noqa: ANN401  (what click hands over)
        """Leave it as it is."""
        return value


def _on_the_line(known: tuple[Setting, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the texts of the options that were given."""
    source = click.get_current_context().get_parameter_source
    values: dict[str, Any] = {}
    for setting in known:
        if setting.name not in given or source(setting.name) is not ParameterSource.COMMANDLINE:
            continue
        value = given[setting.name]
        if "encoders" in setting.words:
            values[setting.name] = setting.checked(value)
        elif setting.form == "table":
            pairs = [pair for text in value for pair in setting.read(text).items()]
            values[setting.name] = dict(pairs)
        elif setting.form == "list":
            values[setting.name] = tuple(item for text in value for item in setting.read(text))
        else:
            values[setting.name] = value if isinstance(value, bool) else setting.read(value)
    return values


def _in_the_file(
    path: str, known: tuple[Setting, ...], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Read a TOML file into the values of fields and arguments, checked."""
    from cluster.store import read_whole

    try:
        values = tomllib.loads(read_whole(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from error
    except OSError as error:
        raise click.UsageError(f"`--config`: {sentence_of(error)}") from error
    by_key = {key: setting for setting in known for key in _keys(setting)}
    in_file: dict[str, Any] = {}
    for key, value in values.items():
        if key in arguments:
            in_file[key] = tuple(value) if isinstance(value, list) else (value,)
            if not all(isinstance(text, str) for text in in_file[key]):
                raise click.UsageError(f"{path}: `{key}` must be one text or a list, got {value!r}")
        elif key not in by_key:
            names = [*by_key, *arguments]
            raise click.UsageError(f"unknown key `{key}` in {path}; {nearest(key, names)}")
        else:
            setting = by_key[key]
            if setting.form == "list" and isinstance(value, str):
                value = setting.read(value)
            try:
                in_file[setting.name] = _joined(in_file.get(setting.name), setting.checked(value))
            except ValueError as error:
                raise click.UsageError(f"{path}: {error}") from error
    return in_file


def _keys(setting: Setting) -> set[str]:
    if "python" in setting.words:
        return set()
    return {setting.name, setting.option.removeprefix("--").replace("-", "_")}


def _joined(in_file: Any, on_the_line: Any) -> Any:  # noqa: ANN401
    """Take what the command line says; tables are joined."""
    if isinstance(in_file, Mapping) and isinstance(on_the_line, Mapping):
        return {**in_file, **on_the_line}
    return in_file if on_the_line is None else on_the_line

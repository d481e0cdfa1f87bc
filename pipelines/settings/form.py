"""How the settings of a verb are written: on the command line, in its TOML file, in Python.

A verb's settings are a dataclass of `sms.settings` in a file of this package, such as
`ScoreSettings`. Its types say how a field is written on the command line:

    bool                       --fresh; of a default that is not False --control/--no-control
    int, float, str, AnyPath   --limit 5
    Literal["a", "b"]          --preset a
    int | Literal["auto"]      --workers 5, --workers auto
    Sequence[str] (or int)     --metrics sms,wms or repeated; in Python and TOML a list or a text
    Mapping[str, str]          --columns candidate=summary, repeated or with commas; a dict, a table
                               (an item with a comma stands in quotation marks, as in CSV)

`Annotated[TYPE, ...]` adds words: a METAVAR in capitals; `--other` where the option is not the
field's name with dashes; `rare` where only `--help-all` shows the option; `python` for Python
alone.

`pipelines.cli.options.command` makes a command of them, `keywords` a function's signature. The
files here import nothing that takes a moment: no numpy, no click.
"""

from __future__ import annotations

import csv
import dataclasses
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from sms.naming import AnyPath, nearest
from sms.settings import Setting, Settings, settings_of, shown

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_PLACES = re.compile(r"(typing|collections\.abc|os)\.")
_TABLE = re.compile(r"([^=,\"]+)=(\{.*\})", re.DOTALL)
WORDS = ("rare", "python")
"""What may be said of a field besides its METAVAR and its option."""


def shared_fields(config: type, settings: Settings) -> dict[str, Any]:
    """Return the values of settings that a configuration has a field for, by name."""
    names = {field.name for field in dataclasses.fields(config)}
    return {name: value for name, value in vars(settings).items() if name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Setting):
    """A setting, and how it is written on the command line."""

    metavar: str
    option: str
    """With its dashes."""
    words: frozenset[str]
    """Out of `WORDS`."""

    def read(self, text: str) -> Any:  # noqa: ANN401
        """Read what stands on the command line, or one of several such texts.

        Raises ValueError if it is to be a list and names nothing, such as `,`: whoever means the
        default leaves the option out.
        """
        if self.form == "one":
            return self._number(text)
        if self.form == "table" and (table := _TABLE.fullmatch(text)):
            return {table[1].strip(): self._table(table[2])}
        if not (items := _items(text)):
            raise ValueError(f"`{self.option}` must name at least one, got `{text}`")
        if self.form == "list":
            return tuple(map(self._number, items))
        pairs = [item.partition("=") for item in items]
        if wrong := ["".join(pair) for pair in pairs if not all(pair)]:
            raise ValueError(
                f"`{self.option}` must be written OURS=THEIRS, got `{wrong[0]}`; for example "
                f"{self.option} candidate=summary, and {self.option} '\"candidate=short, final\"' "
                "where a name has a comma"
            )
        return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}

    def _table(self, text: str) -> Any:  # noqa: ANN401
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(
                f"`{self.option}` must be a name, `=` and a path or a table in JSON, got "
                f"`{text}` ({error})"
            ) from error

    def _number(self, text: str) -> Any:  # noqa: ANN401
        if self.kind in (int, float) and text not in self.choices:
            with suppress(ValueError):  # it stays a text, which `checked` refuses
                return self.kind(text)
        return text


def _items(text: str) -> list[str]:
    try:
        (items,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        raise ValueError(
            "items of a list must be separated by commas, and an item that contains a comma must "
            f"be in quotation marks, got `{text}` ({error})"
        ) from error
    return [item.strip() for item in items if item.strip()]


def _quoted(item: str) -> str:
    """Write an item so that `_items` returns it whole."""
    return '"' + item.replace('"', '""') + '"' if {",", '"'} & {*item} else item


def options_of(settings: type) -> tuple[Option, ...]:
    """Describe how fields of settings are written, those of the class before those of its bases."""
    return tuple(map(_option_of, settings_of(settings)))


def _option_of(setting: Setting) -> Option:
    words = frozenset(note for note in setting.notes if note in WORDS)
    spelled = [note for note in setting.notes if note.startswith("--")]
    metavars = [note for note in setting.notes if note not in words and note not in spelled]
    if any(note.islower() for note in metavars):
        raise TypeError(f"the field `{setting.name}` must have words out of {WORDS}")
    plain = {int: "N", float: "X", str: "TEXT"}.get(setting.kind or str, "")
    if setting.choices:
        plain = "|".join([*setting.choices, *(["N"] if setting.kind in (int, float) else [])])
    plain = {"list": "LIST", "table": "OURS=THEIRS"}.get(setting.form, plain)
    known = {field.name: getattr(setting, field.name) for field in dataclasses.fields(Setting)}
    return Option(
        **known,
        metavar=metavars[0] if metavars else plain,
        option=spelled[0] if spelled else f"--{setting.name.replace('_', '-')}",
        words=words,
    )


def as_call(verb: str, data: str, settings: Settings) -> str:
    """Write settings as a call in Python does, as in `assay.score(rows, out="scores")`."""
    named = (f"{setting.name}={value!r}" for setting, value in _said(settings))
    return f"assay.{verb}({', '.join([data, *named])})"


def _said(settings: Settings) -> Iterator[tuple[Option, Any]]:
    """Yield the settings that can be written and are not as they are by default."""
    for setting in options_of(type(settings)):
        value = getattr(settings, setting.name)
        is_default = setting.default is not MISSING and value == setting.checked(setting.default)
        if not (value is None or is_default or "python" in setting.words):
            yield setting, value


def as_options(settings: Settings) -> list[str]:
    """Write settings as a command line does; those that are defaults are left out."""
    words = []
    for setting, value in _said(settings):
        if isinstance(value, bool):
            words.append(setting.option if value else f"--no-{setting.option.removeprefix('--')}")
        elif isinstance(value, dict):
            for key, item in value.items():
                is_table = isinstance(item, Mapping)
                text = f"{key}={json.dumps(item)}" if is_table else _quoted(f"{key}={item}")
                words += [setting.option, text]
        elif isinstance(value, tuple):
            words += [setting.option, ",".join(_quoted(str(item)) for item in value)]
        else:
            words += [setting.option, str(value)]
    return words


class _SecondMayBeLeftOut(Protocol[P, R_co]):
    """A function of one or two inputs and the fields of settings."""

    def __call__(
        self,
        first: AnyPath,
        second: AnyPath | None = None,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R_co: ...


class _Decorator(Protocol[P]):
    """Gives a function of data and settings the fields as keywords."""

    @overload
    def __call__(
        self, function: Callable[[Any, AnyPath | None, Any], R]
    ) -> _SecondMayBeLeftOut[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[[Any, Any, Any], R]
    ) -> Callable[Concatenate[Any, Any, P], R]: ...
    @overload
    def __call__(self, function: Callable[[Any, Any], R]) -> Callable[Concatenate[Any, P], R]: ...


def keywords(settings: Callable[P, Any]) -> _Decorator[P]:
    """Make `function(data, settings)` one that takes the fields as keywords, and says which.

    Data of a type that ends in `| None` may be left out. Editors complete the fields,
    `inspect.signature` and `help` show them with the text of each.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(function)
        *data, _ = signature.parameters.values()
        data = [one.replace(default=None) if _may_be_left_out(one) else one for one in data]
        known = settings_of(settings)  # type: ignore[arg-type]
        fields = inspect.signature(settings).parameters
        named = [fields[one.name].replace(annotation=one.annotation) for one in known]
        signature = signature.replace(parameters=[*data, *named])

        @wraps(function)
        def call(*args: Any, **given: Any) -> R:  # noqa: ANN401
            if unknown := [name for name in given if name not in signature.parameters]:
                called = function.__qualname__.removesuffix(".__init__")
                hint = nearest(unknown[0], signature.parameters)
                if unknown[0].endswith("_id") and "columns" in signature.parameters:
                    hint = f"name that column with `columns={{'{unknown[0]}': NAME}}`"
                raise TypeError(f"{called}() has no argument `{unknown[0]}`; {hint}")
            bound = signature.bind(*args, **given).arguments
            of_data = [_data(parameter, bound.pop(parameter.name, None)) for parameter in data]
            return function(*of_data, settings(**bound))  # type: ignore[call-arg]

        call.__signature__ = signature  # type: ignore[attr-defined]
        kinds = {one.name: inspect.formatannotation(one.annotation) for one in known}
        texts = "\n".join(
            f"{one.name} : {_PLACES.sub('', kinds[one.name])}\n    {one.help}" for one in known
        )
        call.__doc__ = f"{inspect.getdoc(function) or ''}\n\nParameters\n----------\n{texts}"
        return call

    return decorate


def _may_be_left_out(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).endswith("| None")


def _data(parameter: inspect.Parameter, given: Any) -> Any:  # noqa: ANN401
    """Return what a function reads: rows, and `self`, as they are, paths and names as text."""
    is_left_out = given is None and _may_be_left_out(parameter)
    if parameter.annotation == "Rows" or parameter.name == "self" or is_left_out:
        return given
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    is_one = str(parameter.annotation).startswith("AnyPath")
    is_table = isinstance(given, Mapping) or hasattr(given, "columns")
    if isinstance(given, Iterable) and not (is_one or is_table):
        items = list(given)
        if all(isinstance(item, str | os.PathLike) for item in items):
            return [os.fspath(item) for item in items]
    several = "" if is_one else ", or a list of them"
    remedy = "; write the table to a file first" if is_table else ""
    raise TypeError(
        f"`{parameter.name}` must be a name or a path{several}, got {shown(given)}{remedy}"
    )

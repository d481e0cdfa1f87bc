"""How settings are written, checked and described: once, for the command, its TOML file and Python.

A verb's settings are a frozen dataclass in a file of this package, such as `ScoreSettings`. The
text under a field is its help, a sentence that stands alone; a field without a default must be
given. Its type says what may be given, and how that is written on the command line:

    bool                       --fresh; of a default that is not False --control/--no-control
    int, float, str, AnyPath   --limit 5
    Literal["a", "b"]          --preset a; anything else is answered with the nearest choice
    int | Literal["auto"]      --workers 5, --workers auto
    Sequence[str] (or int)     --metrics sms,wms or repeated; in Python and TOML a list or a text
    Mapping[str, str]          --columns candidate=summary, repeated or with commas; a dict, a table
                               (an item with a comma stands in quotation marks, as in CSV)
    X | None                   the same, and None is what the help says

`Annotated[TYPE, ...]` adds words: a METAVAR in capitals; `--other` where the option is not the
field's name with dashes; `rare` for TOML and Python alone; `python` for Python alone; `encoders`
(`pipelines.settings.encoders`) and `models` (`sms.model_tables`) for their own syntax.

`pipelines.cli.options.command` makes a command of them, `keywords` a function's signature. The
files here import nothing that takes a moment: no numpy, no click.
"""

from __future__ import annotations

import ast
import collections.abc
import csv
import dataclasses
import inspect
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass
from functools import wraps
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pipelines.settings.encoders import encoders_of
from sms.model_tables import models_of
from sms.naming import nearest

P = ParamSpec("P")
R = TypeVar("R")
_PLACES = re.compile(r"(typing|collections\.abc|os)\.")
WORDS = ("rare", "python", "encoders", "models")
"""What may be said of a field besides its METAVAR and its option."""
_Form: TypeAlias = Literal["one", "list", "table", "object"]
_FORMS: dict[Any, _Form] = {Sequence: "list", Mapping: "table", collections.abc.Callable: "object"}
_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a verb; subclasses that check more call this `__post_init__` first."""

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)):
            value = setting.checked(getattr(self, setting.name))
            object.__setattr__(self, setting.name, value)


def as_far_as(config: type, settings: Settings) -> dict[str, Any]:
    """Return the settings that are fields of a configuration, too, under its names."""
    names = {field.name for field in dataclasses.fields(config)}
    return {name: value for name, value in vars(settings).items() if name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known of one field."""

    name: str
    annotation: Any
    kind: type | None
    """`bool`, `int`, `float` or `str`, of each item in a list; None where only choices count."""
    form: _Form
    """Whether it holds one value, several, several with names, or something of Python."""
    choices: tuple[str, ...]
    """Texts that are allowed; besides a number where there is a `kind`."""
    may_be_none: bool
    default: Any
    """`dataclasses.MISSING` if it must be given."""
    help: str
    metavar: str
    option: str
    """With its dashes."""
    words: frozenset[str]
    """Out of `WORDS`."""

    def checked(self, value: Any) -> Any:  # noqa: ANN401  (whatever is given)
        """Return a value as settings hold it (lists as tuples, tables as dicts) or refuse it."""
        if self.form == "object" or (value is None and self.may_be_none):
            return value
        if "encoders" in self.words:
            return encoders_of(value)
        if "models" in self.words:
            return models_of(value)
        if self.form == "table":
            if not isinstance(value, Mapping):
                raise ValueError(f"`{self.name}` must be a table, got {shown(value)}")
            return {str(key): self._one(item) for key, item in value.items()}
        if self.form == "list":
            is_one = isinstance(value, str | os.PathLike | Mapping)
            items = value if isinstance(value, Iterable) and not is_one else [value]
            return tuple(map(self._one, items))
        return self._one(value)

    def _one(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, str) and value in self.choices:
            return value
        if self.kind is str and not self.choices and isinstance(value, str | os.PathLike):
            return os.fspath(value)
        if isinstance(value, bool):
            if self.kind is bool:
                return value
        elif self.kind is int and isinstance(value, Integral):  # NumPy's, too
            return int(value)
        elif self.kind is float and isinstance(value, Real):
            return float(value)
        rules = [_KINDS[self.kind]] if self.kind and not (self.choices and self.kind is str) else []
        if self.choices:
            rules.append(f"{'one of ' * (len(self.choices) > 1)}{', '.join(self.choices)}")
        hint = nearest(value, self.choices) if isinstance(value, str) else ""
        near = f"; {hint}" if hint.startswith("did") else ""
        raise ValueError(f"`{self.name}` must be {' or '.join(rules)}, got {shown(value)}{near}")

    def read(self, text: str) -> Any:  # noqa: ANN401
        """Read what stands on the command line, or one of several such texts.

        Raises ValueError if it is to be a list and names nothing, such as `,`: whoever means the
        default leaves the option out.
        """
        if self.form == "one":
            return self._number(text)
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


def shown(value: object) -> str:
    """Write a wrong value in a message: what is long or has several lines by its kind alone."""
    text = repr(value)
    return text if len(text) < 80 and "\n" not in text else f"a {type(value).__name__}"


_known: dict[type, tuple[Setting, ...]] = {}


def settings_of(settings: type) -> tuple[Setting, ...]:
    """Describe the fields of a settings class, its own before those of its bases."""
    if settings in _known:
        return _known[settings]
    hints = get_type_hints(settings, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(settings)}
    helps: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, settings.__mro__):
        texts = _texts_under_fields(base)
        own = (name for name in base.__annotations__ if name in fields)
        helps = helps | {name: texts.get(name, "") for name in own if name not in helps}
    _known[settings] = tuple(_described(fields[name], hints[name], helps[name]) for name in helps)
    return _known[settings]


def _described(field: dataclasses.Field[Any], hint: Any, text: str) -> Setting:  # noqa: ANN401
    annotation, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    words = frozenset(mark for mark in marks if mark in WORDS)
    spelled = [mark for mark in marks if mark.startswith("--")]
    metavars = [mark for mark in marks if mark not in words and mark not in spelled]
    if not text or any(mark.islower() for mark in metavars):
        raise TypeError(f"the field `{field.name}` needs a text under it, and words out of {WORDS}")
    parts = _parts(annotation)
    may_be_none = types.NoneType in parts
    forms = [_FORMS[get_origin(part)] for part in parts if get_origin(part) in _FORMS]
    form: _Form = "object" if Any in parts else forms[0] if forms else "one"
    if form in ("list", "table"):
        parts = tuple(each for p in parts if get_args(p) for each in _parts(get_args(p)[-1]))
    choices = tuple(choice for p in parts if get_origin(p) is Literal for choice in get_args(p))
    kind = next((kind for kind in _KINDS if kind in parts), None)
    plain = {int: "N", float: "X", str: "TEXT"}.get(kind or str, "")
    if choices:
        plain = "|".join([*choices, *(["N"] if kind in (int, float) else [])])
    plain = {"list": "LIST", "table": "OURS=THEIRS"}.get(form, plain)
    return Setting(
        name=field.name,
        annotation=annotation,
        kind=kind,
        form=form,
        choices=choices,
        may_be_none=may_be_none,
        default=field.default,
        help=" ".join(text.split()),
        metavar=metavars[0] if metavars else plain,
        option=spelled[0] if spelled else f"--{field.name.replace('_', '-')}",
        words=words,
    )


def _parts(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if is_union else (annotation,)


def _texts_under_fields(settings: Any) -> dict[str, str]:  # noqa: ANN401
    """Read the text that stands under each field in the source."""
    tree = ast.parse(Path(inspect.getfile(settings)).read_text(encoding="utf-8"))
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    body = next(node.body for node in classes if node.name == settings.__name__)
    texts = {}
    for statement, below in pairwise(body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = text
    return texts


def as_options(settings: Settings) -> list[str]:
    """Write settings as a command line does; those that are defaults are left out."""
    words = []
    for setting in settings_of(type(settings)):
        value = getattr(settings, setting.name)
        is_default = setting.default is not MISSING and value == setting.checked(setting.default)
        if value is None or is_default or "python" in setting.words:
            continue
        if isinstance(value, bool):
            words.append(setting.option if value else f"--no-{setting.option.removeprefix('--')}")
        elif isinstance(value, dict):
            pairs = [f"{key}={item}" for key, item in value.items()]
            words += [word for pair in pairs for word in (setting.option, _quoted(pair))]
        elif isinstance(value, tuple):
            words += [setting.option, ",".join(_quoted(str(item)) for item in value)]
        else:
            words += [setting.option, str(value)]
    return words


class _Decorator(Protocol[P]):
    """Gives a function of data and settings the fields as keywords."""

    @overload
    def __call__(
        self, function: Callable[[Any, Any, Any], R]
    ) -> Callable[Concatenate[Any, Any, P], R]: ...
    @overload
    def __call__(self, function: Callable[[Any, Any], R]) -> Callable[Concatenate[Any, P], R]: ...


def keywords(settings: Callable[P, Any]) -> _Decorator[P]:
    """Make `function(data, settings)` one that takes the fields as keywords, and says which.

    Editors complete them, `inspect.signature` and `help` show them with the text of each field.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(function)
        *data, _ = signature.parameters.values()
        known = settings_of(settings)  # type: ignore[arg-type]
        fields = inspect.signature(settings).parameters
        named = [fields[one.name].replace(annotation=one.annotation) for one in known]
        signature = signature.replace(parameters=[*data, *named])

        @wraps(function)
        def call(*args: Any, **given: Any) -> R:  # noqa: ANN401
            if unknown := [name for name in given if name not in signature.parameters]:
                hint = nearest(unknown[0], signature.parameters)
                if unknown[0].endswith("_id") and "columns" in signature.parameters:
                    hint = f"name that column with `columns={{'{unknown[0]}': NAME}}`"
                raise TypeError(f"{function.__name__}() has no argument `{unknown[0]}`; {hint}")
            bound = signature.bind(*args, **given).arguments
            of_data = [_data(parameter, bound.pop(parameter.name)) for parameter in data]
            return function(*of_data, settings(**bound))  # type: ignore[call-arg]

        call.__signature__ = signature  # type: ignore[attr-defined]
        kinds = {one.name: inspect.formatannotation(one.annotation) for one in known}
        texts = "\n".join(
            f"{one.name} : {_PLACES.sub('', kinds[one.name])}\n    {one.help}" for one in known
        )
        call.__doc__ = f"{inspect.getdoc(function) or ''}\n\nParameters\n----------\n{texts}"
        return call

    return decorate


def _data(parameter: inspect.Parameter, given: Any) -> Any:  # noqa: ANN401
    """Return what a function reads: rows as they are, paths and names as text."""
    if parameter.annotation == "Rows":
        return given
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    is_one = parameter.annotation == "AnyPath"
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

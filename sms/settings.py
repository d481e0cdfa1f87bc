"""Settings: what a field may hold, checked and described once, wherever it is given.

Settings are a frozen dataclass derived from `Settings`. The text under a field is its help, a
sentence that stands alone; a field without a default must be given. Its type says what may be
given:

    bool, int, float, str, AnyPath
    Literal["a", "b"]          one of these; anything else is answered with the nearest
    int | Literal["auto"]      a number or one of these
    Sequence[str] (or int)     a list, or one item; held as a tuple
    Mapping[str, str]          a dict or a table of TOML
    X | None                   the same, and None is what the help says

`Annotated[TYPE, ...]` may add an `AtLeast` or a `Written`, a function that reads whatever is given
in its place, and notes for those who show the settings (`pipelines.settings.form`). Nothing here
takes a moment to import: no numpy, no command line.
"""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import inspect
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sms.naming import nearest

ASIDE = "aside"
"""A note: the field changes how, and how fast, numbers are made, and none of the numbers."""

_Form: TypeAlias = Literal["one", "list", "table", "object"]
_FORMS: dict[Any, _Form] = {Sequence: "list", Mapping: "table", collections.abc.Callable: "object"}
_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The lowest number that a field may hold."""

    lowest: int


@dataclass(frozen=True, slots=True)
class Written:
    """What a text must look like."""

    pattern: str
    choices: tuple[str, ...]
    """How that is written, for people."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings; subclasses that check more call this `__post_init__` first."""

    about = ""
    """What they are settings of, for messages, such as ` of a pair`."""

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)):
            value = setting.checked(getattr(self, setting.name), self.about)
            object.__setattr__(self, setting.name, value)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Self:
        """Read a table; raises `ValueError` if a key is unknown, or a value wrong."""
        cls.check_keys(table)
        return cls(**table)

    @classmethod
    def check_keys(cls, table: Mapping[str, Any], others: Sequence[str] = ()) -> None:
        """Raise `ValueError`, with the nearest, if a key is neither a field nor one of others."""
        known = [*others, *(setting.name for setting in settings_of(cls))]
        for key in table:
            if key not in known:
                raise ValueError(f"unknown key `{key}`{cls.about}; {nearest(key, known)}")


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
    lowest: int | None
    pattern: str
    """Regular expression of texts that are not written as in `choices`."""
    reader: Callable[[Any], Any] | None
    """Reads whatever is given."""
    notes: tuple[str, ...]
    """For those who show it."""

    @property
    def is_path(self) -> bool:
        """Whether it is a path, whose `~` is written out."""
        return any(get_origin(part) is os.PathLike for part in _parts(self.annotation))

    def checked(self, value: Any, about: str = "") -> Any:  # noqa: ANN401  (whatever is given)
        """Return a value as settings hold it (lists as tuples, tables as dicts) or refuse it."""
        if value is None and self.may_be_none:
            return value
        if self.reader is not None:
            return self.reader(value)
        if self.form == "object":
            return value
        if self.form == "table":
            if not isinstance(value, Mapping):
                raise ValueError(f"`{self.name}`{about} must be a table, got {shown(value)}")
            return {str(key): self._one(item, about) for key, item in value.items()}
        if self.form == "list":
            is_one = isinstance(value, str | os.PathLike | Mapping)
            items = value if isinstance(value, Iterable) and not is_one else [value]
            return tuple(self._one(item, about) for item in items)
        return self._one(value, about)

    def _one(self, value: Any, about: str) -> Any:  # noqa: ANN401
        if isinstance(value, str) and (value in self.choices or self._is_written(value)):
            return value
        if self.kind is str and not self.choices and isinstance(value, str | os.PathLike):
            return os.fspath(value)
        if isinstance(value, bool):
            if self.kind is bool:
                return value
        elif self.kind is int and isinstance(value, Integral):  # NumPy's, too
            if self.lowest is None or int(value) >= self.lowest:
                return int(value)
        elif self.kind is float and isinstance(value, Real):
            return float(value)
        rules = [_KINDS[self.kind]] if self.kind and not (self.choices and self.kind is str) else []
        if self.lowest is not None:
            rules = [f"{rules[0]} from {self.lowest}"]
        if self.choices:
            rules.append(f"{'one of ' * (len(self.choices) > 1)}{', '.join(self.choices)}")
        hint = nearest(value, self.choices) if isinstance(value, str) else ""
        near = f"; {hint}" if hint.startswith("did") else ""
        rule = " or ".join(rules)
        raise ValueError(f"`{self.name}`{about} must be {rule}, got {shown(value)}{near}")

    def _is_written(self, value: str) -> bool:
        return bool(self.pattern) and re.fullmatch(self.pattern, value) is not None


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
    fields = {field.name: field for field in dataclasses.fields(settings) if field.init}
    helps: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, settings.__mro__):
        texts = _texts_under_fields(base)
        names = (name for name in base.__annotations__ if name in fields)
        helps = helps | {name: texts.get(name, "") for name in names if name not in helps}
    _known[settings] = tuple(_described(fields[name], hints[name], helps[name]) for name in helps)
    return _known[settings]


def _described(field: dataclasses.Field[Any], hint: Any, text: str) -> Setting:  # noqa: ANN401
    annotation, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not text:
        raise TypeError(f"the field `{field.name}` needs a text under it")
    written = next((note for note in notes if isinstance(note, Written)), Written("", ()))
    least = next((note for note in notes if isinstance(note, AtLeast)), None)
    reader = next((note for note in notes if callable(note)), None)
    parts = _parts(annotation)
    may_be_none = types.NoneType in parts
    forms = [_FORMS[get_origin(part)] for part in parts if get_origin(part) in _FORMS]
    form: _Form = "object" if Any in parts else forms[0] if forms else "one"
    if form in ("list", "table"):
        parts = tuple(each for p in parts if get_args(p) for each in _parts(get_args(p)[-1]))
    choices = tuple(choice for p in parts if get_origin(p) is Literal for choice in get_args(p))
    if not all(isinstance(choice, str) for choice in choices):
        raise TypeError(f"the field `{field.name}` must have texts as choices, got {choices}")
    kind = next((kind for kind in _KINDS if kind in parts), None)
    return Setting(
        name=field.name,
        annotation=annotation,
        kind=kind,
        form=form,
        choices=choices or written.choices,
        may_be_none=may_be_none,
        default=field.default,
        help=" ".join(text.split()),
        lowest=None if least is None else least.lowest,
        pattern=written.pattern,
        reader=reader,
        notes=tuple(note for note in notes if isinstance(note, str)),
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

"""The encoders there are (`kinds.toml`), and how a specification becomes one of them.

A specification is `KIND[:PATH][,OPTION=VALUE...]`, for example `glove:vectors.txt,pooling=max`.
Reading one loads nothing: a loader is imported when its encoder is.
"""

from __future__ import annotations

import difflib
import importlib
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any

from sms.encoders import EncoderRuntime
from sms.encoders.base import Encoder
from sms.encoders.options import OPTIONS
from sms.naming import load_entry_points, nearest, user_path
from sms.settings import Setting, Settings, settings_of
from sms.urls import check_no_secrets

_NEXT_OPTION = re.compile(r",(?=\w+=)")  # a value may hold commas: layers=concat:-2,-1


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderKind:
    """One kind of encoder."""

    kind: str
    """What a specification starts with."""
    path: str = ""
    """What stands after the colon, such as `PATH`; empty if there is nothing to say."""
    summary: str
    """One line for people."""
    vectors: tuple[str, ...]
    """`words`, `sentences` or both."""
    loader: str
    """`module:function`, called as `function(path, runtime=EncoderRuntime(), **options)` with all
    options of the kind."""
    options: type[Settings] = Settings
    """The options, whose help is a phrase and no sentence."""
    extra: str = ""
    """Optional part of this project that must be installed, if any."""
    is_static: bool = False
    """Whether a word has one vector whatever its sentence, and some words have none."""

    def __post_init__(self) -> None:
        if not self.vectors or not {*self.vectors} <= {"words", "sentences"}:
            raise ValueError(
                f"`vectors` of encoder `{self.kind}` must be words, sentences or both, got "
                f"{self.vectors}"
            )
        settings_of(self.options)  # raises here, not later, if the options are declared wrongly

    @property
    def spec(self) -> str:
        """How it is written on the command line, without options."""
        return f"{self.kind}:{self.path}" if self.path else self.kind


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder as somebody asked for it; `str` gives the canonical way to write it."""

    kind: EncoderKind
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """What was said, without defaults."""

    def __post_init__(self) -> None:
        known = {setting.name: setting for setting in settings_of(self.kind.options)}
        read = {
            name: user_path(value) if name in known and known[name].is_path else value
            for name, value in self.options.items()
        }
        object.__setattr__(self, "path", user_path(self.path))
        object.__setattr__(self, "options", read)
        check_no_secrets(self.path)
        kind = self.kind
        if bool(kind.path) != bool(self.path):
            got = f"the path {self.path!r}" if self.path else "no path"
            raise ValueError(f"encoder `{kind.kind}` must be written `{kind.spec}`, got {got}")
        if _NEXT_OPTION.search(self.path):
            raise ValueError(
                f"path of encoder `{kind.kind}` must not hold a comma followed by NAME=, which "
                f"begins an option, got {self.path!r}; give the file another name"
            )
        about = f" of encoder `{kind.kind}`"
        for name, value in self.options.items():
            if name not in known:
                raise ValueError(
                    f"encoder `{kind.kind}` has no option `{name}`; {nearest(name, known)}"
                )
            if not value:
                raise ValueError(f"`{name}`{about} must be a value, got ''")
            known[name].checked(_value(known[name], value), about)
        for name in known.keys() - self.values.keys():
            raise ValueError(
                f"encoder `{kind.kind}` needs its option `{name}`, the {known[name].help}; "
                f"write `{kind.spec},{name}=...`"
            )

    def __str__(self) -> str:
        path = f":{self.path}" if self.path else ""
        values = self.values
        said = (
            f",{setting.name}={self.options[setting.name]}"
            for setting in settings_of(self.kind.options)
            if values[setting.name] != setting.default
        )
        return f"{self.kind.kind}{path}{''.join(said)}"

    @property
    def values(self) -> dict[str, Any]:
        """Every option's value, defaults included."""
        known = {setting.name: setting for setting in settings_of(self.kind.options)}
        defaults = {
            name: setting.default
            for name, setting in known.items()
            if setting.default is not MISSING
        }
        said = self.options.items()
        return defaults | {name: _value(known[name], text) for name, text in said}


def _value(setting: Setting, text: str) -> Any:
    """Read an option's text: a number, or true or false, where it is one."""
    if setting.kind is bool:
        return {"true": True, "false": False}.get(text, text)
    if setting.kind in (int, float):
        with suppress(ValueError):  # what is no number stays a text, which the settings refuse
            return setting.kind(text)
    return text


_TABLES = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text("utf-8"))
ENCODERS = {
    kind: EncoderKind(
        kind=kind,
        options=OPTIONS.get(kind, Settings),
        **table | {"vectors": tuple(table["vectors"])},
    )
    for kind, table in _TABLES.items()
}
"""Every kind of encoder by name; one that is added is one like all others."""
SHIPPED = dict(ENCODERS)
"""Those of this package: what every process has under these names until a program changes it."""


def all_encoders() -> Mapping[str, EncoderKind]:
    """Return every kind by name, including those that `assay.encoders` entry points add."""
    load_entry_points("assay.encoders")
    return ENCODERS


def parse_spec(spec: str) -> EncoderSpec:
    """Read a specification and check all of it that can be checked without loading.

    Raises `ValueError` if something is unknown, missing or superfluous.

    Examples
    --------
    >>> spec = parse_spec("hf:roberta-base,layers=concat:-2,-1,pooling=cls")
    >>> spec.path, dict(spec.options)
    ('roberta-base', {'layers': 'concat:-2,-1', 'pooling': 'cls'})
    """
    head, *settings = _NEXT_OPTION.split(spec)
    kind, _, path = head.partition(":")
    options = dict(setting.split("=", 1) for setting in settings)
    if len(options) < len(settings):
        raise ValueError(f"encoder {spec!r} must not give an option twice")
    known = ENCODERS if kind in ENCODERS else all_encoders()
    if kind in known:
        return EncoderSpec(known[kind], path, options)
    near = difflib.get_close_matches(kind, known, n=1)
    hint = f"did you mean `{known[near[0]].spec}`?" if near else "see `assay encoders`"
    if re.search(r"[/-]", kind):  # as models are called on the hub
        hint = f"for a model of the transformers library write hf:{kind}"
    raise ValueError(f"unknown encoder {kind!r}; {hint}")


def load_encoder(spec: str | EncoderSpec, runtime: EncoderRuntime | None = None) -> Encoder:
    """Load an encoder by its specification, as `glove:vectors/glove.6B.300d.txt,pooling=max`.

    Raises `ValueError` if the specification is wrong, or a file is missing or damaged.
    """
    asked = parse_spec(spec) if isinstance(spec, str) else spec
    module, _, function = asked.kind.loader.partition(":")
    loader = getattr(importlib.import_module(module), function)
    runtime = runtime or EncoderRuntime()
    encoder: Encoder = loader(asked.path, runtime=runtime, **asked.values)
    encoder.set_up(runtime)
    return encoder


def kinds_with(vectors: str) -> str:
    """List how the kinds that give `words` or `sentences` are written."""
    return ", ".join(kind.spec for kind in ENCODERS.values() if vectors in kind.vectors)

"""What is computed for every row, as people say it: the fields that a run and a scorer share.

Importing this loads neither NumPy nor a model.

Encoders are `[ALIAS=]SPEC` on the command line, a table in TOML, both in Python; the first is the
default of a run:

    encoders = "minilm"
    encoders = ["minilm", "news=glove:vectors.txt,pooling=max"]
    encoders = {"news": "glove:vectors.txt,pooling=max"}

Models of metrics that have one of their own are a folder by alias, or a table with the folder and
settings, in TOML `[models.lm]`; each metric says which settings it takes:

    models = {"lm": "models/smollm2"}
    models = {"lm": {"path": "models/smollm2", "value": "sum"}}

A model that a server has, for `ask`, has a `url` in place of `path`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from sms.language_codes import language_code
from sms.naming import user_path
from sms.settings import AtLeast, Settings

Encoders: TypeAlias = Mapping[str, str] | Sequence[str]

_ALIAS = re.compile(r"([^=:/\\,]+)=(.*)", re.DOTALL)
_AFTER_KIND = re.compile(r"[:,]")
PATH = "path"
URL = "url"  # of a server that has the model


def encoders_of(given: object) -> dict[str, str]:
    """Return alias to specification; without an alias an encoder is called by its kind.

    Raises ValueError if two have the same alias, or one is not a text.

    Examples
    --------
    >>> encoders_of(["minilm", "news=glove:v.txt,pooling=max"])
    {'minilm': 'minilm', 'news': 'glove:v.txt,pooling=max'}
    """
    pairs: Iterable[tuple[object, object]]
    if isinstance(given, Mapping):
        pairs = given.items()
    elif isinstance(given, str) or not isinstance(given, Iterable):
        pairs = [(None, given)]
    else:
        pairs = ((None, spec) for spec in given)
    specs: dict[str, str] = {}
    for alias, spec in pairs:
        if not isinstance(spec, str):
            raise ValueError(
                "`encoders` must be texts such as `glove:PATH,pooling=max`, or a table with one "
                f"for each alias, got {spec!r}"
            )
        if alias is None:
            named = _ALIAS.fullmatch(spec)
            alias, spec = named.groups() if named else (_AFTER_KIND.split(spec)[0], spec)
        if alias in specs:
            raise ValueError(
                f"two encoders are called `{alias}`; rename one of them: "
                f"--encoder {shlex.quote(f'ALIAS={spec}')}"
            )
        specs[str(alias)] = spec
    return specs


def models_of(given: object) -> dict[str, dict[str, Any]]:
    """Return the table of every alias; raises `ValueError` if it or its path is wrong."""
    if not isinstance(given, Mapping):
        raise ValueError(f"`models` must be tables [models.ALIAS], got {given!r}")
    tables = {}
    for alias, value in given.items():
        if not isinstance(alias, str) or not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", alias):
            raise ValueError(f"model alias {alias!r} must be letters, digits, `.`, `-`, `_`")
        table = dict(value) if isinstance(value, Mapping) else {PATH: value}
        where = URL if URL in table and PATH not in table else PATH
        given = table.get(where)
        if not isinstance(given, str | os.PathLike) or not os.fspath(given):
            raise ValueError(
                f"`[models.{alias}]` must have the `{PATH}` of a model, a text, got {given!r}"
                if where == PATH
                else f"`{URL}` of `[models.{alias}]` must be a text, got {given!r}"
            )
        tables[alias] = table | {where: os.fspath(given)}
    return tables


def find_model(
    named: str, models: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, dict[str, Any]]:
    """Return path (absolute if a folder) and settings of an alias, folder, URL or hub id.

    A model that a server has is in no folder: its path is None, and its `url` a setting.
    """
    settings = dict(models.get(named, {PATH: named}))
    if PATH not in settings:
        return None, settings
    path = user_path(settings.pop(PATH))
    return os.path.abspath(path) if os.path.exists(path) else path, settings


def places_of(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return where models are: the paths and URLs of their tables."""
    return [table[key] for table in models.values() for key in (PATH, URL) if key in table]


@dataclass(frozen=True, kw_only=True)
class MetricOptions(Settings):
    """How metrics are computed, whichever they are."""

    encoders: Annotated[Encoders, "[ALIAS=]SPEC", "--encoder", encoders_of] = "minilm"
    """Use this encoder; `assay encoders` lists them. Repeat the option for several: metrics without
    `@ENCODER` use the first."""
    models: Annotated[Mapping[str, Any] | None, "ALIAS=MODEL", "rare", models_of] = None
    """Models of `likelihood@ALIAS`, `pair@ALIAS` and `ask@ALIAS`, and `lm`, which
    `reffree@general+lm` reads: a folder or hub id, or in the `--config` file a table [models.ALIAS]
    with `path` (or, for `ask`, `url`) and more settings."""
    preset: Annotated[Literal["default", "clark2019"], "rare"] = "default"
    """Cut texts by Assay's rules (default), or like the code that Clark et al. 2019 released
    (clark2019)."""
    multi_reference: Literal["best", "mean", "first"] = "best"
    """With several references, take the best score, the mean, or the score against the first."""
    language: Annotated[str, "CODE", language_code] = "en"
    """Language of the texts, by its ISO 639 code, or und for a mixture. zh, ja, th, lo, km and my
    need an extra, such as assay[zh]."""
    stemmer: bool = False
    """Stem words before ROUGE compares them, as in most published ROUGE scores: with Porter's
    stemmer in English, with Snowball's in other languages that have one."""
    rouge_tokens: Annotated[Literal["words", "characters"] | None, "rare"] = None
    """Units that ROUGE compares in a language without spaces: characters (default in Chinese) or
    words (default elsewhere)."""
    sentences: Annotated[Literal["split", "given"], "rare"] = "split"
    """Split texts into sentences (split), or take each text as a list of sentences (given), and
    several references or sources as a list of such lists."""
    source_tokens: Annotated[int | None, AtLeast(1), "rare"] = None
    """Read only the first N tokens of a source."""
    precision: Annotated[Literal["auto", "fp32", "bf16", "fp16"], "rare"] = "auto"
    """Number format in which neural encoders compute; auto is fp32 on CPUs and bf16 on GPUs."""

    @property
    def specs(self) -> dict[str, str]:
        """Alias and specification of every encoder, as in `registry.parse_spec`."""
        return encoders_of(self.encoders)


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(MetricOptions):
    """What is computed for every row."""

    metrics: Sequence[str] = ("sms", "wms", "s+wms", "cosine", "rougeL")
    """Compute these metrics, each written METRIC[@ENCODER][:AGAINST], separated by commas; `assay
    metrics` lists them."""

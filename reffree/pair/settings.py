"""What a pair model is asked and how a score is made of its answers: `PairSettings`.

`presets.toml` has those of published judges. Nothing here loads a model.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sms.naming import nearest

DOCUMENT, SUMMARY, END_OF_TEXT = "{document}", "{summary}", "{eos}"
WHOLE, SENTENCES = "whole", "sentences"
HISTOGRAM = "histogram"
CONV_FILE = "summac_conv_vitc_sent_perc_e.bin"
"""The trained layers of SummaC-Conv, from the repository tingofurro/summac."""
FOUNDATION = "foundation"  # folder, in that of HHEM, of the model whose shape and tokeniser it has

_OVER = ("max", "mean", "min")
_CHOICES = {
    "model": ("classifier", "generator", "hhem", "alignscore"),
    "summary": (WHOLE, SENTENCES),
    "cut": ("document", "longest"),
    "value": ("probability", "share", "difference", "logit"),
    "over_document": (*_OVER, HISTOGRAM),
    "over_summary": _OVER,
    "against": ("source", "reference", "none"),
}
_CHUNKS = re.compile(r"(words|even-words|tokens):([1-9]\d{0,5})")

Answer = str | int | tuple[str, ...] | None
"""A class by its name or number; for a generator, texts whose first token is the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """The keys of a table `[models.ALIAS]` for `pair@ALIAS`, but for `path`, `preset`, `aspect`."""

    model: str = "classifier"
    """`classifier` or `generator`; `hhem` and `alignscore` are classifiers in formats of their
    own."""
    document: str = WHOLE
    """`whole`; `sentences`; `words:N` or `tokens:N`, sentences together as long as there are at
    most N; `even-words:N`, equally many sentences each, about N words."""
    summary: str = WHOLE  # `whole` or `sentences`
    shortest: int = 1  # characters: shorter sentences are left out, unless a text has no other
    most_document: int | None = None  # pieces of a document that are read, from its beginning
    most_summary: int | None = None  # pieces of a summary that are read
    template: str | None = None
    """What the model reads, with `{document}`, `{summary}` and, for the token that ends a text,
    `{eos}`. Default: both texts, the document first, joined as the tokeniser joins two texts."""
    max_tokens: int | None = None
    """Tokens that the model reads at once; never more than it has places for. Default: what its
    tokeniser says."""
    cut: str = "document"
    """What gives way in a pair that is too long: the end of the `document` piece, or of the
    `longest` of both."""
    positive: Answer = "entailment"  # the answer that speaks for the summary
    negative: Answer = None  # the answer against it, for `share` and `difference`
    value: str = "probability"
    """Of the positive answer: its `probability` among all, its `share` of both, its probability
    less that of the negative one (`difference`; each over the document by itself), its `logit`."""
    over_document: str = "max"
    """`max`, `mean` or `min` over the document's pieces, for every piece of the summary; or
    `histogram`, SummaC's trained layers over bins of the values, for the whole summary."""
    over_summary: str = "mean"  # `mean`, `min` or `max` over the summary's pieces
    against: str = "source"
    """What `{document}` is: the `source` or the `reference`; `none` asks about the summary
    alone."""

    def __post_init__(self) -> None:
        for name in ("positive", "negative"):
            if isinstance(value := getattr(self, name), list):  # as TOML writes it
                object.__setattr__(self, name, tuple(value))
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise _wrong(f"`{name}`", f"be one of {', '.join(choices)}, got {value!r}")
        if self.document not in (WHOLE, SENTENCES) and not _CHUNKS.fullmatch(str(self.document)):
            rule = "be whole, sentences, words:N, even-words:N or tokens:N, got"
            raise _wrong("`document`", f"{rule} {self.document!r}")
        for name in ("shortest", "most_document", "most_summary", "max_tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise _wrong(f"`{name}`", f"be a whole number from 1, got {value!r}")
        for name, is_needed in (
            ("positive", True),
            ("negative", self.value in ("share", "difference")),
        ):
            value = getattr(self, name)
            parts = value if isinstance(value, tuple) else (value,)
            if value == () or not all(isinstance(p, str | int | None) and p != "" for p in parts):
                raise _wrong(f"`{name}`", f"be an answer, got {value!r}")
            if is_needed and value is None:
                raise _wrong(f"`{name}`", f"be given for value `{self.value}`")
        self._check_template()

    def _check_template(self) -> None:
        if self.template is None:
            if self.model == "generator":
                example = "'premise: {document} hypothesis: {summary}'"
                raise _wrong("`template`", f"be given for a generator, for example {example}")
            if self.against == "none":
                raise _wrong("`template`", "be given if `against` is none")
            return
        wanted = [SUMMARY, *([] if self.against == "none" else [DOCUMENT])]
        if not isinstance(self.template, str) or any(
            self.template.count(place) != (place in wanted) for place in (DOCUMENT, SUMMARY)
        ):
            held = " and ".join(wanted)
            raise _wrong(
                "the template", f"hold {held} once against {self.against}, got {self.template!r}"
            )

    @property
    def chunk(self) -> tuple[str, int] | None:
        """Unit and number of `document` where it is chunks."""
        match = _CHUNKS.fullmatch(self.document)
        return (match[1], int(match[2])) if match else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest score; None if there is no such thing."""
        if self.value == "logit":
            return None
        return (-1.0 if self.value == "difference" else 0.0), 1.0

    def signature(self) -> str:
        """Name every setting that is not as a plain classifier has it."""
        plain, parts = PairSettings(), []
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if value != getattr(plain, name) or name in ("document", "summary", "positive"):
                told = "+".join(map(str, value)) if isinstance(value, tuple) else value
                parts.append(f"{name}:{told!r}" if name == "template" else f"{name}:{told}")
        return "|".join(parts)


def _wrong(what: str, rule: str) -> ValueError:
    return ValueError(f"{what} of a pair must {rule}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One judge."""

    settings: PairSettings  # those of all its aspects, and all there is where it has none
    source: str  # repository and file
    needs: str  # what the folder must hold
    aspects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, the settings that an aspect has of its own."""


PRESETS: Mapping[str, Preset] = {
    name: Preset(**{**table, "settings": PairSettings(**table["settings"])})
    for name, table in tomllib.loads(
        Path(__file__).with_name("presets.toml").read_text("utf-8")
    ).items()
}


def settings_of(table: Mapping[str, Any]) -> PairSettings:
    """Read a table `[models.ALIAS]` without its path: a preset, and what it has otherwise."""
    known = ["preset", "aspect", *PairSettings.__dataclass_fields__]
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key `{key}` of a pair; {nearest(key, known)}")
    own = dict(table)
    name, aspect = own.pop("preset", None), own.pop("aspect", None)
    if name is None:
        if aspect is not None:
            raise ValueError("`aspect` of a pair is for a preset that has several, such as unieval")
        return PairSettings(**own)
    if name not in PRESETS:
        raise ValueError(f"unknown `preset` {name!r} of a pair; {nearest(str(name), PRESETS)}")
    preset = PRESETS[name]
    if (aspect is not None or preset.aspects) and aspect not in preset.aspects:
        aspects = ", ".join(preset.aspects) or "none"
        raise ValueError(f"`aspect` of preset {name} must be one of {aspects}, got {aspect!r}")
    return replace(preset.settings, **{**preset.aspects.get(aspect or "", {}), **own})


def needs_of(table: Mapping[str, Any]) -> str:
    """Say what the folder of a preset must hold, for the end of a message."""
    name = table.get("preset")
    return f"; preset {name} needs {PRESETS[name].needs}" if name else ""

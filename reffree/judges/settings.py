"""What a pair model is asked and how a score is made of its answers: `JudgeOptions`.

`presets.toml` has those of published judges. Nothing here loads a model.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from sms.naming import nearest
from sms.settings import AtLeast, Settings, Written

DOCUMENT, SUMMARY, END_OF_TEXT = "{document}", "{summary}", "{eos}"
WHOLE, SENTENCES = "whole", "sentences"
HISTOGRAM = "histogram"
CONV_FILE = "summac_conv_vitc_sent_perc_e.bin"
"""The trained layers of SummaC-Conv, from the repository tingofurro/summac."""
FOUNDATION = "foundation"  # folder, in that of HHEM, of the model whose shape and tokeniser it has

_CHUNKS = r"(words|even-words|tokens):([1-9]\d{0,5})"

Answer = str | int | tuple[str, ...] | None
"""A class by its name or number; for a generator, texts whose first token is the answer."""


def _answer(given: object) -> object:
    """Read an answer, whose several texts are a list in TOML."""
    return tuple(given) if isinstance(given, list) else given


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(Settings):
    """The keys of a table `[models.ALIAS]` for `pair@ALIAS`, but for `path`, `preset`, `aspect`."""

    about = " of a pair"

    model: Literal["classifier", "generator", "hhem", "alignscore"] = "classifier"
    """`classifier` or `generator`; `hhem` and `alignscore` are classifiers in special formats."""
    document: Annotated[
        str, Written(_CHUNKS, (WHOLE, SENTENCES, "words:N", "even-words:N", "tokens:N"))
    ] = WHOLE
    """Pieces of the document: `whole`; `sentences`; `words:N` or `tokens:N`, groups of sentences
    with at most N; `even-words:N`, groups of equally many sentences, with about N words."""
    summary: Literal["whole", "sentences"] = "whole"
    """Pieces of the summary: `whole` or `sentences`."""
    shortest: Annotated[int, AtLeast(1)] = 1
    """Shortest sentence, in characters; shorter ones are left out, unless a text has no other."""
    most_document: Annotated[int | None, AtLeast(1)] = None
    """Number of pieces of a document that are read, from its beginning. Default: all."""
    most_summary: Annotated[int | None, AtLeast(1)] = None
    """Number of pieces of a summary that are read. Default: all."""
    template: str | None = None
    """What the model reads, with `{document}`, `{summary}` and, for the token that ends a text,
    `{eos}`. Default: both texts, the document first, joined as the tokeniser joins two texts."""
    max_tokens: Annotated[int | None, AtLeast(1)] = None
    """Maximum number of tokens that the model reads at once, up to the limit of the model. Default:
    the limit in its tokeniser."""
    cut: Literal["document", "longest"] = "document"
    """What is cut at its end if a pair is too long: the `document` piece, or the `longest` of both.
    """
    positive: Annotated[Answer, _answer] = "entailment"
    """The answer in favour of the summary."""
    negative: Annotated[Answer, _answer] = None
    """The answer against the summary, for `share` and `difference`."""
    value: Literal["probability", "share", "difference", "logit"] = "probability"
    """Of the positive answer: its `probability` among all, its `share` of both, its probability
    less that of the negative one (`difference`; each over the document by itself), its `logit`."""
    over_document: Literal["max", "mean", "min", "histogram"] = "max"
    """`max`, `mean` or `min` over the document's pieces, for every piece of the summary; or
    `histogram`, SummaC's trained layers over bins of the values, for the whole summary."""
    over_summary: Literal["max", "mean", "min"] = "mean"
    """`max`, `mean` or `min` over the summary's pieces."""
    against: Literal["source", "reference", "none"] = "source"
    """What `{document}` is: the `source` or the `reference`; `none` asks about the summary
    alone."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> JudgeOptions:
        """Read a table `[models.ALIAS]` without its path: a preset, and what it has otherwise."""
        cls.check_keys(table, ("preset", "aspect"))
        options = dict(table)
        name, aspect = options.pop("preset", None), options.pop("aspect", None)
        if name is None:
            if aspect is not None:
                raise ValueError(
                    "`aspect` of a pair is for a preset that has several, such as unieval"
                )
            return cls(**options)
        if name not in PRESETS:
            raise ValueError(f"unknown `preset` {name!r} of a pair; {nearest(str(name), PRESETS)}")
        preset = PRESETS[name]
        if (aspect is not None or preset.aspects) and aspect not in preset.aspects:
            aspects = ", ".join(preset.aspects) or "none"
            raise ValueError(f"`aspect` of preset {name} must be one of {aspects}, got {aspect!r}")
        said = {**vars(preset.settings), **preset.aspects.get(aspect or "", {}), **options}
        return cls(**said)

    def __post_init__(self) -> None:
        super().__post_init__()
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
        if any(self.template.count(place) != (place in wanted) for place in (DOCUMENT, SUMMARY)):
            held = " and ".join(wanted)
            raise _wrong(
                "the template", f"hold {held} once against {self.against}, got {self.template!r}"
            )

    @property
    def chunk(self) -> tuple[str, int] | None:
        """Unit and number of `document` where it is chunks."""
        match = re.fullmatch(_CHUNKS, self.document)
        return (match[1], int(match[2])) if match else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest score; None if there is no such thing."""
        if self.value == "logit":
            return None
        return (-1.0 if self.value == "difference" else 0.0), 1.0

    def signature(self) -> str:
        """Name every setting that is not as a plain classifier has it."""
        plain, parts = JudgeOptions(), []
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if value != getattr(plain, name) or name in ("document", "summary", "positive"):
                shown = "+".join(map(str, value)) if isinstance(value, tuple) else value
                parts.append(f"{name}:{shown!r}" if name == "template" else f"{name}:{shown}")
        return "|".join(parts)


def _wrong(what: str, rule: str) -> ValueError:
    return ValueError(f"{what} of a pair must {rule}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One judge."""

    settings: JudgeOptions  # those of all its aspects, and all there is where it has none
    source: str  # repository and file
    needs: str  # what the folder must hold
    aspects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, the settings that an aspect has of its own."""


PRESETS: Mapping[str, Preset] = {
    name: Preset(**{**table, "settings": JudgeOptions(**table["settings"])})
    for name, table in tomllib.loads(
        Path(__file__).with_name("presets.toml").read_text("utf-8")
    ).items()
}


def needs_of(table: Mapping[str, Any]) -> str:
    """Say what the folder of a preset must hold, for the end of a message."""
    name = table.get("preset")
    return f"; preset {name} needs {PRESETS[name].needs}" if name else ""

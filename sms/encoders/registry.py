"""The encoders there are, and how a specification becomes one of them.

A specification is `KIND[:PATH][,OPTION=VALUE...]`, for example `glove:vectors.txt,pooling=max`.
Reading one loads nothing: a loader is imported when its encoder is.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sms.encoders import EncoderRuntime
from sms.naming import nearest
from sms.urls import check_no_secrets

if TYPE_CHECKING:
    from sms.encoders import Encoder

_NEXT_OPTION = re.compile(r",(?=\w+=)")  # a value may hold commas: layers=concat:-2,-1


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting of an encoder."""

    name: str
    default: str | None
    """None if it must be given."""
    summary: str
    choices: tuple[str, ...] = ()
    """Values, or how they are written; empty if any text will do, such as a path."""
    pattern: str | None = None
    """Regular expression of values that are not written as in `choices`."""

    def check(self, value: str) -> str | None:
        """Return what a value must be if it is not that, None if it is fine."""
        if not value:
            return "a value"
        fits_pattern = self.pattern is not None and re.fullmatch(self.pattern, value)
        if not self.choices or value in self.choices or fits_pattern:
            return None
        return f"one of {', '.join(self.choices)}"


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
    options of the kind that have a value, as text."""
    options: tuple[Option, ...] = ()
    extra: str = ""
    """Optional part of this project that must be installed, if any."""
    is_static: bool = False
    """Whether a word has one vector whatever its sentence, and some words have none."""

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
        check_no_secrets(self.path)
        _check_path(self)
        _check_options(self)

    def __str__(self) -> str:
        path = f":{self.path}" if self.path else ""
        said = (
            f",{option.name}={self.options[option.name]}"
            for option in self.kind.options
            if self.options.get(option.name, option.default) != option.default
        )
        return f"{self.kind.kind}{path}{''.join(said)}"

    @property
    def values(self) -> dict[str, str]:
        """Every option's value, defaults included."""
        defaults = {o.name: o.default for o in self.kind.options if o.default is not None}
        return defaults | dict(self.options)


_POOLING = Option(
    name="pooling",
    default="mean",
    choices=("mean", "max"),
    summary="how word vectors become one text vector",
)
_BERT_OPTIONS = (
    Option(
        name="layers",
        default="last",
        choices=("last", "first", "all", "mean:I..J", "concat:I,J,..."),
        pattern=r"mean:-?\d+\.\.-?\d+|concat:-?\d+(,-?\d+)*",
        summary="layers of the word vectors; `all` is the mean of all, -1 is the last",
    ),
    Option(
        name="pooling",
        default="mean",
        choices=("mean", "max", "cls"),
        summary="how word pieces become one sentence vector, for cosine",
    ),
)


def _static(kind: str, summary: str) -> EncoderKind:
    return EncoderKind(
        kind=kind,
        path="PATH",
        summary=summary,
        vectors=("words",),
        loader=f"sms.encoders.static:load_{kind}",
        options=(_POOLING,),
        is_static=True,
    )


ENCODERS = {
    kind.kind: kind
    for kind in (
        EncoderKind(
            kind="minilm",
            summary="all-MiniLM-L6-v2, weights installed with assay; 384 dimensions",
            vectors=("words", "sentences"),
            loader="sms.encoders.bert:load_minilm",
            options=_BERT_OPTIONS,
        ),
        EncoderKind(
            kind="hf",
            path="PATH_OR_ID",
            summary="any BERT-like model of the transformers library",
            vectors=("words", "sentences"),
            loader="sms.encoders.hugging_face:load_hf",
            options=_BERT_OPTIONS,
        ),
        EncoderKind(
            kind="st",
            path="PATH_OR_ID",
            summary="any model of the sentence-transformers library",
            vectors=("sentences",),
            loader="sms.encoders.sentence_transformer:load_st",
        ),
        _static("glove", "GloVe text file, no header line"),
        _static("word2vec", "word2vec file with a header, text or binary"),
        _static("fasttext", "fastText .vec text file with a header"),
        EncoderKind(
            kind="use",
            path="PATH_OR_URL",
            summary="Universal Sentence Encoder, DAN, Transformer or lite; 512 dimensions",
            vectors=("sentences",),
            loader="sms.encoders.use:load_use",
            options=(
                Option(
                    name="unit",
                    default="sentence",
                    choices=("sentence", "text"),
                    summary="what is read at once; `text` is for cosine only",
                ),
            ),
            extra="tfhub",
        ),
        EncoderKind(
            kind="elmo",
            path="PATH_OR_URL",
            summary="ELMo; 1,024 dimensions by mean, 3,072 by concat",
            vectors=("words",),
            loader="sms.encoders.elmo:load_elmo",
            options=(
                Option(
                    name="layers",
                    default="mean",
                    choices=("mean", "concat"),
                    summary="how the three layers become one word vector",
                ),
                _POOLING,
            ),
            extra="tfhub",
        ),
        EncoderKind(
            kind="infersent",
            path="PATH",
            summary="InferSent, a published state dict; 4,096 dimensions",
            vectors=("sentences",),
            loader="sms.encoders.infersent:load_infersent",
            options=(
                Option(name="vectors", default=None, summary="path of its word vectors"),
                Option(
                    name="version",
                    default="1",
                    choices=("1", "2"),
                    summary="1 was trained with GloVe, 2 with fastText",
                ),
            ),
        ),
    )
}
"""Every kind of encoder by name."""


def parse_spec(spec: str) -> EncoderSpec:
    """Read a specification and check all of it that can be checked without loading.

    Raises `ValueError` if the kind, an option or a value is unknown (naming the nearest), or a path
    or an option is missing or superfluous.

    Examples
    --------
    >>> spec = parse_spec("hf:roberta-base,layers=concat:-2,-1,pooling=cls")
    >>> spec.path, dict(spec.options)
    ('roberta-base', {'layers': 'concat:-2,-1', 'pooling': 'cls'})
    """
    head, *settings = _NEXT_OPTION.split(spec)
    kind, _, path = head.partition(":")
    pairs = [setting.partition("=")[::2] for setting in settings]
    options = dict(pairs)
    if len(options) < len(pairs):
        raise ValueError(f"encoder {spec!r} must not give an option twice")
    return EncoderSpec(find_kind(kind), path, options)


def find_kind(kind: str) -> EncoderKind:
    """Return the kind of that name.

    Raises `ValueError` if there is none, naming the nearest.
    """
    if kind not in ENCODERS:
        near = difflib.get_close_matches(kind, ENCODERS, n=1)
        hint = f"did you mean `{ENCODERS[near[0]].spec}`?" if near else "see `assay encoders`"
        if re.search(r"[/-]", kind):  # as models are called on the hub
            hint = f"for a model of the transformers library write hf:{kind}"
        raise ValueError(f"unknown encoder {kind!r}; {hint}")
    return ENCODERS[kind]


def load_encoder(spec: str | EncoderSpec, runtime: EncoderRuntime | None = None) -> Encoder:
    """Load an encoder by its specification, as `glove:vectors/glove.6B.300d.txt,pooling=max`.

    Raises `ValueError` if the specification is wrong, or a file is missing or damaged, with its
    path.
    """
    from sms.encoders.contextual import ContextualEncoder

    asked = parse_spec(spec) if isinstance(spec, str) else spec
    module, _, function = asked.kind.loader.partition(":")
    loader = getattr(importlib.import_module(module), function)
    runtime = runtime or EncoderRuntime()
    encoder: Encoder = loader(asked.path, runtime=runtime, **asked.values)
    if isinstance(encoder, ContextualEncoder):
        encoder.set_up(runtime)
    return encoder


def kinds_with(vectors: str) -> str:
    """List how the kinds that give `words` or `sentences` are written."""
    return ", ".join(kind.spec for kind in ENCODERS.values() if vectors in kind.vectors)


def _check_path(spec: EncoderSpec) -> None:
    if bool(spec.kind.path) != bool(spec.path):
        got = f"the path {spec.path!r}" if spec.path else "no path"
        raise ValueError(
            f"encoder `{spec.kind.kind}` must be written `{spec.kind.spec}`, got {got}"
        )
    if _NEXT_OPTION.search(spec.path):
        raise ValueError(
            f"path of encoder `{spec.kind.kind}` must not hold a comma followed by NAME=, which "
            f"begins an option, got {spec.path!r}; give the file another name"
        )


def _check_options(spec: EncoderSpec) -> None:
    known = {option.name: option for option in spec.kind.options}
    for name, value in spec.options.items():
        if name not in known:
            raise ValueError(
                f"encoder `{spec.kind.kind}` has no option `{name}`; {nearest(name, known)}"
            )
        if rule := known[name].check(value):
            near = difflib.get_close_matches(value, known[name].choices, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise ValueError(
                f"`{name}` of encoder `{spec.kind.kind}` must be {rule}, got {value!r}{hint}"
            )
    for option in spec.kind.options:
        if option.default is None and option.name not in spec.options:
            raise ValueError(
                f"encoder `{spec.kind.kind}` needs its option `{option.name}`, the "
                f"{option.summary}; write `{spec.kind.spec},{option.name}=...`"
            )

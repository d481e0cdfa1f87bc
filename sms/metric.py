"""What a metric is: a name, its columns, what it needs, and how it is prepared, scored and signed.

A metric is an object of a class derived from `Metric`, in one file, and an entry in
`metrics.METRICS`. `Metric.ask` makes of it the object that somebody asked for, which knows its
columns, what it reads, and perhaps a model of its own (`Metric.open`).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
import pyarrow as pa

from sms.encoders import EncodedSentences, EncoderRuntime
from sms.encoders.base import Encoder
from sms.encoders.registry import EncoderSpec, kinds_with
from sms.naming import user_path
from sms.options import find_model
from sms.ragged import Pairs, Ragged
from sms.reasons import Reason
from sms.settings import Settings
from sms.signature import TEXT_FORM, cut_part, version
from sms.text import SegmentedTexts, TextRules, folded
from sms.text.sentences import SENTENCE_END, whole

AGAINST = ("reference", "source")
"""What a candidate is compared with."""
EITHER = "reference|source"
"""The need of a metric that compares with one or the other, as `:AGAINST` says."""
_NEEDS = ("reference", "source", EITHER, "words", "sentences")
ALL = "all"
"""In an encoder's place: all encoders of the run."""

SAME_ATOL = 1e-5
"""Texts no further apart than this (for cosine, unit vectors) are the same to an encoder: rounding
in a model takes them about 1e-6 apart, one other word in a thousand about 5e-3."""

_T = TypeVar("_T")


class Model(Protocol):
    """What a metric with a model of its own loads; encoders have these members too."""

    @property
    def content_hash(self) -> str:
        """Hash of the weights, so that a run that goes on uses the same ones."""

    def state(self) -> Mapping[str, int]:
        """Return counts of what was done so far."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """What a token of a text adds to a score that is a mean or a sum over tokens."""

    side: str
    """`candidate`, `reference` or `source`."""
    text: str
    start: int
    """First character, in the text that was read."""
    score: float


@dataclass(frozen=True, slots=True)
class ScorePart:
    """What a feature adds to a score that is a weighted sum."""

    feature: str
    meaning: str
    score: float
    sentence: str | None = None
    """The sentence of the candidate that the feature is about, if it is about one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The piece of another text that decided about a piece of the candidate."""

    piece: str
    """The piece of the candidate."""
    decided_by: str
    score: float
    """The piece's score, as it enters the candidate's."""
    other: int = 0
    """Number of the other text, among those that the candidate is compared with."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """What a language model was asked about a row, and what it answered."""

    question: str
    answer: str
    score: float | None
    """What the answer alone comes to; None where it could not be read."""
    why: str
    """Why it could not be read; empty where it could."""
    probabilities: Mapping[str, float]
    """Of every answer that was among the likeliest; empty where they were not asked for."""


class MetricName(NamedTuple):
    """The parts of `METRIC[@AT][:AGAINST]`."""

    written: str
    base: str
    """The metric, or one of its columns."""
    at: str | None = None
    """An encoder of the run, or a model; None where nothing is said."""
    against: str = ""


_NOTHING_YET = MetricName("", "")


def split_name(written: str, choices: Collection[str]) -> MetricName:
    """Read how somebody wrote a metric; what follows `@` may have colons of its own, as URLs have.

    Raises `ValueError` if there is something after a colon that is none of the choices.

    >>> split_name("pair@s3://bucket/nli:source", AGAINST)[1:]
    ('pair', 's3://bucket/nli', 'source')
    """
    base, at, rest = re.match("([^@:]*)(@?)(.*)", written, re.DOTALL).groups()  # type: ignore[union-attr]
    before, colon, against = rest.rpartition(":")
    if colon and against in choices and (at or not before):
        return MetricName(written, base, before if at else None, against)
    is_port = against.isdigit() and "//" in before
    is_on_hub = before == "hf"
    if not colon or (
        at and ("/" in against or is_port or is_on_hub or os.path.exists(user_path(rest)))
    ):
        return MetricName(written, base, rest if at else None)
    if not choices:
        raise ValueError(f"metric {written!r} takes no `:{against}`; leave it out")
    raise ValueError(f"metric {written!r} must end in {' or '.join(f':{one}' for one in choices)}")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the metrics of a run share."""

    metrics: tuple[Metric, ...]
    """As they were asked for, with their models."""
    encoders: Mapping[str, Encoder]
    """By alias."""
    static: frozenset[str]
    """Aliases of encoders whose words have one vector each."""
    rules: TextRules
    preset: str
    multi_reference: str
    source_tokens: int | None
    stemmer: bool
    rouge_tokens: str
    """`words` or `characters`, outside English."""
    threads: int


@dataclass(frozen=True)
class NumberedTexts:
    """The distinct texts of some rows, by number."""

    strings: pa.StringArray
    """The distinct texts, some of them null."""
    candidate: np.ndarray
    """Text of every row's candidate, int64, shape (n_rows,)."""
    sides: Mapping[str, Ragged]
    """Texts of every row's references and sources."""
    is_best: bool
    """Whether the best of several references counts, or else their mean."""

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """Every candidate with each of its references, and of its sources."""
        return {
            side: Pairs.of(self.candidate, texts, is_best=self.is_best and side == "references")
            for side, texts in self.sides.items()
        }

    @cached_property
    def given(self) -> list[str]:
        """The distinct texts as they were given, empty where there is none."""
        return [text or "" for text in self.strings.to_pylist()]

    @cached_property
    def written(self) -> list[str]:
        """The distinct texts without marks and the ends of given sentences."""
        return [whole(text) if "<" in text or SENTENCE_END in text else text for text in self.given]

    @cached_property
    def is_written(self) -> np.ndarray:
        """Which of these have a letter or a digit, bool, shape (n_texts,)."""
        return np.array([any(map(str.isalnum, text)) for text in self.written], dtype=bool)

    def why_not_written(self) -> dict[str, np.ndarray]:
        """Say of which texts there is nothing to read, and why; bool, shape (n_texts,) each."""
        is_null = self.strings.is_null().to_numpy(zero_copy_only=False)
        is_blank = np.array([not text.strip() for text in self.written], dtype=bool)
        return {
            "null": is_null,
            "empty": is_blank & ~is_null,
            "no_words": ~(is_blank | self.is_written),
        }


@dataclass(frozen=True)
class BatchTexts(NumberedTexts):
    """The distinct texts of some rows, cut into sentences and words."""

    texts: SegmentedTexts
    """Those that some metric reads so; the others have no sentences."""
    is_split: np.ndarray
    """Which texts these are, bool, shape (n_texts,)."""
    whole_words: tuple[Ragged, ...]
    """Lower-cased words of sentences, and sentences of texts; words that a tokeniser has cut are
    whole again. Nothing where no metric counts words."""


@dataclass(frozen=True)
class Batch(BatchTexts):
    """A batch after text handling and encoding, with what its metrics make of it."""

    setting: Setting
    encoded: Mapping[str, tuple[EncodedSentences, Ragged]]
    """By encoder: its sentences, and the texts in terms of them."""
    cannot_be_split: Mapping[str, np.ndarray]
    """By encoder, the texts that its tokeniser failed on, bool, shape (n_texts,)."""
    unreadable: pa.Array | None
    """Why rows cannot be read at all, where there are such rows."""
    reasons: list[Reason] = field(default_factory=list)
    """What metrics say of rows."""
    _made: dict[Hashable, Any] = field(default_factory=dict)

    def tell(
        self,
        side: str,
        why: str,
        rows: np.ndarray,
        *,
        of: str = "",
        columns: tuple[str, ...] = (),
    ) -> None:
        """Say why rows have no score, or one of a part of a text; see `Reason`."""
        if rows.any():
            self.reasons.append(Reason(side, why, rows, of, columns))

    def is_cut(self, alias: str) -> np.ndarray:
        """Tell which texts an encoder read only in part, bool, shape (n_texts,)."""
        encoded, text_sentences = self.encoded[alias]
        return self.once(("is cut", alias), lambda: encoded.cut_texts(text_sentences))

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what several metrics read, made by the first of them."""
        if key not in self._made:
            self._made[key] = make()
        return cast("_T", self._made[key])

    def indistinguishable(self, alias: str, of: Pairs, is_near: np.ndarray) -> np.ndarray:
        """Tell which near pairs differ in a word that counts, bool, shape (n_pairs,).

        The encoder does not know the words, cannot tell them apart or has not read them, so a score
        of 1 would be made up. What was not read counts with all its words, in their order. (Static
        vectors of known words may have equal means: then 1 is right.) The released code that
        `clark2019` reproduces does score 1.
        """
        is_same = np.zeros(is_near.size, dtype=bool)
        if self.setting.preset == "clark2019" or not is_near.any():
            return is_same
        is_near = is_near & (of.candidate != of.other)
        if alias in self.setting.static and is_near.any():
            encoded, text_sentences = self.encoded[alias]
            n_unknown = (encoded.n_kept - encoded.n_known)[text_sentences.values]
            has_unknown = text_sentences.sums(n_unknown) > 0
            is_near &= has_unknown[of.candidate] | has_unknown[of.other]
        read = {*of.candidate[is_near], *of.other[is_near]}
        bags = {text: self._bag(text) for text in read}
        cut = {text: self._cut_sentences(text, alias) for text in read}
        for pair in np.flatnonzero(is_near):
            one, other = of.candidate[pair], of.other[pair]
            a, b = bags[one], bags[other]
            is_same[pair] = (
                cut[one] != cut[other]
                or a.keys() != b.keys()
                or any(a[word] * b.total() != b[word] * a.total() for word in a)
            )
        return is_same

    def _cut_sentences(self, text: int, alias: str) -> set[tuple[str, ...]]:
        """Return what an encoder read only in part of a text: the words of each sentence."""
        if alias not in self.encoded or not self.is_cut(alias)[text]:
            return set()
        encoded, text_sentences = self.encoded[alias]
        sentences, words = self.texts.text_sentences[text], self.texts.sentence_words
        if self.setting.encoders[alias].unit == "text":
            return {self._folded(np.concatenate([words[k] for k in sentences]))}
        # the encoder's sentences have other numbers, in the same order
        cut = sentences[cast("np.ndarray", encoded.is_cut)[text_sentences[text]]]
        return {self._folded(words[k]) for k in cut}

    def _folded(self, words: np.ndarray) -> tuple[str, ...]:
        return tuple(folded(self.texts.vocabulary.words[k]) for k in words.tolist())

    def _bag(self, text: int) -> Counter[str]:
        """Count the words of a text that count."""
        texts = self.texts
        words = [texts.sentence_words[k] for k in texts.text_sentences[text]]
        return Counter(
            word for sentence in words for word in self._folded(sentence[texts.is_kept[sentence]])
        )

    def without_doubtful(
        self, scores: np.ndarray, side: str, why: str, flags: np.ndarray, *, of: str = ""
    ) -> np.ndarray:
        """Blank, and tell of, the rows with a flagged pair, which might have been the best one."""
        if not flags.any():
            return scores
        is_doubtful = self.pairs[side].any(flags)
        if self.pairs[side].is_best:
            is_doubtful &= scores != 1.0  # nothing is better
        self.tell(side.removesuffix("s"), why, is_doubtful, of=of)
        return np.where(is_doubtful, np.nan, scores)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of the table printed by `assay metrics`, as it is or as somebody asked for it."""

    name: str
    summary: str
    higher_is: str
    """What a higher value means."""
    needs: tuple[str, ...] = ()
    """Inputs: `reference|source`, `source`, `words` or `sentences` of an encoder."""
    columns: tuple[str, ...] = ()
    """Output columns, by default its name; once it is asked for, with `@AT` and `:AGAINST`."""
    companions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Further columns `NAME@...` that come along, each with what a higher value means."""
    bounds: tuple[float, float] | None = None
    """Lowest and highest value, infinite where there is none; None where neither is known."""
    spec: str = ""
    """How it is written, where a name alone is not enough: `likelihood@MODEL`."""

    asked: MetricName = _NOTHING_YET
    """What somebody wrote."""
    sides: tuple[str, ...] = ()
    """What it reads in addition to the candidate: `references`, `sources`, or both."""
    encoders: tuple[str, ...] = ()
    """Aliases of its encoders: one, or for `@all` those of the run; none for some metrics."""
    path: str | None = None
    """Folder, hub id or URL of a model of its own."""
    settings: Any = field(default=None, hash=False)
    """Of that model, from its table (`sms.options`)."""
    model: Any = field(default=None, repr=False, compare=False)
    """The model, once `open` has loaded it."""

    counts_words: ClassVar[bool] = False
    """Whether it counts words of `Batch.whole_words`."""
    reads_texts: ClassVar[bool] = True
    """Whether texts without sentences or words have no score; others say why by themselves."""
    averages: ClassVar[bool] = False
    """Whether `@all` is the mean over all encoders."""
    table: ClassVar[type[Settings] | None] = None
    """What may be said of a model of its own, which then stands after `@`, in `[models.ALIAS]`."""

    def __post_init__(self) -> None:
        if wrong := {*self.needs} - {*_NEEDS}:
            raise ValueError(
                f"`needs` of metric {self.name} must be of {', '.join(_NEEDS)}, got {min(wrong)!r}"
            )
        if not self.columns:
            object.__setattr__(self, "columns", (self.name,))

    @property
    def written(self) -> str:
        """What somebody wrote."""
        return self.asked.written

    @property
    def against(self) -> str | None:
        """`reference`, `source`, or None for metrics that read the candidate alone."""
        return self.sides[0].removesuffix("s") if self.sides else None

    @property
    def encoder(self) -> str | None:
        """Alias of its encoder; None for metrics without one and for `@all`."""
        return None if self.is_average or not self.encoders else self.encoders[0]

    @property
    def is_average(self) -> bool:
        """Whether it is the mean over all encoders of the run."""
        return self.averages and self.asked.at == ALL

    @property
    def directions(self) -> Collection[str]:
        """What may follow the colon."""
        return AGAINST if EITHER in self.needs else ()

    @property
    def has_encoder(self) -> bool:
        """Whether it reads vectors."""
        return "words" in self.needs or "sentences" in self.needs

    @property
    def finest(self) -> str:
        """The finest vectors that it reads of an encoder: one of `sms.encoders.VECTORS`."""
        return "words" if "words" in self.needs else "sentences"

    def ask(
        self, asked: MetricName, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]]
    ) -> Self:
        """Return it as somebody asked for it, with the encoders and tables of models of a run.

        Raises `ValueError` if a part of the name does not apply to it.
        """
        path, settings = self.model_of(asked, models)
        return replace(
            self,
            asked=asked,
            columns=self.columns_of(asked),
            sides=self.sides_of(asked),
            encoders=self.encoders_of(asked, encoders),
            path=path,
            settings=settings,
        )

    def encoders_of(self, asked: MetricName, encoders: Sequence[str]) -> tuple[str, ...]:
        """Return the encoders that are asked for, of those of a run; the first by default."""
        if not self.has_encoder:
            return ()
        written, _, at, _ = asked
        if at is None:
            return (next(iter(encoders)),)
        if at == ALL and not self.averages:
            raise ValueError(
                f"metric {written!r} must name one encoder; only `cosine@all` averages them"
            )
        if at not in (*encoders, ALL):
            raise ValueError(
                f"metric {written!r} names no encoder of this run; there are {', '.join(encoders)}"
            )
        return tuple(encoders) if at == ALL else (at,)

    def model_of(
        self, asked: MetricName, models: Mapping[str, Mapping[str, Any]]
    ) -> tuple[str | None, Any]:
        """Return path and settings of the model that is asked for; None without `table`."""
        if self.table is None:
            if asked.at is not None and not self.has_encoder:
                raise ValueError(f"metric {asked.written!r} takes no encoder; write `{asked.base}`")
            return None, None
        path, table = self.named_model(asked, models)
        return path, self.table.of(table)

    def named_model(
        self, asked: MetricName, models: Mapping[str, Mapping[str, Any]]
    ) -> tuple[str | None, dict[str, Any]]:
        """Return the path and the table of what stands after `@`."""
        if not asked.at:
            raise ValueError(
                f"metric {asked.written!r} must name a model: {self.name}@MODEL, an alias of the "
                "tables [models.ALIAS], a folder or a hub id"
            )
        return find_model(asked.at, models)

    def sides_of(self, asked: MetricName) -> tuple[str, ...]:
        """Return what is read in addition to the candidate."""
        if EITHER in self.needs:
            return (f"{asked.against or 'reference'}s",)
        return ("sources",) if "source" in self.needs else ()

    def needs_sentences(self, rules: TextRules) -> bool:
        """Tell whether it reads sentences, words or vectors, for which texts are cut."""
        return self.reads_texts

    def columns_of(self, asked: MetricName) -> tuple[str, ...]:
        """Name the column that is asked for, or all of a metric that has several."""
        if len(self.columns) == 1 or asked.base != self.name:
            return (asked.written,)
        rest = asked.written.removeprefix(asked.base)
        return tuple(f"{column}{rest}" for column in self.columns)

    @property
    def bases(self) -> tuple[str, ...]:
        """Of each column, its name without `@AT` and `:AGAINST`."""
        rest = self.written.removeprefix(self.asked.base)
        return tuple(column.removesuffix(rest) for column in self.columns)

    @property
    def companion_columns(self) -> tuple[str, ...]:
        """The further columns that come along."""
        return tuple(f"{name}@{self.written.partition('@')[2]}" for name in self.companions)

    def check(self, specs: Mapping[str, EncoderSpec]) -> None:
        """Refuse encoders that do not give what is needed: `ValueError` with the encoder's name."""
        for alias in self.encoders:
            kind = specs[alias].kind
            if "words" in self.needs and "words" not in kind.vectors:
                raise ValueError(
                    f"metric {self.written!r} needs word vectors, but `{kind.kind}` has none; "
                    f"encoders with word vectors are {kinds_with('words')}; metrics without "
                    "them are sms, cosine, rougeL_f and others"
                )

    def check_rules(self, rules: TextRules) -> None:
        """Refuse a language that it cannot read: `ValueError` with what to do."""

    def find_bounds(self) -> tuple[float, float] | None:
        """Return lowest and highest value, where its model's folder says them."""
        return self.bounds

    def pinned_path(self, signature: str = "") -> str | None:
        """Return the path of its model as a name that always means what it means now.

        With a `signature` of scores, it is what the path meant when these were computed.
        """
        return self.path

    @property
    def read_models(self) -> Collection[str]:
        """Aliases of models of the run that the files at its path name; none before they are here.

        The model that stands after `@` is not among them.
        """
        return ()

    @property
    def most_workers(self) -> int | None:
        """How many processes may compute it at the same time; None for any number."""
        return None

    def open(self, runtime: EncoderRuntime) -> Model | None:
        """Load a model of its own; metrics of equal `path` and `settings` share it."""
        return None

    def with_model(self, model: Model | None) -> Self:
        """Return it with its model; `ValueError` if that cannot answer what was asked."""
        return replace(self, model=model)

    def signatures(self, setting: Setting) -> dict[str, str]:
        """Return what identifies the numbers of each column."""
        parts = [*self.signature_parts(setting)]
        if "references" in self.sides:
            parts.append(f"ref:{setting.multi_reference}")
        if "sources" in self.sides:
            parts.append(f"source:mean|{cut_part(setting.source_tokens)}")
        parts += [TEXT_FORM, setting.rules.signature, f"v:{version()}"]
        by_column = {column: "|".join([column, *parts]) for column in self.columns}
        if self.path is not None:  # companion columns come from the same model
            of_model = by_column[self.columns[0]]
            by_column |= {column: f"{column}|{of_model}" for column in self.companion_columns}
        return by_column

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Say what of the metric itself changes its numbers."""
        return ()

    def prepare(self, batch: Batch) -> None:
        """Do what may be done while the batch before is being scored; keep it by `Batch.once`."""

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return each column, and companion, as float64 of shape (n_rows,); NaN where undefined."""
        raise NotImplementedError

    def details(self, batch: Batch, column: str) -> Mapping[str, Sequence[tuple[Any, ...]]]:
        """Say by row what a score is made of, as an explanation has it.

        That is its `tokens`, `evidence`, `parts` or `questions`.
        """
        return {}

    def why_stop(self, counters: Mapping[str, int]) -> str:
        """Say why a run must stop between shards, by its counters so far; empty if it need not."""
        return ""

    def text_reasons(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Say why texts with words cannot be scored: by reason which, bool, shape (n_texts,)."""
        return {}

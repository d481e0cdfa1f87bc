"""What is computed for every row of a run: `ScoringConfig`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

from sms.encoders.registry import SHIPPED as KINDS_OF_OURS
from sms.encoders.registry import EncoderSpec, parse_spec
from sms.metric import ALL, Metric
from sms.metrics import METRICS, known_words, parse_metric
from sms.metrics import SHIPPED as METRICS_OF_OURS
from sms.options import PATH, ScoringOptions
from sms.settings import ASIDE, settings_of
from sms.text import TextRules
from sms.text.languages import LANGUAGES, language_of

CANDIDATE = "candidate"
SIDES = (CANDIDATE, "references", "sources")
BATCH_ROWS, BATCH_ROWS_NEURAL = 4_096, 1_024
"""Rows of a batch, and where vectors of words in context bound them."""


@dataclass(frozen=True, kw_only=True)
class ScoringConfig(ScoringOptions):
    """What to compute for every row, checked; `ValueError` if it is wrong.

    Metrics are named as in `metrics.parse_metric`, encoders as in `registry.parse_spec`.
    """

    model_paths: Mapping[str, str] = field(default_factory=dict)
    """By metric that brings a model of its own, its path or URL; read from the names, and kept when
    these are read again elsewhere."""
    asked: tuple[Metric, ...] = field(init=False, repr=False, compare=False)
    """The metrics, read."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_rouge()
        if not self.metrics:
            raise ValueError("`metrics` must name at least one metric; see `assay metrics`")
        specs = _specs_of(self.specs)
        object.__setattr__(self, "models", self.models or {})
        asked = [
            replace(metric, path=self.model_paths.get(metric.written, metric.path))
            for metric in self._read()
        ]
        object.__setattr__(self, "asked", tuple(asked))
        paths = {metric.written: metric.path for metric in asked if metric.path}
        object.__setattr__(self, "model_paths", paths)
        columns = self.columns
        if len(set(columns)) != len(columns):
            twice = next(column for column in columns if columns.count(column) > 1)
            raise ValueError(f"`metrics` must not give a column twice, got {twice!r}")
        for metric in asked:
            metric.check(specs)
            metric.check_rules(self.rules)
        if self.source_tokens is not None and not language_of(self.language).has_spaces:
            raise ValueError(
                f"`source_tokens` counts words between spaces, but language "
                f"{self.language!r} has no spaces; cut the sources yourself first"
            )

    def _check_rouge(self) -> None:
        """Refuse what ROUGE cannot do in the language."""
        language = language_of(self.language)
        if self.rouge_tokens is not None and language.has_spaces:
            raise ValueError(
                "`rouge_tokens` is for languages without spaces between words, got language "
                f"{self.language!r}; leave it out"
            )
        if self.stemmer and not language.stemmer:
            known = sorted(code for code, each in LANGUAGES.items() if each.stemmer)
            raise ValueError(
                f"there is no `stemmer` for language {self.language!r}, only for "
                f"{', '.join(known)}; leave it out"
            )

    def _read(self) -> list[Metric]:
        """Read the names of the metrics; raises `ValueError` with all that are wrong."""
        encoders, metrics, wrong = list(self.specs), [], []
        for name in self.metrics:
            try:
                metrics.append(parse_metric(name, encoders, self.models))
            except ValueError as error:
                wrong.append(str(error))
        if wrong:
            raise ValueError("; ".join(dict.fromkeys(wrong)))
        return metrics

    @property
    def rules(self) -> TextRules:
        """How text is cut."""
        words = "clark2019" if self.preset == "clark2019" else "default"
        return TextRules(language=self.language, words=words, sentences=self.sentences)

    @cached_property
    def used_encoders(self) -> tuple[str, ...]:
        """Aliases that some metric reads, in the order of `encoders`."""
        named = {alias for metric in self.asked for alias in metric.encoders}
        return tuple(alias for alias in self.specs if alias in named)

    @property
    def read_models(self) -> dict[str, Mapping[str, Any]]:
        """The tables of `models` with a path that scorers read in addition to their own files."""
        named = {alias for metric in self.asked for alias in metric.read_models}
        tables = (self.models or {}).items()
        return {alias: table for alias, table in tables if alias in named and PATH in table}

    @cached_property
    def is_neural(self) -> bool:
        """Whether a metric needs a neural model."""
        kinds = (parse_spec(self.specs[alias]).kind for alias in self.used_encoders)
        return bool(self.model_paths) or any(not kind.is_static for kind in kinds)

    def pinned(self, signatures: Mapping[str, str] | None = None) -> Self:
        """Name each model so that it stays what it is now (`Metric.pinned_path`), and check again.

        With `signatures` of scores, by column, it is what it was for these.
        """
        with_model = [metric for metric in self.asked if metric.path]
        known = {
            metric.path: signatures[metric.written]
            for metric in with_model
            if signatures and metric.written in signatures
        }
        pinned = {
            metric.path: metric.pinned_path(known.get(metric.path, ""))
            for metric in {one.path: one for one in with_model}.values()
        }
        paths = {metric.written: str(pinned[metric.path]) for metric in with_model}
        return replace(self, model_paths=paths) if paths else self

    @property
    def replaced(self) -> list[str]:
        """Metrics and kinds of encoders of ours for which this process has put in something else.

        Other processes would take ours.
        """
        metrics = {name for name, ours in METRICS_OF_OURS.items() if METRICS.get(name) is not ours}
        kinds = {parse_spec(self.specs[alias]).kind for alias in self.used_encoders}
        return [
            *sorted({metric.name for metric in self.asked} & metrics),
            *(kind.kind for kind in kinds if KINDS_OF_OURS.get(kind.kind, kind) is not kind),
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "replaced": self.replaced}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Refuse a process in which the names mean something else."""
        self.__dict__.update(state)
        replaced = self.__dict__.pop("replaced")
        if others := sorted({*replaced} ^ {*self.replaced}):
            raise ValueError(
                f"`{others[0]}` is defined differently here and in the program that sent it; "
                "rename the definition that is not Assay's"
            )

    @property
    def batch_rows(self) -> int:
        """Rows that are scored at a time; larger batches cost less a row."""
        return BATCH_ROWS_NEURAL if self.is_neural else BATCH_ROWS

    @cached_property
    def computed(self) -> tuple[Metric, ...]:
        """The metrics, and the share of known words of every encoder of words."""
        return self.asked + tuple(
            known_words(alias, self.sides_of(alias))
            for alias in self.used_encoders
            if "words" in parse_spec(self.specs[alias]).kind.vectors
        )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns: those asked for, in order, then those that come along."""
        asked = (column for metric in self.computed for column in metric.columns)
        # columns of one model, as `bertscore_p` and `bertscore_f`, share what comes along
        along = dict.fromkeys(name for metric in self.asked for name in metric.companion_columns)
        return (*asked, *along)

    @cached_property
    def input_columns(self) -> tuple[str, ...]:
        """Canonical columns that must be there: candidate and what the metrics compare with."""
        read = {"candidate", *(side for metric in self.asked for side in metric.sides)}
        return tuple(side for side in SIDES if side in read)

    def sides_of(self, alias: str) -> tuple[str, ...]:
        """Return what the metrics of an encoder compare with, of `references` and `sources`."""
        of_encoder = (metric for metric in self.asked if alias in metric.encoders)
        read = {side for metric in of_encoder for side in metric.sides}
        return tuple(side for side in SIDES if side in read)

    def as_dict(self) -> dict[str, Any]:
        """Return what numbers depend on as JSON-able values, encoders in their canonical form."""
        encoders = {alias: str(parse_spec(spec)) for alias, spec in self.specs.items()}
        left_out = {"asked", "model_paths"}  # they follow from the names
        left_out |= {
            name for name in ("models", "stemmer", "rouge_tokens") if not getattr(self, name)
        }
        said = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        said |= {"encoders": encoders, "metrics": list(self.metrics), "models": self._models()}
        return {name: value for name, value in said.items() if name not in left_out}

    def _models(self) -> dict[str, dict[str, Any]]:
        """Return the tables of models without what changes no number."""
        tables = [metric.table for metric in self.asked if metric.table is not None]
        aside = {s.name for table in tables for s in settings_of(table) if ASIDE in s.notes}
        return {
            alias: {key: value for key, value in table.items() if key not in aside}
            for alias, table in (self.models or {}).items()
        }


def _specs_of(encoders: Mapping[str, str]) -> dict[str, EncoderSpec]:
    if not encoders:
        raise ValueError("`encoders` must name at least one encoder; see `assay encoders`")
    specs = {}
    for alias, spec in encoders.items():
        if alias == ALL:
            raise ValueError(
                f"encoder alias {alias!r} is taken: METRIC@all means the mean over all encoders"
            )
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", alias):
            raise ValueError(f"encoder alias {alias!r} must be letters, digits, `.`, `-`, `_`")
        specs[alias] = parse_spec(spec)
    return specs

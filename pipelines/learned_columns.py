"""Learned scorers as metrics of `assay score`: `reffree@DIR` beside the metrics of `sms`.

The scorer handed to a runner is composed here, because `sms` knows no learned scorer and a runner
knows no metric at all. Every `reffree@DIR` comes with a column `cut@DIR`: 1 where some text was
too long for the model and only its lead was read, 0 elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cluster.store import is_url
from pipelines.learned_names import LEARNED_MEANINGS, NAME, PREFIX, cut_column
from sms.scoring import SummaryScorer
from sms.sentences import SENTENCE_END

if TYPE_CHECKING:
    from reffree.scorer import LearnedScorer

STAND_IN = ("length",)
"""Computed, and not shown, where only learned scorers are asked for: `sms` needs a metric."""


@dataclass(frozen=True, slots=True)
class AskedMetrics:
    """The metrics of a run, told apart."""

    of_sms: tuple[str, ...]
    """For `ScoringConfig`."""
    folders: Mapping[str, str]
    """By learned metric, as it was asked for, the absolute folder of its scorer, or its URL."""
    shows_sms: bool = True
    """Whether those of `sms` were asked for; otherwise they are `STAND_IN`."""

    @classmethod
    def of(cls, metrics: Sequence[str]) -> AskedMetrics:
        """Tell learned metrics from the others.

        Raises
        ------
        ValueError
            If a learned metric names no folder, or one is asked for twice.
        """
        learned = [name for name in metrics if name.partition("@")[0].partition(":")[0] == NAME]
        for name in learned:
            if not name.removeprefix(PREFIX) or not name.startswith(PREFIX):
                raise ValueError(
                    f"metric {name!r} must name a scorer's folder: {PREFIX}DIR, from `assay train`"
                )
        if len(set(learned)) < len(learned):
            twice = next(name for name in learned if learned.count(name) > 1)
            raise ValueError(f"`metrics` must not give a column twice, got {twice!r}")
        others = tuple(name for name in metrics if name not in learned)
        folders = {name: _folder_of(name.removeprefix(PREFIX)) for name in learned}
        if learned and not others:
            return cls(STAND_IN, folders, shows_sms=False)
        return cls(others, folders)


def _folder_of(path: str) -> str:
    return path if is_url(path) else os.path.abspath(os.path.expanduser(path))


@dataclass(frozen=True, slots=True)
class _Prepared:
    of_sms: Any
    scores: Mapping[str, np.ndarray]
    """By column, NaN where there is none, float64."""
    reasons: Mapping[int, str]
    """Why a row has no score, by row."""


class WithLearned:
    """Scores batches under metrics of `sms` and under learned scorers.

    Parameters
    ----------
    base : SummaryScorer
    learned : mapping of str to LearnedScorer
        By metric.
    shows_base : bool
        Whether the base's columns are wanted.
    """

    def __init__(
        self, base: SummaryScorer, learned: Mapping[str, LearnedScorer], *, shows_base: bool
    ) -> None:
        self._base, self._learned, self._shows_base = base, learned, shows_base
        self._n_cut = dict.fromkeys(learned, 0)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Canonical columns that `prepare` reads."""
        return with_sources(self._base.input_columns)

    @property
    def score_fields(self) -> tuple[str, ...]:
        """Columns that `compare` returns beside `status`."""
        shown = self._base.score_fields if self._shows_base else ()
        return (*shown, *self._learned, *map(cut_column, self._learned))

    @property
    def signatures(self) -> dict[str, str]:
        """What identifies each column's numbers."""
        found = dict(self._base.signatures) if self._shows_base else {}
        for name, scorer in self._learned.items():
            found[name] = scorer.signature
            found[cut_column(name)] = f"cut|{scorer.signature}"
        return found

    @property
    def meanings(self) -> dict[str, str]:
        """What a higher value of each learned column means."""
        columns = (*self._learned, *map(cut_column, self._learned))
        return {name: LEARNED_MEANINGS[name.partition("@")[0]] for name in columns}

    @property
    def content(self) -> dict[str, str]:
        """Hashes of all weights."""
        hashes = {
            name: "+".join([*scorer.settings["hashes"].values(), scorer.encoder_content])
            for name, scorer in self._learned.items()
        }
        return {**self._base.content, **hashes}

    def prepare(self, rows: pa.Table) -> _Prepared:
        """Handle the text of some rows and run all models."""
        candidates, given = rows["candidate"].to_pylist(), rows["sources"].to_pylist()
        reasons = {
            row: reason
            for row, (text, own) in enumerate(zip(candidates, given, strict=True))
            if (reason := _why_no_score(text, own or ()))
        }
        usable = [row for row in range(len(candidates)) if row not in reasons]
        sources = [
            [_as_text(text) for text in given[row] if not _why_unusable(text)] for row in usable
        ]
        usable_candidates = [_as_text(candidates[row]) for row in usable]
        scores = {}
        unseen: dict[int, list[str]] = {}
        for name, scorer in self._learned.items():
            found = scorer.score_against_all(sources, usable_candidates)
            for column, values in ((name, found.scores), (cut_column(name), found.is_cut)):
                scores[column] = np.full(len(candidates), np.nan)
                scores[column][usable] = values
            self._n_cut[name] += int(found.is_cut.sum())
            for place, why in found.reasons.items():
                told = [f"{reason}@{name.removeprefix(PREFIX)}" for reason in why]
                unseen.setdefault(usable[place], []).extend(told)
        reasons |= {row: "; ".join(told) for row, told in unseen.items()}
        return _Prepared(self._base.prepare(rows), scores, reasons)

    def compare(self, prepared: _Prepared) -> pa.Table:
        """Return all columns, and the reasons of both kinds of metrics as status."""
        table = self._base.compare(prepared.of_sms)
        n_rows = table.num_rows
        status = table["status"].to_pylist() if self._shows_base else [None] * n_rows
        for row, reason in prepared.reasons.items():
            listed = [*(status[row] or "").split("; "), reason]
            status[row] = "; ".join(filter(None, dict.fromkeys(listed)))
        scores = {
            name: pa.array(values, pa.float64(), from_pandas=True)
            for name, values in prepared.scores.items()
        }
        columns = {**{name: table[name] for name in self._base.score_fields}, **scores}
        shown = {name: columns[name] for name in self.score_fields}
        return pa.table({**shown, "status": pa.array(status, pa.string())})

    def counters(self) -> dict[str, int]:
        """Return what was done so far, as `NAME.COUNT`."""
        cut = {f"{name}.cut": n for name, n in self._n_cut.items()}
        return {**self._base.counters(), **cut}


def with_learned(
    base: SummaryScorer,
    metrics: AskedMetrics,
    *,
    device: str = "auto",
    cache_folder: str | None = None,
) -> SummaryScorer | WithLearned:
    """Add the learned metrics of a run to a scorer; without any it stays what it is.

    Parameters
    ----------
    base : SummaryScorer
        For the metrics of `sms`.
    metrics : AskedMetrics
    device, cache_folder
        As in `SummaryScorer`.

    Raises
    ------
    ValueError
        If a scorer's folder is missing or damaged.
    """
    if not metrics.folders:
        return base
    from reffree.scorer import load_scorer  # brings torch, which other metrics may not need
    from sms.encoders import EncoderRuntime
    from sms.encoders.devices import Machine

    machine = Machine.choose(EncoderRuntime(device=device, threads=base.threads))
    learned = {
        name: load_scorer(Path(folder), device=machine.device.type, cache_folder=cache_folder)
        for name, folder in metrics.folders.items()
    }
    return WithLearned(base, learned, shows_base=metrics.shows_sms)


def with_sources(columns: Sequence[str]) -> tuple[str, ...]:
    """Add `sources` to the columns that are read."""
    return tuple(columns) if "sources" in columns else (*columns, "sources")


def _why_no_score(candidate: str | None, sources: Sequence[str | None]) -> str | None:
    if reason := _why_unusable(candidate):
        return f"candidate:{reason}"
    reasons = [_why_unusable(source) for source in sources]
    if all(reasons):
        return f"source:{reasons[0] if reasons else 'missing'}"
    return None


def _as_text(text: str) -> str:
    """Write a text without the ends of given sentences: a learned scorer finds them itself."""
    return text.replace(SENTENCE_END, " ")


def _why_unusable(text: str | None) -> str | None:
    if text is None:
        return "null"
    if not text.strip():
        return "empty"
    return None if any(map(str.isalnum, text)) else "no_words"

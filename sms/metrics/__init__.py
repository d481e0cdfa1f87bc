"""The available metrics, and how a metric's name is read: `METRIC[@ENCODER][:AGAINST]`.

`cosine@all` is the mean of the cosines under every encoder of the run, Sun and Nenkova's enc-avg.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sms.data_files import data_tables
from sms.metric import Batch, Metric, MetricName, Setting, split_name
from sms.metrics.baselines import BASELINES
from sms.metrics.bertscore import BERTSCORE
from sms.metrics.bleu import BLEU
from sms.metrics.cosine import COSINE
from sms.metrics.movers import MOVERS
from sms.metrics.rouge import ROUGE
from sms.naming import load_entry_points
from sms.signature import TEXT_FORM, cut_part, encoder_part, version

METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (*MOVERS, COSINE, *ROUGE, BERTSCORE, *BLEU, *BASELINES)
}
"""Every metric by name; one that is added is a metric like all others."""
SHIPPED = dict(METRICS)
"""Those of this package: what every process has under these names until a program changes it."""


def all_metrics() -> Mapping[str, Metric]:
    """Return every metric by name, including those that `assay.metrics` entry points add."""
    load_entry_points("assay.metrics")
    return METRICS


def parse_metric(
    name: str, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]] | None = None
) -> Metric:
    """Return the metric that a name asks for: `sms`, `wms@glove`, `cosine@all`, `rouge1_r:source`.

    `encoders` are the aliases that may follow `@`, the default first; `models` those with an alias.
    Raises `ValueError` if a part is unknown (naming the nearest) or does not apply to that metric.
    """
    base = re.split("[@:]", name, maxsplit=1)[0]
    known = _by_column(METRICS)
    if base not in known:
        known = _by_column(all_metrics())
    if base not in known:
        raise ValueError(f"unknown metric {name!r}; {_in_its_place(base, known)}")
    metric = known[base]
    asked = split_name(name, metric.directions)
    return metric.ask(asked, encoders, models or {})


def _in_its_place(name: str, known: Iterable[str]) -> str:
    """Say what to write instead of a name: one of ours that is written in another way comes first.

    >>> _in_its_place("ROUGE-1_fmeasure", ["rouge1", "rouge1_r", "rouge1_f"])
    'did you mean `rouge1_f`?'
    """
    plain = _plain(name)
    by_plain = {_plain(one): one for one in known}
    if plain not in by_plain and plain in (others := data_tables("other_names")):
        return str(others[plain])
    near = difflib.get_close_matches(plain, by_plain, n=1)
    return f"did you mean `{by_plain[near[0]]}`?" if near else "see `assay metrics`"


def _plain(name: str) -> str:
    """Write a name without what tools write in different ways."""
    letters = re.sub(r"[-_ ]", "", name.lower())
    for ours, theirs in (("f", "fmeasure"), ("p", "precision"), ("r", "recall")):
        letters = letters.removesuffix(theirs) + ours * letters.endswith(theirs)
    return letters


def _by_column(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    by_column = {column: metric for metric in metrics.values() for column in metric.columns}
    return by_column | dict(metrics)


# The share of words that an encoder knows, added to its metrics


class KnownWords(Metric):
    """The share of the kept words of a candidate and its compared texts that have a vector."""

    finest = "texts"

    def signatures(self, setting: Setting) -> dict[str, str]:
        """Name the texts whose words are counted in addition to the candidate's."""
        (alias,), (column,) = self.encoders, self.columns
        parts = [column, encoder_part(setting.encoders[alias])]
        if "references" in self.sides:
            parts.append(f"ref:{'first' if setting.multi_reference == 'first' else 'all'}")
        if "sources" in self.sides:
            parts.append(f"source:all|{cut_part(setting.source_tokens)}")
        parts += [TEXT_FORM, setting.rules.signature, f"v:{version()}"]
        return {column: "|".join(parts)}

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Count the words of every row."""
        (alias,), (column,) = self.encoders, self.columns
        encoded, text_sentences = batch.encoded[alias]
        known, kept = (
            text_sentences.sums(n_words[text_sentences.values])
            for n_words in (encoded.n_known, encoded.n_kept)
        )
        n_known, n_kept = known[batch.candidate], kept[batch.candidate]
        for side in self.sides:
            of = batch.pairs[side]
            n_known = n_known + np.bincount(of.rows, known[of.other], of.lengths.size)
            n_kept = n_kept + np.bincount(of.rows, kept[of.other], of.lengths.size)
        share = np.where(n_kept > 0, n_known / np.maximum(n_kept, 1), np.nan)
        return {column: share}


def known_words(alias: str, sides: tuple[str, ...]) -> Metric:
    """Return the metric that comes along with those of an encoder of words."""
    name = f"known_words@{alias}"
    return KnownWords(
        name=name,
        summary="share of words known",
        higher_is="known",
        asked=MetricName(name, "known_words", alias),
        sides=sides,
        encoders=(alias,),
    )

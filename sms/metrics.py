"""The metrics there are, and how a metric's name is read: `METRIC[@ENCODER][:AGAINST]`.

`cosine@all` is the mean of the cosines under every encoder of the run, Sun and Nenkova's enc-avg.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass

AGAINST = ("reference", "source")
"""What a candidate is compared with."""
ROUGE_PARTS = ("p", "r", "f")
ALL = "all"
"""In an encoder's place: all encoders of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of the table printed by `assay metrics`."""

    name: str
    family: str
    """`mover`, `cosine`, `rouge` or `baseline`."""
    summary: str
    higher_is: str
    """What a higher value means."""
    needs: tuple[str, ...]
    """Inputs: `reference|source`, `source`, `words` or `sentences` of an encoder."""
    columns: tuple[str, ...]
    """Output columns, before `@ENCODER` and `:AGAINST`."""


def _rouge(name: str, summary: str) -> Metric:
    return Metric(
        name=name,
        family="rouge",
        summary=summary,
        higher_is="closer, 0 to 1",
        needs=("reference|source",),
        columns=tuple(f"{name}_{part}" for part in ROUGE_PARTS),
    )


def _mover(name: str, summary: str, vectors: str) -> Metric:
    return Metric(
        name=name,
        family="mover",
        summary=summary,
        higher_is="closer, 0 to 1",
        needs=("reference|source", vectors),
        columns=(name,),
    )


def _baseline(name: str, summary: str, higher_is: str, needs: tuple[str, ...]) -> Metric:
    return Metric(
        name=name,
        family="baseline",
        summary=summary,
        higher_is=higher_is,
        needs=needs,
        columns=(name,),
    )


METRICS = {
    metric.name: metric
    for metric in (
        _mover("wms", "word mover's similarity, exp(-EMD) over words", "words"),
        _mover("sms", "sentence mover's similarity, exp(-EMD) over sentences", "sentences"),
        _mover("s+wms", "one transport problem over words and sentences", "words"),
        Metric(
            name="cosine",
            family="cosine",
            summary="cosine of the texts' embeddings; `cosine@all` is the mean over all encoders",
            higher_is="closer, -1 to 1",
            needs=("reference|source", "sentences"),
            columns=("cosine",),
        ),
        _rouge("rouge1", "ROUGE-1: shared words"),
        _rouge("rouge2", "ROUGE-2: shared pairs of words"),
        _rouge("rouge4", "ROUGE-4: shared runs of four words"),
        _rouge("rougeL", "ROUGE-L: longest common subsequence"),
        _rouge("rougeLsum", "ROUGE-Lsum: the same by sentence, united"),
        _rouge("rougeW", "ROUGE-W-1.2: the same, runs weigh more"),
        _baseline("length", "words of the candidate", "longer", ()),
        _baseline("compression", "source words per candidate word", "shorter", ("source",)),
        _baseline("coverage", "share of words copied from the source", "copied", ("source",)),
        _baseline("density", "mean length of the copied fragments", "copied", ("source",)),
        _baseline("novelty", "share of bigrams not in the source", "less copied", ("source",)),
        _baseline("lead3", "ROUGE-L F against the source's first three sentences",
                  "closer to the lead", ("source",)),
    )
}  # fmt: skip
"""Every metric by name."""

_BY_COLUMN = {
    column: (metric, (column,))
    for metric in METRICS.values()
    for column in metric.columns
    if column != metric.name
}


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A metric as somebody asked for it."""

    name: str
    """What they wrote."""
    metric: Metric
    encoders: tuple[str, ...]
    """Aliases of the encoders whose mean it is: one, or all for `@all`; none for some metrics."""
    against: str | None
    """`reference`, `source`, or None for metrics that have no choice."""
    parts: tuple[str, ...]
    """The columns of `metric` that are wanted."""

    @property
    def encoder(self) -> str | None:
        """Alias of its encoder; None for metrics without one and for `@all`."""
        return None if self.is_average or not self.encoders else self.encoders[0]

    @property
    def is_average(self) -> bool:
        """Whether it is the mean over all encoders of the run."""
        return self.name.partition(":")[0].partition("@")[2] == ALL

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        if len(self.metric.columns) == 1 or self.name.partition(":")[0] in _BY_COLUMN:
            return (self.name,)
        _, colon, against = self.name.partition(":")
        return tuple(f"{part}{colon}{against}" for part in self.parts)


def parse_metric(name: str, encoders: Collection[str]) -> MetricRequest:
    """Read a metric's name.

    Parameters
    ----------
    name : str
        For example `sms`, `wms@glove`, `cosine:source`, `cosine@all`, `rougeL`, `rouge1_r`.
    encoders : collection of str
        Aliases that may follow `@`, the default first.

    Raises
    ------
    ValueError
        If a part is unknown (naming the nearest) or does not apply to that metric.
    """
    head, _, against = name.partition(":")
    base, at, encoder = head.partition("@")
    known = {**{n: (m, m.columns) for n, m in METRICS.items()}, **_BY_COLUMN}
    if base not in known:
        by_lower = {n.lower(): n for n in known}
        near = difflib.get_close_matches(base.lower(), by_lower, n=1)
        hint = f"did you mean `{by_lower[near[0]]}`?" if near else "see `assay metrics`"
        raise ValueError(f"unknown metric {name!r}; {hint}")
    metric, parts = known[base]
    embeds = metric.family in ("mover", "cosine")
    if at and not embeds:
        raise ValueError(f"metric {name!r} takes no encoder; write `{base}`")
    if encoder == ALL and metric.family != "cosine":
        raise ValueError(f"metric {name!r} must name one encoder; only `cosine@all` averages them")
    if at and encoder not in encoders and encoder != ALL:
        raise ValueError(
            f"metric {name!r} names no encoder of this run; there are {', '.join(encoders)}"
        )
    if ":" in name and (metric.family == "baseline" or against not in AGAINST):
        rule = f"takes no `:{against}`" if metric.family == "baseline" else (
            "must end in :reference or :source"
        )  # fmt: skip
        raise ValueError(f"metric {name!r} {rule}")
    named = tuple(encoders) if encoder == ALL else (encoder or next(iter(encoders)),)
    return MetricRequest(
        name,
        metric,
        named if embeds else (),
        None if metric.family == "baseline" else (against or "reference"),
        parts,
    )

"""Figures 1 to 3 of Sun and Nenkova (2019): number of articles, length of articles, systems.

The correlation against the number of articles (Figure 1) and against the length that articles were
cut to (Figure 2), and the mean rating and score of each system (Figure 3).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from agreement import sample_size_curve, shared_cells, system_means
from pipelines.papers.published import (
    COUNTS,
    PublishedTable,
    correlation_row,
    is_against_source,
    size_note,
    typed,
    undefined_notes,
)

if TYPE_CHECKING:
    import altair as alt

COEFFICIENTS = ("pearson", "spearman")
LEVEL = "system"
"""Everything in the paper is at system level."""
N_DRAWS = 50
"""Figure 1: random sets of articles for each number of them."""
N_SIZES = 10
"""Figure 1: numbers of articles, evenly spaced."""
PANEL = 180
"""Pixels of one panel of a figure, both ways."""

_CUT = re.compile(r"\|first:(\d+|all)(?=\||$)")
_FIGURE1 = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "coefficient": pl.String,
        "n_documents": pl.Int64,
        "mean": pl.Float64,
        "deviation": pl.Float64,
        "n_draws": pl.Int64,
        "n_undefined": pl.Int64,
    }
)
_FIGURE2 = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "cut_metric": pl.String,
        "source_tokens": pl.Int64,
        "level": pl.String,
        "coefficient": pl.String,
        "value": pl.Float64,
        "p_value": pl.Float64,
    }
)
_FIGURE3 = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "system_id": pl.String,
        "score": pl.Float64,
        "rating": pl.Float64,
        "n_documents": pl.Int64,
    }
)


def figure1(
    scores: Mapping[str, np.ndarray], ratings: Mapping[str, np.ndarray], seed: int
) -> PublishedTable:
    """Correlate on random sets of articles of growing size: mean and standard deviation.

    Parameters
    ----------
    scores, ratings : mapping of str to ndarray, shape (n_systems, n_documents)
        By metric, and by aspect; NaN where missing.
    seed : int
        Of the draws; every metric and aspect gets the same ones.
    """
    n_documents = next(iter(scores.values())).shape[1]
    sizes = np.unique(np.linspace(1, n_documents, N_SIZES + 1).round().astype(np.int64)[1:])
    coefficient = "pearson"
    curve = sample_size_curve(
        np.stack(list(scores.values())),
        np.stack(list(ratings.values())),
        sizes,
        level=LEVEL,
        coefficient=coefficient,
        n_draws=N_DRAWS,
        rng=np.random.default_rng(seed),
    )
    rows = [
        {
            "aspect": aspect,
            "metric": metric,
            "coefficient": coefficient,
            "n_documents": int(size),
            "mean": curve.means[s, m, k],
            "deviation": curve.deviations[s, m, k],
            "n_draws": N_DRAWS,
            "n_undefined": int(curve.n_undefined[s, m, k]),
        }
        for k, aspect in enumerate(ratings)
        for m, metric in enumerate(scores)
        for s, size in enumerate(sizes)
    ]
    frame = typed(rows, _FIGURE1)

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        shown = frame.drop_nulls("mean").with_columns(
            low=pl.col("mean") - pl.col("deviation"), high=pl.col("mean") + pl.col("deviation")
        )
        x = alt.X("n_documents:Q", title="articles")
        color = alt.Color("aspect:N", sort=None)
        base = alt.Chart(shown)
        line = base.mark_line(point=True).encode(
            x=x, y=alt.Y("mean:Q", title="Pearson correlation"), color=color
        )
        bars = base.mark_rule().encode(x=x, y="low:Q", y2="high:Q", color=color)
        panel = (line + bars).properties(width=PANEL, height=PANEL)
        return panel.facet(alt.Facet("metric:N", sort=list(scores), title=None), columns=4)

    return PublishedTable(
        name="sun2019-figure1",
        title="System-level Pearson correlation against the number of articles",
        frame=frame,
        notes=(
            f"Mean and standard deviation over {N_DRAWS} random sets of articles; the paper does "
            "not name its coefficient. Sets of nearly all articles overlap: the bars shrink "
            "to nothing at the right end whatever the error of the last point.",
        ),
        make_chart=draw,
    )


def figure2(
    scores: Mapping[str, np.ndarray],
    ratings: Mapping[str, np.ndarray],
    cuts: Mapping[str, Mapping[int | None, str]],
) -> PublishedTable:
    """Correlate metrics whose sources were cut to different lengths.

    Parameters
    ----------
    scores, ratings
        See `figure1`.
    cuts : mapping
        From `source_cuts`.
    """
    rows = [
        correlation_row(scores[cut_metric], rating, level=LEVEL, coefficient=coefficient)
        | {
            "aspect": aspect,
            "metric": metric,
            "cut_metric": cut_metric,
            "source_tokens": n_tokens,
        }
        for metric, by_length in cuts.items()
        for n_tokens, cut_metric in by_length.items()
        for aspect, rating in ratings.items()
        for coefficient in COEFFICIENTS
    ]
    frame = typed(rows, _FIGURE2, COUNTS)

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        length = pl.col("source_tokens").cast(pl.String).fill_null("all")
        return (
            alt.Chart(frame.drop_nulls("value").with_columns(length=length))
            .mark_line(point=True)
            .encode(
                x=alt.X("length:N", sort=_lengths(frame), title="first tokens of the source"),
                y=alt.Y("value:Q", title="correlation", scale=alt.Scale(zero=False)),
                color=alt.Color("metric:N", sort=None),
                column=alt.Column("aspect:N", sort=list(ratings), title=None),
                row=alt.Row("coefficient:N", title=None),
            )
            .properties(width=PANEL, height=PANEL)
        )

    return PublishedTable(
        name="sun2019-figure2",
        title="System-level correlation when only the beginning of the source is read",
        frame=frame,
        notes=(
            "`source_tokens` is null where the whole source was read.",
            size_note(frame),
            *undefined_notes(frame),
        ),
        make_chart=draw,
    )


def figure3(
    scores: Mapping[str, np.ndarray],
    ratings: Mapping[str, np.ndarray],
    systems: Sequence[str],
) -> PublishedTable:
    """Pair each system's mean score with its mean rating, over the documents with both.

    Parameters
    ----------
    scores, ratings
        See `figure1`.
    systems : sequence of str
        Names of the rows.
    """
    rows = []
    for (aspect, rating), (metric, matrix) in itertools.product(ratings.items(), scores.items()):
        x, y = shared_cells(matrix, rating)
        n_documents = (~np.isnan(x)).sum(1)
        rows += [
            {
                "aspect": aspect,
                "metric": metric,
                "system_id": system,
                "score": score,
                "rating": mean,
                "n_documents": int(n),
            }
            for system, score, mean, n in zip(
                systems, system_means(x), system_means(y), n_documents, strict=True
            )
        ]
    frame = typed(rows, _FIGURE3)

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        points = alt.Chart(frame.drop_nulls(["score", "rating"])).encode(
            x=alt.X("rating:Q", scale=alt.Scale(zero=False), title="mean rating"),
            y=alt.Y("score:Q", scale=alt.Scale(zero=False), title="mean score"),
        )
        named = points.mark_text(align="left", dx=4, fontSize=8).encode(text="system_id:N")
        return (
            (points.mark_point(filled=True) + named)
            .properties(width=PANEL, height=PANEL)
            .facet(
                column=alt.Column("aspect:N", sort=list(ratings), title=None),
                row=alt.Row("metric:N", sort=list(scores), title=None),
            )
            .resolve_scale(x="independent", y="independent")
        )

    return PublishedTable(
        name="sun2019-figure3",
        title="Mean rating and mean score of each system",
        frame=frame,
        notes=("Means over the documents with both a score and a rating.",),
        make_chart=draw,
    )


def source_cuts(
    signatures: Mapping[str, str], metrics: Sequence[str] | Mapping[str, np.ndarray]
) -> dict[str, dict[int | None, str]]:
    """Find metrics that were computed several times, with sources cut to different lengths.

    Parameters
    ----------
    signatures : mapping of str to str
        By metric.
    metrics : sequence of str
        Those to look at; one without a signature is passed over.

    Returns
    -------
    dict
        By the metric as it is called for the longest source: the metric for every number of
        source tokens, shortest first, None for the whole source.
    """
    families: dict[str, dict[int | None, str]] = {}
    for metric in metrics:
        signature = signatures.get(metric, "")
        if is_against_source(metric) and (cut := _CUT.search(signature)):
            n_tokens = None if cut[1] == "all" else int(cut[1])
            families.setdefault(_CUT.sub("", signature), {})[n_tokens] = metric
    found = {}
    for family in families.values():
        shortest_first = dict(sorted(family.items(), key=lambda item: item[0] or float("inf")))
        if len(family) > 1:
            found[list(shortest_first.values())[-1]] = shortest_first
    return found


def _lengths(frame: pl.DataFrame) -> list[str]:
    """Return the lengths of sources in order, "all" last."""
    known = frame["source_tokens"].drop_nulls().unique().sort()
    return [*map(str, known), "all"]

"""Sun and Nenkova (2019): what its three figures draw.

Figure 1 is a correlation that grows sure of itself with the number of articles, Figure 2 one that
changes with how much of the document is read, Figure 3 each system's rating and score.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from agreement import sample_size_curve, shared_cells, system_means
from pipelines.papers.table import (
    Row,
    Scored,
    Shown,
    correlation_row,
    is_against_source,
    sizes,
    typed,
    undefined_notes,
)

if TYPE_CHECKING:
    import altair as alt

N_DRAWS = 50
"""Figure 1: random sets of articles for each number of them."""
N_SIZES = 10
"""Figure 1: numbers of articles, evenly spaced."""
PANEL = 180
"""Pixels of one panel of a figure, both ways."""

_CUT = re.compile(r"\|first:(\d+|all)(?=\||$)")


def figure1(scored: Scored) -> Shown:
    """Correlate on random sets of articles of growing size: mean and standard deviation.

    Every metric and aspect gets the same draws.
    """
    n_documents = next(iter(scored.scores.values())).shape[1]
    numbers = np.unique(np.linspace(1, n_documents, N_SIZES + 1).round().astype(np.int64)[1:])
    curve = sample_size_curve(
        np.stack(list(scored.scores.values())),
        np.stack(list(scored.ratings.values())),
        numbers,
        level="system",
        coefficient="pearson",
        n_draws=N_DRAWS,
        rng=np.random.default_rng(scored.seed),
    )
    rows = [
        {
            "aspect": aspect,
            "metric": metric,
            "coefficient": "pearson",
            "n_documents": int(size),
            "mean": curve.means[s, m, k],
            "deviation": curve.deviations[s, m, k],
            "n_draws": N_DRAWS,
            "n_undefined": int(curve.n_undefined[s, m, k]),
        }
        for k, aspect in enumerate(scored.ratings)
        for m, metric in enumerate(scored.scores)
        for s, size in enumerate(numbers)
    ]
    frame = typed(rows)

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        low, high = pl.col("mean") - pl.col("deviation"), pl.col("mean") + pl.col("deviation")
        base = alt.Chart(frame.drop_nulls("mean").with_columns(low=low, high=high)).encode(
            x=alt.X("n_documents:Q", title="articles"), color=alt.Color("aspect:N", sort=None)
        )
        line = base.mark_line(point=True).encode(y=alt.Y("mean:Q", title="Pearson correlation"))
        panel = line + base.mark_rule().encode(y="low:Q", y2="high:Q")
        facet = alt.Facet("metric:N", sort=list(scored.scores), title=None)
        return panel.properties(width=PANEL, height=PANEL).facet(facet, columns=4)

    return Shown(
        title="System-level Pearson correlation against the number of articles",
        frame=frame,
        notes=(
            f"Mean and standard deviation over {N_DRAWS} random sets of articles; the paper does "
            "not name its coefficient. Sets of nearly all articles overlap: the bars shrink "
            "to nothing at the right end whatever the error of the last point.",
        ),
        make_chart=draw,
    )


def figure2(scored: Scored) -> Shown | None:
    """Correlate metrics whose sources were cut to different lengths; None if none were."""
    rows = [
        {"aspect": aspect, "metric": metric, "cut_metric": cut, "source_tokens": n_tokens}
        | correlation_row(scored.scores[cut], rating, "system", coefficient)
        for metric, by_length in source_cuts(scored.signatures, list(scored.scores)).items()
        for n_tokens, cut in by_length.items()
        for aspect, rating in scored.ratings.items()
        for coefficient in ("pearson", "spearman")
    ]
    if not rows:
        return None
    frame = typed(rows)

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        lengths = [*map(str, frame["source_tokens"].drop_nulls().unique().sort()), "all"]
        length = pl.col("source_tokens").cast(pl.String).fill_null("all")
        shown = alt.Chart(frame.drop_nulls("value").with_columns(length=length))
        chart = shown.mark_line(point=True).properties(width=PANEL, height=PANEL)
        return chart.encode(
            x=alt.X("length:N", sort=lengths, title="first tokens of the source"),
            y=alt.Y("value:Q", title="correlation", scale=alt.Scale(zero=False)),
            color=alt.Color("metric:N", sort=None),
            column=alt.Column("aspect:N", sort=list(scored.ratings), title=None),
            row=alt.Row("coefficient:N", title=None),
        )

    return Shown(
        title="System-level correlation when only the beginning of the source is read",
        frame=frame,
        notes=(
            "`source_tokens` is null where the whole source was read.",
            f"From {sizes(frame)}.",
            *undefined_notes(frame),
        ),
        make_chart=draw,
    )


def source_cuts(
    signatures: Mapping[str, str], metrics: Sequence[str]
) -> dict[str, dict[int | None, str]]:
    """Find metrics that were computed several times, with sources cut to different lengths.

    By the metric as it is called for the longest source: the metric for every number of source
    tokens, shortest first, None for the whole source.
    """
    families: dict[str, dict[int | None, str]] = {}
    for metric in metrics:
        signature = signatures.get(metric, "")
        if is_against_source(metric) and (cut := _CUT.search(signature)):
            n_tokens = None if cut[1] == "all" else int(cut[1])
            families.setdefault(_CUT.sub("", signature), {})[n_tokens] = metric
    ordered = (
        dict(sorted(family.items(), key=lambda item: item[0] or float("inf")))
        for family in families.values()
        if len(family) > 1
    )
    return {list(family.values())[-1]: family for family in ordered}


def figure3(scored: Scored) -> Shown:
    """Pair each system's mean score with its mean rating, over the documents with both."""
    rows: list[Row] = []
    pairs = itertools.product(scored.ratings.items(), scored.scores.items())
    for (aspect, rating), (metric, matrix) in pairs:
        x, y = shared_cells(matrix, rating)
        means = zip(system_means(x), system_means(y), (~np.isnan(x)).sum(1), strict=True)
        rows += [
            {
                "aspect": aspect,
                "metric": metric,
                "system_id": system,
                "score": score,
                "rating": mean,
                "n_documents": int(n),
            }
            for system, (score, mean, n) in zip(scored.systems, means, strict=True)
        ]
    frame = typed(rows)

    def draw() -> alt.TopLevelMixin:
        import altair as alt

        points = alt.Chart(frame.drop_nulls(["score", "rating"])).encode(
            x=alt.X("rating:Q", scale=alt.Scale(zero=False), title="mean rating"),
            y=alt.Y("score:Q", scale=alt.Scale(zero=False), title="mean score"),
        )
        named = points.mark_text(align="left", dx=4, fontSize=8).encode(text="system_id:N")
        both = (points.mark_point(filled=True) + named).properties(width=PANEL, height=PANEL)
        return both.facet(
            column=alt.Column("aspect:N", sort=list(scored.ratings), title=None),
            row=alt.Row("metric:N", sort=list(scored.scores), title=None),
        ).resolve_scale(x="independent", y="independent")

    return Shown(
        title="Mean rating and mean score of each system",
        frame=frame,
        notes=("Means over the documents with both a score and a rating.",),
        make_chart=draw,
    )

import dataclasses

import polars as pl
import pytest

from pipelines.reports.correlation_panels import correlation_panels, overviews
from tests.pipelines.reports.made_up import METRICS, value_of


def panel(result, **key):
    found = [
        each
        for each in correlation_panels(result)
        if all(getattr(each, name) == value for name, value in key.items())
    ]
    assert len(found) == 1
    return found[0]


def test_axis_holds_all_that_is_drawn(result):
    for each in correlation_panels(result):
        assert each.axis.low == each.axis.ticks[0]
        assert each.axis.high == each.axis.ticks[-1]
        for row in each.rows:
            drawn = [row[name] for name in ("value", "low", "high") if row[name] is not None]
            assert all(each.axis.low <= value <= each.axis.high for value in drawn)
            assert each.axis.low <= each.axis.origin <= each.axis.high


def test_coefficients_in_the_order_asked_for(result):
    turned = dataclasses.replace(result, correlations=result.correlations.sort("coefficient"))
    assert next(correlation_panels(result)).coefficient == "pearson"
    assert next(correlation_panels(turned)).coefficient == "kendall_b"


def test_axis_by_hand(result):
    # From length's low end, -0.24 - 0.12 - 0.02, to the raters' 0.9123: steps of a half.
    axis = panel(result, level="system", aspect="relevance", coefficient="pearson").axis
    assert axis.ticks == [-0.5, 0.0, 0.5, 1.0]
    assert axis.origin == 0.0


def test_accuracy_begins_at_guessing(result):
    accuracies = result.correlations.filter(level="system", coefficient="pearson").with_columns(
        coefficient=pl.lit("pairwise_accuracy"), value=0.7, low=0.6, high=0.8
    )
    changed = dataclasses.replace(result, correlations=accuracies)
    axis = panel(changed, aspect="relevance").axis
    assert axis.origin == 0.5
    assert 0.3 < axis.low <= 0.5  # not drawn from 0


def test_ceiling_of_two_pools_is_not_chosen(result):
    first = panel(result, level="system", aspect="relevance", coefficient="pearson")
    assert first.ceiling == 0.9123
    crowd = result.raters.with_columns(pool=pl.lit("crowd-*"), value=pl.lit(0.2))
    pooled = dataclasses.replace(result, raters=pl.concat([result.raters, crowd]))
    again = panel(pooled, level="system", aspect="relevance", coefficient="pearson")
    assert again.ceiling is None


def test_overview_tint_is_a_share_of_the_strongest(result):
    overview = next(overviews(result))
    strongest = value_of("sms", "relevance", "system", "pearson")
    for row, metric in zip(overview.rows, METRICS, strict=True):
        value = value_of(metric, "relevance", "system", "pearson")
        assert row.cells[0].value == value
        assert row.cells[0].tint == pytest.approx(max(value, 0.0) / strongest, abs=0.005)


def test_cell_that_is_not_in_the_table_says_so(result):
    without = result.correlations.filter(
        ~((pl.col("metric") == "sms") & (pl.col("level") == "global"))
    )
    changed = dataclasses.replace(result, correlations=without)
    overview = next(each for each in overviews(changed) if each.level == "global")
    assert overview.rows[0].cells[0].reason == "not computed"
    assert overview.rows[0].cells[0].value is None

import dataclasses

import polars as pl
import pytest

from pipelines.reports.agreement_report import grids, report_view
from tests.pipelines.reports.made_up import METRICS, value_of


def panels_of(result, tmp_path, **key):
    found = report_view(result, tmp_path)["panels"]
    return [each for each in found if key.items() <= each.items()]


def test_axis_by_hand(result, tmp_path):
    # From length's low end, -0.24 - 0.12 - 0.02, to the raters' 0.9123: steps of .2.
    (panel,) = panels_of(
        result, tmp_path, level="system", aspect="relevance", coefficient="pearson"
    )
    assert panel["ticks"] == [-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert panel["origin"] == 0.0


def test_accuracy_begins_at_guessing(result, tmp_path):
    accuracies = result.correlations.filter(level="system", coefficient="pearson").with_columns(
        coefficient=pl.lit("pairwise_accuracy"), value=0.7, low=0.6, high=0.8
    )
    about = dataclasses.replace(result.about, main_coefficient="pairwise_accuracy")
    changed = dataclasses.replace(result, about=about, correlations=accuracies)
    (panel,) = panels_of(changed, tmp_path, aspect="relevance")
    assert panel["origin"] == 0.5
    assert 0.3 < panel["ticks"][0] <= 0.5  # not drawn from 0


def test_coefficients_in_the_order_asked_for(result):
    turned = dataclasses.replace(result, correlations=result.correlations.sort("coefficient"))
    assert next(grids(result)).coefficient == "pearson"
    assert next(grids(turned)).coefficient == "kendall_b"


def test_overview_tint_is_a_share_of_the_strongest(result, tmp_path):
    overview = report_view(result, tmp_path)["overviews"][0]
    strongest = value_of("sms", "relevance", "system", "pearson")
    for row, metric in zip(overview["rows"], METRICS, strict=True):
        value = value_of(metric, "relevance", "system", "pearson")
        assert row["cells"][0]["value"] == value
        assert row["cells"][0]["tint"] == pytest.approx(max(value, 0.0) / strongest, abs=0.005)

"""Agreement with SummEval's experts: the paper's order on data its authors never saw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sms.scoring import ScoringConfig, SummaryScorer

METRICS = ("sms", "wms", "rougeL_f", "rouge1_r")

pytestmark = [pytest.mark.slow, pytest.mark.data]


@pytest.fixture(scope="module")
def correlations(data_dir) -> dict[tuple[str, str], float]:
    """System-level Pearson of each metric with the experts' mean rating of each aspect."""
    corpus = pl.read_parquet(data_dir / "summeval.parquet")
    scorer = SummaryScorer(ScoringConfig(metrics=METRICS, multi_reference="first"))
    scores = pl.from_arrow(scorer.score(corpus.select("candidate", "references").to_arrow()))
    assert scores["status"].null_count() == len(corpus)
    by_system = (
        pl.concat([corpus.select("system_id"), scores], how="horizontal")
        .group_by("system_id")
        .agg(pl.col(METRICS).mean())
    )
    ratings = (
        pl.read_parquet(data_dir / "summeval_ratings.parquet")
        .filter(pl.col("rater").str.starts_with("expert-"))
        .group_by("system_id")
        .agg(pl.col("relevance", "consistency").mean())
    )
    joined = by_system.join(ratings, on="system_id", validate="1:1")
    assert len(joined) == 16
    return {
        (metric, aspect): float(np.corrcoef(joined[metric], joined[aspect])[0, 1])
        for metric in METRICS
        for aspect in ("relevance", "consistency")
    }


def test_sms_agrees_with_experts(correlations):
    assert correlations["sms", "relevance"] >= 0.73
    assert correlations["sms", "consistency"] >= 0.78


def test_order_of_metrics_on_relevance(correlations):
    # Clark et al. 2019: sentences over words over n-grams
    sms, wms, rouge = (correlations[metric, "relevance"] for metric in METRICS[:3])
    assert sms > wms > rouge


def test_rouge1_recall_matches_the_published_correlation(correlations):
    assert correlations["rouge1_r", "relevance"] == pytest.approx(0.549, abs=0.01)

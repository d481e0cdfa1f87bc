"""Agreement with SummEval's experts: the paper's order on data its authors never saw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sms.scoring import ScoringConfig, SummaryScorer

METRICS = ("sms", "wms", "rougeL_f", "rouge1_r")


@pytest.mark.slow
@pytest.mark.data
def test_metrics_agree_with_experts_as_published(data_dir):
    corpus = pl.read_parquet(data_dir / "summeval.parquet")
    scorer = SummaryScorer(ScoringConfig(metrics=METRICS, multi_reference="first"))
    scores = pl.from_arrow(scorer.score(corpus.select("candidate", "references").to_arrow()))
    assert scores["status"].null_count() == len(corpus)
    scored = pl.concat([corpus.select("system_id"), scores], how="horizontal")
    ratings = pl.read_parquet(data_dir / "summeval_ratings.parquet")
    experts = ratings.filter(pl.col("rater").str.starts_with("expert-")).group_by("system_id")
    joined = (
        scored.group_by("system_id")
        .agg(pl.col(METRICS).mean())
        .join(experts.agg(pl.col("relevance", "consistency").mean()), on="system_id")
    )
    assert len(joined) == 16
    with_relevance = {m: np.corrcoef(joined[m], joined["relevance"])[0, 1] for m in METRICS}
    assert with_relevance["sms"] >= 0.73
    assert np.corrcoef(joined["sms"], joined["consistency"])[0, 1] >= 0.78
    # Clark et al. 2019: sentences over words over n-grams
    assert with_relevance["sms"] > with_relevance["wms"] > with_relevance["rougeL_f"]
    assert with_relevance["rouge1_r"] == pytest.approx(0.549, abs=0.01)

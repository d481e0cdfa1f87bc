"""Names of metrics: what they mean, which columns they give, what is refused."""

from __future__ import annotations

import re

import pytest

from sms.metrics import METRICS, parse_metric
from tests.sms.cases import cases

BUILT_IN = [name for name, metric in METRICS.items() if metric.reads_texts]
ENCODERS = ("minilm", "glove", "use-dan")
CASES = cases("metrics")


@pytest.mark.parametrize("name", CASES["read"])
def test_name_is_read(name):
    metric, encoder, against, columns = CASES["read"][name]
    request = parse_metric(name, ENCODERS)
    assert request.metric is METRICS[metric]
    assert (request.encoder or "", request.against or "") == (encoder, against)
    assert list(request.columns) == columns


@pytest.mark.parametrize("name", CASES["refused"])
def test_wrong_name_rejected(name):
    with pytest.raises(ValueError, match=re.escape(CASES["refused"][name])):
        parse_metric(name, ENCODERS)


def test_names_of_the_first_release():
    assert [
        *("wms", "sms", "s+wms", "cosine"),
        *("rouge1", "rouge2", "rouge4", "rougeL", "rougeLsum", "rougeW"),
        *("bertscore", "bleu", "chrf"),
        *("length", "repetition", "compression", "coverage", "density", "novelty", "lead3"),
    ] == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_metric_and_column_can_be_asked_for(name):
    metric = METRICS[name]
    assert all((metric.name == name, metric.summary, metric.higher_is, metric.columns))
    assert parse_metric(name, ENCODERS).columns == metric.columns
    for column in metric.columns:
        assert parse_metric(column, ENCODERS).columns == (column,)


def test_all_reads_every_encoder():
    for name, encoders in (
        ("cosine@all:source", ENCODERS),
        ("cosine@glove", ("glove",)),
        ("length", ()),
    ):
        request = parse_metric(name, ENCODERS)
        assert (request.encoders, request.is_average) == (encoders, "@all" in name)

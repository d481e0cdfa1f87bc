"""Names of metrics: what they mean, which columns they give, what is refused."""

from __future__ import annotations

import re

import pytest

from sms.metrics import METRICS, parse_metric

BUILT_IN = [name for name, metric in METRICS.items() if metric.reads_texts]
ENCODERS = ("minilm", "glove", "use-dan")

# name, metric, encoder, against, columns
NAMES = [
    ("sms", "sms", "minilm", "reference", ("sms",)),
    ("wms@glove", "wms", "glove", "reference", ("wms@glove",)),
    ("s+wms", "s+wms", "minilm", "reference", ("s+wms",)),
    ("s+wms@glove:source", "s+wms", "glove", "source", ("s+wms@glove:source",)),
    ("cosine:source", "cosine", "minilm", "source", ("cosine:source",)),
    ("cosine@use-dan:source", "cosine", "use-dan", "source", ("cosine@use-dan:source",)),
    ("cosine:reference", "cosine", "minilm", "reference", ("cosine:reference",)),
    ("cosine@all", "cosine", None, "reference", ("cosine@all",)),
    ("cosine@all:source", "cosine", None, "source", ("cosine@all:source",)),
    ("rougeL", "rougeL", None, "reference", ("rougeL_p", "rougeL_r", "rougeL_f")),
    ("rouge1_r", "rouge1", None, "reference", ("rouge1_r",)),
    ("rouge1_r:source", "rouge1", None, "source", ("rouge1_r:source",)),
    (
        "rougeL:source",
        "rougeL",
        None,
        "source",
        ("rougeL_p:source", "rougeL_r:source", "rougeL_f:source"),
    ),
    ("rougeLsum_f", "rougeLsum", None, "reference", ("rougeLsum_f",)),
    ("length", "length", None, None, ("length",)),
    ("novelty", "novelty", None, "source", ("novelty",)),
    ("lead3", "lead3", None, "source", ("lead3",)),
]

# name, message
REFUSED = [
    ("smss", "unknown metric 'smss'; did you mean `sms`?"),
    ("rouge", "unknown metric 'rouge'; there are rouge1, rouge2, rougeL and more"),
    ("rouge-l", "unknown metric 'rouge-l'; did you mean `rouge"),
    ("rougel", "unknown metric 'rougel'; did you mean `rougeL`?"),
    ("rougeL_fmeasure", "unknown metric 'rougeL_fmeasure'; did you mean `rougeL"),
    ("cosin:source", "unknown metric 'cosin:source'; did you mean `cosine`?"),
    ("wsm@glove", "unknown metric 'wsm@glove'; did you mean `wms`?"),
    ("bertscore_xyz", "unknown metric 'bertscore_xyz'"),
    ("qqqq", "unknown metric 'qqqq'; see `assay metrics`"),
    ("", "unknown metric ''; see `assay metrics`"),
    ("@glove", "unknown metric '@glove'; see `assay metrics`"),
    ("SMS", "unknown metric 'SMS'; did you mean `sms`?"),
    ("rouge1@glove", "metric 'rouge1@glove' takes no encoder; write `rouge1`"),
    ("length@glove", "metric 'length@glove' takes no encoder; write `length`"),
    (
        "wms@glovee",
        "metric 'wms@glovee' names no encoder of this run; there are minilm, glove, use-dan",
    ),
    ("wms@", "metric 'wms@' names no encoder of this run"),
    ("sms@all", "metric 'sms@all' must name one encoder; only `cosine@all` averages them"),
    ("rouge1@all", "metric 'rouge1@all' takes no encoder; write `rouge1`"),
    ("sms:document", "metric 'sms:document' must end in :reference or :source"),
    ("sms:", "metric 'sms:' must end in :reference or :source"),
    ("sms:source:source", "metric 'sms:source:source' must end in :reference or :source"),
    ("sms:source@glove", "metric 'sms:source@glove' must end in :reference or :source"),
    ("length:source", "metric 'length:source' takes no `:source`"),
    ("novelty:reference", "metric 'novelty:reference' takes no `:reference`"),
]


@pytest.mark.parametrize(("name", "metric", "encoder", "against", "columns"), NAMES)
def test_name_is_read(name, metric, encoder, against, columns):
    request = parse_metric(name, ENCODERS)
    assert request.metric is METRICS[metric]
    assert request.encoder == encoder
    assert request.against == against
    assert request.columns == columns


@pytest.mark.parametrize(("name", "message"), REFUSED)
def test_wrong_name_rejected(name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_metric(name, ENCODERS)


def test_names_of_the_first_release():
    assert [
        *("wms", "sms", "s+wms", "cosine"),
        *("rouge1", "rouge2", "rouge4", "rougeL", "rougeLsum", "rougeW"),
        *("bertscore", "bleu", "chrf"),
        *("length", "repetition", "compression", "coverage", "density", "novelty", "lead3"),
    ] == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_metric_explains_itself(name):
    metric = METRICS[name]
    assert metric.name == name
    assert metric.summary
    assert metric.higher_is
    assert metric.columns


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_metric_and_column_can_be_asked_for(name):
    assert parse_metric(name, ENCODERS).columns == METRICS[name].columns
    for column in METRICS[name].columns:
        assert parse_metric(column, ENCODERS).columns == (column,)


def test_all_reads_every_encoder():
    request = parse_metric("cosine@all:source", ENCODERS)
    assert (request.encoders, request.is_average) == (ENCODERS, True)
    request = parse_metric("cosine@glove", ENCODERS)
    assert (request.encoders, request.is_average) == (("glove",), False)
    assert parse_metric("length", ENCODERS).encoders == ()


def test_first_encoder_is_the_default():
    assert parse_metric("sms", ["glove", "minilm"]).encoder == "glove"

"""What a configuration and a scorer refuse, and what a caller may ask of them."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from sms import metrics
from sms.encoders import registry
from sms.encoders.bert import minilm_folder
from sms.metrics import METRICS, parse_metric
from sms.scoring import ScoringConfig, SummaryScorer, score_texts
from tests.sms.cases import cases
from tests.sms.scoring_cases import ALL_SIDES, GOOD, REFERENCE, random_rows

CASES = cases("config")

# What is refused

SENTENCES_ONLY = {"st": "st:org/model", "use": "use:folder", "infersent": "infersent:i,vectors=v"}


@pytest.mark.parametrize(("options", "message"), CASES["values"])
def test_wrong_option_rejected(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ScoringConfig(**options)


@pytest.mark.parametrize("alias", SENTENCES_ONLY)
@pytest.mark.parametrize("metric", ["wms", "s+wms", "wms@x", "s+wms:source"])
def test_words_of_a_sentence_encoder_rejected(metric, alias):
    message = (
        f"metric {metric!r} needs word vectors, but `{alias}` has none; encoders with word "
        "vectors are minilm, hf:PATH_OR_ID, glove:PATH, word2vec:PATH, fasttext:PATH, "
        "elmo:PATH_OR_URL; metrics without them are sms, cosine, rougeL_f and others"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        ScoringConfig(metrics=("sms", "cosine", metric), encoders={"x": SENTENCES_ONLY[alias]})


@pytest.mark.parametrize(
    ("sides", "options", "kind", "message"),
    [
        ({}, {"metrics": ("sms",)}, ValueError, "`references` must be given for sms"),
        ({}, {"metrics": ("sms:source",)}, ValueError, "`sources` must be given for sms:source"),
        ({}, {"metrics": ("novelty",)}, ValueError, "`sources` must be given for novelty"),
        ({"references": [REFERENCE] * 2}, {}, ValueError, "must be equally many, got 2 and 1"),
        ({"sources": [REFERENCE] * 2}, {}, ValueError, "must be equally many, got 2 and 1"),
        ({"candidates": "a"}, {}, TypeError, "`candidates` must be a list of texts, got one text"),
        ({"references": "a"}, {}, TypeError, "`references` must be a list of texts, got one text"),
        ({"references": [REFERENCE]}, {"encoder": "minilm"}, TypeError, "encoder"),
    ],
)
def test_wrong_texts_rejected(sides, options, kind, message):
    with pytest.raises(kind, match=message):
        score_texts(**({"candidates": [GOOD]} | sides), **({"metrics": ("rougeL",)} | options))


# What a caller may ask


def test_columns_and_inputs(glove):
    config = ScoringConfig(
        metrics=("sms@glove", "rouge1", "rougeL_f:source", "length"),
        encoders={"minilm": "minilm"} | glove,
    )
    scorer = SummaryScorer(config)
    assert scorer.score_fields == (
        *("sms@glove", "rouge1_p", "rouge1_r", "rouge1_f"),
        *("rougeL_f:source", "length", "known_words@glove"),
    )
    assert scorer.input_columns == ("candidate", "references", "sources")
    assert ScoringConfig(metrics=("length",)).input_columns == ("candidate",)
    assert ScoringConfig(metrics=("novelty",)).input_columns == ("candidate", "sources")


def test_vectors_and_models_under_home_are_found(glove, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    vectors = glove["glove"].removeprefix("glove:")
    (tmp_path / "small.txt").symlink_to(vectors)
    (tmp_path / "m").symlink_to(minilm_folder())
    models = {"m": {"path": str(minilm_folder()), "layer": 1, "idf": vectors}}
    home = {"m": {"path": "~/m", "layer": 1, "idf": "~/small.txt"}}
    (row,), (same,) = (
        score_texts(
            [GOOD], [REFERENCE], metrics=("sms", "bertscore_f@m"), models=models, encoders={"g": g}
        ).to_pylist()
        for models, g in ((models, f"glove:{vectors}"), (home, "glove:~/small.txt"))
    )
    assert same == row
    assert row["status"] is None


def test_emptied_vocabulary_changes_no_bit(glove, monkeypatch):
    config = ScoringConfig(metrics=ALL_SIDES, encoders=glove)
    batches = [random_rows(10, seed=seed) for seed in (14, 15, 14)]
    whole = SummaryScorer(config)
    expected = [whole.score(batch).to_pylist() for batch in batches]
    monkeypatch.setattr("sms.text.MAX_CHUNKS", 5)
    small = SummaryScorer(config)
    first = small.prepare(batches[0])
    second = small.prepare(batches[1])  # empties the table while the first waits
    assert small.compare(first).to_pylist() == expected[0]
    assert small.compare(second).to_pylist() == expected[1]
    assert small.score(batches[2]).to_pylist() == expected[2]


def test_configuration_as_values(glove):
    (spec,) = glove.values()
    config = ScoringConfig(metrics=("sms",), encoders={"glove": f"{spec},pooling=mean"})
    said = config.as_dict()
    assert said["encoders"] == glove  # however the specification is written
    assert ScoringConfig(**said).columns == config.columns
    assert ScoringConfig(precision="bf16").as_dict() != ScoringConfig().as_dict()


def test_a_metric_that_divides_by_zero_gives_null_and_a_status(monkeypatch):
    shares = np.array([0.5, np.inf, -np.inf, np.nan])
    density = replace(metrics.METRICS["density"], of_words=lambda *_: shares)
    monkeypatch.setitem(metrics.METRICS, "density", density)
    table = score_texts([GOOD] * 4, sources=[REFERENCE] * 4, metrics=("density", "length"))
    assert table["density"].to_pylist() == [0.5, None, None, None]
    assert table["status"].to_pylist() == [None, *["density:undefined"] * 3]


# Names of metrics


BUILT_IN = [name for name, metric in METRICS.items() if metric.reads_texts]
ENCODERS = ("minilm", "glove", "use-dan")
NAMES = cases("metrics")


@pytest.mark.parametrize("name", NAMES["read"])
def test_name_is_read(name):
    metric, encoder, against, columns = NAMES["read"][name]
    asked = parse_metric(name, ENCODERS)
    assert (asked.name, asked.written) == (metric, name)
    assert (asked.encoder or "", asked.against or "") == (encoder, against)
    assert list(asked.columns) == columns


@pytest.mark.parametrize("name", NAMES["refused"])
def test_wrong_name_rejected(name):
    with pytest.raises(ValueError, match=re.escape(NAMES["refused"][name])):
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


def test_configuration_is_read_in_no_process_where_its_names_mean_something_else(monkeypatch):
    config = ScoringConfig(metrics=("length", "density"))
    assert pickle.loads(pickle.dumps(config)) == config
    ours = METRICS["length"]
    monkeypatch.setitem(METRICS, "length", replace(ours, of_words=twice_as_long))
    sent = pickle.dumps(ScoringConfig(metrics=("length", "density")))
    assert pickle.loads(sent).replaced == ["length"]
    monkeypatch.setitem(METRICS, "length", ours)
    with pytest.raises(ValueError, match="`length` is defined differently here and in the program"):
        pickle.loads(sent)


def test_replaced_kinds_of_encoders_are_named(monkeypatch):
    config = ScoringConfig(metrics=("wms",), encoders="glove:v.txt")
    assert config.replaced == []
    kinds = registry.ENCODERS
    monkeypatch.setitem(kinds, "glove", replace(kinds["glove"], summary="another"))
    assert ScoringConfig(metrics=("wms",), encoders="glove:v.txt").replaced == ["glove"]


def twice_as_long(words, candidate):
    return 2.0 * words.lengths[candidate]

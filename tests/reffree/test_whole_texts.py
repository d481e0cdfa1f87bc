"""What a judge of somebody else must return, and what becomes of it."""

from __future__ import annotations

import numpy as np
import pytest

from reffree.whole_texts import Judged, WholeTextMetric
from sms.metric import Metric, split_name
from sms.metrics import METRICS, all_metrics
from sms.scoring import ScoringConfig, SummaryScorer, score_texts
from sms.settings import Settings

COLUMN = "mine@folder"


class Model:
    content_hash = ""

    def state(self):
        return {}


@pytest.fixture
def judged(monkeypatch):
    """Score some texts by a judge that returns this."""

    def score(returned, candidates=("a b", "c"), sources=("d", "e"), model=None, needs=("source",)):
        class Mine(WholeTextMetric):
            table = Settings

            def open(self, runtime):
                return model or Model()

            def judge(self, batch, pairs):
                return returned

        mine = Mine(name="mine", summary="mine", higher_is="better", needs=needs)
        monkeypatch.setitem(METRICS, "mine", mine)
        return score_texts(candidates, sources=sources, metrics=(COLUMN,))

    return score


def test_lists_will_do_and_what_is_no_number_is_undefined(judged):
    found = judged(Judged({COLUMN: [0.5, np.inf, np.nan]}), ("a", "b", "c"), ("d", "e", "f"))
    assert found[COLUMN].to_pylist() == [0.5, None, None]
    assert found["status"].to_pylist() == [None, *[f"{COLUMN}:undefined"] * 2]


def test_reasons_and_cuts_are_statuses(judged):
    told = Judged(
        {COLUMN: [np.nan, 1.0]}, {"source": [True, True]}, [(0, "candidate", "no_answer")]
    )
    assert judged(told)["status"].to_pylist() == [
        "candidate:no_answer@folder; source:cut@folder",
        "source:cut@folder",
    ]


def test_judge_is_not_asked_about_nothing(judged):
    found = judged(None, (None, "..."), ("d", "e"))
    assert found[COLUMN].to_pylist() == [None, None]
    assert found["status"].to_pylist() == ["candidate:null", "candidate:no_words"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            Judged({COLUMN: [1, 1]}, {}, [(2, "source", "x")]),
            "must give reasons of pairs from 0 to 1, got 2",
        ),
        (Judged({COLUMN: [0.5]}), r"must return scores for each of 2 pairs, got .* shape \(1,\)"),
        (Judged({"mine": [0.5, 1.0]}), "must return scores of mine@folder, got mine"),
        (Judged({COLUMN: [1, 1]}, {"source": [True]}), "must return what was cut for each of 2"),
        (
            Judged({COLUMN: [1, 1]}, {"reference": [True]}),
            "must name sides out of candidate, source",
        ),
        (
            Judged({COLUMN: [1, 1]}, {}, [(0, "document", "x")]),
            "must name sides out of .*, got docu",
        ),
    ],
)
def test_wrong_answers_name_the_metric(returned, message, judged):
    with pytest.raises(RuntimeError, match=f"the judge of metric 'mine@folder' {message}"):
        judged(returned)


def test_model_without_a_hash_is_refused(judged):
    with pytest.raises(
        TypeError, match=r"model of metric .mine@folder. must have a `content_hash`"
    ):
        judged(None, model=object())


def test_unknown_need_is_refused():
    with pytest.raises(ValueError, match=r"`needs` of metric m must be of reference, .*got 'refs'"):
        Metric(name="m", summary="", higher_is="", needs=("refs",))


def test_port_of_a_service_is_no_side():
    assert split_name("m@http://127.0.0.1:8765", ())[2:] == ("http://127.0.0.1:8765", "")
    assert split_name("m@http://host:8765:source", ("source",))[2:] == (
        "http://host:8765",
        "source",
    )


def test_package_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken-1.dist-info").mkdir()
    (tmp_path / "broken-1.dist-info" / "METADATA").write_text("Name: broken\nVersion: 1\n")
    points = "[assay.metrics]\nany = not_there\n"
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"package broken registers `not_there` in `assay.metr"):
        all_metrics()
    assert SummaryScorer(ScoringConfig(metrics=("length",)))  # whoever asks for ours can go on

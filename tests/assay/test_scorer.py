"""A scorer that is held: the scores of a run, in loops, threads, forks, pickles and pipelines."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import assay
from assay import _scorer
from sms.metrics import METRICS
from sms.scoring import SummaryScorer

FAMILIES = ["s+wms", "cosine", "rougeL_f", "length", "sms:source", "reffree@news"]
GOOD, LONG = "The bridge is closed. Cars use the ring road.", "A storm damaged the pier. " * 40
ODD_ROWS = [
    {"candidate": GOOD, "references": ["The bridge closes."], "source": LONG},
    {"candidate": None, "references": ["The bridge closes."], "source": LONG},
    {"candidate": " \n", "references": ["A.", None, "Cars use it."], "source": GOOD},
    {"candidate": "... !", "references": [], "source": GOOD},
    {"candidate": "A cat \ud83d", "references": ["A cat."], "source": GOOD},
    {"candidate": GOOD, "references": None, "source": None},
    {"candidate": GOOD, "references": ["A cat \ud83d"], "source": GOOD},
    {"candidate": LONG, "references": [LONG, GOOD], "source": "A storm damaged the pier."},
    {"candidate": GOOD, "references": [""], "source": ""},
]
TEXTS = [f"The cat number {k} sat on {k % 7} mats. It rained." for k in range(30)]


@pytest.fixture(scope="module")
def scorer():
    return assay.Scorer(metrics=["sms", "rougeL_f"], device="cpu")


def scores_in(rows, columns):
    return [[row[name] for name in columns] for row in rows]


@pytest.mark.parametrize("rows", [ODD_ROWS, [row | {"source": [GOOD]} for row in ODD_ROWS[:3]]])
def test_scores_and_statuses_are_those_of_a_run_bit_by_bit(rows, tmp_path):
    run = assay.score(rows, metrics=FAMILIES, out=tmp_path / "out").to_arrow()
    expected = run.to_pylist()
    with assay.Scorer(metrics=FAMILIES) as held:
        columns = [*held.signatures, "status"]
        assert scores_in(held(rows), columns) == scores_in(expected, columns)
        for row, one in zip(rows, expected, strict=True):  # and each alone
            assert scores_in(held([row]), columns) == scores_in([one], columns)
    assert scores_in(assay.score(rows, metrics=FAMILIES), columns) == scores_in(expected, columns)
    assert len({row["status"] for row in expected}) > 1 or rows is not ODD_ROWS


def test_several_batches_are_scored_as_one(monkeypatch):
    rows = [{"candidate": text, "reference": TEXTS[0]} for text in [*TEXTS, None]]
    held = assay.Scorer(metrics=["rouge1_f", "length"], threads=2)
    expected = held(rows)
    monkeypatch.setattr("sms.config.BATCH_ROWS", 7)
    assert held(rows) == expected


TABLES = {
    "numpy": lambda rows: {name: np.array(cells, object) for name, cells in rows.items()},
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "arrow-batch": pa.RecordBatch.from_pydict,
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_batch_of_any_kind_comes_back_as_it_was_given(kind):
    held = assay.Scorer(metrics=["rouge1_f"])
    texts = {"candidate": ["A cat.", None], "reference": ["A cat.", "A dog."]}
    data = TABLES[kind](texts)
    found = held(data)
    assert type(found) is type(data)
    assert list(pd.Series(found["rouge1_f"]).fillna(-1)) == [1.0, -1.0]
    assert list(pd.Series(found["status"]).fillna("fine")) == ["fine", "candidate:null"]
    new = held.columns(data)
    np.testing.assert_array_equal(new["rouge1_f"], [1.0, np.nan])
    assert new["status"].tolist() == ["", "candidate:null"]
    if kind == "numpy":
        assert found["rouge1_f"].dtype == np.float64
        assert found["candidate"] is data["candidate"]


def test_a_batch_without_a_text_as_ray_and_pandas_write_it():
    nothing = np.full(2, np.nan, np.float32)
    for data in ({"candidate": nothing}, pd.DataFrame({"candidate": nothing})):
        assert list(LENGTH(data)["status"]) == ["candidate:null"] * 2


def test_lists_of_texts():
    held = assay.Scorer(metrics=["rouge1_r", "rouge1_p:source"])
    [row] = held.score(["A cat."], references=[["A dog.", "A cat."]], sources=["The cat sat."])
    assert (row["rouge1_r"], row["rouge1_p:source"], row["status"]) == (1.0, 0.5, None)
    assert (row["candidate"], row["sources"]) == ("A cat.", "The cat sat.")
    given = assay.Scorer(metrics="rouge1_f", sentences="given")
    assert given.score([["A cat.", "It sat."]], references=[[["A cat."], ["It sat."]]])
    assert held.score([], references=[], sources=[]) == held([]) == []


def test_columns_may_have_any_name():
    table = pl.DataFrame({"summary": ["Dogs run."], "a": ["A dog ran."], "b": ["Dogs run."]})
    held = assay.Scorer(metrics="rouge1_f", candidate="summary", reference=["a", "b"])
    assert held(table)["rouge1_f"].to_list() == [1.0]
    again = assay.Scorer(metrics="rouge1_f", columns={"candidate": "summary", "reference": "a"})
    assert again(table)["rouge1_f"].to_list() == [0.0]


LENGTH = assay.Scorer(metrics="length")
WRONG = [
    (lambda: assay.Scorer(metric="sms"), r"Scorer\(\) has no argument `metric`; did you mean `met"),
    (lambda: assay.Scorer(metrics="smss"), "unknown metric 'smss'; did you mean `sms`"),
    (lambda: assay.Scorer(threads=0), "`threads` must be a whole number from 1, got 0"),
    (lambda: assay.Scorer(metrics="wms", encoders="glove:no"), "no"),
    (lambda: LENGTH("a.csv"), "`data` must be rows, got 'a.csv'; for lists of texts use"),
    (lambda: LENGTH(["a", "b"]), r"for lists of texts use `.score\(texts\)`, for files `assay.sc"),
    (lambda: LENGTH([{}]), "`data` has no column `candidate`, only none; name the right one"),
    (lambda: LENGTH.score("a"), "`candidate` must be a list of texts, got 'a'"),
    (lambda: LENGTH.score([1]), "`candidate` in `data` must be text, got int64"),
    (lambda: assay.Scorer(metrics="rouge1_f").score(["a"]), "`data` has no column `reference`"),
    (
        lambda: assay.Scorer(metrics="rouge1_f").score(["a"], references=["a", "b"]),
        "`references` must have a text for each of 1 candidates, got 2",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_answered_in_one_line(call, message):
    with pytest.raises((ValueError, TypeError, OSError), match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# Loaded once, and again


@pytest.fixture
def loads(monkeypatch):
    """The scorers that were loaded."""
    made = []
    load = SummaryScorer.__init__

    def counted(self, *given, **named):
        load(self, *given, **named)
        made.append(weakref.ref(self))

    monkeypatch.setattr(SummaryScorer, "__init__", counted)
    monkeypatch.setattr(_scorer, "_warm", [])
    return made


def test_models_are_loaded_once_and_freed(loads, monkeypatch):
    gc.collect()  # scorers of other tests, which would be freed, and counted, in this one
    emptied = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    held = assay.Scorer(metrics="sms", device="cpu")
    expected = held.score(["A cat."], references=["A dog."])
    assert held.score(["A cat."], references=["A dog."]) == expected
    assert [one() is None for one in loads] == [False]
    with held:
        pass
    assert ([one() for one in loads], len(emptied)) == ([None], 1)
    assert held.score(["A cat."], references=["A dog."]) == expected
    assert [one() is None for one in loads] == [True, False]
    del held
    assert ([one() for one in loads], len(emptied)) == ([None, None], 2)


def test_pickle_is_small_and_finds_its_files_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "v.txt").write_text("cat 1 2\ndog 2 1\n")
    monkeypatch.chdir(tmp_path)
    held = assay.Scorer(metrics=["wms", "rouge1_f"], encoders="glove:v.txt", candidate="c")
    rows = [{"c": "A cat.", "reference": "A dog."}]
    pickled = pickle.dumps(held)
    assert len(pickled) < 10_000
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(pickled)
    assert again(rows) == held(rows)
    assert again.signatures == held.signatures


def test_after_a_failure_the_scorer_is_loaded_again(loads, monkeypatch):
    held = assay.Scorer(metrics="rouge1_f")
    rows = [{"candidate": "A cat.", "reference": "A cat."}]
    with monkeypatch.context() as patch:
        patch.setattr(SummaryScorer, "compare", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            held(rows)
    assert held(rows)[0]["rouge1_f"] == 1.0
    assert len(loads) == 2


def test_threads_take_turns(scorer):
    halves = [([text], [text[:20]]) for text in TEXTS]
    expected = [scorer.score(texts, references=others) for texts, others in halves]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda half: scorer.score(half[0], references=half[1]), halves * 2)
        assert list(found) == expected * 2


FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@FORK
def test_fork_while_another_thread_computes(scorer):
    """Its locks are held by a thread that the child does not have."""
    expected = scorer.score(TEXTS[:3], references=TEXTS[3:6])
    inside, done = threading.Event(), threading.Event()

    def compute():
        with scorer._held.in_use():
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=compute)
    thread.start()
    inside.wait(60)
    try:
        assert in_fork(lambda: scorer.score(TEXTS[:3], references=TEXTS[3:6])) == expected
    finally:
        done.set()
        thread.join()
    assert scorer.score(TEXTS[:3], references=TEXTS[3:6]) == expected


def in_fork(call):
    """Return what a call returns in a forked process, which is ended if it hangs."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads, which are what is tested
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os.write(write, pickle.dumps(call()))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer) if answer else "nothing"


# What `assay.score` keeps warm

ROWS = [{"candidate": "A cat.", "reference": "A cat."}]


def test_score_keeps_one_warm_for_equal_settings(loads):
    for _ in range(3):
        assert assay.score(ROWS, metrics="rouge1_f")[0]["rouge1_f"] == 1.0
    renamed = pa.Table.from_pylist(ROWS).rename_columns(["a", "b"])
    assay.score(renamed, metrics=["rouge1_f"], candidate="a", reference="b")
    assert len(loads) == 1
    assay.score(ROWS, metrics="rouge1_r")
    assert [one() is None for one in loads] == [True, False]


def test_warm_scorer_notices_new_files_and_new_metrics(loads, tmp_path, monkeypatch):
    vectors = tmp_path / "v.txt"
    options = {"metrics": "wms", "encoders": f"glove:{vectors}"}
    rows = [{"candidate": "A cat.", "reference": "A dog."}]
    vectors.write_text("cat 1 2\ndog 2 1\n")
    first = assay.score(rows, **options)[0]["wms"]
    vectors.write_text("cat 1 2\ndog 1 2.5\n")
    assert assay.score(rows, **options)[0]["wms"] > first
    monkeypatch.setitem(METRICS, "length", replace(METRICS["length"], of_words=twice_as_long))
    assay.score(rows, metrics="length")
    monkeypatch.setitem(METRICS, "length", replace(METRICS["length"], of_words=three_times))
    assert assay.score(rows, metrics="length")[0]["length"] == 6.0


def twice_as_long(words, candidate):
    return 2.0 * words.lengths[candidate]


def three_times(words, candidate):
    return 3.0 * words.lengths[candidate]


_written: list[str] = []
_is_watched = threading.Event()


def note_writing(event, given):
    """Note every file that is opened for writing, and every folder that is made."""
    if _is_watched.is_set() and (
        event == "os.mkdir" or (event == "open" and given[2] & (os.O_WRONLY | os.O_RDWR))
    ):
        _written.append(str(given[0]))


def test_rows_in_memory_touch_no_disk(tmp_path):
    sys.addaudithook(note_writing)
    assay.score(ODD_ROWS, metrics=["sms", "rougeL_f"])  # may compile a kernel
    _is_watched.set()
    try:
        (tmp_path / "seen").write_text("")
        assay.score(ODD_ROWS, metrics=["sms", "rougeL_f"])
        assay.score(ODD_ROWS, metrics=["cosine", "length"])
    finally:
        _is_watched.clear()
    assert _written == [str(tmp_path / "seen")]


def test_run_of_a_file_has_the_same_scores(scorer, tmp_path):
    rows = [{"candidate": a, "reference": b} for a, b in pairwise(TEXTS)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    metrics = ["sms", "rougeL_f"]
    run = assay.score(tmp_path / "c.parquet", out=tmp_path / "out", metrics=metrics, device="cpu")
    found = scorer(pa.Table.from_pylist(rows))
    for name in (*metrics, "known_words@minilm", "status"):
        assert found[name].to_pylist() == run.to_arrow()[name].to_pylist()
    assert scorer.signatures == run.signatures


def test_a_cell_of_another_kind_makes_its_row_alone_unreadable():
    rows = [
        {"candidate": "A cat sat.", "reference": "A cat sat."},
        {"candidate": 5, "reference": "A cat."},
        {"candidate": "A cat.", "reference": ["A dog.", "A cat."]},
        {"candidate": float("nan"), "reference": "A cat."},
        {"candidate": "A cat.", "reference": {"text": "A cat."}},
    ]
    table = assay.Scorer(metrics="rouge1_f")(rows)
    assert [row["rouge1_f"] for row in table] == [1.0, None, 1.0, None, None]
    assert [row["status"] for row in table] == [
        None,
        "unreadable: `candidate` must be text, got int",
        None,
        "candidate:null",
        "unreadable: `references` must be text or a list of text, got dict",
    ]


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"candidate": ["A.", 1]}, dtype=object),
        ["A.", {"text": "A."}],
        {"candidate": ["A.", ["A."]]},
    ],
    ids=["pandas", "list", "dict"],
)
def test_a_table_of_cells_of_several_kinds_is_scored(data):
    scored = assay.score(data, metrics="length")
    rows = scored.to_dict("records") if isinstance(scored, pd.DataFrame) else scored
    statuses = rows["status"] if isinstance(rows, dict) else [row["status"] for row in rows]
    assert statuses[1].startswith("unreadable: `candidate` must be text, got ")

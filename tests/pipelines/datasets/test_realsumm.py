"""RealSumm's pickles: what they say, and that nothing in them is ever run."""

import io
import os
import pickle
import struct
import tracemalloc

import numpy as np
import pytest

from pipelines.datasets.realsumm import load_plain

from .conftest import tar_of

SCORES = {"rouge_1_recall": 0.25, "js-2": -0.5, "litepyramid_recall": 0.7}


def summary(text, **scores):
    return {"system_summary": text, "scores": SCORES | scores, "model_name": "x"}


def documents():
    """Build what the authors' files hold; BERTScore is a NumPy float32 in them."""
    systems = {
        "bart_out.txt": summary("<t> a ship sank . </t> <t> nine saved </t>"),
        "t5_out_base.txt": summary("<t> tug </t>", js_2=1, bert_f_score=np.float32(0.375)),
    }
    return {
        52: {"doc_id": 52, "ref_summ": "<t> a tug saved nine . </t>", "system_summaries": systems}
    }


def test_realsumm_by_hand(importing, write):
    path = write("scores_dicts/abs.pkl", pickle.dumps(documents(), protocol=3))
    found = importing("realsumm", path, ratings=True, scores=True)
    assert found.corpus.rows() == [
        ("52", "bart_out", "a ship sank .\nnine saved", ["a tug saved nine ."], None),
        ("52", "t5_out_base", "tug", ["a tug saved nine ."], None),
    ]
    assert found.ratings.rows() == [("52", "bart_out", 0.7), ("52", "t5_out_base", 0.7)]
    assert found.scores.columns[2:] == ["rouge_1_recall", "js-2", "js_2", "bert_f_score"]
    assert found.scores.rows() == [
        ("52", "bart_out", 0.25, -0.5, None, None),
        ("52", "t5_out_base", 0.25, -0.5, 1.0, 0.375),
    ]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_are_what_pickle_makes_of_them(protocol):
    value = {"a": [1, 2.5, None, True, "text", b"x"], "b": (np.float64(0.1), np.int64(-3))}
    data = pickle.dumps(value, protocol=protocol)
    if protocol < 3:
        with pytest.raises(ValueError, match=r"asks for `_codecs.encode`"):
            load_plain(io.BytesIO(data), "x.pkl")
    else:
        assert load_plain(io.BytesIO(data), "x.pkl") == pickle.loads(data)


class _MakesFolder:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickle_that_runs_a_program_rejected(refused, write, tmp_path):
    target = tmp_path / "made by the pickle"
    data = pickle.dumps({52: _MakesFolder(target)}, protocol=3)
    said = refused("realsumm", write("abs.pkl", data))
    assert f"asks for `{os.mkdir.__module__}.mkdir`, which could run a program" in said
    assert not target.exists()


@pytest.mark.parametrize("asked", ["builtins eval", "builtins getattr", "numpy load", "os system"])
def test_any_function_or_class_rejected(asked):
    module, name = asked.split()
    with pytest.raises(ValueError, match=f"x.pkl asks for `{module}.{name}`"):
        load_plain(io.BytesIO(f"c{module}\n{name}\n.".encode()), "x.pkl")


def test_array_of_objects_rejected():
    data = pickle.dumps(np.dtype(object), protocol=3)
    with pytest.raises(ValueError, match=r"asks for `numpy.dtype\('O8'\)`"):
        load_plain(io.BytesIO(data), "x.pkl")


def test_big_endian_numbers_rejected():
    data = pickle.dumps(np.dtype(">f4").type(1), protocol=3).replace(b"<", b">")
    with pytest.raises(ValueError, match="byte order '>'"):
        load_plain(io.BytesIO(data), "x.pkl")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not a pickle", id="text"),
        pytest.param(pickle.dumps(documents(), protocol=3)[:-40], id="cut"),
        pytest.param(b"\x80\x03cnumpy\nscalar\n)R.", id="too few arguments"),
        pytest.param(b"\x80\x03h\x05.", id="memory never filled"),
        pytest.param(b"\x80\x03\x82\x01.", id="extension"),
        pytest.param(b"\x80\x04Pid\n.", id="persistent id"),
    ],
)
def test_damaged_pickle_rejected(data):
    with pytest.raises(ValueError, match=r"x.pkl is not a pickle that can be read"):
        load_plain(io.BytesIO(data), "x.pkl")


@pytest.mark.parametrize("number", [b"r\xff\xff\xff\x7f", b"p4000000000\n"])
def test_damage_that_asks_for_all_memory_rejected(number):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="it remembers a value under"):
            load_plain(io.BytesIO(b"\x80\x03}" + number + b"."), "x.pkl")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("at", [0.3, 0.7])
def test_pickle_in_a_damaged_archive_rejected(refused, write, at):
    rng = np.random.default_rng(0)
    data = documents()
    data[52]["ref_summ"] = rng.bytes(2_000_000).hex()
    packed = bytearray(tar_of({"abs.pkl": pickle.dumps(data, protocol=3)}))
    for i in range(int(len(packed) * at), int(len(packed) * at) + 40):
        packed[i] ^= 0xFF
    assert "scores.tgz" in refused("realsumm", write("scores.tgz", bytes(packed)))


def test_number_of_another_size_rejected():
    data = pickle.dumps(np.float32(1), protocol=3)
    longer = data.replace(b"C\x04" + struct.pack("<f", 1), b"C\x08" + struct.pack("<d", 1))
    assert longer != data
    with pytest.raises(ValueError, match="not a pickle that can be read"):
        load_plain(io.BytesIO(longer), "x.pkl")


@pytest.mark.parametrize("systems", [{1: summary("a")}, {"x": {**summary("a"), "scores": {2: 1}}}])
def test_name_that_is_no_text_rejected(refused, write, systems):
    data = {52: {"doc_id": 52, "ref_summ": "r", "system_summaries": systems}}
    said = refused("realsumm", write("abs.pkl", pickle.dumps(data, protocol=3)))
    assert "abs.pkl, document 52 must have names, got " in said


def test_pickle_without_documents_rejected(refused, write):
    said = refused("realsumm", write("abs.pkl", pickle.dumps({52: "text"}, protocol=3)))
    assert "`doc_id` in " in said
    assert "document 52 must be an id, got nothing" in said

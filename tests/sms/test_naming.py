"""Names and words as users write them."""

from __future__ import annotations

from pathlib import Path

from sms.naming import counted, is_precision_or_recall, natural, nearest, several, user_path
from sms.options import models_of
from sms.reward import weights_of, written
from sms.signature import without_content
from sms.text import folded


def test_names_by_hand():
    names = ("rouge1_p", "run/rougeL_r:source", "rougeL_f")
    assert [is_precision_or_recall(name) for name in names] == [True, True, False]
    assert several("sms") == ["sms"]
    assert several(Path("a.csv")) == ["a.csv"]
    assert several(["a.csv", Path("b.csv")]) == ["a.csv", "b.csv"]
    assert nearest("poling", ["pooling", "layers"]) == "did you mean `pooling`?"
    assert nearest("x", ["pooling", "layers"]) == "there are pooling, layers"
    assert counted(1, "system") == "1 system"
    assert counted(1200, "document") == "1,200 documents"
    assert counted(2, "entry", "entries") == "2 entries"
    assert sorted(["M10", "M2", "M1"], key=natural) == ["M1", "M2", "M10"]
    assert [folded(word) for word in ("CAFÉ", "Straße")] == ["café", "strasse"]


def test_sums_models_and_signatures_by_hand():
    weights = weights_of("s+wms + .5*rougeL_f - repetition")
    assert weights == {"s+wms": 1.0, "rougeL_f": 0.5, "repetition": -1.0}
    assert written(weights) == "s+wms + 0.5*rougeL_f - repetition"
    assert models_of({"lm": "models/smollm2"}) == {"lm": {"path": "models/smollm2"}}
    signature = "sms|enc:glove-news-3x2|oov:drop|hash:0123456789ab|ref:best|v:1"
    assert without_content(signature) == "sms|enc:glove-news-3x2|oov:drop|ref:best|v:1"
    commit = "0123456789" * 4
    assert without_content(f"reffree|weights:0a|v:1|hf:me/x@{commit}") == "reffree|v:1|hf:me/x"
    assert without_content(f"reffree|v:1|hf:me/x@{commit}|first:9") == "reffree|v:1|hf:me/x|first:9"


def test_home_is_written_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    for given, meant in {
        "~": "/home/ann",
        "~/run": "/home/ann/run",
        "~root/v.txt": f"{Path('~root').expanduser()}/v.txt",
        "~nobody-of-this-name/v.txt": "~nobody-of-this-name/v.txt",
        "./~/v.txt": "./~/v.txt",
        "a/~/b~": "a/~/b~",
        "": "",
        "s3://~/v.txt": "s3://~/v.txt",
    }.items():
        assert user_path(given) == meant
    assert user_path(Path("~/run")) == "/home/ann/run"

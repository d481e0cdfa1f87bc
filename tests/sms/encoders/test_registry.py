"""Specifications of encoders: how they are read and written, what is refused, what is called."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re

import pytest

from sms.encoders import DEVICES, PRECISIONS, EncoderRuntime
from sms.encoders.registry import ENCODERS, EncoderSpec, load_encoder, parse_spec
from sms.settings import settings_of

MEAN, LAST = {"pooling": "mean"}, {"layers": "last", "pooling": "mean"}
# specification, kind, path, all options, how it is written if not like this
SPECS = [
    ("minilm", "minilm", "", LAST, None),
    ("glove:v.txt,pooling=mean", "glove", "v.txt", MEAN, "glove:v.txt"),
    ("word2vec:C:\\v,1.bin,pooling=max", "word2vec", "C:\\v,1.bin", {"pooling": "max"}, None),
    (
        "hf:org/model,pooling=cls,layers=concat:-2,-1",
        "hf",
        "org/model",
        {"layers": "concat:-2,-1", "pooling": "cls"},
        "hf:org/model,layers=concat:-2,-1,pooling=cls",
    ),
    ("st:org/model", "st", "org/model", {}, None),
    ("use:https://host/use/4?a=b", "use", "https://host/use/4?a=b", {"unit": "sentence"}, None),
    ("elmo:e,layers=concat", "elmo", "e", MEAN | {"layers": "concat"}, None),
    (
        "infersent:i.pkl,vectors=a,b.txt,version=2",
        "infersent",
        "i.pkl",
        {"vectors": "a,b.txt", "version": "2"},
        None,
    ),
]

# specification, what is said
REFUSED = [
    ("globe:v.txt", "unknown encoder 'globe'; did you mean `glove:PATH`?"),
    ("org/roberta-large", "for a model of the transformers library write hf:org/roberta-large"),
    ("", "unknown encoder ''; see `assay encoders`"),
    ("glove:,pooling=max", "encoder `glove` must be written `glove:PATH`, got no path"),
    ("minilm:x", "encoder `minilm` must be written `minilm`, got the path 'x'"),
    ("glove:v,poling=max", "encoder `glove` has no option `poling`; did you mean `pooling`?"),
    ("st:m,pooling=max", "encoder `st` has no option `pooling`; there are none"),
    ("glove:v,pooling=cls", "`pooling` of encoder `glove` must be one of mean, max, got 'cls'"),
    ("glove:v,pooling=maxi", "got 'maxi'; did you mean `max`?"),
    ("glove:v,pooling=", "`pooling` of encoder `glove` must be a value, got ''"),
    ("glove:v,pooling=max,pooling=mean", "must not give an option twice"),
    ("hf:m,layers=mean:-4", "`layers` of encoder `hf` must be one of last, first, all, mean:I..J"),
    ("infersent:i", "encoder `infersent` needs its option `vectors`, the path of its word vec"),
]


@pytest.mark.parametrize(("text", "kind", "path", "values", "written"), SPECS)
def test_specification_is_read(text, kind, path, values, written):
    spec = parse_spec(text)
    assert (spec.kind.kind, spec.path, spec.values) == (kind, path, values)
    assert str(spec) == (written or text)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_paths_from_home_are_written_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    for kind in ("glove", "word2vec", "fasttext", "hf", "st", "use", "elmo"):
        assert parse_spec(f"{kind}:~/v").path == "/home/ann/v"
    spec = parse_spec("infersent:~/i.pkl,vectors=~/v.txt")
    assert str(spec) == "infersent:/home/ann/i.pkl,vectors=/home/ann/v.txt"
    assert parse_spec("use:https://host/~ann/use").path == "https://host/~ann/use"


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_wrong_specification_rejected(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        parse_spec(text)
    assert len(str(refusal.value).splitlines()) == 1
    with pytest.raises(ValueError, match="must not hold a comma followed by NAME="):
        EncoderSpec(ENCODERS["glove"], "a,b=c.txt")


@pytest.mark.parametrize("kind", ENCODERS.values(), ids=ENCODERS)
def test_loader_takes_a_path_a_runtime_and_the_options(kind):
    module, _, name = kind.loader.partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    assert list(parameters) == [
        "path",
        "runtime",
        *(setting.name for setting in settings_of(kind.options)),
    ]


def test_loader_gets_options_and_runtime(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("cat 1 2\n", encoding="utf-8")
    encoder = load_encoder(f"glove:{path},pooling=max", EncoderRuntime(zero_unknown=True))
    assert encoder.signature == "glove-v-1x2|pool:max|oov:zero"
    assert load_encoder(parse_spec(f"glove:{path}")).signature == "glove-v-1x2|pool:mean|oov:drop"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"precision": "fp8"}, f"`precision` must be one of {', '.join(PRECISIONS)}, got 'fp8'"),
        ({"device": "tpu"}, f"`device` must be one of {', '.join(DEVICES)}, got 'tpu'"),
        ({"threads": 0}, "`threads` must be at least 1, got 0"),
    ],
)
def test_wrong_runtime_rejected(setting, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        EncoderRuntime(**setting)

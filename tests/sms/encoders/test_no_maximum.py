"""Models that read texts of any length, such as XLNet, by every way in which a model is opened.

Libraries say it in several ways: nothing, None, 0, -1 or an enormous number.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer

import assay
from sms.encoders.bert import minilm_folder
from sms.encoders.pretrained import NO_LIMIT, most_tokens
from sms.scoring import score_texts
from tests.sms.encoders.library_modules import Transformer, pooling

LONG = " ".join(f"The cat number {k} sat on the mat of the house." for k in range(60))
"""Of one sentence's kind, 660 words; the tokeniser's other model reads 512."""
LONG_SENTENCE = LONG.replace(".", ",")
TEXTS, REFERENCES = ["It rained.", LONG_SENTENCE], ["Snow fell.", "A cat sat on a mat."]


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_folder())
    tokenizer.model_max_length = int(1e30)
    return tokenizer


@pytest.fixture(scope="module")
def folders(tokenizer, tmp_path_factory):
    """An XLNet, and one with a head for three classes."""
    base = tmp_path_factory.mktemp("xlnet")
    config = transformers.XLNetConfig(
        vocab_size=len(tokenizer), d_model=32, n_layer=2, n_head=2, d_inner=64,
        id2label={0: "contradiction", 1: "neutral", 2: "entailment"},
    )  # fmt: skip
    assert config.max_position_embeddings == -1
    with torch.random.fork_rng():
        torch.manual_seed(5)
        made = {
            "model": transformers.XLNetModel(config),
            "classifier": transformers.XLNetForSequenceClassification(config),
        }
    for name, model in made.items():
        model.save_pretrained(base / name)
        tokenizer.save_pretrained(base / name)
    return base


def states(folder, text):
    """Return the tokens of a text and their vectors, by transformers alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        vectors = transformers.AutoModel.from_pretrained(folder).eval()(**encoded)
    return encoded["input_ids"][0].tolist(), vectors.last_hidden_state[0].double()


def test_cosine_of_hf_reads_whole_sentences(folders):
    folder = folders / "model"
    found = score_texts(TEXTS, REFERENCES, metrics=("cosine",), encoders={"x": f"hf:{folder}"})
    assert found["status"].null_count == 2
    for score, *pair in zip(found["cosine"].to_pylist(), TEXTS, REFERENCES, strict=True):
        a, b = (states(folder, text)[1].mean(dim=0) for text in pair)
        assert score == pytest.approx(float(torch.cosine_similarity(a, b, dim=0)), abs=1e-5)


def test_cosine_of_sentence_transformers_is_its_own(folders, tmp_path):
    parts = [Transformer(str(folders / "model")), pooling(32, "mean")]
    library = SentenceTransformer(modules=parts, device="cpu")
    library.max_seq_length = None
    library.save(str(tmp_path))
    found = score_texts(TEXTS, REFERENCES, metrics=("cosine",), encoders={"x": f"st:{tmp_path}"})
    for score, *pair in zip(found["cosine"].to_pylist(), TEXTS, REFERENCES, strict=True):
        a, b = (states(folders / "model", text)[1].mean(dim=0) for text in pair)
        assert score == pytest.approx(float(torch.cosine_similarity(a, b, dim=0)), abs=1e-5)


def test_bertscore_reads_whole_texts(folders):
    folder = folders / "model"
    metric = f"bertscore_f@{folder}"
    found = score_texts(TEXTS, REFERENCES, metrics=(metric,)).to_pylist()
    for row, *pair in zip(found, TEXTS, REFERENCES, strict=True):
        (ids, x), (other, y) = (states(folder, text) for text in pair)
        similarity = torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(y).T
        p, r = (
            float(best[[token not in (101, 102) for token in tokens]].mean())
            for best, tokens in ((similarity.amax(dim=1), ids), (similarity.amax(dim=0), other))
        )
        assert row[metric] == pytest.approx(2 * p * r / (p + r), abs=1e-5)
        assert row[f"cut@bertscore@{folder}"] == 0


def test_pair_reads_whole_texts(folders):
    table = {"nli": {"path": str(folders / "classifier")}}
    found = score_texts(["It rained."], None, [LONG], metrics=("pair@nli",), models=table)
    assert found.to_pylist()[0]["cut@nli"] == 0
    assert 0 < found["pair@nli"][0].as_py() < 1


@pytest.mark.slow
def test_scorer_is_trained_on_it(folders, tmp_path):
    pairs = [
        {
            "document_id": f"d{k}",
            "source": f"The cat {k} sat. The dog {k} ran.",
            "reference": f"A cat {k}.",
            "split": split,
        }
        for k, split in enumerate(["train"] * 4 + ["validation"] * 2 + ["test"] * 2)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    out, encoder = tmp_path / "scorer", f"hf:{folders / 'model'}"
    assay.train(tmp_path / "pairs.jsonl", out=out, scorer="bert", encoder=encoder, epochs=1)
    rows = [{"candidate": "A cat.", "source": LONG}]
    assert np.isfinite(assay.score(rows, metrics=f"reffree@{out}")[0][f"reffree@{out}"])


# transformers 4 calls its own argument by the name that it has in other models
@pytest.mark.filterwarnings("ignore:The `use_cache` argument is deprecated:FutureWarning")
def test_model_that_predicts_no_next_token_is_named(folders, tokenizer, tmp_path):
    config = transformers.XLNetConfig(
        vocab_size=len(tokenizer), d_model=32, n_layer=1, n_head=2, d_inner=64
    )
    transformers.XLNetLMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    metric = f"likelihood@{tmp_path}"
    with pytest.raises(ValueError, match="must predict each token from those before it"):
        score_texts(["It rained."], None, [LONG], metrics=(metric,))


@pytest.mark.parametrize("said", [None, 0, -1, int(1e30), 1e30])
@pytest.mark.parametrize("where", ["configuration", "tokeniser"])
def test_limits_that_are_none(said, where, tokenizer):
    config = transformers.MambaConfig()  # its own has no positions
    tokenizer_limit = said if where == "tokeniser" else None
    tokenizer.model_max_length = tokenizer_limit
    if where == "configuration":
        config.max_position_embeddings = said
    model = torch.nn.Module()
    model.config = config
    assert most_tokens(model, tokenizer) == NO_LIMIT
    tokenizer.model_max_length = 77
    assert most_tokens(model, tokenizer) == 77
    tokenizer.model_max_length = int(1e30)

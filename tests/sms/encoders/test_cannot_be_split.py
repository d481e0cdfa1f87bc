"""A text that a model's tokeniser fails on costs its own rows a score, and no other row a bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from sms.encoders.base import encode_texts
from sms.encoders.registry import load_encoder
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from sms.text import Segmenter
from tests.sms.encoders.library_modules import pooling
from tests.sms.encoders.test_sentence_transformer import saved

GOOD = [
    "The committee met on Tuesday and didn't agree on anything.",
    "it will meet again. Warmer states pay more a year.",
    "the U.S. reported at 6.15pm.",
]
STRANGE = "The committee met. Ω states pay more."
"""Has a letter that no tiny model's training text had."""
METRICS = ("wms", "sms", "cosine", "rougeL_f", "length")


def without_unknown(tokenizer: Tokenizer) -> Tokenizer:
    """Take the piece for what a tokeniser does not know from it."""
    settings = json.loads(tokenizer.to_str())
    settings["added_tokens"] = []
    model = settings["model"]
    if model["type"] == "WordPiece":
        model["vocab"]["[unused]"] = model["vocab"].pop("[UNK]")
    else:
        model["unk_id"] = None
    return Tokenizer.from_str(json.dumps(settings))


@pytest.fixture(params=["bert", "xlm-roberta"])
def scorer(request, tiny_model) -> Callable[[], SummaryScorer]:
    """Makes scorers with a model that cuts word by word, or sentence by sentence."""
    encoders = {"tiny": f"hf:{tiny_model(request.param)}"}

    def make() -> SummaryScorer:
        made = SummaryScorer(ScoringConfig(metrics=METRICS, encoders=encoders))
        cutter = made.encoders["tiny"]._cutter
        cutter._tokenizer = without_unknown(cutter._tokenizer)
        return made

    return make


def test_row_that_the_tokeniser_fails_on_has_a_status(scorer):
    expected = scorer().score(to_rows(GOOD, GOOD[::-1])).to_pylist()
    used = scorer()
    rows = to_rows([*GOOD[:2], STRANGE, GOOD[2]], [*GOOD[:0:-1], GOOD[0], GOOD[0]])
    for _ in range(2):
        found = used.score(rows).to_pylist()
        row = found.pop(2)
        assert found == expected
        assert row["status"] == "candidate:cannot_be_split@tiny"
        assert [row[name] for name in METRICS[:3]] == [None] * 3
        assert row["length"] == 7
        assert row["rougeL_f"] > 0
    assert used.score(to_rows(GOOD, GOOD[::-1])).to_pylist() == expected
    # it might be the best of several references
    references = [[GOOD[1], STRANGE], [GOOD[1], GOOD[2]]]
    found = used.score(to_rows(GOOD[:2], references)).to_pylist()
    assert [row["status"] for row in found] == ["reference:cannot_be_split@tiny", None]
    assert found[0]["sms"] is None
    assert found[0]["rougeL_f"] is not None


def test_text_that_the_library_fails_on_is_left_out(tiny_model, tmp_path):
    folder = saved(tmp_path / "model", tiny_model("bert"), pooling(32, "weightedmean"))
    encoder = load_encoder(f"st:{folder}")
    tokenizer = encoder._tokenizer

    def failing(sentences: list[str], **options: object) -> Any:
        if any("Ω" in sentence for sentence in sentences):
            raise ValueError("on purpose")
        return tokenizer(sentences, **options)

    encoder._tokenizer = failing
    texts = Segmenter().segment(pa.array([*GOOD, STRANGE]))
    encoded, text_sentences, failed = encode_texts(encoder, texts, np.ones(4, dtype=bool))
    assert failed.tolist() == [False, False, False, True]
    assert text_sentences.lengths.tolist() == [1, 2, 1, 0]
    alone = encoder.encode(Segmenter().segment(pa.array(GOOD)))
    np.testing.assert_array_equal(encoded.pooled, alone.pooled)

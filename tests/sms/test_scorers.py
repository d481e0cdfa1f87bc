"""Single metrics as objects: they score as `score_texts` does, and raise where it has a status."""

from __future__ import annotations

import numpy as np
import pytest

from sms import EmbeddingCosine, Rouge, SentenceMover, score_texts

CANDIDATES = ["The cat met a dog.", "A hen saw the cat. A dog!"]
OTHERS = [["A dog bit the cat.", "Hen."], "The hen met a cat."]


@pytest.fixture
def encoders(tmp_path):
    """Two encoders of different dimension."""
    specs = []
    rng = np.random.default_rng(5)
    for dimension in (3, 5):
        path = tmp_path / f"{dimension}.txt"
        rows = ("cat", "dog", "hen", "met", "saw", "bit")
        path.write_text(
            "".join(f"{w} {' '.join(map(str, rng.normal(size=dimension)))}\n" for w in rows)
        )
        specs.append(f"glove:{path}")
    return specs


@pytest.mark.parametrize("against", ["reference", "source"])
@pytest.mark.parametrize("how", ["best", "mean", "first"])
def test_metrics_score_as_a_batch_does(encoders, against, how):
    side = "references" if against == "reference" else "sources"
    names = ("sms", "wms", "s+wms", "cosine", "rouge1_r")
    table = score_texts(
        CANDIDATES,
        **{side: OTHERS},
        metrics=tuple(f"{name}:{against}" for name in names),
        encoders={"x": encoders[0]},
        multi_reference=how,
    )
    options = {"against": against, "multi_reference": how}
    scorers = [
        *(SentenceMover(name, encoder=encoders[0], **options) for name in names[:3]),
        EmbeddingCosine(encoder=encoders[0], **options),
        Rouge("rouge1_r", **options),
    ]
    for name, scorer in zip(names, scorers, strict=True):
        expected = table[f"{name}:{against}"].to_numpy()
        np.testing.assert_array_equal(scorer.score(CANDIDATES, OTHERS), expected)
        assert scorer.needs_references == (against == "reference")


def test_cosine_of_several_encoders_is_their_mean(encoders):
    alone = [EmbeddingCosine(encoder=spec).score(CANDIDATES, OTHERS) for spec in encoders]
    together = EmbeddingCosine(encoder=encoders)
    np.testing.assert_allclose(
        together.score(CANDIDATES, OTHERS), np.mean(alone, axis=0), rtol=0, atol=1e-15
    )
    assert together.signature.startswith("cosine@all|mean-of:2|enc:glove-3-6x3|")


def test_cosine_of_no_encoder_rejected():
    with pytest.raises(ValueError, match="`encoders` must name at least one encoder"):
        EmbeddingCosine(encoder=[])


def test_language_reaches_words_and_signature():
    """Of four words two are shared: Müller and Äpfel."""
    scorer = Rouge("rouge1_r", language="de")
    assert scorer.score(["Müller kaufte schöne Äpfel."], ["Müller aß keine Äpfel."])[0] == 0.5
    assert "|lang:de|" in scorer.signature
    for kind in (SentenceMover, EmbeddingCosine):
        with pytest.raises(ValueError, match="`language` must be one of"):
            kind(language="xx")


def test_text_without_words_raises(encoders):
    scorer = EmbeddingCosine(encoder=encoders)
    with pytest.raises(ValueError, match=r"got candidate:no_words in row 1; leave the row out"):
        scorer.score(["A cat.", "..."], ["A dog.", "A dog."])


def test_wrong_kind_and_column_rejected():
    with pytest.raises(ValueError, match=r"`kind` must be sms, wms or s\+wms, got 'wsm'"):
        SentenceMover("wsm")
    with pytest.raises(ValueError, match="`column` must be like rougeL_f, got 'rougeL'"):
        Rouge("rougeL")

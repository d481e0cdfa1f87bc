"""Log-probabilities of tokens: against the library's own pass over each pair, and their laws."""

import os
import shutil

import numpy as np
import pytest
import torch
import transformers

from reffree.judges.model import JudgeModel
from reffree.likelihood.model import LanguageModel
from reffree.likelihood.settings import LikelihoodSettings
from sms.encoders import EncoderRuntime
from tests.reinforce.tiny_models import write_tiny_model

CONTEXTS = [
    "The cat sat on the mat near the door, and the dog slept by the fire all day long.",
    "A dog.",
    "The bridge is closed for eleven weeks. Cars must use the ring road, and buses too.",
]
TEXTS = ["A cat sat.", "The dog slept by the fire, and nobody woke it up.", "Bridges", "It’s 5 €."]
PAIRS = [(context, text) for context in CONTEXTS for text in TEXTS]
ATOL = 1e-5


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("generators")
    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = write_tiny_model(root / kind, kind, [*CONTEXTS, *TEXTS])
        return made[kind]

    return folder


def plain_loop(folder, pairs, before="", between="\nTL;DR:", most=None):
    """Score pair after pair, each in one pass of the library over all of it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = "AutoModelForSeq2SeqLM" if config.is_encoder_decoder else "AutoModelForCausalLM"
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    found = []
    for context, text in pairs:
        if config.is_encoder_decoder:
            ids = torch.tensor([tokenizer(before + context + between)["input_ids"]])
            labels = torch.tensor([tokenizer(text)["input_ids"]])
            with torch.inference_mode():
                logits = model(input_ids=ids, labels=labels).logits[0]
        else:
            ids = (
                tokenizer(before + context)["input_ids"][:most]
                + tokenizer(between, add_special_tokens=False)["input_ids"]
            )
            labels = torch.tensor([tokenizer(f" {text}", add_special_tokens=False)["input_ids"]])
            with torch.inference_mode():
                whole = torch.cat([torch.tensor([ids]), labels], 1)
                logits = model(whole).logits[0, len(ids) - 1 : -1]
        values = torch.log_softmax(logits, -1).gather(1, labels[0][:, None])[:, 0]
        found.append(values.double().numpy())
    return found


def scored(model, pairs=PAIRS):
    """Return the log-probabilities of every text's tokens."""
    found = model.log_probabilities(*zip(*pairs, strict=True)).log_p
    return [found[row] for row in range(len(found))]


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ATOL)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "mistral", "bart", "t5"])
def test_log_probabilities_match_a_plain_loop(kind, folders):
    model = LanguageModel.load(folders(kind))
    between = "" if kind in ("bart", "t5") else "\nTL;DR:"
    assert_equal(scored(model), plain_loop(folders(kind), PAIRS, between=between))
    assert model.state()["cut"] == 0


def test_prompt_before_and_between_matches_a_plain_loop(folders):
    settings = LikelihoodSettings(prompt="Read this: {context}\n\nIn short: {text}")
    expected = plain_loop(folders("llama"), PAIRS, "Read this: ", "\n\nIn short:")
    assert_equal(scored(LanguageModel.load(folders("llama"), settings)), expected)


@pytest.mark.parametrize("kind", ["llama", "bart"])
def test_marks_in_a_text_are_letters(kind, folders):
    marked = "He said </s> hello."
    found = LanguageModel.load(folders(kind)).log_probabilities([CONTEXTS[1]], [marked])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders(kind))
    before = "" if kind == "bart" else " "
    expected = tokenizer(before + marked, split_special_tokens=True)["input_ids"]
    assert found.log_p[0].size == len(expected) > len(tokenizer(before + marked)["input_ids"])


def test_text_with_a_mark_is_not_scored_where_the_prompt_has_one(folders):
    settings = LikelihoodSettings(prompt="Read: {context}</s>In short: {text}")
    model = LanguageModel.load(folders("llama"), settings)
    found = model.log_probabilities(["A dog.", "A </s> dog.", "A dog."], [TEXTS[0], "It.", "<s>"])
    assert found.reasons == {1: ("context", "cannot_be_split"), 2: ("text", "cannot_be_split")}
    (expected,) = plain_loop(folders("llama"), [("A dog.", TEXTS[0])], "Read: ", "</s>In short:")
    np.testing.assert_allclose(found.log_p[0], expected, rtol=0, atol=ATOL)
    assert found.log_p.lengths[1:].tolist() == [0, 0]
    odd = LanguageModel.load(folders("llama")).log_probabilities(["\ud800"], [TEXTS[0]])
    assert odd.reasons == {0: ("context", "cannot_be_split")}


@pytest.mark.parametrize("kind", ["llama", "bart"])
def test_order_duplicates_and_batches_change_nothing(kind, folders):
    expected = scored(LanguageModel.load(folders(kind)))
    alone = [scored(LanguageModel.load(folders(kind)), [pair])[0] for pair in PAIRS]
    assert_equal(alone, expected)
    order = np.random.default_rng(3).permutation(len(PAIRS) * 2) % len(PAIRS)
    model = LanguageModel.load(folders(kind))
    assert_equal(scored(model, [PAIRS[k] for k in order]), [expected[k] for k in order])
    assert model.state() == {"texts": 2 * len(PAIRS), "computed": len(PAIRS), "cut": 0}


def test_metrics_of_one_folder_share_the_model_and_remember(folders):
    first = LanguageModel.load(folders("llama"))
    second = LanguageModel.load(folders("llama"), LikelihoodSettings(value="sum"))
    table = {"model": "generator", "template": "{document} {summary}", "positive": "cat"}
    asked = JudgeModel(str(folders("llama")), table)
    assert first._pretrained is second._pretrained is asked._answerer.pretrained
    assert LanguageModel.load(folders("gpt2"))._pretrained is not first._pretrained
    assert_equal(scored(second), scored(first))
    assert first.state()["computed"] + second.state()["computed"] == len(PAIRS)


def test_log_probabilities_outlive_the_run(folders, tmp_path):
    runtime = EncoderRuntime(cache_folder=str(tmp_path))
    before = scored(LanguageModel.load(folders("llama"), runtime=runtime))
    later = LanguageModel.load(folders("llama"), LikelihoodSettings(pmi=True), runtime=runtime)
    assert [row.tolist() for row in scored(later)] == [row.tolist() for row in before]
    assert later.state()["computed"] == 0


def test_changed_folder_is_loaded_again(folders, tmp_path):
    folder = shutil.copytree(folders("llama"), tmp_path / "model")
    first = LanguageModel.load(str(folder))
    os.utime(folder / "config.json", ns=(0, 0))
    second = LanguageModel.load(str(folder))
    assert second._pretrained is not first._pretrained
    weights = folder / "model.safetensors"
    before, content = weights.stat(), bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)  # in place, by a tool that keeps the time as it was
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert LanguageModel.load(str(folder)).content_hash != second.content_hash


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_long_context_is_cut_at_its_end_and_counted(kind, folders):
    long = " ".join(CONTEXTS * 4)
    model = LanguageModel.load(folders(kind))
    # the last two have no room for as long a text as the first, beside which they are read
    pairs = [(CONTEXTS[1], long), (long, TEXTS[1]), (long, TEXTS[2]), (CONTEXTS[1], TEXTS[1])]
    found = model.log_probabilities(*zip(*pairs, strict=True))
    assert found.is_cut.tolist() == [True, True, True, False]
    assert model.state()["cut"] == 3
    n_between = 7
    for row in (1, 2):
        kept = 128 - -(-found.log_p.lengths[row] // 4) * 4 - n_between  # in steps of 128 / 32
        (expected,) = plain_loop(folders(kind), pairs[row : row + 1], most=kept)
        np.testing.assert_allclose(found.log_p[row], expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize(("kind", "most"), [("llama", 64), ("bart", 128)])
def test_long_text_is_cut_at_its_end(kind, most, folders):
    long = " ".join(CONTEXTS * 4)
    model = LanguageModel.load(folders(kind))
    found = model.log_probabilities([CONTEXTS[1]], [long])
    assert found.is_cut.tolist() == [True]
    assert found.log_p.lengths.tolist() == [most]
    begun = model.log_probabilities([CONTEXTS[1]], [long[: len(long) // 2]]).log_p[0]
    n_same = min(most, begun.size) - 2
    np.testing.assert_allclose(found.log_p[0][:n_same], begun[:n_same], rtol=0, atol=ATOL)


@pytest.mark.parametrize("kind", ["llama", "bart"])
def test_spans_are_the_tokens_places_in_the_text(kind, folders):
    model = LanguageModel.load(folders(kind))
    found = model.log_probabilities(CONTEXTS[:1] * len(TEXTS), TEXTS)
    for row, text in enumerate(TEXTS):
        read = "".join(
            text[start:end] for start, end in dict.fromkeys(map(tuple, found.spans[row]))
        )
        assert read.replace(" ", "") == text.replace(" ", "")


def test_nothing_before_a_text_is_the_prompt_alone(folders):
    nothing = [("", TEXTS[0])]
    model = LanguageModel.load(folders("llama"))
    assert_equal(scored(model, nothing), plain_loop(folders("llama"), nothing))
    bare = LanguageModel.load(folders("llama"), LikelihoodSettings(prompt="{context} {text}"))
    expected = plain_loop(folders("llama"), nothing, before="<s>", between="")
    assert_equal(scored(bare, nothing), expected)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("bert", {}, "must predict each token from those before it"),
        ("llama", {"preset": "bartscore"}, "`bartscore` needs a model with an encoder and a dec"),
        ("llama", {"prompt": "a b " * 40 + "{context}{text}"}, "must leave room in the 128 tokens"),
    ],
)
def test_model_that_does_not_fit_rejected(kind, settings, said, folders):
    with pytest.raises(ValueError, match=said):
        LanguageModel.load(folders(kind), LikelihoodSettings(**settings))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"vlaue": "sum"}, "unknown key `vlaue` of a likelihood; did you mean `value`"),
        ({"value": "max"}, "`value` of a .* must be one of mean, sum, worst, low, got 'max'"),
        ({"pmi": 1}, "`pmi` of a likelihood must be true or false, got 1"),
        ({"lead": 0}, "`lead` of a likelihood must be a whole number from 1, got 0"),
        ({"prompt": "{text} {context}"}, r"must hold `\{context\}` once and end in `\{text\}`"),
        ({"prompt": "{context}{text}", "preset": "gptscore"}, "`preset` or `prompt`, got both"),
    ],
)
def test_wrong_settings_rejected(table, said):
    with pytest.raises(ValueError, match=said):
        LikelihoodSettings.of(table)

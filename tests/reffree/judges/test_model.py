"""Pair models against plain implementations of the judges that they are."""

import numpy as np
import pytest
import torch

import tests.reffree.judges.published_judges as published
from reffree.judges.model import JudgeModel
from reffree.judges.settings import PRESETS, JudgeOptions
from sms.encoders import EncoderRuntime
from tests.reffree.judges import tiny_judges as tiny

ATOL = 1e-5

YES_NO = {"id2label": {0: "no", 1: "yes"}}

# preset (and aspect), what writes the folder, the judge
JUDGES = {
    "summac-zs": (tiny.write_classifier, published.summac_zs),
    "summac-conv": (tiny.write_summac_conv, published.summac_conv),
    "alignscore": (tiny.write_alignscore, published.alignscore),
    "minicheck": (tiny.write_t5, published.minicheck),
    "minicheck-roberta": (
        lambda folder: tiny.write_classifier(folder, "roberta", **YES_NO),
        published.minicheck_classifier,
    ),
    "minicheck-deberta": (
        lambda folder: tiny.write_classifier(folder, "deberta-v2", **YES_NO),
        published.minicheck_classifier,
    ),
    "hhem": (tiny.write_hhem, published.hhem),
    "trueteacher": (tiny.write_t5, published.true),
    "seahorse": (tiny.write_t5, published.true),
    **{
        f"unieval {aspect}": (tiny.write_t5, getattr(published, aspect))
        for aspect in PRESETS["unieval"].aspects
    },
}

CUT = {"unieval coherence", "unieval consistency", "unieval relevance"}
"""Judges that read only the beginning of the long document; their own code cuts it alike."""


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Write a judge's folder once."""
    written = {}

    def folder(name):
        write, _ = JUDGES[name]
        if write not in written:
            written[write] = tmp_path_factory.mktemp("judge") / "tiny"
            written[write].mkdir()
            write(written[write])
        return written[write]

    return folder


def table_of(name):
    preset, _, aspect = name.partition(" ")
    return {"preset": preset, **({"aspect": aspect} if aspect else {})}


def test_every_preset_is_tested():
    assert {name.partition(" ")[0] for name in JUDGES} == set(PRESETS)


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(tiny.NEWS, id="short"),
        pytest.param(tiny.LONG, id="long", marks=pytest.mark.slow),
    ],
)
def test_presets_are_as_published(folder_of, name, document):
    folder, judge = folder_of(name), JUDGES[name][1]
    model = JudgeModel(str(folder), table_of(name))
    found = model.score([document] * len(tiny.SUMMARIES), tiny.SUMMARIES)
    expected = [judge(folder, document, summary) for summary in tiny.SUMMARIES]
    atol = ATOL * np.abs(expected).max()
    np.testing.assert_allclose(found.scores, expected, atol=atol, rtol=0)
    assert np.ptp(expected) > 100 * atol, "random weights must tell the summaries apart"
    assert found.is_cut.all() == found.is_cut.any() == (document == tiny.LONG and name in CUT)
    low, high = model.settings.bounds
    assert ((found.scores >= low) & (found.scores <= high)).all()


# What a pair that is too long loses


@pytest.mark.parametrize("most", [30, 45])
@pytest.mark.parametrize("cut", ["document", "longest"])
def test_two_texts_are_cut_as_tokenisers_do(folder_of, cut, most):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = folder_of("summac-zs")
    settings = {"max_tokens": most, "cut": cut, "negative": None}
    model = JudgeModel(str(folder), settings)
    found = model.score([tiny.NEWS] * 3, tiny.SUMMARIES)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    classifier = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    how = {"document": "only_first", "longest": "longest_first"}[cut]
    for score, summary in zip(found.scores, tiny.SUMMARIES, strict=True):
        is_shorter = len(tokenizer(summary)["input_ids"]) + 1 < most
        truncation = how if is_shorter else "longest_first"
        cut_to = {"truncation": truncation, "max_length": most, "return_tensors": "pt"}
        inputs = tokenizer(tiny.NEWS, summary, **cut_to)
        with torch.no_grad():
            expected = classifier(**inputs).logits.softmax(-1)[0, 2].item()
        assert score == pytest.approx(expected, abs=ATOL)
    assert found.is_cut.all()
    assert model.state()["cut"] == 3


def test_the_summary_stays_where_a_template_ends_in_it(folder_of):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = folder_of("trueteacher")
    (summary, *_) = tiny.SUMMARIES
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(f"premise: {tiny.NEWS} hypothesis: {summary}")["input_ids"]
    n_before = len(tokenizer(f"premise: {tiny.NEWS}", add_special_tokens=False)["input_ids"])
    kept = torch.tensor([ids[:20] + ids[n_before:]])
    generator = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = generator(
            input_ids=kept, decoder_input_ids=torch.zeros((1, 1), dtype=torch.long)
        ).logits
    expected = logits[0, 0].softmax(-1)[tokenizer("1")["input_ids"][0]].item()
    model = JudgeModel(str(folder), {"preset": "trueteacher", "max_tokens": kept.numel()})
    found = model.score([tiny.NEWS], [summary])
    assert found.scores[0] == pytest.approx(expected, rel=1e-4)
    assert found.is_cut.all()


def test_pieces_that_are_left_out_are_cut(folder_of):
    settings = {"document": "sentences", "summary": "sentences", "negative": None}
    limits = {"most_document": 2, "most_summary": 1}
    model = JudgeModel(str(folder_of("summac-zs")), settings | limits)
    long, short = "It rained in May. The bridge closed. Nobody came.", "The bridge closed."
    pairs = [(short, short), (long, short), (short, long), (long, long)]
    found = model.score(*zip(*pairs, strict=True))
    assert found.cut.tolist() == [[False, False], [False, True], [True, False], [True, True]]
    lead = "It rained in May. The bridge closed."
    expected = model.score([short, lead, short, lead], [short, short, *["It rained in May."] * 2])
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert not expected.is_cut.any()


# At speed


@pytest.fixture(scope="module")
def corpus():
    """Three systems' summaries of two documents."""
    documents = [tiny.NEWS] * 3 + [tiny.LONG] * 3
    return documents, [*tiny.SUMMARIES, *tiny.SUMMARIES]


def test_every_distinct_pair_is_asked_once(folder_of, corpus):
    documents, summaries = corpus
    model = JudgeModel(str(folder_of("summac-zs")), {"preset": "summac-zs"})
    model.score([*documents, *documents], [*summaries, *summaries])
    distinct = {
        (a, b)
        for document, summary in zip(*corpus, strict=True)
        for a in published.sentences(document)
        for b in published.sentences(summary)
        if len(a) > 10 and len(b) > 10
    }
    assert model.state()["pairs"] == model.state()["asked"] == len(distinct)
    model.score(documents, summaries)
    assert model.state()["asked"] == len(distinct), "the answers are remembered"


@pytest.mark.parametrize("name", ["summac-zs", "minicheck-deberta", "unieval consistency"])
def test_a_score_does_not_depend_on_the_batch(folder_of, corpus, name):
    together, *alone = (JudgeModel(str(folder_of(name)), table_of(name)) for _ in range(7))
    scores = [
        model.score([document], [summary]).scores[0]
        for model, document, summary in zip(alone, *corpus, strict=True)
    ]
    np.testing.assert_allclose(together.score(*corpus).scores, scores, atol=ATOL)


def test_answers_outlive_the_run(folder_of, corpus, tmp_path):
    runtime = EncoderRuntime(cache_folder=str(tmp_path))
    folder, table = str(folder_of("summac-zs")), {"preset": "summac-zs"}
    first, second = (JudgeModel(folder, table, runtime) for _ in range(2))
    before, after = (model.score(*corpus).scores for model in (first, second))
    assert after.tolist() == before.tolist()
    assert (first.state()["asked"] > 0, second.state()["asked"]) == (True, 0)


# Other settings


def test_a_causal_model_answers_with_its_next_token(tmp_path):
    folder = tiny.write_causal(tmp_path)
    template = "{document} question: {summary} Yes or No?"
    table = {"model": "generator", "template": template, "value": "share"}
    model = JudgeModel(str(folder), table | {"positive": " Yes", "negative": " No"})
    found = model.score([tiny.NEWS] * 3, tiny.SUMMARIES)
    for score, summary in zip(found.scores, tiny.SUMMARIES, strict=True):
        text = template.replace("{document}", tiny.NEWS).replace("{summary}", summary)
        expected = published.next_token(folder, text, (" Yes", " No"))
        assert score == pytest.approx(expected, abs=ATOL)


def test_answers_of_several_names_are_one(folder_of):
    def asked(*positive):
        model = JudgeModel(str(folder_of("summac-zs")), {"positive": list(positive)})
        return model.score([tiny.NEWS], tiny.SUMMARIES[:1]).scores[0]

    assert asked(0) + asked(1) + asked(2) == pytest.approx(1, abs=ATOL)
    assert asked("entailment", "neutral") == pytest.approx(asked(1) + asked(2), abs=ATOL)


def test_a_model_with_one_answer_gives_its_probability_or_logit(tmp_path):
    folder = str(tiny.write_classifier(tmp_path, id2label={0: "LABEL_0"}))
    logit, probability = (
        JudgeModel(folder, {"value": value}).score([tiny.NEWS], tiny.SUMMARIES[:1]).scores[0]
        for value in ("logit", "probability")
    )
    assert probability == pytest.approx(1 / (1 + np.exp(-logit)), abs=ATOL)


def test_evidence_is_the_piece_that_decides(folder_of):
    table = {"positive": "entailment", "document": "sentences", "summary": "sentences"}
    model = JudgeModel(str(folder_of("summac-zs")), table)
    (summary, *_) = tiny.SUMMARIES
    (found,) = model.evidence([tiny.NEWS], [summary])
    assert [evidence.piece for evidence in found] == published.sentences(summary)
    for evidence in found:
        alone = model.score(published.sentences(tiny.NEWS), [evidence.piece] * 6).scores
        assert evidence.decided_by == published.sentences(tiny.NEWS)[int(alone.argmax())]
        assert evidence.score == pytest.approx(alone.max(), abs=ATOL)
    mean = np.mean([evidence.score for evidence in found])
    assert model.score([tiny.NEWS], [summary]).scores[0] == pytest.approx(mean)


# What is refused


def test_no_code_beside_a_model_is_run(tmp_path):
    ran = tmp_path / "ran"
    folder = tiny.write_hhem(tmp_path, ran)
    JudgeModel(str(folder), {"preset": "hhem"}).score([tiny.NEWS], tiny.SUMMARIES[:1])
    for file in (folder / "foundation").glob("token*"):
        file.rename(folder / file.name)
    with pytest.raises(ValueError, match="must hold a model that transformers can load"):
        JudgeModel(str(folder), {"positive": 1})
    assert not ran.exists()


def test_a_class_that_is_not_there_or_a_template_without_room_is_refused(folder_of):
    for number in (3, -1):
        said = f"must have a class {number}, got 0 CONTRADICTION, 1 NEUTRAL, 2 ENTAILMENT; give"
        with pytest.raises(ValueError, match=said):
            JudgeModel(str(folder_of("summac-zs")), {"positive": number})
    with pytest.raises(ValueError, match="must leave room for texts in the 5 tokens"):
        JudgeModel(str(folder_of("trueteacher")), {"preset": "trueteacher", "max_tokens": 5})


def test_a_mark_in_a_text_is_letters(folder_of):
    model = JudgeModel(str(folder_of("summac-zs")), {"preset": "summac-zs"})
    marked = tiny.NEWS.replace("It rained.", "It rained [SEP] hard.")
    spaced = tiny.NEWS.replace("It rained.", "It rained [ SEP ] hard.")
    found = model.score([marked, spaced], [tiny.SUMMARIES[0]] * 2).scores
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_signatures_tell_settings_apart():
    signatures = {preset.settings.signature() for preset in PRESETS.values()}
    assert len(signatures) == len(PRESETS) - 1, "TrueTeacher and SEAHORSE are asked alike"
    assert JudgeOptions().signature() == "document:whole|summary:whole|positive:entailment"


CONV, ALIGN = "summac_conv_vitc_sent_perc_e.bin", "AlignScore-base.ckpt"

# preset, what writes the folder, the file that is damaged, the message
LACKING = [
    ("summac-conv", tiny.write_classifier, "", "no file .*_e.bin`; preset summac-conv needs"),
    ("summac-conv", tiny.write_summac_conv, CONV, "must be the state of SummaC-Conv, got"),
    ("alignscore", tiny.write_classifier, "", r"must hold one AlignScore\*.ckpt, got 0; preset al"),
    ("alignscore", tiny.write_alignscore, ALIGN, "must be AlignScore's checkpoint, with nothing"),
    ("hhem", tiny.write_classifier, "", "foundation` is missing; preset hhem needs"),
    ("trueteacher", tiny.write_classifier, "", "preset trueteacher needs google"),
]


@pytest.mark.parametrize(("preset", "write", "damaged", "message"), LACKING)
def test_what_a_folder_lacks_is_said_in_one_line(tmp_path, preset, write, damaged, message):
    write(tmp_path)
    if damaged:
        (tmp_path / damaged).write_text("not what it should be")
    with pytest.raises(ValueError, match=message) as caught:
        JudgeModel(str(tmp_path), {"preset": preset})
    assert "\n" not in str(caught.value)


WRONG = [
    ({"preset": "sumac-zs"}, "did you mean `summac-zs`"),
    ({"preset": "unieval"}, "`aspect` of preset unieval must be one of coherence"),
    ({"aspect": "fluency"}, "is for a preset"),
    ({"prest": "nli"}, "unknown key `prest` of a pair; did you mean `preset`"),
    ({"documents": "whole"}, "unknown key `documents` of a pair; did you mean `document`"),
    ({"document": "words:0"}, "`document` of a pair must be one of whole, sentences, words:N"),
    ({"over_summary": "sum"}, "`over_summary` of a pair must be one of max, mean, min"),
    ({"max_tokens": 0}, "`max_tokens` of a pair must be a whole number from 1"),
    ({"value": "share"}, "`negative` of a pair must be given for value `share`"),
    ({"positive": []}, r"`positive` of a pair must be an answer, got \(\)"),
    ({"model": "generator"}, "`template` of a pair must be given for a generator"),
    ({"template": "{summary}"}, r"must hold \{summary\} and \{document\} once"),
    ({"against": "none"}, "`template` of a pair must be given if `against` is none"),
]


@pytest.mark.parametrize(("table", "message"), WRONG)
def test_wrong_settings_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        JudgeOptions.of(table)

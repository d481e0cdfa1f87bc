"""BERTScore against its equations, done for one pair at a time with transformers itself."""

import math
import re
from functools import cache

import numpy as np
import pytest
import torch

from sms.encoders import EncoderRuntime
from sms.encoders.bert import minilm_folder
from sms.metrics.bertscore import BertScoreSettings, TokenAligner
from sms.scoring import ScoringConfig, SummaryScorer, score_texts, to_rows

TEXTS = [
    "The bridge is closed; cars must use the ring road.",
    "A cat sat on the mat.",
    "Nobody came.",
]
REFERENCES = ["The bridge closes for eleven weeks.", "The cat sat on a mat.", "Many people came."]
ATOL = 1e-5


@cache
def library():
    from transformers import AutoModel, AutoTokenizer

    folder = minilm_folder()
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


def vectors_of(text, layer):
    """Tokens and unit vectors of one text by the library's own model."""
    tokenizer, model = library()
    encoded = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        states = model(**encoded, output_hidden_states=True).hidden_states[layer][0]
    return encoded["input_ids"][0].tolist(), torch.nn.functional.normalize(states, dim=1)


def plainly(candidate, reference, layer, weight_of):
    ids, x = vectors_of(candidate, layer)
    other_ids, y = vectors_of(reference, layer)
    nearest = (x @ y.T).max(dim=1).values, (x @ y.T).max(dim=0).values
    p, r = (
        sum(weight_of(token) * float(s) for token, s in zip(tokens, best, strict=True))
        / sum(map(weight_of, tokens))
        for tokens, best in zip((ids, other_ids), nearest, strict=True)
    )
    return p, r, 2 * p * r / (p + r)


def plain_weight(token):
    return 0.0 if token in (101, 102) else 1.0  # [CLS] and [SEP]


def scored(**table):
    models = {"m": {"path": str(minilm_folder()), **table}}
    found = score_texts(TEXTS, REFERENCES, metrics=("bertscore@m",), models=models)
    return np.stack([found[f"bertscore_{part}@m"].to_numpy() for part in "prf"], axis=1)


@pytest.mark.parametrize("layer", [2, 6])
def test_scores_are_equations_1_to_3(layer):
    pairs = zip(TEXTS, REFERENCES, strict=True)
    expected = [plainly(*pair, layer, plain_weight) for pair in pairs]
    np.testing.assert_allclose(scored(layer=layer), expected, rtol=0, atol=ATOL)


def test_rare_tokens_weigh_more(tmp_path):
    known = [*REFERENCES, "The cat came."]
    (tmp_path / "texts.txt").write_text("\n".join(known))
    sets = [set(vectors_of(text, 0)[0]) for text in known]

    def weight(token):
        return math.log((len(known) + 1) / (sum(token in tokens for tokens in sets) + 1))

    pairs = zip(TEXTS, REFERENCES, strict=True)
    expected = [plainly(*pair, 6, weight) for pair in pairs]
    found = scored(layer=6, idf=str(tmp_path / "texts.txt"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL)


def test_baseline_rescales(tmp_path):
    path = tmp_path / "model.tsv"
    path.write_text("LAYER,P,R,F\n0,.9,.9,.9\n1,.5,.25,.4\n")
    plain, rescaled = scored(layer=1), scored(layer=1, baseline=str(path))
    baseline = np.array([0.5, 0.25, 0.4])
    np.testing.assert_allclose(rescaled, (plain - baseline) / (1 - baseline), atol=1e-12)
    with pytest.raises(ValueError, match="`baseline` must be a file of LAYER,P,R,F with layer 2"):
        scored(layer=2, baseline=str(path))


def test_names_sides_and_the_best_of_several_references():
    several = [[REFERENCES[0], TEXTS[0]], REFERENCES[1], [None, "..."]]
    table = score_texts(
        TEXTS, several, sources=REFERENCES, metrics=("bertscore", "bertscore_f:source")
    )
    assert table["bertscore_f"].to_pylist()[0] == pytest.approx(1, abs=1e-6)
    assert table["bertscore_f"].to_pylist()[2] is None
    assert table["status"].to_pylist() == [None, None, "reference:null"]
    np.testing.assert_allclose(table["bertscore_f:source"], scored()[:, 2], rtol=0, atol=ATOL)
    assert table["cut@bertscore"].to_pylist() == [0, 0, None]
    # of several, the largest of each
    candidate = "ten people died in the big crash on the road"
    long = "On Friday ten people died in a crash on the road near the town of Bath in the west."
    listed = ["People died.", long, ["People died.", long]]
    rows = score_texts([candidate] * 3, listed, metrics=("bertscore",)).to_pylist()
    parts = np.array([[row[f"bertscore_{part}"] for part in "prf"] for row in rows])
    assert set(np.argmax(parts[:2], axis=0)) == {0, 1}
    np.testing.assert_allclose(parts[2], np.max(parts[:2], axis=0), atol=1e-6)


def test_parts_may_be_asked_for_by_name():
    scorer = SummaryScorer(ScoringConfig(metrics=("bertscore_p", "bertscore_f")))
    (row,) = scorer.score(to_rows(TEXTS[:1], REFERENCES[:1])).to_pylist()
    assert list(row) == ["bertscore_p", "bertscore_f", "cut@bertscore", "status"]
    assert [row["bertscore_p"], row["bertscore_f"]] == pytest.approx(scored()[0, [0, 2]], abs=ATOL)
    assert tuple(scorer.signatures) == scorer.score_fields


def test_model_may_lie_in_a_folder_with_a_colon(tmp_path):
    (tmp_path / "mini:lm").symlink_to(minilm_folder())
    names = (f"bertscore_f@{tmp_path}/mini:lm", f"bertscore_f@{tmp_path}/mini:lm:reference")
    (row,) = score_texts(TEXTS[:1], REFERENCES[:1], metrics=names).to_pylist()
    assert [row[name] for name in names] == pytest.approx([scored()[0, 2]] * 2, abs=ATOL)
    assert row["status"] is None


def test_text_beyond_the_model_is_marked_and_counted():
    long = " ".join(f"Sentence number {k} is here." for k in range(200))
    scorer = SummaryScorer(ScoringConfig(metrics=("bertscore_r", "bertscore_f:source")))
    rows = to_rows([long, TEXTS[1]], [TEXTS[1]] * 2, [TEXTS[1]] * 2)
    table = scorer.score(rows)
    assert table["cut@bertscore"].to_pylist() == [1, 0]
    assert table["status"].to_pylist() == ["candidate:cut@bertscore", None]
    assert table["bertscore_r"].null_count == 0
    assert scorer.counters() == {"bertscore_r.cut": 2}  # one model for both


LONG = " ".join(f"Sentence number {k} of the report is here." for k in range(150))
# candidate, references, F, status
CUT = [
    (LONG, [LONG], 1.0, "candidate:cut@bertscore; reference:cut@bertscore"),
    (f" {LONG.upper()}\n", [LONG], 1.0, "candidate:cut@bertscore; reference:cut@bertscore"),
    ("A cat.", [LONG, "A cat."], 1.0, "reference:cut@bertscore"),
    (LONG, [f"{LONG} Nobody came."], None, "candidate:cut@bertscore; reference:cut@bertscore"),
    (LONG, [f"{LONG} {LONG}"], None, "candidate:cut@bertscore; reference:cut@bertscore"),
    (LONG, ["A cat.", LONG[:-40]], None, "candidate:cut@bertscore; reference:cut@bertscore"),
    (LONG, [LONG[:-40], LONG], 1.0, "candidate:cut@bertscore; reference:cut@bertscore"),
]


@pytest.fixture(scope="module")
def scored_cut():
    """Scores of the rows of `CUT`."""
    candidates, references, *_ = zip(*CUT, strict=True)
    return score_texts(candidates, references, metrics=("bertscore_f",)).to_pylist()


@pytest.mark.parametrize("place", range(len(CUT)))
def test_texts_that_differ_beyond_the_cut_never_score_as_identical(scored_cut, place):
    (*_, f, cut), row = CUT[place], scored_cut[place]
    assert row["bertscore_f"] == (None if f is None else pytest.approx(f, abs=1e-6))
    assert row["status"] == (cut if f else f"reference:indistinguishable@minilm; {cut}")


def test_one_of_two_texts_may_end_where_the_other_is_cut():
    text = "a " * 510  # as many tokens as the model reads
    pairs = [(text, text), (text, text + "b"), (text + "b", text), (text + "c", text + "b")]
    for candidate, reference in pairs:
        (row,) = score_texts([candidate], [reference], metrics=("bertscore_f",)).to_pylist()
        assert (row["bertscore_f"] is None) == (candidate != reference)


# candidate, references, whether there is a score
CANNOT_TELL_APART = [
    pytest.param("El ano nuevo.", ["El año nuevo."], False, id="accent"),
    pytest.param("The ፖሊስ sat.", ["The ድመት sat."], False, id="unknown-word"),
    pytest.param("ፖሊስ ሌባ ያዘ", ["ድመት ቤት ውስጥ ነው"], False, id="unknown-words-only"),
    pytest.param("ፖሊስ ሌባ ያዘ", ["ድመት ቤት", "ፖሊስ ሌባ ያዘ"], True, id="copy-among-them"),
    pytest.param("US firms closed.", ["us  firms closed."], True, id="case-and-space"),
    pytest.param("ፖሊስ ሌባ", ["A cat sat."], True, id="unknown-and-known"),
]


@pytest.mark.parametrize(("candidate", "references", "is_scored"), CANNOT_TELL_APART)
def test_texts_that_the_model_cannot_tell_apart_have_a_status(candidate, references, is_scored):
    (row,) = score_texts([candidate], [references], metrics=("bertscore",)).to_pylist()
    names = ("bertscore_p", "bertscore_r", "bertscore_f", "cut@bertscore")
    assert [row[name] is not None for name in names] == [is_scored] * 4
    assert row["status"] == (None if is_scored else "reference:indistinguishable@minilm")


def test_neighbours_change_nothing(monkeypatch):
    together = scored()
    monkeypatch.setattr("sms.metrics.bertscore.KEPT_TOKENS", 1)
    np.testing.assert_allclose(scored(), together, rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"layers": 3}, "unknown key `layers` of bertscore; did you mean `layer`"),
        ({"layer": "3"}, "`layer` of bertscore must be a whole number, got '3'"),
        ({"layer": 7}, "must name layers from 0"),
        ({"path": "nowhere/at/all"}, "no model folder at `nowhere/at/all`"),
    ],
)
def test_wrong_table_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        scored(**table)


def test_byte_level_pieces_have_a_space_before_the_first_word(tmp_path):
    """RoBERTa's tokeniser cuts a word differently at the very start of a text."""
    from tests.reinforce.tiny_models import write_tiny_model

    folder = write_tiny_model(tmp_path / "bart", "bart", [*TEXTS, *REFERENCES])
    models = {"m": {"path": str(folder), "layer": 1}}
    texts = (["came", " came"], ["Nobody came"] * 2)
    plain, spaced = score_texts(*texts, metrics=("bertscore_p@m",), models=models)["bertscore_p@m"]
    assert plain == spaced


def test_settings_of_one_layer_share_a_model(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS))
    tables = {"layer": 3}, {"layer": 3, "idf": str(tmp_path / "corpus.txt")}, {"layer": 2}
    plain, weighted, other = (
        TokenAligner("minilm", BertScoreSettings(**table), EncoderRuntime(device="cpu"))
        for table in tables
    )
    assert plain._model is weighted._model
    assert plain._model is not other._model


@pytest.mark.parametrize("metric", ["bertscore", "bertscore@minilm"])
def test_a_model_that_does_not_read_the_language_is_refused(metric):
    message = f"the model of `{metric}` must know Hindi, but it knows only 0% of the words"
    with pytest.raises(ValueError, match=re.escape(message)):
        SummaryScorer(ScoringConfig(metrics=(metric,), language="hi"))
    SummaryScorer(ScoringConfig(metrics=(metric,), language="und"))

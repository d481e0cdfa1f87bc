"""Scoring lists of texts from end to end: laws, several references, encoders."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sms.encoders.base import SentenceEncoder
from sms.scoring import ScoringConfig, SummaryScorer, score_texts, to_rows
from sms.text import split_sentences
from tests.sms.scoring_cases import (
    ALL_SIDES,
    EMBEDDED,
    GOOD,
    METRICS,
    REFERENCE,
    glove_file,
    made_kind,
    random_rows,
    random_text,
    values,
)

# Laws


def test_identical_texts_are_exactly_one(glove):
    rng = np.random.default_rng(4)
    texts = [random_text(rng, n) for n in range(1, 12)] + [GOOD, "Cat", "cat cat cat dog"]
    metrics = (*EMBEDDED, "sms:source", "rouge1_f", "rougeL_f", "rougeLsum_f", "rougeW_f")
    table = score_texts(texts, texts, texts, metrics=metrics, encoders=glove)
    assert table["status"].null_count == len(texts)
    texts = [GOOD, REFERENCE, "warmer states . for $ 89 , he 's gone .", "東京 tower", "One"]
    contextual = score_texts(texts, texts, metrics=METRICS)
    for name, found in [*((n, table) for n in metrics), *((n, contextual) for n in METRICS)]:
        np.testing.assert_array_equal(values(found, name), 1.0, err_msg=name)


def test_other_rows_and_threads_change_no_bit_with_static_vectors(glove):
    config = ScoringConfig(metrics=ALL_SIDES, encoders=glove)
    scorer = SummaryScorer(config, threads=1)
    rows = random_rows(40, seed=6)
    expected = scorer.score(rows).to_pylist()
    alone = [scorer.score(rows.slice(k, 1)).to_pylist()[0] for k in range(40)]
    assert alone == expected
    order = np.random.default_rng(7).permutation(40)
    other = SummaryScorer(config, threads=2)
    shuffled = other.score(rows.take(pa.array(order))).to_pylist()
    assert shuffled == [expected[k] for k in order]
    pieces = pa.concat_tables([rows.slice(0, 3), rows.slice(3, 0), rows.slice(3)])
    assert scorer.score(pieces).to_pylist() == expected


# Several references, sources


REFERENCES = [
    [REFERENCE, GOOD, "The pig led a rat."],
    ["A bee met an ant.", "The cat met a dog."],
    ["The owl saw the cow."],
    [GOOD, GOOD],
]
CANDIDATES = [GOOD, "The cat met a dog. It fed.", "An owl saw cows and hens.", REFERENCE]


@pytest.mark.parametrize("how", ["best", "mean", "first"])
def test_several_references_match_single_ones(how, glove):
    metrics = (*EMBEDDED, "rougeL", "rouge1_p", "rouge1_f")
    options = {"metrics": metrics, "encoders": glove}
    table = score_texts(CANDIDATES, REFERENCES, multi_reference=how, **options)
    rows = zip(table.to_pylist(), CANDIDATES, REFERENCES, strict=True)
    for row, candidate, references in rows:
        alone = [candidate] * len(references)
        single = score_texts(alone, references, **options).to_pylist()
        assert row["status"] is None
        for name in table.column_names[:-2]:
            found = [scores[name] for scores in single]
            if how == "best" and name.startswith("rouge"):
                # precision and recall of the reference with the best F
                key = f"{name.partition('_')[0]}_f"
                expected = max(single, key=lambda scores, key=key: scores[key])[name]
            else:
                expected = {"best": max(found), "mean": np.mean(found), "first": found[0]}[how]
            assert row[name] == pytest.approx(expected, abs=1e-12), name


@pytest.mark.parametrize("how", ["best", "mean", "first"])
def test_bad_references_are_left_out(how, glove):
    options = {"metrics": METRICS, "encoders": glove, "multi_reference": how}
    alone = score_texts([GOOD], [[REFERENCE]], **options)
    (row,) = score_texts([GOOD], [["", None, "...", REFERENCE, "東京"]], **options).to_pylist()
    assert row["status"] == ("reference:empty" if how == "first" else None)
    for name in METRICS:
        expected = None if how == "first" else pytest.approx(values(alone, name)[0], abs=1e-12)
        assert row[name] == expected


@pytest.mark.parametrize("how", ["best", "mean", "first"])
def test_sources_are_averaged(how, glove):
    metrics = ("sms:source", "cosine:source", "rouge1_r:source", "novelty", "compression")
    options = {"metrics": metrics, "encoders": glove, "multi_reference": how}
    together = score_texts([GOOD], sources=[[REFERENCE, GOOD]], **options)
    alone = [score_texts([GOOD], sources=[source], **options) for source in (REFERENCE, GOOD)]
    for name in metrics:
        expected = np.mean([values(table, name)[0] for table in alone])
        assert values(together, name)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("n_tokens", "cut"),
    [
        (1, "  A"),
        (5, "  A dog bit\n the cat."),
        (9, "  A dog bit\n the cat. The cow fed an"),
        (10, None),
        (10**30, None),
    ],
)
def test_source_tokens(n_tokens, cut, glove):
    source = "  A dog bit\n the cat. The cow fed an owl. "
    metrics = ("rouge1", "rouge1:source", "cosine:source", "compression")
    options = {"metrics": metrics, "encoders": glove}
    found = score_texts([GOOD], [source], [source], source_tokens=n_tokens, **options)
    expected = score_texts([GOOD], [source], [source if cut is None else cut], **options)
    assert found.to_pylist() == expected.to_pylist()


# Encoders, coverage, presets


@pytest.mark.parametrize("how", ["best", "mean", "first"])
@pytest.mark.parametrize("side", ["reference", "source"])
def test_cosine_of_all_is_the_mean_of_the_columns(how, side, glove, tmp_path):
    # few words, other dimension: texts without any of them have no cosine
    coarse = glove_file(tmp_path / "coarse.txt", {"cat": (1, 0), "dog": (0.6, 0.8), "hen": (-1, 2)})
    table = score_texts(
        ["The cat saw a dog.", "A hen.", "A fox."],
        [["A dog met a hen.", "The cat."], ["Dog", "Hen and cat."], ["Dog", "Hen"]],
        [["A dog.", "The cat bit a hen."], ["Dog", "Cat"], ["Cat", "Owl"]],
        metrics=(f"cosine@all:{side}", f"cosine@glove:{side}", f"cosine@coarse:{side}"),
        encoders=glove | {"coarse": coarse},
        multi_reference=how,
    )
    of_all, one, other = (values(table, f"cosine@{name}:{side}")
                          for name in ("all", "glove", "coarse"))  # fmt: skip
    assert abs(one - other)[:2].min() > 1e-3
    np.testing.assert_allclose(of_all[:2], (one + other)[:2] / 2, rtol=0, atol=1e-15)
    # the last candidate has no word that `coarse` knows
    assert np.isnan(of_all[2])
    assert not np.isnan(one[2])
    assert table["status"][2].as_py() == "candidate:no_known_words@coarse"


class SentenceVectors(SentenceEncoder):
    """Gives a sentence its length, its place in the alphabet, and 1."""

    def __init__(self, unit="sentence"):
        super().__init__(signature="sentences", content_hash="sentences", dimension=3, unit=unit)

    def embed(self, inputs):
        return np.array([[len(s), ord(s[0]), 1.0] for s in inputs], dtype=np.float32)


def test_sentence_encoder_scores_by_hand(monkeypatch):
    """Sentences weigh as many words as count, here one of "A cat." and two of "E hors."."""
    encoders = {"st": made_kind(SentenceVectors(), monkeypatch)}
    scorer = SummaryScorer(
        ScoringConfig(metrics=("sms", "cosine", "cosine@all"), encoders=encoders)
    )
    # "A cat." is (6, 65), "E horse." (8, 69) and "E hors." (7, 69)
    rows = to_rows(["A cat.", "A cat. A cat.", "..."], [["E horse."], ["A cat. E hors."], ["A."]])
    found = scorer.score(rows)
    first, second = (6.0, 65.0, 1.0), (8.0, 69.0, 1.0)
    cosine = np.dot(first, second) / np.linalg.norm(first) / np.linalg.norm(second)
    costs = np.array([np.hypot(2, 4), 2 / 3 * np.hypot(1, 4), np.nan])
    np.testing.assert_allclose(values(found, "sms"), np.exp(-costs), rtol=1e-12)
    assert values(found, "cosine")[0] == pytest.approx(cosine, abs=1e-12)
    np.testing.assert_array_equal(values(found, "cosine@all"), values(found, "cosine"))
    assert found["status"].to_pylist()[:2] == [None, None]
    assert scorer.counters()["st.sentences"] == 5


class ShortSighted(SentenceVectors):
    """Says that it reads ten letters of a sentence."""

    def is_cut(self, texts):
        return np.array([len(sentence) > 10 for sentence in texts.sentences], dtype=bool)


def test_cut_text_has_a_status_beside_its_score(monkeypatch):
    encoders = {"use": made_kind(ShortSighted(), monkeypatch)}
    rows = to_rows(
        ["A dog barked.", "A cat. A bird.", "A dog.", "A dog barked.", "..."],
        [["A cat."], ["A cat.", "A hen sat. A dog barked."], ["A bird."], ["..."], ["A cat."]],
        [["A fox."], ["A fox."], ["A dog barked."], ["A fox."], ["A dog barked."]],
    )
    config = ScoringConfig(metrics=("cosine", "sms", "novelty"), encoders=encoders)
    found = SummaryScorer(config).score(rows)
    assert found["status"].to_pylist() == [
        "candidate:cut@use",
        "reference:cut@use",
        None,  # of the source, no sentence is read by the encoder
        "reference:no_words; candidate:cut@use",
        "candidate:no_words",
    ]
    assert found["sms"].is_valid().to_pylist() == [True, True, True, False, False]
    both = ScoringConfig(metrics=("sms", "cosine:source"), encoders=encoders)
    status = SummaryScorer(both).score(rows)["status"].to_pylist()
    assert status[2] == "source:cut@use"


class FirstTenLetters(ShortSighted):
    """Reads ten letters of a sentence and says so."""

    def embed(self, inputs):
        return super().embed([sentence[:10] for sentence in inputs])


@pytest.mark.parametrize("unit", ["sentence", "text"])
def test_texts_that_differ_beyond_the_cut_never_score_as_identical(unit, monkeypatch):
    encoders = {"use": made_kind(FirstTenLetters(unit), monkeypatch)}
    candidate = "A dog met cats there."
    references = {
        "A dog met owls there.": False,
        "A dog met there cats.": False,  # the same words in another order, which it does not see
        "A dog met  CATS there.": True,
        candidate: True,
    }
    metrics = ("cosine",) if unit == "text" else ("sms", "cosine")
    config = ScoringConfig(metrics=metrics, encoders=encoders)
    rows = to_rows([candidate] * len(references), list(references))
    cut = "candidate:cut@use; reference:cut@use"
    for is_scored, row in zip(
        references.values(), SummaryScorer(config).score(rows).to_pylist(), strict=True
    ):
        expected = pytest.approx(1.0, abs=1e-15) if is_scored else None
        assert [row[name] for name in metrics] == [expected] * len(metrics)
        assert row["status"] == (cut if is_scored else f"reference:indistinguishable@use; {cut}")


def test_sides_under_different_encoders(glove):
    # each encoder reads only the texts that its metrics compare
    encoders = {"minilm": "minilm"} | glove
    table = score_texts(
        [GOOD, GOOD], [REFERENCE, "Zyx qwv."], ["Zyx qwv.", REFERENCE],
        metrics=("sms", "sms@glove:source"), encoders=encoders,
    )  # fmt: skip
    first, second = table.to_pylist()
    assert first["sms@glove:source"] is None
    assert first["status"] == "source:no_known_words@glove"
    assert second["status"] is None


def test_coverage_by_hand(glove):
    candidates = ["Cats: the cat, dog and zyx.", "Cat dog", "Zyx", None]
    references = ["A hen qwv.", ["Hen", "Cow qwv"], "Cat", "Cat"]
    table = score_texts(candidates, references, metrics=("sms",), encoders=glove)
    # known and kept: cat dog hen of cats cat dog zyx hen qwv; cat dog hen cow of those and qwv
    assert table["known_words@glove"].to_pylist() == pytest.approx([3 / 6, 4 / 5, 1 / 2, 1.0])
    metrics = ("sms:source", "rougeL")  # of what is read under the encoder
    table = score_texts(["Cat"], ["Zyx"], ["Dog qwv"], metrics=metrics, encoders=glove)
    assert table["known_words@glove"].to_pylist() == pytest.approx([2 / 3])


def test_texts_that_differ_in_unknown_words_have_a_status(glove):
    rows = to_rows(
        ["Cat zyx.", "Cat zyx.", "Cat zyx.", "Zyx cat."],
        [["Cat qwv."], ["Hen.", "Cat qwv."], ["Cat qwv.", "Cat zyx."], ["Cat! ZYX?"]],
    )
    found = SummaryScorer(ScoringConfig(metrics=EMBEDDED, encoders=glove)).score(rows)
    for name in EMBEDDED:
        # the doubtful reference might be the best; a copy is, and order and case are no words
        assert found[name].is_valid().to_pylist() == [False, False, True, True], name
        assert values(found, name)[2:].tolist() == pytest.approx([1.0, 1.0])
    doubt = "reference:indistinguishable@glove"
    assert found["status"].to_pylist() == [doubt, doubt, None, None]
    mean = score_texts(
        ["Cat zyx."], [["Cat qwv.", "Cat zyx."]], metrics=("sms",), encoders=glove,
        multi_reference="mean",
    )  # fmt: skip
    assert (mean["sms"][0].as_py(), mean["status"][0].as_py()) == (None, doubt)


# Languages of encoders


def test_minilm_is_refused_in_languages_that_it_reads_in_fragments():
    for language, share in {"de": 15, "fr": 54, "es": 35, "ar": 0, "ru": 0, "hi": 0}.items():
        config = ScoringConfig(metrics=("sms",), language=language)
        message = rf"encoder `minilm` must know .*, but it knows only {share}% of"
        with pytest.raises(ValueError, match=message):
            SummaryScorer(config)
        SummaryScorer(replace(config, metrics=("rougeL",)))  # reads no encoder


@pytest.mark.parametrize("language", ["en", "und", "gsw"])  # English, and two without a sample
def test_minilm_is_not_refused_where_nothing_is_known_against_it(language):
    scorer = SummaryScorer(ScoringConfig(metrics=("sms",), language=language))
    assert scorer.counters()["minilm.words"] == 0  # a sample does not count


def test_refusal_of_an_encoder_says_what_to_use_instead():
    message = (
        "encoder `e` must know German, but it knows only 15% of the words of a sample, and reads "
        "the others in fragments or not at all; use one made for German, such as muse, "
        "hf:bert-base-multilingual-cased, "
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        score_texts(["Ja."], ["Ja."], metrics=("sms",), encoders={"e": "minilm"}, language="de")


def test_words_in_fragments_are_counted():
    scorer = SummaryScorer(ScoringConfig(metrics=("sms",)))
    german = ["Bundesverfassungsgericht Rechtsschutzversicherung"]
    for text in (["A committee met."], german):
        scorer.score(pa.table({"candidate": text, "references": [text]}))
    counters = scorer.counters()
    found = [counters[f"minilm.{name}"] for name in ("words", "unknown", "fragments")]
    assert found == [4, 0, 2]


# Given sentences


GIVEN_METRICS = ("sms", "s+wms", "cosine", "rougeLsum", "lead3", "sms:source", "length", "novelty")


def test_given_sentences_score_as_those_that_are_found(glove):
    def cut(texts):
        return [list(map(str.strip, split_sentences(text or ""))) for text in texts or []]

    rows = random_rows(20, seed=21)
    texts = [rows[side].to_pylist() for side in ("candidate", "references", "sources")]
    lists = [cut(texts[0]), *([cut(several) for several in side] for side in texts[1:])]
    options = {"metrics": GIVEN_METRICS, "encoders": glove}
    expected = score_texts(*texts, **options)
    found = score_texts(*lists, sentences="given", **options)
    assert found.drop_columns("status").equals(expected.drop_columns("status"))


def test_depth_tells_sentences_from_references(glove):
    options = {"metrics": ("sms",), "encoders": glove, "sentences": "given"}
    assert "|split:given|" in SummaryScorer(ScoringConfig(**options)).signatures["sms"]

    def score(*texts):
        return score_texts(*texts, **options)["sms"].to_pylist()

    one, other = "A cat bit a dog.", "The owl fed a hen."
    references = [[one, other], [[one], [other]], [[one, other]], one]
    scores = score([[one]] * 4, references)
    assert scores[0] == scores[2] < 0.99  # one reference of two sentences
    assert scores[1] == scores[3] == 1.0  # the better one of two references, and a single one
    assert score([[other, one], [f"{one} {other}"]], [[one, other]] * 2)[0] == 1.0
    assert score([[f"{one} {other}"]], [[one, other]])[0] < 0.99  # not cut again


def test_given_text_without_a_sentence_has_a_status(glove):
    options = {"metrics": ("sms",), "encoders": glove, "sentences": "given"}
    candidates = [[], None, ["", " "], [None, "..."], [None, "A cat."]]
    found = score_texts(candidates, [["A cat."]] * 4 + [[]], **options)
    expected = ["empty", "null", "empty", "no_words"]
    assert found["status"].to_pylist()[:4] == [f"candidate:{why}" for why in expected]
    assert found["status"][4].as_py() == "reference:empty"


@pytest.mark.parametrize("side", ["candidates", "references"])
def test_lists_of_other_things_rejected(side):
    texts = {"candidates": [["a"]], "references": [["a"]]} | {side: [[["a"], [["b"]]]]}
    with pytest.raises(TypeError, match=f"`{side}` in row 0 must be a text or a list of sentences"):
        score_texts(**texts, metrics=("rougeL",), sentences="given")


def test_list_as_a_candidate_rejected_where_sentences_are_looked_for():
    with pytest.raises(
        TypeError, match=r"`candidates` in row 1 must be a text, got a list; .*given"
    ):
        score_texts(["a", ["a"]], ["a", "b"], metrics=("rougeL",))


# Pickles


def test_pickled_scorer_is_small_and_gives_the_same(glove):
    config = ScoringConfig(metrics=METRICS, encoders={"minilm": "minilm"} | glove)
    scorer = SummaryScorer(config, 1, device="cpu")
    expected = scorer.score(random_rows(5, seed=2))
    pickled = pickle.dumps(scorer)
    assert len(pickled) < 10_000
    again = pickle.loads(pickled)
    assert again.score(random_rows(5, seed=2)) == expected
    assert (again.signatures, again.threads, again.config) == (scorer.signatures, 1, config)


def test_pickled_scorer_keeps_its_cache_folder(glove, tmp_path):
    config = ScoringConfig(metrics=("cosine",))
    scorer = SummaryScorer(config, cache_folder=str(tmp_path))
    scorer.score(to_rows([GOOD], [REFERENCE]))
    again = pickle.loads(pickle.dumps(scorer))
    again.score(to_rows([GOOD], [REFERENCE]))
    assert again.counters()["minilm.from_disk"] == 4

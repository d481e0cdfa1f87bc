"""Scoring lists of texts from end to end: statuses, several references, options, laws."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sms import metrics
from sms.encoders import EncodedSentences, EncoderRuntime
from sms.ragged import Ragged
from sms.scorers import SentenceMover
from sms.scoring import ScoringConfig, SummaryScorer, score_texts
from sms.text import split_sentences

MOVERS = ("sms", "wms", "s+wms")
EMBEDDED = (*MOVERS, "cosine")
METRICS = (*EMBEDDED, "rougeL_f")
MINILM_ATOL = 1e-5
"""How far float32 sums in another order may move a score."""

NOUNS = ["cat", "dog", "hen", "cow", "fox", "owl", "pig", "rat", "ant", "bee"]
VERBS = ["saw", "bit", "fed", "led", "met"]

GOOD = "The cat met a dog. A hen saw the fox!"
REFERENCE = "A dog bit the cat. The cow fed an owl."

# text, what its status says with glove vectors, with minilm
BAD = [
    pytest.param(None, "null", "null", id="null"),
    pytest.param("", "empty", "empty", id="empty"),
    pytest.param(" \n\t\u3000", "empty", "empty", id="whitespace"),
    pytest.param("... -- !? “”", "no_words", "no_words", id="punctuation"),
    pytest.param("the of and it", "no_words", "no_words", id="stop-words"),
    pytest.param("🎉🎉 👩\u200d🚀", "no_words", "no_words", id="emoji"),
    pytest.param("\u200b\ufeff", "no_words", "no_words", id="invisible"),
    pytest.param("Zyx qwv.", "no_known_words@glove", None, id="unknown-words"),
    pytest.param(
        "東京は晴れ。", "no_known_words@glove, no_rouge_tokens", "no_rouge_tokens", id="cjk"
    ),
    pytest.param(
        "مرحبا بالعالم", "no_known_words@glove, no_rouge_tokens", "no_rouge_tokens", id="rtl"
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def glove(tmp_path_factory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    rng = np.random.default_rng(1)
    lines = [
        f"{word} {' '.join(f'{value:.5f}' for value in rng.normal(size=8))}\n"
        for word in NOUNS + VERBS
    ]
    path.write_text("".join(lines))
    return {"glove": f"glove:{path}"}


@pytest.fixture(scope="module")
def minilm() -> SummaryScorer:
    return SummaryScorer(ScoringConfig(metrics=METRICS))


def table_of(
    candidates: Sequence[str | None],
    references: Sequence[Sequence[str | None] | None],
    sources: Sequence[Sequence[str | None] | None] | None = None,
) -> pa.Table:
    lists = pa.list_(pa.string())
    columns = {
        "candidate": pa.array(candidates, pa.string()),
        "references": pa.array(references, lists),
    }
    if sources is not None:
        columns["sources"] = pa.array(sources, lists)
    return pa.table(columns)


def one(**scores: pa.Table) -> dict[str, object]:
    (row,) = scores["table"].to_pylist()
    return row


def values(table: pa.Table, column: str) -> np.ndarray:
    return table[column].to_numpy()


def random_text(rng: np.random.Generator, n_sentences: int) -> str:
    return " ".join(
        f"The {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)}."
        for _ in range(n_sentences)
    )


def random_rows(n: int, seed: int) -> pa.Table:
    """Rows whose texts share sentences, with one to three references and sources."""
    rng = np.random.default_rng(seed)

    def texts(longest: int) -> list[str]:
        return [random_text(rng, rng.integers(1, longest)) for _ in range(rng.integers(1, 4))]

    return table_of(
        [random_text(rng, rng.integers(1, 5)) for _ in range(n)],
        [texts(4) for _ in range(n)],
        [texts(8) for _ in range(n)],
    )


# Bad texts: a null with its reason, never NaN, 0 or another row's score


def assert_bad(row: dict[str, object], reasons: str | None, side: str) -> None:
    """The status has these reasons; what they spare is scored, the rest is null."""
    expected = [f"{side}:{reason}" for reason in reasons.split(", ")] if reasons else []
    assert row["status"] == ("; ".join(expected) or None)
    embedded = [row[name] for name in EMBEDDED]
    if reasons is None or reasons == "no_rouge_tokens":
        assert None not in embedded
    else:
        assert embedded == [None] * len(EMBEDDED)


@pytest.mark.parametrize(("bad", "reasons", "_"), BAD)
def test_bad_candidate_has_a_status(bad, reasons, _, glove):
    table = score_texts([GOOD, bad, GOOD], [REFERENCE] * 3, metrics=METRICS, encoders=glove)
    before, row, after = table.to_pylist()
    assert before == after
    assert before["status"] is None
    assert_bad(row, reasons, "candidate")


@pytest.mark.parametrize(("bad", "reasons", "_"), BAD)
def test_bad_reference_has_a_status(bad, reasons, _, glove):
    table = score_texts([GOOD] * 2, [[bad], [REFERENCE]], metrics=METRICS, encoders=glove)
    row, good = table.to_pylist()
    assert good["status"] is None
    assert_bad(row, reasons, "reference")


@pytest.mark.parametrize(("bad", "reasons", "_"), BAD)
def test_bad_source_has_a_status(bad, reasons, _, glove):
    metrics = tuple(f"{name}:source" for name in METRICS)
    table = score_texts([GOOD], sources=[[bad]], metrics=metrics, encoders=glove)
    (row,) = table.rename_columns(
        [name.removesuffix(":source") for name in table.column_names]
    ).to_pylist()
    assert_bad(row, reasons, "source")


def test_bad_candidates_with_minilm(minilm):
    bad = [param.values[0] for param in BAD]
    table = minilm.score(table_of([*bad, GOOD], [[REFERENCE]] * (len(bad) + 1)))
    *rows, good = table.to_pylist()
    assert good["status"] is None
    for row, param in zip(rows, BAD, strict=True):
        if param.id == "stop-words":  # the model has a vector of its own for the sentence
            assert 0 < row.pop("cosine") < 1
            row["cosine"] = None
        assert_bad(row, param.values[2], "candidate")


def test_no_nan_among_the_scores(glove):
    texts = [param.values[0] for param in BAD] + [GOOD]
    pairs = [(candidate, reference) for candidate in texts for reference in texts]
    metrics = (*METRICS, "rouge1", "rouge4", "rougeLsum", "rougeW", "length", "novelty", "lead3",
               "compression", "coverage", "density", "cosine:source")  # fmt: skip
    table = score_texts(
        [candidate for candidate, _ in pairs],
        [[reference] for _, reference in pairs],
        [[reference] for _, reference in pairs],
        metrics=metrics,
        encoders=glove,
    )
    undefined = np.zeros(len(pairs), dtype=bool)
    for name in table.column_names[:-1]:
        column = table[name].combine_chunks()
        assert column.type == pa.float64()
        assert np.isfinite(column.drop_null().to_numpy()).all()
        undefined |= column.is_null().to_numpy(zero_copy_only=False)
    has_status = table["status"].is_valid().to_numpy()
    np.testing.assert_array_equal(has_status, undefined)


def test_candidate_and_reference_both_bad(glove):
    row = one(table=score_texts([None], [["..."]], metrics=METRICS, encoders=glove))
    assert row["status"] == "candidate:null; reference:no_words"


@pytest.mark.parametrize("nothing", [None, []])
def test_missing_references_have_a_status(nothing, glove):
    table = score_texts([GOOD, GOOD], [nothing, REFERENCE], metrics=METRICS, encoders=glove)
    row, good = table.to_pylist()
    assert row["status"] == "reference:missing"
    assert [row[name] for name in METRICS] == [None] * 5
    assert good["status"] is None


def test_stop_words_still_have_rouge(glove):
    row = one(table=score_texts(["the of"], ["of the"], metrics=METRICS, encoders=glove))
    assert row["rougeL_f"] == 0.5
    assert row["sms"] is None


def test_undefined_column_is_named():
    row = one(
        table=score_texts(["Cats."], sources=["Cats met dogs."], metrics=("length", "novelty"))
    )
    assert row == {"length": 1.0, "novelty": None, "status": "novelty:undefined"}


def test_pair_beyond_the_solver_has_a_status(glove, monkeypatch):
    monkeypatch.setattr("sms.movers.MAX_CELLS", 20)
    table = score_texts(
        ["A cat.", GOOD], [["A dog."], [REFERENCE]], metrics=("wms", "rougeL_f"), encoders=glove
    )
    small, large = table.to_pylist()
    assert small["status"] is None
    assert large["status"] == "reference:too_long"
    assert large["wms"] is None
    assert large["rougeL_f"] is not None


@pytest.mark.parametrize("how", ["best", "mean"])
def test_reference_beyond_the_solver_is_not_left_out(how, glove, monkeypatch):
    monkeypatch.setattr("sms.movers.MAX_CELLS", 20)
    options = {"metrics": ("wms", "cosine"), "encoders": glove, "multi_reference": how}
    row, good = score_texts(
        [GOOD, GOOD], [[REFERENCE, "A dog."], ["", "A dog."]], **options
    ).to_pylist()
    assert row["wms"] is None
    assert row["cosine"] is not None
    assert row["status"] == "reference:too_long"
    assert good["wms"] is not None
    assert good["status"] is None


def test_repeated_words_are_not_too_long(glove, monkeypatch):
    monkeypatch.setattr("sms.movers.MAX_CELLS", 20)
    options = {"metrics": ("wms", "novelty"), "encoders": glove}
    row = one(table=score_texts(["Cat " * 9], ["Dog " * 9], [None], **options))
    assert row["wms"] > 0
    assert row["status"] == "source:missing"


@pytest.mark.parametrize("metrics", [("sms", "rougeL_f"), ("wms", "sms", "s+wms")])
def test_sentences_of_a_pair_with_too_many_words_are_scored(metrics, glove, monkeypatch):
    expected = one(table=score_texts([GOOD], [REFERENCE], metrics=("sms",), encoders=glove))
    monkeypatch.setattr("sms.movers.MAX_CELLS", 20)
    row = one(table=score_texts([GOOD], [REFERENCE], metrics=metrics, encoders=glove))
    assert row["sms"] == expected["sms"]
    assert row["status"] == ("reference:too_long" if "wms" in metrics else None)
    assert row.get("wms") is row.get("s+wms") is None


def test_huge_candidate(glove):
    huge = random_text(np.random.default_rng(2), 20_000)
    assert len(huge.split()) == 100_000
    metrics = (*METRICS, "length")
    table = score_texts([huge, GOOD], [REFERENCE] * 2, metrics=metrics, encoders=glove)
    row, good = table.to_pylist()
    assert row["status"] is None
    assert row["length"] == 100_000
    assert all(0 < row[name] < 1 for name in MOVERS)
    alone = score_texts([GOOD], [REFERENCE], metrics=metrics, encoders=glove)
    assert good == one(table=alone)


def test_one_huge_sentence(glove):
    huge = " ".join(np.random.default_rng(3).choice(NOUNS, 100_000))
    row = one(table=score_texts([huge], [REFERENCE], metrics=METRICS, encoders=glove))
    assert row["status"] is None


def test_no_rows(glove):
    table = score_texts([], [], metrics=METRICS, encoders=glove)
    assert table.num_rows == 0
    assert table.column_names == [*METRICS, "coverage@glove", "status"]


def test_only_bad_rows(glove):
    table = score_texts([None, "", "..."], [[None], None, [""]], metrics=METRICS, encoders=glove)
    assert table["status"].to_pylist() == [
        "candidate:null; reference:null",
        "candidate:empty; reference:missing",
        "candidate:no_words; reference:empty",
    ]


# Laws


def test_identical_texts_are_exactly_one(glove):
    rng = np.random.default_rng(4)
    texts = [random_text(rng, n) for n in range(1, 12)] + [GOOD, "Cat", "cat cat cat dog"]
    metrics = (*EMBEDDED, "sms:source", "rouge1_f", "rougeL_f", "rougeLsum_f", "rougeW_f")
    table = score_texts(texts, texts, texts, metrics=metrics, encoders=glove)
    for name in metrics:
        np.testing.assert_array_equal(values(table, name), 1.0, err_msg=name)
    assert table["status"].null_count == len(texts)


def test_identical_texts_are_exactly_one_with_minilm(minilm):
    texts = [GOOD, REFERENCE, "warmer states . for $ 89 , he 's gone .", "東京 tower", "One"]
    table = minilm.score(table_of(texts, [[text] for text in texts]))
    for name in METRICS:
        np.testing.assert_array_equal(values(table, name), 1.0, err_msg=name)


def test_word_order_changes_nothing_with_static_vectors(glove):
    table = score_texts(
        ["The cat met a dog.", "A dog met the cat."], [REFERENCE] * 2, metrics=EMBEDDED,
        encoders=glove,
    )  # fmt: skip
    first, second = table.to_pylist()
    assert first == second


def test_sentence_order_changes_nothing_with_static_vectors(glove):
    table = score_texts(
        ["A cat met dogs. A hen saw it.", "A hen saw it. A cat met dogs."],
        [REFERENCE] * 2,
        metrics=MOVERS,
        encoders=glove,
    )
    first, second = table.to_pylist()
    assert first == second


def test_repetition_lowers_the_similarity(glove):
    # Clark et al. 2019, table 1
    table = score_texts(
        [REFERENCE, f"{REFERENCE} A dog bit the cat. A dog bit the cat."],
        [REFERENCE] * 2,
        metrics=MOVERS,
        encoders=glove,
    )
    for name in MOVERS:
        straight, repeated = values(table, name)
        assert repeated < straight == 1.0


def test_row_order_is_kept(glove):
    rng = np.random.default_rng(5)
    texts = [random_text(rng, 3) for _ in range(20)]
    candidates = [texts[k] for k in rng.integers(0, 20, 200)]
    references = [texts[k] for k in rng.integers(0, 20, 200)]
    table = score_texts(candidates, references, metrics=EMBEDDED, encoders=glove)
    same = np.array([a == b for a, b in zip(candidates, references, strict=True)])
    np.testing.assert_array_equal(values(table, "sms")[same], 1.0)
    for k in (0, 57, 199):
        alone = score_texts([candidates[k]], [references[k]], metrics=EMBEDDED, encoders=glove)
        assert table.slice(k, 1).to_pylist() == alone.to_pylist()


ALL_SIDES = (*EMBEDDED, "s+wms:source", "sms:source", "rougeL", "rougeLsum_f", "novelty", "density")


def test_other_rows_change_no_bit_with_static_vectors(glove):
    scorer = SummaryScorer(ScoringConfig(metrics=ALL_SIDES, encoders=glove))
    rows = random_rows(80, seed=6)
    expected = scorer.score(rows).to_pylist()
    alone = [scorer.score(rows.slice(k, 1)).to_pylist()[0] for k in range(80)]
    assert alone == expected
    order = np.random.default_rng(7).permutation(80)
    shuffled = scorer.score(rows.take(pa.array(order))).to_pylist()
    assert shuffled == [expected[k] for k in order]


def test_other_rows_change_little_with_minilm(minilm):
    rows = random_rows(20, seed=8)
    expected = minilm.score(rows)
    order = np.random.default_rng(9).permutation(20)
    fresh = SummaryScorer(minilm.config)
    shuffled = fresh.score(rows.take(pa.array(order)))
    alone = pa.concat_tables([minilm.score(rows.slice(k, 1)) for k in range(20)])
    for name in METRICS:
        wanted = values(expected, name)
        np.testing.assert_allclose(values(shuffled, name), wanted[order], atol=MINILM_ATOL)
        np.testing.assert_allclose(values(alone, name), wanted, atol=MINILM_ATOL)


def test_threads_change_no_bit(glove):
    rows = random_rows(30, seed=10)
    config = ScoringConfig(metrics=ALL_SIDES, encoders=glove)
    found = [SummaryScorer(config, threads=n).score(rows).to_pylist() for n in (1, 2)]
    assert found[0] == found[1]


def test_chunked_input_changes_nothing(glove):
    scorer = SummaryScorer(ScoringConfig(metrics=ALL_SIDES, encoders=glove))
    rows = random_rows(10, seed=11)
    pieces = pa.concat_tables([rows.slice(0, 3), rows.slice(3, 0), rows.slice(3)])
    assert scorer.score(pieces).to_pylist() == scorer.score(rows).to_pylist()


# Several references, sources


REFERENCES = [
    [REFERENCE, GOOD, "The pig led a rat."],
    ["A bee met an ant.", "The cat met a dog."],
    ["The owl saw the cow."],
    [GOOD, GOOD],
]
CANDIDATES = [GOOD, "The cat met a dog. It fed.", "An owl saw cows and hens.", REFERENCE]


def each_reference(glove: dict[str, str], metrics: Sequence[str]) -> list[list[dict[str, float]]]:
    """Scores of every candidate against each of its references alone."""
    return [
        [
            one(table=score_texts([candidate], [[reference]], metrics=metrics, encoders=glove))
            for reference in references
        ]
        for candidate, references in zip(CANDIDATES, REFERENCES, strict=True)
    ]


@pytest.mark.parametrize("how", ["best", "mean", "first"])
def test_several_references_match_single_ones(how, glove):
    metrics = (*EMBEDDED, "rougeL", "rouge1_p", "rouge1_f")
    singles = each_reference(glove, metrics)
    table = score_texts(
        CANDIDATES, REFERENCES, metrics=metrics, encoders=glove, multi_reference=how
    )
    for row, single in zip(table.to_pylist(), singles, strict=True):
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


def test_best_is_the_default(glove):
    options = {"metrics": METRICS, "encoders": glove}
    assert (
        score_texts(CANDIDATES, REFERENCES, **options).to_pylist()
        == score_texts(CANDIDATES, REFERENCES, multi_reference="best", **options).to_pylist()
    )


@pytest.mark.parametrize("how", ["best", "mean"])
def test_bad_references_are_left_out(how, glove):
    options = {"metrics": METRICS, "encoders": glove, "multi_reference": how}
    alone = score_texts([GOOD], [[REFERENCE]], **options)
    among = score_texts([GOOD], [[None, "", "...", REFERENCE, "東京"]], **options)
    assert one(table=among)["status"] is None
    for name in METRICS:
        assert values(among, name)[0] == pytest.approx(values(alone, name)[0], abs=1e-12)


def test_bad_first_reference_is_not_replaced(glove):
    row = one(
        table=score_texts(
            [GOOD], [["", REFERENCE]], metrics=METRICS, encoders=glove, multi_reference="first"
        )
    )
    assert row["status"] == "reference:empty"
    assert row["sms"] is None


@pytest.mark.parametrize("how", ["best", "mean", "first"])
def test_sources_are_averaged(how, glove):
    metrics = ("sms:source", "cosine:source", "rouge1_r:source", "novelty", "compression")
    options = {"metrics": metrics, "encoders": glove, "multi_reference": how}
    together = score_texts([GOOD], sources=[[REFERENCE, GOOD]], **options)
    alone = [score_texts([GOOD], sources=[source], **options) for source in (REFERENCE, GOOD)]
    for name in ("sms:source", "cosine:source", "rouge1_r:source", "novelty", "compression"):
        expected = np.mean([values(table, name)[0] for table in alone])
        assert values(together, name)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("n_tokens", "cut"),
    [
        (1, "  A"),
        (5, "  A dog bit\n the cat."),
        (6, "  A dog bit\n the cat. The"),
        (9, "  A dog bit\n the cat. The cow fed an"),
        (10, None),
        (99, None),
        (10**30, None),
    ],
)
def test_source_tokens(n_tokens, cut, glove):
    source = "  A dog bit\n the cat. The cow fed an owl. "
    metrics = ("rouge1:source", "cosine:source", "compression")
    options = {"metrics": metrics, "encoders": glove}
    found = score_texts([GOOD], sources=[source], source_tokens=n_tokens, **options)
    expected = score_texts([GOOD], sources=[source if cut is None else cut], **options)
    assert found.to_pylist() == expected.to_pylist()


def test_source_tokens_leave_references_alone(glove):
    options = {"metrics": ("sms", "rougeL"), "encoders": glove}
    found = score_texts([GOOD], [REFERENCE], [REFERENCE], source_tokens=2, **options)
    assert found.to_pylist() == score_texts([GOOD], [REFERENCE], **options).to_pylist()


# Encoders, coverage, presets


@pytest.fixture(scope="module")
def coarse(tmp_path_factory) -> str:
    """Few words, other dimension: texts without any of them have no cosine."""
    path = tmp_path_factory.mktemp("coarse") / "coarse.txt"
    path.write_text("cat 1 0\ndog 0.6 0.8\nhen -1 2\n")
    return f"glove:{path}"


@pytest.mark.parametrize("how", ["best", "mean", "first"])
@pytest.mark.parametrize("side", ["reference", "source"])
def test_cosine_of_all_is_the_mean_of_the_columns(how, side, glove, coarse):
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


def test_cosine_of_all_by_hand(coarse, tmp_path):
    """Cosines .6 and 0 under the two, worked out from the files."""
    (tmp_path / "v.txt").write_text("cat 0 1 0\ndog 3 0 4\n")
    encoders = {"coarse": coarse, "other": f"glove:{tmp_path}/v.txt"}
    table = score_texts(["cat"], ["dog"], metrics=("cosine@all",), encoders=encoders)
    assert table.column_names == ["cosine@all", "coverage@coarse", "coverage@other", "status"]
    assert values(table, "cosine@all")[0] == pytest.approx(0.3, abs=1e-7)  # vectors are float32


def test_cosine_of_all_with_one_encoder_is_its_own(glove):
    options = {"metrics": ("cosine@all", "cosine"), "encoders": glove}
    table = score_texts(CANDIDATES, REFERENCES, **options)
    np.testing.assert_array_equal(values(table, "cosine@all"), values(table, "cosine"))


class SentenceVectors:
    """Gives a sentence its length and place in the alphabet; no words; cosine in another space."""

    signature = content_hash = "sentences"
    has_words = False
    pooling = "mean"
    unit = "sentence"

    def state(self):
        return {"sentences": 2}

    def encode(self, texts):
        points = np.array([[len(s), ord(s[0])] for s in texts.sentences], dtype=np.float64)
        words = texts.sentence_words
        owner = np.repeat(np.arange(len(words)), words.lengths)
        n_kept = np.bincount(owner[texts.is_kept[words.values]], minlength=len(words))
        return EncodedSentences(
            word_points=np.empty((0, 2)),
            sentence_words=Ragged(np.empty(0, np.int64), np.zeros(len(words) + 1, np.int64)),
            sentence_points=points,
            weights=n_kept,
            pooled=np.hstack([points, np.ones((len(words), 3))]),
            pooled_weights=words.lengths.astype(np.float64),
            n_kept=n_kept,
            n_known=n_kept,
        )


def test_sentence_encoder_scores_by_hand(monkeypatch):
    """Sentences weigh as many words as count, here one of "A cat." and two of "E hors."."""
    monkeypatch.setattr("sms.scoring.load_encoder", lambda spec, runtime: SentenceVectors())
    scorer = SummaryScorer(
        ScoringConfig(metrics=("sms", "cosine", "cosine@all"), encoders={"st": "st:model"})
    )
    # "A cat." is (6, 65), "E horse." (8, 69) and "E hors." (7, 69)
    rows = table_of(["A cat.", "A cat. A cat.", "..."], [["E horse."], ["A cat. E hors."], ["A."]])
    found = scorer.score(rows)
    first, second = (6.0, 65.0, 1.0, 1.0, 1.0), (8.0, 69.0, 1.0, 1.0, 1.0)
    cosine = np.dot(first, second) / np.linalg.norm(first) / np.linalg.norm(second)
    costs = np.array([np.hypot(2, 4), 2 / 3 * np.hypot(1, 4), np.nan])
    np.testing.assert_allclose(values(found, "sms"), np.exp(-costs), rtol=1e-12)
    assert values(found, "cosine")[0] == pytest.approx(cosine, abs=1e-12)
    np.testing.assert_array_equal(values(found, "cosine@all"), values(found, "cosine"))
    assert found["status"].to_pylist()[:2] == [None, None]
    assert scorer.counters() == {"st.sentences": 2}


class ShortSighted(SentenceVectors):
    """Reads ten letters of a sentence."""

    def encode(self, texts):
        is_cut = np.array([len(sentence) > 10 for sentence in texts.sentences])
        return replace(super().encode(texts), is_cut=is_cut)


def test_cut_text_has_a_status_beside_its_score(monkeypatch):
    monkeypatch.setattr("sms.scoring.load_encoder", lambda spec, runtime: ShortSighted())
    rows = table_of(
        ["A dog barked.", "A cat. A bird.", "A dog.", "A dog barked.", "..."],
        [["A cat."], ["A cat.", "A hen sat. A dog barked."], ["A bird."], ["..."], ["A cat."]],
        [["A fox."], ["A fox."], ["A dog barked."], ["A fox."], ["A dog barked."]],
    )
    config = ScoringConfig(metrics=("cosine", "sms", "novelty"), encoders={"use": "use:folder"})
    found = SummaryScorer(config).score(rows)
    assert found["status"].to_pylist() == [
        "candidate:cut@use",
        "reference:cut@use",
        None,  # of the source, no sentence is read by the encoder
        "reference:no_words; candidate:cut@use",
        "candidate:no_words",
    ]
    assert found["sms"].is_valid().to_pylist() == [True, True, True, False, False]
    both = ScoringConfig(metrics=("sms", "cosine:source"), encoders={"use": "use:folder"})
    status = SummaryScorer(both).score(rows)["status"].to_pylist()
    assert status[2] == "source:cut@use"


def test_runtime_reaches_the_loader(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "sms.scoring.load_encoder",
        lambda spec, runtime: seen.append((spec, runtime)) or SentenceVectors(),
    )
    config = ScoringConfig(
        metrics=("sms",), encoders={"a": "st:model"}, preset="clark2019", precision="bf16"
    )
    SummaryScorer(config, 3, device="cpu", cache_folder="kept")
    expected = EncoderRuntime(
        zero_unknown=True, precision="bf16", device="cpu", threads=3, cache_folder="kept"
    )
    assert seen == [("st:model", expected)]


def test_several_encoders_in_one_run(glove, minilm):
    encoders = {"minilm": "minilm"} | glove
    metrics = (*METRICS, "sms@glove", "cosine@glove", "wms@minilm")
    table = score_texts(CANDIDATES, REFERENCES, metrics=metrics, encoders=encoders)
    assert table.column_names == [*metrics, "coverage@minilm", "coverage@glove", "status"]
    static = score_texts(CANDIDATES, REFERENCES, metrics=EMBEDDED, encoders=glove)
    contextual = minilm.score(table_of(CANDIDATES, REFERENCES))
    for name, expected in [
        *((f"{name}@glove", values(static, name)) for name in ("sms", "cosine")),
        *((name, values(contextual, name)) for name in METRICS),
        ("wms@minilm", values(contextual, "wms")),
    ]:
        np.testing.assert_allclose(values(table, name), expected, atol=MINILM_ATOL, err_msg=name)


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


def test_unused_encoder_is_not_loaded(glove):
    scorer = SummaryScorer(
        ScoringConfig(metrics=("rougeL", "sms@glove"), encoders={"minilm": "minilm"} | glove)
    )
    assert list(scorer.encoders) == ["glove"]


def test_coverage_by_hand(glove):
    candidates = ["Cats: the cat, dog and zyx.", "Cat dog", "Zyx", None]
    references = ["A hen qwv.", ["Hen", "Cow qwv"], "Cat", "Cat"]
    table = score_texts(candidates, references, metrics=("sms",), encoders=glove)
    # known and kept: cat dog hen of cats cat dog zyx hen qwv; cat dog hen cow of those and qwv
    assert table["coverage@glove"].to_pylist() == pytest.approx([3 / 6, 4 / 5, 1 / 2, 1.0])


def test_coverage_counts_what_is_compared(glove):
    table = score_texts(
        ["Cat"], ["Zyx"], ["Dog qwv"], metrics=("sms:source", "rougeL"), encoders=glove
    )
    assert table["coverage@glove"].to_pylist() == pytest.approx([2 / 3])


def test_coverage_of_a_model_by_hand(minilm):
    table = minilm.score(
        table_of(["The ፖሊስ sat.", "A dog", "ፖሊስ ሌባ"], [["A cat saw ሌባ."], ["Dog"], ["Cat"]])
    )
    # known and kept: sat cat saw of those and two more; dog dog; cat of it and two more
    assert table["coverage@minilm"].to_pylist() == pytest.approx([3 / 5, 1.0, 1 / 3])
    *known, unknown = table["status"].to_pylist()
    assert known == [None, None]
    assert unknown.startswith("candidate:no_known_words@minilm")


def test_texts_that_differ_in_unknown_words_have_a_status(glove):
    rows = table_of(
        ["Cat zyx.", "Cat zyx.", "Cat zyx.", "Zyx cat."],
        [["Cat qwv."], ["Hen.", "Cat qwv."], ["Cat qwv.", "Cat zyx."], ["Cat! ZYX?"]],
    )
    found = SummaryScorer(ScoringConfig(metrics=EMBEDDED, encoders=glove)).score(rows)
    for name in EMBEDDED:
        # the doubtful reference might be the best; a copy is, and order and case are no words
        assert found[name].is_valid().to_pylist() == [False, False, True, True], name
        assert values(found, name)[2:].tolist() == pytest.approx([1.0, 1.0])
    doubt = "reference:same_to@glove"
    assert found["status"].to_pylist() == [doubt, doubt, None, None]
    mean = score_texts(
        ["Cat zyx."], [["Cat qwv.", "Cat zyx."]], metrics=("sms",), encoders=glove,
        multi_reference="mean",
    )  # fmt: skip
    assert (mean["sms"][0].as_py(), mean["status"][0].as_py()) == (None, doubt)


@pytest.mark.parametrize(("language", "share"), [("zh", 15), ("ja", 41)])
def test_language_that_the_tokeniser_does_not_know_rejected(language, share):
    message = (
        f"encoder `minilm` must know the words of language '{language}', but knows {share}% of "
        "those of a sample; use one made for it, such as hf:bert-base-multilingual-cased"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        SummaryScorer(ScoringConfig(metrics=("sms",), language=language))
    SummaryScorer(ScoringConfig(metrics=("rougeL",), language=language))  # reads no encoder


@pytest.mark.parametrize("language", ["de", "fr", "es", "ar"])
def test_language_that_the_tokeniser_knows_accepted(language):
    scorer = SummaryScorer(ScoringConfig(metrics=("sms",), language=language))
    assert scorer.counters()["minilm.words"] == 0  # the sample does not count


def test_preset_clark2019_keeps_unknown_words_as_zeros(glove):
    # FINDINGS 1: two different documents of unknown words score 1.0 in the released code
    options = {"metrics": MOVERS, "encoders": glove}
    released = score_texts(["Zyx qwv."], ["Vwq xyz yxz."], preset="clark2019", **options)
    assert [values(released, name)[0] for name in MOVERS] == [1.0] * 3
    assert score_texts(["Zyx qwv."], ["Vwq xyz yxz."], **options)["sms"].null_count == 1


def test_preset_clark2019_lowers_similarity_to_unknown_words(glove):
    options = {"metrics": ("wms",), "encoders": glove}
    candidates, references = ["Cat zyx."], ["Cat."]
    by_default = score_texts(candidates, references, **options)
    assert by_default["status"].to_pylist() == ["reference:same_to@glove"]
    assert by_default["wms"].null_count == 1
    found = score_texts(candidates, references, preset="clark2019", **options)
    vectors = SummaryScorer(ScoringConfig(**options)).encoders["glove"]
    cat = np.linalg.norm(vectors._vectors[vectors.row_of("cat")].astype(np.float64))
    assert values(found, "wms")[0] == pytest.approx(np.exp(-cat / 2), abs=1e-12)


def test_preset_default_is_the_default(glove):
    options = {"metrics": METRICS, "encoders": glove}
    assert (
        score_texts(CANDIDATES, REFERENCES, preset="default", **options).to_pylist()
        == score_texts(CANDIDATES, REFERENCES, **options).to_pylist()
    )


# What is refused

# options, message
REFUSED = [
    ({"multi_reference": "worst"}, "`multi_reference` must be one of best, mean, first, got 'wor"),
    ({"preset": "clark"}, "`preset` must be one of default, clark2019, got 'clark'"),
    ({"language": "xx"}, "`language` must be one of en, de, fr, es, ar, zh, ja, got 'xx'"),
    ({"precision": "fp8"}, "`precision` must be one of auto, fp32, bf16, fp16, got 'fp8'"),
    ({"source_tokens": 0}, "`source_tokens` must be at least 1, got 0"),
    ({"metrics": ()}, "`metrics` must name at least one metric"),
    ({"metrics": ("smss",)}, "unknown metric 'smss'; did you mean `sms`?"),
    ({"metrics": ("sms@other",)}, "metric 'sms@other' names no encoder of this run; there are min"),
    ({"metrics": ("sms", "wms", "sms")}, "`metrics` must not give a column twice, got 'sms'"),
    ({"metrics": ("rougeL", "rougeL_f")}, "must not give a column twice, got 'rougeL_f'"),
    ({"encoders": {}}, "`encoders` must name at least one encoder"),
    ({"encoders": {"a b": "minilm"}}, "encoder alias 'a b' must be letters"),
    ({"encoders": {"x": "minilmm"}}, "unknown encoder 'minilmm'; did you mean `minilm`?"),
    ({"encoders": {"x": "globe:f.txt"}}, "unknown encoder 'globe'; did you mean `glove:PATH`?"),
    ({"encoders": {"x": "elephant"}}, "unknown encoder 'elephant'; see `assay encoders`"),
    ({"encoders": {"x": "glove"}}, "encoder `glove` must be written `glove:PATH`, got no path"),
    ({"encoders": {"x": "minilm:f"}}, "encoder `minilm` must be written `minilm`, got the path"),
    ({"encoders": {"x": "glove:f,poling=max"}}, "no option `poling`; did you mean `pooling`?"),
    ({"encoders": {"all": "minilm"}}, "encoder alias 'all' is taken"),
]
# options, message
WRONG_KIND = [
    ({"source_tokens": 3.0}, "`source_tokens` must be an integer, got 3.0"),
    ({"source_tokens": True}, "`source_tokens` must be an integer, got True"),
    ({"metrics": [3]}, "expected str"),
    ({"encoders": "minilm"}, "`encoders` must map aliases to specifications, as {'minilm': 'min"),
    ({"encoders": {"a": None}}, "encoder `a` must be a text such as 'minilm', got None"),
]
SENTENCES_ONLY = {"st": "st:org/model", "use": "use:folder", "infersent": "infersent:i,vectors=v"}
WITH_WORDS = {"minilm": "minilm", "hf": "hf:org/model", "glove": "glove:f", "elmo": "elmo:folder"}


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_wrong_option_rejected(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ScoringConfig(**options)


@pytest.mark.parametrize(("options", "message"), WRONG_KIND)
def test_option_of_a_wrong_kind_rejected(options, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        ScoringConfig(**options)


@pytest.mark.parametrize("alias", SENTENCES_ONLY)
@pytest.mark.parametrize("metric", ["wms", "s+wms", "wms@x", "s+wms:source"])
def test_words_of_a_sentence_encoder_rejected(metric, alias):
    message = (
        f"metric {metric!r} needs word vectors, which `{alias}` has not; encoders with word "
        "vectors are minilm, hf:PATH_OR_ID, glove:PATH, word2vec:PATH, fasttext:PATH, "
        "elmo:PATH_OR_URL"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        ScoringConfig(metrics=("sms", "cosine", metric), encoders={"x": SENTENCES_ONLY[alias]})


def test_sentence_encoders_beside_word_encoders_accepted():
    config = ScoringConfig(
        metrics=(*(f"sms@{alias}" for alias in SENTENCES_ONLY | WITH_WORDS), "cosine@all",
                 *(f"{metric}@{alias}" for metric in ("wms", "s+wms") for alias in WITH_WORDS)),
        encoders=SENTENCES_ONLY | WITH_WORDS,
    )  # fmt: skip
    assert config.columns[-len(WITH_WORDS) :] == tuple(f"coverage@{a}" for a in WITH_WORDS)
    assert config.used_encoders == tuple(SENTENCES_ONLY | WITH_WORDS)


@pytest.mark.parametrize("name", ["candidates", "references", "sources"])
def test_one_text_for_a_list_rejected(name):
    texts = {"candidates": ["a"], "references": ["a"], "sources": ["a"]} | {name: "a"}
    with pytest.raises(TypeError, match=f"`{name}` must be a list of texts, got one text"):
        score_texts(**texts, metrics=("rougeL",))


def test_unknown_option_rejected():
    with pytest.raises(TypeError, match="encoder"):
        score_texts([GOOD], [REFERENCE], encoder="minilm")


@pytest.mark.parametrize("side", ["references", "sources"])
def test_lengths_that_differ_rejected(side):
    with pytest.raises(ValueError, match=f"`{side}` must be as many as candidates, got 1 and 2"):
        score_texts([GOOD, GOOD], **{side: [REFERENCE]}, metrics=("rougeL",))


@pytest.mark.parametrize(
    ("metric", "side"), [("sms", "references"), ("sms:source", "sources"), ("novelty", "sources")]
)
def test_side_that_is_not_given_rejected(metric, side):
    with pytest.raises(ValueError, match=f"`{side}` must be given for {metric}"):
        score_texts([GOOD], metrics=(metric,))


def test_missing_vector_file_rejected(tmp_path: Path):
    encoders = {"glove": f"glove:{tmp_path / 'none.txt'}"}
    with pytest.raises(ValueError, match=r"no vector file at .*none\.txt"):
        score_texts([GOOD], [REFERENCE], metrics=("sms",), encoders=encoders)


# What a caller may ask


def test_columns_and_inputs(glove):
    config = ScoringConfig(
        metrics=("sms@glove", "rouge1", "rougeL_f:source", "length"),
        encoders={"minilm": "minilm"} | glove,
    )
    scorer = SummaryScorer(config)
    assert scorer.score_fields == (
        *("sms@glove", "rouge1_p", "rouge1_r", "rouge1_f"),
        *("rougeL_f:source", "length", "coverage@glove"),
    )
    assert scorer.input_columns == ("candidate", "references", "sources")
    assert ScoringConfig(metrics=("length",)).input_columns == ("candidate",)
    assert ScoringConfig(metrics=("novelty",)).input_columns == ("candidate", "sources")


def test_counters_count_distinct_sentences_once():
    scorer = SummaryScorer(ScoringConfig(metrics=("sms",)))
    rows = table_of([GOOD, GOOD], [[REFERENCE], [REFERENCE]])
    scorer.score(rows)
    once = scorer.counters()
    assert (once["minilm.sentences"], once["minilm.cached"]) == (4, 0)
    scorer.score(rows)
    again = scorer.counters()
    assert (again["minilm.tokens"], again["minilm.cached"]) == (once["minilm.tokens"], 4)


def test_next_batch_may_be_prepared_first(glove):
    scorer = SummaryScorer(ScoringConfig(metrics=ALL_SIDES, encoders=glove))
    batches = [random_rows(10, seed=12), random_rows(10, seed=13)]
    expected = [scorer.score(batch).to_pylist() for batch in batches]
    prepared = [scorer.prepare(batch) for batch in batches]
    assert [scorer.compare(batch).to_pylist() for batch in prepared] == expected


def test_emptied_vocabulary_changes_no_bit(glove, monkeypatch):
    config = ScoringConfig(metrics=ALL_SIDES, encoders=glove)
    batches = [random_rows(10, seed=seed) for seed in (14, 15, 14)]
    whole = SummaryScorer(config)
    expected = [whole.score(batch).to_pylist() for batch in batches]
    monkeypatch.setattr("sms.text.MAX_CHUNKS", 5)
    small = SummaryScorer(config)
    first = small.prepare(batches[0])
    second = small.prepare(batches[1])  # empties the table while the first waits
    assert small.compare(first).to_pylist() == expected[0]
    assert small.compare(second).to_pylist() == expected[1]
    assert small.score(batches[2]).to_pylist() == expected[2]


def test_configuration_as_values(glove):
    config = ScoringConfig(metrics=("sms",), encoders=glove)
    again = ScoringConfig(**config.as_dict())
    assert again.columns == config.columns
    assert config.as_dict()["encoders"] == glove


def test_configuration_does_not_depend_on_how_a_specification_is_written(glove):
    (spec,) = glove.values()
    other = ScoringConfig(metrics=("sms",), encoders={"glove": f"{spec},pooling=mean"})
    assert other.as_dict() == ScoringConfig(metrics=("sms",), encoders=glove).as_dict()


def test_precision_is_part_of_the_configuration():
    assert ScoringConfig(precision="bf16").as_dict() != ScoringConfig().as_dict()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_metric_that_divides_by_zero_gives_null_and_a_status(monkeypatch, value):
    density = replace(metrics.METRICS["density"], of_words=lambda *_: np.array([0.5, value]))
    monkeypatch.setitem(metrics.METRICS, "density", density)

    table = score_texts([GOOD, GOOD], sources=[REFERENCE, GOOD], metrics=("density", "length"))

    assert table["density"].to_pylist() == [0.5, None]
    assert table["status"].to_pylist() == [None, "density:undefined"]


# Given sentences

GIVEN_METRICS = ("sms", "s+wms", "cosine", "rougeLsum", "lead3", "sms:source", "length", "novelty")


def test_given_sentences_score_as_those_that_are_found(glove):
    texts = random_rows(20, seed=21).select(["candidate", "references", "sources"]).to_pylist()
    lists = [
        {
            side: [list(map(str.strip, split_sentences(text or ""))) for text in given or []]
            for side, given in {**row, "candidate": [row["candidate"]]}.items()
        }
        for row in texts
    ]
    options = {"metrics": GIVEN_METRICS, "encoders": glove}
    expected = score_texts(*zip(*map(dict.values, texts), strict=True), **options)
    found = score_texts(
        [row["candidate"][0] for row in lists],
        [row["references"] for row in lists],
        [row["sources"] for row in lists],
        sentences="given",
        **options,
    )
    for name in expected.column_names:
        if name != "status":
            assert found[name].to_pylist() == expected[name].to_pylist()


def test_given_sentences_are_not_cut(glove):
    options = {"metrics": ("sms",), "encoders": glove, "sentences": "given"}
    reference = ["A cat bit a dog.", "The owl fed a hen."]
    scores = score_texts([reference, [" ".join(reference)]], [reference] * 2, **options)["sms"]
    assert scores[0].as_py() == 1.0
    assert scores[1].as_py() < 0.99


def test_depth_tells_sentences_from_references(glove):
    options = {"metrics": ("sms",), "encoders": glove, "sentences": "given"}
    one, other = "A cat bit a dog.", "The owl fed a hen."
    references = [[one, other], [[one], [other]], [[one, other]], one]
    scores = score_texts([[one]] * 4, references, **options)["sms"].to_pylist()
    assert scores[0] == scores[2] < 0.99  # one reference of two sentences
    assert scores[1] == scores[3] == 1.0  # the better one of two references, and a single one


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


def test_one_metric_takes_given_sentences(glove):
    (encoder,) = glove.values()
    mover = SentenceMover("sms", encoder=encoder, sentences="given")
    text = ["A cat bit a dog.", "The owl fed a hen."]
    assert mover.score([text], [text[::-1]]).tolist() == [1.0]
    assert "|split:given|" in mover.signature

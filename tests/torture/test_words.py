"""Texts that differ in a word that counts never score exactly 1, whatever the encoder knows.

Ten scripts that the default encoder's tokeniser does not know, words it does not know for other
reasons, and words it cannot tell apart, alone and among English ones: see `words.toml`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random

import pytest

from sms import score_texts
from sms.scoring import ScoringConfig, SummaryScorer, to_rows

LISTED = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
SCRIPTS = LISTED["scripts"]
OTHERS = LISTED["others"] | {"long": " ".join(letter * 120 for letter in "abcde")}
FRAMES = (
    "{}",
    "{}.",
    "{} {} {}",
    "The {} arrested the man near Boston.",
    "It was {}. The cat sat on the mat. It was {}, not {}.",
    "A man near Boston sells {} online. {} {}.",
)
NAMES = ("sms", "wms", "s+wms", "cosine")
METRICS = tuple(f"{name}@{alias}" for alias in ("minilm", "few") for name in NAMES)


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "few.txt"
    path.write_text("man 1 2 0\nBoston 3 4 1\ncat 0 1 1\npolice 2 2 1\nthief 5 0 1\n", "utf-8")
    encoders = {"minilm": "minilm", "few": f"glove:{path}"}
    return SummaryScorer(ScoringConfig(metrics=METRICS, encoders=encoders))


def drawn_pairs(words):
    """Fill frames with words; in the second text one word is another one."""
    rng = Random(7)
    for frame in FRAMES * 3:
        first = rng.choices(words, k=frame.count("{}"))
        second = list(first)
        place = rng.randrange(len(first))
        second[place] = rng.choice([word for word in words if word != first[place]])
        yield frame.format(*first), frame.format(*second)


@pytest.mark.parametrize("name", [*SCRIPTS, *OTHERS])
def test_texts_that_differ_in_a_word_never_score_1(name, scorer):
    first, second = zip(*drawn_pairs((SCRIPTS | OTHERS)[name].split()), strict=True)
    table = scorer.score(to_rows(first, references=second))
    for a, b, row in zip(first, second, table.to_pylist(), strict=True):
        for metric in METRICS:
            assert row[metric] != 1.0, (a, b, metric)
            if row[metric] is None:
                alias = metric.partition("@")[2]
                reasons = (f"no_known_words@{alias}", f"indistinguishable@{alias}")
                assert any(reason in row["status"] for reason in reasons)


@pytest.mark.parametrize("name", SCRIPTS)
def test_default_encoder_does_not_know_these_scripts(name, scorer):
    words = SCRIPTS[name].split()
    table = scorer.score(to_rows([*words, "The man."], references=[*words, "The man."]))
    *unknown, known = table.to_pylist()
    for row in unknown:
        assert row["known_words@minilm"] == 0.0
        assert {row[f"{name}@minilm"] for name in NAMES} == {None}
        for side in ("candidate", "reference"):
            assert f"{side}:no_known_words@minilm" in row["status"]
    assert (known["sms@minilm"], known["known_words@minilm"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    "name", ["mathematical letters", "full width", "circled digits", "ligatures"]
)
def test_compatibility_forms_are_known(name, scorer):
    table = scorer.score(to_rows(OTHERS[name].split(), references=["The man."] * 5))
    assert table["known_words@minilm"].to_pylist() == [1.0] * 5
    assert table["sms@minilm"].null_count == 0


def test_order_copies_case_and_width_are_no_other_words():
    text = "The 警察 arrested a man. Nobody saw the 小偷 there."
    same = [
        "Nobody saw the 小偷 there. The 警察 arrested a man.",
        f"{text} {text}",
        text.replace("Nobody", "nobody"),
        text.replace("man", "ｍａｎ"),  # noqa: RUF001
    ]
    rows = score_texts([text] * 4, same, metrics=NAMES).to_pylist()
    assert [row["status"] for row in rows] == [None] * 4
    for row in rows[:2]:
        for name in NAMES:
            assert row[name] == pytest.approx(1.0, abs=1e-5)

"""Undoing what tokenisers do: the same text, tokenised or not, has the same features."""

import numpy as np
import pytest
import regex
from nltk.tokenize import NLTKWordTokenizer

from reffree.features import FeatureConfig, PairFeatures
from sms.baselines import BASELINES
from sms.detokenize import detokenized
from sms.scoring import score_texts

WRITTEN = (
    "The U.S. judge (aged 61) hasn't said why they're cutting £2,500 from the team's pay. "
    "“It won't help,” said Ann O'Brien at 7.30 p.m., “and we cannot pay 4.5% more.” "
    "Well-known players, who'd waited since 2019, weren't there!"
)
SOURCE = f"{WRITTEN} Nobody's sure that it'll work; the club doesn't have $1,200,000. It's over."
TREEBANK_BRACKETS = {"(": "-LRB-", ")": "-RRB-"}


def by_treebank(text):
    straight = text.replace("“", '"').replace("”", '"')
    tokens = []
    for sentence in regex.split(r"(?<=[!”]|pay\.) ", straight):  # only a final stop stands alone
        tokens += NLTKWordTokenizer().tokenize(sentence)
    return " ".join(TREEBANK_BRACKETS.get(token, token) for token in tokens)


def by_bert(text):
    return " ".join(regex.findall(r"[\p{L}\p{N}£]+|[^\s\p{L}\p{N}]", text))


@pytest.mark.parametrize("tokenized", [by_treebank, by_bert])
@pytest.mark.parametrize("sides", ["candidate", "source", "both"])
def test_tokenised_text_has_the_features_of_the_text_as_written(tokenized, sides):
    features = PairFeatures(FeatureConfig())
    source = tokenized(SOURCE) if sides != "candidate" else SOURCE
    candidate = tokenized(WRITTEN) if sides != "source" else WRITTEN
    assert (source, candidate) != (SOURCE, WRITTEN)
    np.testing.assert_array_equal(
        features.read([source], [candidate]).values, features.read([SOURCE], [WRITTEN]).values
    )


@pytest.mark.parametrize(
    "text",
    [
        "In 2016, 300 people came. He's 5, she's 12; they'd had 1,200 - or 7.5 - each (or so).",
        "Rock 'n' roll in the '90s: the Joneses' house, d'Artagnan's... and 'so on'.\nA new line",
        "",
        " ",
    ],
)
def test_text_as_written_is_left_alone(text):
    assert detokenized(text) == text


@pytest.mark.parametrize("tokenized", [by_treebank, by_bert])
def test_baselines_count_the_words_of_the_text_as_written(tokenized):
    names = [baseline.name for baseline in BASELINES]
    other = "It's over, they said; it didn’t matter."
    candidates = [WRITTEN, tokenized(WRITTEN), other, other.replace("’", "'"), WRITTEN]
    sources = [SOURCE, SOURCE, SOURCE, SOURCE, tokenized(SOURCE)]
    scores = score_texts(candidates, sources=sources, metrics=names).to_pandas()[names]
    for same in (scores.iloc[[0, 1, 4]], scores.iloc[[2, 3]]):
        np.testing.assert_array_equal(same, same.iloc[[0] * len(same)])
    assert scores["coverage"][0] == 1.0


def test_other_languages_are_counted_as_they_stand():
    scores = score_texts(
        ["Ce n ' t est pas", "don 't"], sources=["x", "y"], metrics=["length"], language="fr"
    )
    assert scores["length"].to_pylist() == [5.0, 2.0]

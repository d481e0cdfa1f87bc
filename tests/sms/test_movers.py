"""Word and sentence mover's similarity: the laws it obeys, and what the released code did."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from sms.scoring import ScoringConfig, SummaryScorer
from sms.transport import exact_transport
from tests.sms.mover_cases import (
    KNOWN,
    METRICS,
    PROFILE,
    known_sentences,
    known_text,
    random_texts,
    score,
    sentence_of,
)
from tests.sms.test_definition import PLAIN_RTOL, defined, kept_sentences

LAW_TOL = 1e-12


@pytest.mark.parametrize("metric", METRICS)
def test_metric_alone_equals_metric_among_others(metric, scorer, vectors):
    texts = random_texts(np.random.default_rng(5), 40)
    rows = pa.table({"candidate": texts, "references": [[text] for text in texts[::-1]]})
    alone = SummaryScorer(
        ScoringConfig(metrics=(metric,), encoders={"small": f"glove:{vectors.path}"}), threads=1
    ).score(rows)
    assert alone[metric].to_pylist() == scorer.score(rows)[metric].to_pylist()


# Laws (static vectors, exact solver)


@PROFILE
@given(sentences=known_sentences, other=known_text, data=st.data())
def test_similarity_is_symmetric_and_blind_to_the_order_of_sentences(
    sentences, other, data, scorer
):
    one, permuted = " ".join(sentences), " ".join(data.draw(st.permutations(sentences)))
    there, back, again, same = score(
        scorer, [one, other, permuted, permuted], [other, one, other, one]
    )
    np.testing.assert_allclose([back, again], [there, there], rtol=LAW_TOL)
    assert (same == 1.0).all()


@PROFILE
@given(text=known_text, other=known_text)
def test_doubled_document_changes_nothing(text, other, scorer):
    twice = f"{text} {text}"
    found = score(scorer, [text, twice, text, twice], [other, other, twice, twice])
    np.testing.assert_allclose(found[1], found[0], rtol=LAW_TOL)
    assert (found[2:] == 1.0).all()


def means_of(text, vectors):
    words = [word for sentence in kept_sentences(text, vectors, "default") for word in sentence]
    return np.mean([vectors.by_word[word] for word in words], axis=0)


@PROFILE
@given(one=known_text, other=known_text)
def test_distance_at_least_that_of_the_means(one, other, scorer, vectors):
    bound = np.linalg.norm(means_of(one, vectors) - means_of(other, vectors))
    assert (-np.log(score(scorer, [one], [other])[0]) >= bound - LAW_TOL).all()


@PROFILE
@given(one=known_text, other=known_text)
def test_joint_similarity_at_least_geometric_mean(one, other, scorer):
    wms, sms, both = score(scorer, [one], [other])[0]
    assert both >= np.sqrt(wms * sms) - LAW_TOL


@PROFILE
@given(one=known_text, other=known_text, third=known_text)
def test_distances_obey_the_triangle_inequality(one, other, third, scorer):
    direct, first, second = -np.log(score(scorer, [one, one, third], [other, third, other]))
    assert (direct <= first + second + LAW_TOL).all()


# Table 1 of Clark et al. (2019), in its spirit

PASSAGE = (
    "The mayor of Paris raised the price of a train ticket after the winter flood. Drivers blamed "
    "the delay on the bridge. The council set a budget of $2,000 for the school station."
)
SUMMARY = (
    "After the flood, the mayor raised the train ticket price by £40. "
    "The driver blamed a bridge for the delay at the station."
)
CLAUSES_REORDERED = (
    "By £40 the mayor raised the train ticket price, after the flood. "
    "For the delay at the station the driver blamed a bridge."
)
REPEATED = (
    "After the flood, after the flood, the mayor raised the train ticket price, the ticket price, "
    "by £40 by £40. The driver blamed a bridge, a bridge, a bridge for the delay at the station."
)


def test_word_order_changes_nothing_and_repetition_lowers_every_score(scorer):
    texts = [SUMMARY, CLAUSES_REORDERED, REPEATED]
    plain, reordered, repeated = score(scorer, texts, [PASSAGE] * 3)
    np.testing.assert_allclose(reordered, plain, rtol=LAW_TOL)
    assert (repeated < plain).all()
    plain, reordered, repeated = score(scorer, texts, [SUMMARY] * 3)
    assert (plain == 1.0).all()
    assert (reordered == 1.0).all()
    assert (repeated < 0.99).all()


# The released code


def test_word_movers_example_of_summeval():
    """Values of SummEval's own unit test of its sentence mover metric."""
    points = np.array([[0.1, 1.0], [1.0, 0.1]])
    a, b = np.array([1.5, 0.5]) / 2, np.array([0.75, 0.15]) / 0.9
    found = exact_transport(a, b, cdist(points, points)).cost
    assert found == pytest.approx(0.10606599599123001, rel=5e-7)
    # that code works in float32; in exact numbers 1/12 of the mass moves sqrt(2) * 0.9
    assert found == pytest.approx(np.sqrt(2) * 0.9 / 12, rel=1e-10)


# candidate, reference, whether the released code, and the default rules, score them exactly 1
RELEASED = [
    # unknown words are zero vectors
    ("Quixotry brillig zymurgy. Xylograph.", "Brillig borogoves gyre.", True, None),
    # numbers and hyphenated words go; both are words of the default rules
    ("River 2,000 well-known flood.", "River flood.", True, False),
    # `don't` leaves `do`, a stop word; `won't` leaves `wo`, an unknown word
    ("River don't.", "River.", True, True),
    ("River won't.", "River.", False, True),
    ("River flood. The of and. ... Snow.", "River flood. Snow.", True, True),
]


@pytest.mark.parametrize(("candidate", "reference", "as_released", "by_default"), RELEASED)
def test_words_that_count_as_released(
    candidate, reference, as_released, by_default, clark_scorer, scorer
):
    for own, is_one in ((clark_scorer, as_released), (scorer, by_default)):
        found = score(own, [candidate], [reference])
        assert np.isnan(found).all() if is_one is None else ((found == 1.0) == is_one).all()


def test_unknown_words_pull_the_mean_as_released(clark_scorer, vectors):
    found = -np.log(score(clark_scorer, ["River brillig."], ["River."])[0])
    half = np.linalg.norm(vectors.by_word["river"]) / 2
    np.testing.assert_allclose(found, [half, half, half], rtol=PLAIN_RTOL)


def test_text_without_words_has_no_score_as_opposed_to_the_released_code(clark_scorer):
    """There an empty side silently took the score of the pair before it."""
    candidates = ["River.", "2,000.", "", "The of."]
    found = score(clark_scorer, candidates, ["Flood."] * 4)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1:]).all()


# Edges


def test_more_than_375_entries_not_cut(vectors, scorer):
    """The released code silently drops the bag's end."""
    rng = np.random.default_rng(7)
    long = " ".join(sentence_of(rng.choice(KNOWN[:30], 7).tolist()) for _ in range(450))
    short = random_texts(rng, 1)[0] + " River snow."
    np.testing.assert_allclose(
        score(scorer, [long], [short]), [defined(long, short, vectors)], rtol=PLAIN_RTOL
    )

"""Word and sentence mover's similarity: the laws it obeys, and what the released code did."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sms.definition import s_wms, sms, wms
from sms.metric import SAME_ATOL
from sms.ragged import Ragged
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from sms.text import TextRules, split_sentences
from sms.transport import WORDS, Clouds, mover_costs
from tests.sms.scoring_cases import MOVERS, glove_file

LAW_TOL = 1e-12

VOCABULARY = (
    "river bank water flood bridge mayor council budget school teacher pupil winter snow seller "
    "online customer price dollar weather storm train driver station delay ticket market farmer "
    "apple harvest paris o'clock 2,000 £40 well known"
)
KNOWN = VOCABULARY.split()
UNKNOWN = ["quixotry", "zymurgy", "Xylograph", "brillig", "3.14"]
STOP = ["the", "of", "and", "a", "in", "to"]
PUNCTUATION = [",", ";", "-", "...", "(", ")"]
PROFILE = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def vectors():
    """The vectors of known words."""
    table = np.random.default_rng(2019).normal(size=(len(KNOWN), 12)).astype(np.float32)
    return dict(zip(KNOWN, (table * np.float32(0.4)).astype(np.float64), strict=True))


@pytest.fixture(scope="module")
def scorer_of(vectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    encoder = glove_file(path, {word: row.tolist() for word, row in vectors.items()})

    def make(preset="default", metrics=MOVERS):
        config = ScoringConfig(metrics=metrics, encoders={"small": encoder}, preset=preset)
        return SummaryScorer(config, threads=1)

    return make


@pytest.fixture(scope="module")
def scorer(scorer_of):
    return scorer_of()


@pytest.fixture(scope="module")
def clark_scorer(scorer_of):
    return scorer_of("clark2019")


def score(scorer, candidates, references):
    """Similarities of every pair, shape (n_pairs, 3); NaN where undefined."""
    table = scorer.score(to_rows(candidates, references))
    return np.column_stack([table[name].to_numpy() for name in ("wms", "sms", "s+wms")])


# Random texts

some_word = st.one_of(
    st.sampled_from(KNOWN),
    st.sampled_from([word.capitalize() for word in KNOWN]),
    st.sampled_from(UNKNOWN + STOP + PUNCTUATION),
)
known_word = st.sampled_from([word for word in KNOWN if word.isalpha()])


def sentence_of(words):
    return " ".join(words).capitalize() + "."


loose_text = st.lists(
    st.lists(some_word, max_size=9).map(lambda words: " ".join(words) + "."), max_size=5
).map(" ".join)
known_sentence = st.lists(known_word, min_size=1, max_size=9).map(sentence_of)
known_sentences = st.lists(known_sentence, min_size=1, max_size=5)
known_text = known_sentences.map(" ".join)


def random_texts(rng, n):
    pools = [KNOWN, UNKNOWN, STOP, PUNCTUATION]
    texts = []
    for _ in range(n):
        sentences = []
        for _ in range(rng.integers(0, 7)):
            kinds = rng.choice(4, rng.integers(1, 16), p=[0.6, 0.1, 0.2, 0.1])
            sentences.append(sentence_of([str(rng.choice(pools[kind])) for kind in kinds]))
        texts.append(str(rng.choice([" ", "\n", "  "])).join(sentences))
    return texts


@pytest.mark.parametrize("metric", MOVERS)
def test_metric_alone_equals_metric_among_others(metric, scorer, scorer_of):
    texts = random_texts(np.random.default_rng(5), 40)
    rows = to_rows(texts, texts[::-1])
    alone = scorer_of(metrics=(metric,)).score(rows)
    assert alone[metric].to_pylist() == scorer.score(rows)[metric].to_pylist()


# Laws (static vectors, exact solver)


def means_of(text, vectors):
    words = [word for sentence in kept_sentences(text, vectors, "default") for word in sentence]
    return np.mean([vectors[word] for word in words], axis=0)


@PROFILE
@given(sentences=known_sentences, other=known_text, third=known_text, data=st.data())
def test_laws_of_similarities_and_distances(sentences, other, third, data, scorer, vectors):
    one, permuted = " ".join(sentences), " ".join(data.draw(st.permutations(sentences)))
    twice = f"{one} {one}"
    there, back, again, doubled, first, second, *same = score(
        scorer,
        [one, other, permuted, twice, one, third, permuted, one, twice],
        [other, one, other, other, third, other, one, twice, twice],
    )
    # symmetric, blind to the order of sentences and to a document's being doubled
    np.testing.assert_allclose([back, again, doubled], [there] * 3, rtol=LAW_TOL)
    assert (np.array(same) == 1.0).all()
    # at least as far as the means are apart, and the triangle inequality
    direct = -np.log(there)
    bound = np.linalg.norm(means_of(one, vectors) - means_of(other, vectors))
    assert (direct >= bound - LAW_TOL).all()
    assert (direct <= -np.log(first) - np.log(second) + LAW_TOL).all()
    wms, sms, both = there
    assert both >= np.sqrt(wms * sms) - LAW_TOL


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
    both = Ragged.from_rows([[0, 1], [0, 1]])
    counts = Ragged(np.array([3, 1, 5, 1]), both.offsets)  # there 1.5, .5 and .75, .15
    clouds = Clouds(points, np.empty((0, 2)), both, counts, both.offsets[1:])
    found = mover_costs(clouds, np.array([0]), np.array([1]), WORDS)[0, 0]
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
    for rules_scorer, is_one in ((clark_scorer, as_released), (scorer, by_default)):
        found = score(rules_scorer, [candidate], [reference])
        assert np.isnan(found).all() if is_one is None else ((found == 1.0) == is_one).all()


# Edges


def test_more_than_375_entries_not_cut(vectors, scorer):
    """The released code silently drops the bag's end."""
    rng = np.random.default_rng(7)
    long = " ".join(sentence_of(rng.choice(KNOWN[:30], 7).tolist()) for _ in range(450))
    short = random_texts(rng, 1)[0] + " River snow."
    np.testing.assert_allclose(
        score(scorer, [long], [short]), [defined(long, short, vectors)], rtol=PLAIN_RTOL
    )


# The equations


PLAIN_RTOL = 1e-9
ON_AXES = {
    word: np.array(point, dtype=np.float64)
    for word, point in {"east": (3, 0), "north": (0, 4), "far": (6, 0), "home": (0, 0)}.items()
}

# sentences of two texts, distances by words, sentences and both
DISTANCES_BY_HAND = [
    pytest.param(["east"], ["north"], [5, 5, 5], id="one-word"),
    pytest.param(["east far"], ["east home"], [3, 3, 3], id="half-moves-twice-as-far"),
    # words are the same bag; the sentences (3,0) (0,4) and their mean (1.5,2) are 2.5 apart
    pytest.param(["east", "north"], ["east north"], [0, 2.5, 1.25], id="same-bag-cut-otherwise"),
    # the joint problem moves words onto sentences: home-home 1/4, (3,0) to word far 1/4, and back
    pytest.param(["home far"], ["east"], [3, 0, 1.5], id="mean-equals-sentence"),
    pytest.param(["east east north"], ["east north north"], [5 / 3, 5 / 3, 5 / 3], id="counts"),
    # sentences weigh as many words as they keep: 2/3 and 1/3 against 1
    pytest.param(["east east", "home"], ["east"], [1, 1, 1], id="sentences-by-length"),
]


@pytest.mark.parametrize(("one", "other", "distances"), DISTANCES_BY_HAND)
def test_distances_by_hand(one, other, distances):
    a, b = ([sentence.split() for sentence in text] for text in (one, other))
    found = [-math.log(similarity(a, b, ON_AXES)) for similarity in (wms, sms, s_wms)]
    np.testing.assert_allclose(found, distances, atol=1e-12)


def kept_sentences(text, vectors, preset):
    """The words that count and have a vector, as the vectors name them, by sentence."""
    rules = TextRules(words=preset)
    split = rules.splitter()

    def known(word):
        for form in (word, word.lower(), word.lower().strip("£€")):
            if form in vectors:
                return form
        return "" if preset == "clark2019" else None  # there all unknown words are one zero vector

    sentences = [
        [known(word) for chunk in sentence.split() for word in split(chunk) if rules.counts(word)]
        for sentence in split_sentences(text, "en")
    ]
    return [kept for s in sentences if (kept := [word for word in s if word is not None])]


def defined(candidate, reference, vectors, preset="default"):
    a, b = (kept_sentences(text, vectors, preset) for text in (candidate, reference))
    if not a or not b:
        return [np.nan] * 3
    by_word = {**vectors, "": np.zeros(12)}
    return [similarity(a, b, by_word) for similarity in (wms, sms, s_wms)]


def assert_as_defined(scorer, candidates, references, vectors, preset="default"):
    found = score(scorer, candidates, references)
    pairs = zip(candidates, references, strict=True)
    expected = np.array([defined(one, other, vectors, preset) for one, other in pairs])
    # texts that differ in unknown words only have no score in place of 1
    expected[np.isnan(found) & (expected > np.exp(-SAME_ATOL))] = np.nan
    np.testing.assert_allclose(found, expected, rtol=PLAIN_RTOL)


@pytest.mark.parametrize("preset", ["default", "clark2019"])
def test_fast_path_matches_the_definition(preset, vectors, scorer_of):
    rng = np.random.default_rng(1)
    texts = random_texts(rng, 100)
    candidates, references = ([texts[k] for k in rng.integers(0, 100, 300)] for _ in range(2))
    assert_as_defined(scorer_of(preset), candidates, references, vectors, preset)


@PROFILE
@given(candidate=loose_text, reference=loose_text)
def test_fast_path_matches_the_definition_of_any_text(candidate, reference, scorer, vectors):
    assert_as_defined(scorer, [candidate], [reference], vectors)

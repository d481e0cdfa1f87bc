"""Word and sentence mover's similarity against a plain version, and the laws they obey."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import ot
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from sms.comparing import SAME_ATOL
from sms.movers import text_clouds
from sms.ragged import Ragged
from sms.scoring import ScoringConfig, SummaryScorer
from sms.text import TextRules, split_sentences
from sms.transport import (
    JOINT,
    SENTENCES,
    WORDS,
    Clouds,
    mover_costs,
    point_cloud_transport,
)

METRICS = ("wms", "sms", "s+wms")
PLAIN_RTOL = 1e-9
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


@dataclass(frozen=True)
class Vectors:
    """A vector file and what is in it."""

    path: str
    by_word: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    rng = np.random.default_rng(2019)
    table = rng.normal(size=(len(KNOWN), 12)).astype(np.float32) * np.float32(0.4)
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    path.write_text(
        "".join(
            f"{word} {' '.join(repr(float(value)) for value in row)}\n"
            for word, row in zip(KNOWN, table, strict=True)
        ),
        encoding="utf-8",
    )
    by_word = {word: row.astype(np.float64) for word, row in zip(KNOWN, table, strict=True)}
    return Vectors(str(path), by_word)


def scorer_of(vectors, preset="default", **options):
    return SummaryScorer(
        ScoringConfig(
            metrics=METRICS, encoders={"small": f"glove:{vectors.path}"}, preset=preset, **options
        ),
        threads=1,
    )


@pytest.fixture(scope="module")
def scorer(vectors):
    return scorer_of(vectors)


@pytest.fixture(scope="module")
def clark_scorer(vectors):
    return scorer_of(vectors, "clark2019")


def score(scorer, candidates, references):
    """Similarities of every pair, shape (n_pairs, 3); NaN where undefined."""
    rows = pa.table(
        {
            "candidate": pa.array(candidates, pa.string()),
            "references": pa.array([[text] for text in references], pa.list_(pa.string())),
        }
    )
    table = scorer.score(rows)
    return np.column_stack(
        [table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in METRICS]
    )


# The plain version: one pair at a time, dictionaries, POT


def vector_of(word, by_word, zero_unknown):
    for form in (word, word.lower(), word.lower().strip("£€")):
        if form in by_word:
            return form, by_word[form]
    # every unknown word is the same point
    return ("", np.zeros(12)) if zero_unknown else (None, None)


def plain_sentences(text, vectors, preset):
    """The vectors of the kept words of every sentence, by the word that was found."""
    rules = TextRules(words=preset)
    split = rules.splitter()
    found = []
    for sentence in split_sentences(text, "en"):
        kept = []
        for chunk in sentence.split():
            for word in split(chunk):
                if rules.counts(word):
                    form, vector = vector_of(word, vectors.by_word, preset == "clark2019")
                    if form is not None:
                        kept.append((form, vector))
        if kept:
            found.append(kept)
    return found


def plain_cloud(sentences, metric):
    """Points and their weights, of sum 1, of a text."""
    clouds = []
    if metric != "sms":
        counts = Counter(form for sentence in sentences for form, _ in sentence)
        of_form = {form: vector for sentence in sentences for form, vector in sentence}
        clouds.append(([of_form[form] for form in counts], list(counts.values())))
    if metric != "wms":
        means = [np.mean([vector for _, vector in sentence], axis=0) for sentence in sentences]
        clouds.append((means, [len(sentence) for sentence in sentences]))
    points = np.concatenate([points for points, _ in clouds])
    weights = np.concatenate([np.array(weights) / np.sum(weights) for _, weights in clouds])
    return points, weights / weights.sum()


def plain_similarities(candidate, reference, vectors, preset="default"):
    texts = [plain_sentences(text, vectors, preset) for text in (candidate, reference)]
    if not all(texts):
        return [np.nan] * len(METRICS)
    found = []
    for metric in METRICS:
        (x, a), (y, b) = (plain_cloud(text, metric) for text in texts)
        found.append(np.exp(-ot.emd2(a, b, cdist(x, y))))
    return found


def means_of(text, vectors):
    return np.mean([v for s in plain_sentences(text, vectors, "default") for _, v in s], axis=0)


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


# Against the plain version


@pytest.mark.parametrize("preset", ["default", "clark2019"])
@pytest.mark.parametrize("seed", range(3))
def test_similarities_match_plain_version(seed, preset, vectors):
    rng = np.random.default_rng(seed)
    texts = random_texts(rng, 60)
    pairs = rng.integers(0, len(texts), (120, 2))
    candidates, references = ([texts[k] for k in column] for column in pairs.T)
    found = score(scorer_of(vectors, preset), candidates, references)
    expected = [
        plain_similarities(one, other, vectors, preset)
        for one, other in zip(candidates, references, strict=True)
    ]
    assert np.isfinite(found).mean() > 0.5, "most texts must have words"
    np.testing.assert_allclose(found, expected, rtol=PLAIN_RTOL)


@PROFILE
@given(candidate=loose_text, reference=loose_text)
def test_any_similarity_matches_plain_version(candidate, reference, scorer, vectors):
    found = score(scorer, [candidate], [reference])
    expected = np.array([plain_similarities(candidate, reference, vectors)])
    # texts that differ in unknown words only have no score in place of 1
    expected[np.isnan(found) & (expected > np.exp(-SAME_ATOL))] = np.nan
    np.testing.assert_allclose(found, expected, rtol=PLAIN_RTOL)


@pytest.mark.parametrize("metric", METRICS)
def test_metric_alone_equals_metric_among_others(metric, scorer, vectors):
    texts = random_texts(np.random.default_rng(5), 40)
    rows = pa.table({"candidate": texts, "references": [[text] for text in texts[::-1]]})
    alone = SummaryScorer(
        ScoringConfig(metrics=(metric,), encoders={"small": f"glove:{vectors.path}"}), threads=1
    ).score(rows)
    assert alone[metric].to_pylist() == scorer.score(rows)[metric].to_pylist()


def test_score_independent_of_the_batch(scorer):
    rng = np.random.default_rng(6)
    texts = random_texts(rng, 30)
    others = [texts[k] for k in rng.permutation(30)]
    together = score(scorer, texts, others)
    alone = [score(scorer, [text], [other])[0] for text, other in zip(texts, others, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=LAW_TOL)


@pytest.mark.parametrize("problem", [WORDS, SENTENCES, JOINT], ids=METRICS)
def test_plan_has_given_marginals_and_cost(problem, scorer):
    texts = [text for text in random_texts(np.random.default_rng(8), 40) if text]
    batch = scorer.prepare(pa.table({"candidate": texts, "references": [[t] for t in texts]}))
    encoded, text_sentences = batch.encoded["small"]
    clouds, splits = text_clouds(encoded, text_sentences)
    filled = np.flatnonzero(clouds.members.lengths)
    left, right = np.repeat(filled, filled.size), np.tile(filled, filled.size)
    costs, plans = mover_costs(
        encoded.word_points, encoded.sentence_points, clouds, splits, left, right, problem,
        plans_of=np.arange(left.size),
    )  # fmt: skip
    both = {WORDS: [0], SENTENCES: [1], JOINT: [0, 1]}[problem]

    def cloud(text):
        """Points and weights of a text; members that the problem leaves out weigh nothing."""
        members, weights = clouds.members[text], clouds.weights[text].astype(np.float64)
        is_sentence = np.arange(members.size) >= splits[text] - clouds.members.offsets[text]
        points = np.where(
            is_sentence[:, None],
            encoded.sentence_points[np.where(is_sentence, members, 0)],
            encoded.word_points[np.where(is_sentence, 0, members)],
        )
        weights *= np.isin(is_sentence, both)
        return points, weights / weights.sum()

    for k in range(left.size):
        (x, a), (y, b) = cloud(left[k]), cloud(right[k])
        rows, columns, mass = plans.rows[k], plans.columns[k], plans.mass[k]
        np.testing.assert_allclose(np.bincount(rows, mass, a.size), a, atol=1e-14)
        np.testing.assert_allclose(np.bincount(columns, mass, b.size), b, atol=1e-14)
        cost = mass @ cdist(x, y)[rows, columns]
        column = (WORDS, SENTENCES, JOINT).index(problem)
        assert costs[k, column] == pytest.approx(cost, rel=1e-12, abs=1e-14)
        assert np.isnan(np.delete(costs[k], column)).all()


# By hand


@pytest.fixture(scope="module")
def axes(tmp_path_factory):
    """Words on the axes, so that every distance is a whole number or a root."""
    path = tmp_path_factory.mktemp("axes") / "axes.txt"
    path.write_text("east 3 0\nnorth 0 4\nfar 6 0\nhome 0 0\n", encoding="utf-8")
    return scorer_of(Vectors(str(path), {}))


# candidate, reference, distances by words, sentences and both
BY_HAND = [
    pytest.param("East.", "North.", [5, 5, 5], id="one-word"),
    pytest.param("East far.", "East home.", [3, 3, 3], id="half-moves-twice-as-far"),
    # words are the same bag; the sentences (3,0) (0,4) and their mean (1.5,2) are 2.5 apart
    pytest.param("East. North.", "East north.", [0, 2.5, 1.25], id="same-bag-cut-otherwise"),
    # the joint problem moves words onto sentences: home-home 1/4, (3,0) to word far 1/4, and back
    pytest.param("Home far.", "East.", [3, 0, 1.5], id="mean-equals-sentence"),
    pytest.param("East east north.", "East north north.", [5 / 3, 5 / 3, 5 / 3], id="counts"),
    # sentences weigh as many words as they keep: 2/3 and 1/3 against 1
    pytest.param("East east. Home.", "East.", [1, 1, 1], id="sentences-by-length"),
]


@pytest.mark.parametrize(("candidate", "reference", "distances"), BY_HAND)
def test_distances_by_hand(candidate, reference, distances, axes):
    found = -np.log(score(axes, [candidate], [reference])[0])
    np.testing.assert_allclose(found, distances, atol=1e-12)


# Laws (static vectors, exact solver)


@PROFILE
@given(one=known_text, other=known_text)
def test_similarity_is_symmetric(one, other, scorer):
    there, back = score(scorer, [one, other], [other, one])
    np.testing.assert_allclose(there, back, rtol=LAW_TOL)


@PROFILE
@given(sentences=known_sentences, other=known_text, data=st.data())
def test_order_of_sentences_changes_nothing(sentences, other, data, scorer):
    permuted = data.draw(st.permutations(sentences))
    found = score(scorer, [" ".join(sentences), " ".join(permuted)], [other, other])
    np.testing.assert_allclose(found[1], found[0], rtol=LAW_TOL)


@PROFILE
@given(sentences=known_sentences, data=st.data())
def test_reordered_text_scores_exactly_one(sentences, data, scorer):
    permuted = data.draw(st.permutations(sentences))
    assert (score(scorer, [" ".join(permuted)], [" ".join(sentences)]) == 1.0).all()


@PROFILE
@given(text=known_text, other=known_text)
def test_doubled_document_changes_nothing(text, other, scorer):
    twice = f"{text} {text}"
    found = score(scorer, [text, twice, text, twice], [other, other, twice, twice])
    np.testing.assert_allclose(found[1], found[0], rtol=LAW_TOL)
    assert (found[2:] == 1.0).all()


@PROFILE
@given(text=known_text)
def test_text_against_itself_scores_exactly_one(text, scorer):
    assert (score(scorer, [text], [text]) == 1.0).all()


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


def test_word_order_changes_nothing(scorer):
    plain, reordered = score(scorer, [SUMMARY, CLAUSES_REORDERED], [PASSAGE, PASSAGE])
    np.testing.assert_allclose(reordered, plain, rtol=LAW_TOL)
    assert (score(scorer, [CLAUSES_REORDERED], [SUMMARY]) == 1.0).all()


def test_repetition_lowers_every_score(scorer):
    plain, repeated = score(scorer, [SUMMARY, REPEATED], [SUMMARY, SUMMARY])
    assert (plain == 1.0).all()
    assert (repeated < 0.99).all()


def test_repetition_lowers_scores_against_a_passage(scorer):
    plain, repeated = score(scorer, [SUMMARY, REPEATED], [PASSAGE, PASSAGE])
    assert (repeated < plain).all()


# The released code


def test_word_movers_example_of_summeval():
    """Values of SummEval's own unit test of its sentence mover metric."""
    points = np.array([[0.1, 1.0], [1.0, 0.1]])
    clouds = Clouds(
        Ragged.from_rows([[0, 1], [0, 1]]), Ragged.from_rows([[1.5, 0.5], [0.75, 0.15]], np.float64)
    )
    found = point_cloud_transport(points, clouds, np.array([0]), np.array([1]))
    assert found.costs[0] == pytest.approx(0.10606599599123001, rel=5e-7)
    # that code works in float32; in exact numbers 1/12 of the mass moves sqrt(2) * 0.9
    assert found.costs[0] == pytest.approx(np.sqrt(2) * 0.9 / 12, rel=1e-10)


def test_unknown_words_are_zero_vectors_as_released(clark_scorer, scorer):
    one, other = "Quixotry brillig zymurgy. Xylograph.", "Brillig borogoves gyre."
    assert (score(clark_scorer, [one], [other]) == 1.0).all()
    assert np.isnan(score(scorer, [one], [other])).all()


def test_unknown_words_pull_the_mean_as_released(clark_scorer, vectors):
    found = -np.log(score(clark_scorer, ["River brillig."], ["River."])[0])
    half = np.linalg.norm(vectors.by_word["river"]) / 2
    np.testing.assert_allclose(found, [half, half, half], rtol=PLAIN_RTOL)


def test_alphabetic_tokens_only_as_released(clark_scorer, scorer):
    """Numbers and hyphenated words go; both are words of the default rules."""
    one, other = "River 2,000 well-known flood.", "River flood."
    assert (score(clark_scorer, [one], [other]) == 1.0).all()
    assert (score(scorer, [one], [other]) < 1.0).all()


def test_clitics_as_released(clark_scorer):
    """`don't` leaves `do`, a stop word; `won't` leaves `wo`, an unknown word."""
    assert (score(clark_scorer, ["River don't."], ["River."]) == 1.0).all()
    assert (score(clark_scorer, ["River won't."], ["River."]) < 1.0).all()


def test_text_without_words_has_no_score_as_opposed_to_the_released_code(clark_scorer):
    """There an empty side silently took the score of the pair before it."""
    candidates = ["River.", "2,000.", "", "The of."]
    found = score(clark_scorer, candidates, ["Flood."] * 4)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1:]).all()


# Edges


@pytest.mark.parametrize("text", ["", "   \n ", "...", "The of and.", "Brillig."])
def test_text_without_known_words_has_no_score(text, scorer):
    assert np.isnan(score(scorer, [text, "River."], ["River.", text])).all()


def test_single_sentence_of_one_word(scorer, vectors):
    found = -np.log(score(scorer, ["River."], ["Snow!"])[0])
    expected = np.linalg.norm(vectors.by_word["river"] - vectors.by_word["snow"])
    np.testing.assert_allclose(found, [expected] * 3, rtol=PLAIN_RTOL)


def test_sentences_without_words_are_left_out(scorer):
    found = score(scorer, ["River flood. The of and. ... Snow."], ["River flood. Snow."])
    assert (found == 1.0).all()


def test_more_than_375_entries_not_cut(vectors, scorer):
    """The released code silently drops the bag's end."""
    rng = np.random.default_rng(7)
    long = " ".join(sentence_of(rng.choice(KNOWN[:30], 7).tolist()) for _ in range(450))
    short = random_texts(rng, 1)[0] + " River snow."
    np.testing.assert_allclose(
        score(scorer, [long], [short]), [plain_similarities(long, short, vectors)], rtol=PLAIN_RTOL
    )

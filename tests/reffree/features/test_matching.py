"""Features of pairs: by hand, against other implementations, and what must not change them."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from reffree.features import WORD_FEATURES, FeatureConfig, PairFeatures
from reffree.features.matching import best_sentences, components, fit_shares, share_linked
from sms.ragged import Ragged

SOURCE = "Anna Bell opened the old bridge on Monday. It rained in the town. Carl Dunn sang songs."
TEXTS = [
    "Anna Bell opened the old bridge. Carl Dunn sang.",
    "Carl Dunn opened the bridge",
    "It rained. It rained. It rained in Rome in 1999.",
    "Zebras jump.",
]


@pytest.fixture(scope="module")
def values():
    found = PairFeatures(FeatureConfig()).read([SOURCE] * len(TEXTS), TEXTS).values
    return dict(zip(WORD_FEATURES, found.T, strict=True))


BY_HAND = {
    "length": np.log1p([9, 5, 10, 2]),
    "compression": np.log(np.array([17, 17, 17, 17]) / [9, 5, 10, 2]),
    # what is left of the sentences: anna bell opened old bridge | carl dunn sang
    "words_mean": [1, 1 / 2, np.nan, 0],
    "words_least": [1, 1 / 2, 1 / 3, 0],
    "linked": [1, 2 / 3, np.nan, 0],
    # the document's sentences have 6, 2 and 4 of these words, all different
    "said": [(5 / 6 + 0 + 3 / 4) / 3, (2 / 6 + 0 + 2 / 4) / 3, (0 + 1 / 2 + 0) / 3, 0],
    "recalled": [8 / 12, 4 / 12, 1 / 12, 0],
    "order": [1, np.nan, 0, np.nan],
    "unknown_words": [0, 0, 2 / 5, 1],
    "unknown_names": [0, 0, 2 / 5, 0],
    "place": [np.log(3) / 2, np.nan, np.log(2), 0],
    "redundancy_words": [0, np.nan, 1, np.nan],
    "repetition": [0, 0, 2 / 8, np.nan],
    "pointing": [0, 0, 1, 0],
    "ending": [1, 0, 1, 1],
}


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(name, values):
    expected = np.array(BY_HAND[name])
    asked = ~np.isnan(expected)
    np.testing.assert_allclose(values[name][asked], expected[asked], atol=1e-12)


def test_what_is_said_and_recalled_match_sets(rng):
    words = np.array([f"word{k}" for k in range(10, 90)])
    chance = 1 / np.arange(1, words.size + 1)
    chance /= chance.sum()
    sentences = [rng.choice(words, 12, p=chance).tolist() for _ in range(30)]
    candidate = [rng.choice(words, 15, p=chance).tolist() for _ in range(3)]
    texts = [" ".join(f"{' '.join(one).capitalize()}." for one in text)
             for text in (sentences, candidate)]  # fmt: skip
    found = PairFeatures(FeatureConfig()).read([texts[0]], [texts[1]]).values[0]
    by_name = dict(zip(WORD_FEATURES, found, strict=True))
    shares = [
        max(len(set(one) & set(other)) / len(set(one)) for other in candidate) for one in sentences
    ]
    assert by_name["said"] == pytest.approx(np.mean(sorted(shares)[-10:]))
    counts = Counter(word for one in sentences for word in one)
    assert len(counts) > 50
    ideal = sum(n for _, n in counts.most_common(50))
    has = sum(counts[word] for word in {word for one in candidate for word in one})
    assert by_name["recalled"] == pytest.approx(has / ideal)


def test_pair_does_not_change_with_the_others():
    features = PairFeatures(FeatureConfig())
    together = features.read([SOURCE, TEXTS[0], SOURCE], [TEXTS[0], SOURCE, TEXTS[2]]).values
    for row, pair in enumerate([(SOURCE, TEXTS[0]), (TEXTS[0], SOURCE), (SOURCE, TEXTS[2])]):
        np.testing.assert_array_equal(features.read([pair[0]], [pair[1]]).values[0], together[row])


def test_text_without_words_has_no_features():
    found = PairFeatures(FeatureConfig()).read([SOURCE, "...", SOURCE], ["", "a cat", "a cat"])
    assert np.isnan(found.values).all(axis=1).tolist() == [True, True, False]


def test_best_sentences_match_sets(rng):
    words = Ragged.from_rows([rng.integers(0, 9, rng.integers(0, 7)) for _ in range(30)])
    texts = Ragged.from_rows([range(k, k + 5) for k in range(0, 30, 5)])
    first, second = np.repeat(np.arange(6), 6), np.tile(np.arange(6), 6)
    shares, places = best_sentences(words, texts, first, second)
    at = 0
    for a, b in zip(first, second, strict=True):
        for k in texts[a]:
            sentence_words = set(words[k].tolist())
            found = [len(sentence_words & set(words[j].tolist())) for j in texts[b]]
            if sentence_words:
                assert shares[at] == max(found) / len(sentence_words)
                assert places[at] == found.index(max(found))
            else:
                assert shares[at] == -1
            at += 1


def test_linked_words_match_sets(rng):
    words = Ragged.from_rows([rng.integers(0, 6, 5) for _ in range(12)])
    texts = Ragged.from_rows([range(k, k + 3) for k in range(0, 12, 3)])
    first, second = np.array([0, 1, 2]), np.array([3, 3, 0])
    found = share_linked(words, texts, first, second)
    for value, a, b in zip(found, first, second, strict=True):
        pairs = [p for k in texts[a] for p in zip(words[k][:-1], words[k][1:], strict=True)]
        hits = [any(set(p) <= set(words[j].tolist()) for j in texts[b]) for p in pairs]
        assert value == pytest.approx(np.mean(hits))


def test_copy_shares_fit_what_was_drawn():
    # Half of the words follow the two words before them, half are drawn from the text's words.
    rng = np.random.default_rng(0)
    source = rng.permutation(4_000)
    copy = [source[0], source[1]]
    for _ in range(3_000):
        place = int(np.flatnonzero(source == copy[-1])[0])
        goes_on = rng.random() < 0.5 and place + 1 < source.size
        copy.append(source[place + 1] if goes_on else rng.choice(source))
    words = Ragged.from_rows([copy, source])
    unknown, one, two, three = fit_shares(components(words, np.array([0]), np.array([1])))
    assert unknown == pytest.approx(0, abs=0.01)
    assert one == pytest.approx(0.5, abs=0.03)
    assert two + three == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("name", ["copy_least", "words_least"])
def test_least_sentence_is_the_one_that_the_feature_is_about(rng, name):
    features = PairFeatures(FeatureConfig())
    words = np.array([f"word{k}" for k in range(30)])
    place = list(WORD_FEATURES).index(name)

    def least(sentences):
        return features.read([source], [" ".join(sentences)]).values[0, place]

    n_other_alone = 0
    for _ in range(20):
        source = f"{' '.join(rng.choice(words, 60))}."
        copied = source.split()[:24]
        copied[int(rng.integers(24))] = "zebra"
        cuts = [0, *np.sort(rng.choice(np.arange(1, 24), 5, replace=False)).tolist(), 24]
        sentences = [f"{' '.join(copied[i:j]).capitalize()}." for i, j in pairwise(cuts)]
        found = sentences.index(features.least_sentences(source, " ".join(sentences))[name])
        assert least(sentences[: found + 1]) == pytest.approx(least(sentences))
        assert found == 0 or least(sentences[:found]) > least(sentences)
        n_other_alone += found != np.argmin([least([one]) for one in sentences])
    assert n_other_alone > 0 or name == "words_least"

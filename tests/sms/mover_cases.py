"""Random texts over a small vocabulary with vectors, and how the mover tests score them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from sms.scoring import ScoringConfig, SummaryScorer

METRICS = ("wms", "sms", "s+wms")

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


def scorer_of(path, preset="default", **options):
    return SummaryScorer(
        ScoringConfig(
            metrics=METRICS, encoders={"small": f"glove:{path}"}, preset=preset, **options
        ),
        threads=1,
    )


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

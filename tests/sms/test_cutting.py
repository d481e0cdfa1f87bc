"""Text that is read before the encoder needs it, here or in another process: not a bit changes."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from sms.cutting import TextReader
from sms.encoders import CannotSplit
from sms.encoders.pieces import PieceCutter
from sms.encoders.tokens import TokenPlanner
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from tests.sms.encoders.conftest import wordpiece

METRICS = ("sms", "wms", "s+wms:source", "cosine", "rougeL", "rouge1_f:source", "novelty", "length")
TEXTS = [
    "The committee met on Tuesday. It didn't agree on anything; it will meet again.",
    "Warmer states pay $2,000.5 more a year, the U.S. reported at 6.15pm.",
    "Der Präsident sprach über naïve Café-Besucher. 東京は日本の首都です。",
    "zebra " * 300 + "crossed. The end.",
    "the of and",
    "",
    None,
    "-- (;) ...",
]


@pytest.fixture(scope="module")
def scorer() -> SummaryScorer:
    return SummaryScorer(ScoringConfig(metrics=METRICS), 1, device="cpu")


@pytest.fixture(scope="module")
def batches() -> list[pa.Table]:
    rng = np.random.default_rng(0)
    texts = [TEXTS[k] for k in rng.integers(0, len(TEXTS), 36)]
    references = [texts[k : k + 2] for k in range(24)]
    sources = [texts[-k : -k + 1] or None for k in range(2, 26)]
    rows = to_rows(texts[12:36], references, sources)
    return [rows.slice(0, 9), rows.slice(9, 15)]


def test_scores_are_the_same_whoever_reads_the_text(scorer, batches):
    expected = [scorer.compare(scorer.prepare(rows)) for rows in batches]
    reader = pickle.loads(pickle.dumps(scorer.reader()))
    for rows, table in zip(batches, expected, strict=True):
        read = pickle.loads(pickle.dumps(reader.read_alone(rows)))
        assert read.plans  # the encoder only has to run its model
        assert scorer.compare(scorer.prepare(rows, read)).equals(table)


def test_what_is_read_says_nothing_of_other_batches(scorer, batches):
    """A process sends the words of a batch, not all it has ever seen."""
    reader = scorer.reader()
    reader.read_alone(batches[0])
    second = reader.read_alone(batches[1]).texts
    words = second.vocabulary.words
    assert len(words) == np.unique(second.sentence_words.values).size == second.is_kept.size
    assert set(words) <= set(scorer.reader().read(batches[1]).texts.vocabulary.words)


class Failing(PieceCutter):
    def cut(self, texts, wanted, max_pieces):
        bad = [k for k in wanted.tolist() if "?" in texts.sentences[k]]
        if bad:
            raise CannotSplit(np.array(bad))
        return super().cut(texts, wanted, max_pieces)


def test_text_that_a_tokeniser_fails_on_is_left_to_its_status():
    rows = to_rows(["A good one.", "A bad?"], ["It is.", "It is."])
    planner = TokenPlanner(Failing(wordpiece()), 32, has_words=True)
    read = TextReader(ScoringConfig(metrics=("sms",)), {"minilm": planner}).read(rows)
    _, sentences, failed = read.plans["minilm"]
    assert failed.tolist() == [False, True, False]
    assert sentences.lengths.tolist() == [1, 0, 1]


def test_importing_what_text_processes_need_brings_no_torch():
    program = "import sys, sms.cutting, sms.encoders.tokens, cluster.text_processes; "
    program += "sys.exit('torch' in sys.modules or 'ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

"""ROUGE-1, ROUGE-2 and ROUGE-L of texts in memory: Assay, rouge-score-rs and rouge-score, one core.

Texts are three sentences of news that do not repeat, made of the summaries of the evaluation data
with their words exchanged, or of made-up words. Every way computes the same values, which is
checked; times are medians, ratios are of the same round.

    python benchmarks/rouge.py [--rows 4000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = "1"
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from corpora import data_file
from rouge_score.rouge_scorer import RougeScorer as PythonScorer
from rouge_score_rs.rouge_scorer import RougeScorer as RustScorer
from timing import say_speeds

from sms import ScoringConfig, SummaryScorer

TYPES = ["rouge1", "rouge2", "rougeL"]
SLOW_ROWS = 200
"""Of which rouge-score itself computes so many."""


def texts(n_texts: int, rng: np.random.Generator) -> list[str]:
    """Make texts of three sentences; some words of each are those of another summary."""
    file = data_file("summeval.parquet")
    if file is None:
        words = [f"w{k}" for k in range(20_000)]
        given = [". ".join(" ".join(rng.choice(words, 20)) for _ in range(3)) for _ in range(500)]
    else:
        given = [text for text in pq.read_table(file)["candidate"].to_pylist() if text]
    pools = [text.split() for text in given]
    made = []
    for _ in range(n_texts):
        words = list(pools[rng.integers(len(pools))])
        other = pools[rng.integers(len(pools))]
        for place in rng.choice(len(words), len(words) // 3, replace=False):
            words[place] = other[rng.integers(len(other))] if other else words[place]
        made.append(" ".join(words))
    return made


def measured(n_rows: int, rng: np.random.Generator, scorer: SummaryScorer) -> dict[str, float]:
    """Return seconds a row of every way over the same new texts, whose values are equal."""
    rust, python = RustScorer(TYPES), PythonScorer(TYPES)
    candidates, references = texts(n_rows, rng), texts(n_rows, rng)
    lists = pa.array([[text] for text in references], pa.list_(pa.string()))
    rows = pa.table({"candidate": pa.array(candidates, pa.string()), "references": lists})
    few, few_references = candidates[:SLOW_ROWS], references[:SLOW_ROWS]
    ways: dict[str, tuple[int, Callable[[], Any]]] = {
        "Assay": (n_rows, lambda: scorer.score(rows)),
        "rouge-score-rs, a batch": (n_rows, lambda: rust.score_batch(references, candidates)),
        "rouge-score-rs, a loop": (n_rows, lambda: [*map(rust.score, references, candidates)]),
        "rouge-score": (len(few), lambda: [*map(python.score, few_references, few)]),
    }
    seconds, found = {}, {}
    for name, (n, call) in ways.items():
        start = time.perf_counter()
        found[name] = call()
        seconds[name] = (time.perf_counter() - start) / n
    for kind in TYPES:
        ours = found["Assay"][f"{kind}_f"].to_numpy()
        for name in (*ways,)[1:]:
            theirs = [one[kind].fmeasure for one in found[name]]
            assert (ours[: len(theirs)] == theirs).all(), (kind, name)
    return seconds


def main() -> None:
    """Print rows per second of every way, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    scorer = SummaryScorer(ScoringConfig(metrics=tuple(TYPES)), threads=1)
    rounds = [measured(asked.rows, rng, scorer) for _ in range(asked.rounds)]
    say_speeds(rounds)


if __name__ == "__main__":
    main()

"""BERTScore of texts in memory: Assay and the package `bert-score` with the same model, one core.

Texts are three sentences of news that do not repeat, as in `rouge.py`; the model is
all-MiniLM-L6-v2, which comes with Assay, all six layers of it. Both compute the same values, which
is checked: in a batch `bert-score` takes 0 for a token whose nearest one is less similar than that,
as padding has 0, so that rows which differ are computed by it again, alone. Times are medians,
ratios are of the same round.

    python benchmarks/bertscore.py [--rows 256] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import time

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
import numpy as np
import pyarrow as pa
import torch
from bert_score import BERTScorer
from rouge import texts
from timing import say_speeds

from sms import ScoringConfig, SummaryScorer
from sms.encoders.bert import minilm_folder

LAYER = 6
ATOL = 1e-6
"""Largest difference between the two: both compute in fp32, on blocks of other sizes."""


def measured(
    n_rows: int, rng: np.random.Generator, ours: SummaryScorer, theirs: BERTScorer
) -> dict[str, float]:
    """Return seconds a row of both over the same new texts, whose values are equal."""
    candidates, references = texts(n_rows, rng), texts(n_rows, rng)
    lists = pa.array([[text] for text in references], pa.list_(pa.string()))
    rows = pa.table({"candidate": pa.array(candidates, pa.string()), "references": lists})
    start = time.perf_counter()
    scores = ours.score(rows)
    between = time.perf_counter()
    expected = theirs.score(candidates, references, batch_size=64)
    end = time.perf_counter()
    found = np.stack([scores[f"bertscore_{part}@m"].to_numpy() for part in "prf"], axis=1)
    differ = np.abs(found - torch.stack(expected, 1).numpy()).max(axis=1) > ATOL
    for row in np.flatnonzero(differ):
        alone = torch.stack(theirs.score([candidates[row]], [references[row]]), 1).numpy()
        np.testing.assert_allclose(found[row : row + 1], alone, rtol=0, atol=ATOL)
    return {"Assay": (between - start) / n_rows, "bert-score": (end - between) / n_rows}


def main() -> None:
    """Print rows per second of both, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    folder = str(minilm_folder())
    models = {"m": {"path": folder, "layer": LAYER}}
    ours = SummaryScorer(ScoringConfig(metrics=("bertscore@m",), models=models), threads=1)
    theirs = BERTScorer(model_type=folder, num_layers=LAYER, device="cpu")
    measured(8, rng, ours, theirs)  # both are warm from here on
    rounds = [measured(asked.rows, rng, ours, theirs) for _ in range(asked.rounds)]
    say_speeds(rounds)


if __name__ == "__main__":
    main()

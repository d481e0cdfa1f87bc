"""How near does `assay score --metrics reffree@DIR` come to its bare model in batches?

The bare model is transformers' own: its tokenizer on pairs, batches of 32 sorted by length, the
same weights in the same run. The scores of both are compared every time.
"""  # noqa: D400  (a question)

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import torch

from pipelines.score_corpus import score_corpus
from reffree.building import build
from reffree.models import ModelConfig
from reffree.scorer import load_scorer, save_scorer

ATOL = 1e-5
BATCH = 32


def bare_scores(model, tokenizer, sources, candidates, max_pieces):
    encoded = tokenizer.encode_batch(list(zip(sources, candidates, strict=True)))
    order = sorted(range(len(encoded)), key=lambda row: -len(encoded[row].ids))
    scores = np.empty(len(encoded))
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            longest = max(len(encoded[row].ids) for row in rows)
            assert longest <= max_pieces
            tensors = {
                name: torch.tensor(
                    [getattr(encoded[row], of) + [0] * (longest - len(encoded[row].ids))
                     for row in rows]
                )
                for name, of in (
                    ("input_ids", "ids"),
                    ("token_type_ids", "type_ids"),
                    ("attention_mask", "attention_mask"),
                )
            }  # fmt: skip
            scores[rows] = torch.sigmoid(model(**tensors)).numpy()
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", help="Parquet with document_id, source, reference")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--max-pieces", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table = pl.read_parquet(options.pairs, columns=["document_id", "source", "reference"])
    table = table.head(options.rows).rename({"reference": "candidate"})
    table = table.with_columns(pl.lit("reference").alias("system_id"))
    sources, candidates = table["source"].to_list(), table["candidate"].to_list()
    with tempfile.TemporaryDirectory() as work:
        folder, corpus = Path(work) / "scorer", Path(work) / "corpus.parquet"
        table.write_parquet(corpus)
        built = build(ModelConfig(max_pieces=options.max_pieces))
        save_scorer(folder, built, loss="bce", trained_on={}, held_out={}, versions={})
        model = load_scorer(folder)._built.model.eval()
        tokenizer = built.tokenizer
        tokenizer.enable_truncation(options.max_pieces, strategy="longest_first")
        seconds = {"bare": [], "assay score": []}
        for repeat in range(options.repeats):
            started = time.perf_counter()
            bare = bare_scores(model, tokenizer, sources, candidates, options.max_pieces)
            seconds["bare"].append(time.perf_counter() - started)
            out = f"{work}/out{repeat}"
            started = time.perf_counter()
            score_corpus(
                corpus, out, metrics=[f"reffree@{folder}"], local=True, workers=options.threads
            )
            seconds["assay score"].append(time.perf_counter() - started)
            scores = pl.read_parquet(f"{out}/scores/*.parquet")[f"reffree@{folder}"].to_numpy()
            gap = np.abs(scores - bare)
            print(f"largest difference {gap.max():.1e}, above {ATOL:g}: {(gap > ATOL).sum()} rows")
    print(f"{len(table)} rows, {options.max_pieces} pieces, {options.threads} threads")
    for name, found in seconds.items():
        rates = sorted(len(table) / s for s in found)
        print(f"{name:>12} rows/s: median {np.median(rates):.2f} ({rates[0]:.2f}..{rates[-1]:.2f})")
    ratio = np.median(seconds["bare"]) / np.median(seconds["assay score"])
    print(f"       share: {ratio:.3f}")


if __name__ == "__main__":
    main()

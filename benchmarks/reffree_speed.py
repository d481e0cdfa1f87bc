"""How near does `assay score --metrics reffree@DIR` come to its bare model in batches?

The bare model is what one writes by hand with transformers: its tokenizer on pairs, all rows sorted
by length, batches of `--batch`, the same weights. Both take turns in one process, both scores are
compared, and `assay score` is timed from reading the corpus to the committed files. The head has
not been trained, which changes no speed.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import torch
from corpora import data_file
from timing import begin, finish, interleave, say
from tokenizers import Tokenizer
from torch import nn

from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from pipelines.settings.train import TrainSettings
from reffree.neural.building import build
from reffree.scorers.folder import save_scorer

ATOL = 1e-5
TENSORS = {"input_ids": "ids", "token_type_ids": "type_ids", "attention_mask": "attention_mask"}


def made_up_texts(n_rows: int, rng: np.random.Generator) -> pl.DataFrame:
    """Make documents of 100 to 900 words, and summaries of 20 to 80."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(word) for word in rng.choice(letters, (5_000, 5))])
    texts = {
        name: [" ".join(rng.choice(words, rng.integers(*words_each))) for _ in range(n_rows)]
        for name, words_each in (("source", (100, 900)), ("reference", (20, 80)))
    }
    return pl.DataFrame({"document_id": [f"d{row}" for row in range(n_rows)], **texts})


def read_rows(pairs: Path | None, n_rows: int, rng: np.random.Generator) -> pl.DataFrame:
    """Take rows of a file of pairs, again from its beginning where it has too few."""
    if pairs is None:
        table = made_up_texts(n_rows, rng)
    else:
        table = pl.read_parquet(pairs, columns=["document_id", "source", "reference"])
        table = pl.concat([table] * -(-n_rows // len(table))).head(n_rows)
    return table.rename({"reference": "candidate"}).with_columns(
        pl.int_range(n_rows).cast(pl.String).alias("system_id")
    )


def bare_scores(
    model: nn.Module, tokenizer: Tokenizer, table: pl.DataFrame, batch: int
) -> np.ndarray:
    texts = zip(table["source"].to_list(), table["candidate"].to_list(), strict=True)
    encoded = tokenizer.encode_batch(list(texts))
    order = sorted(range(len(encoded)), key=lambda row: -len(encoded[row].ids))
    scores = np.empty(len(encoded))
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            longest = len(encoded[rows[0]].ids)
            tensors = {
                name: torch.tensor(
                    [
                        getattr(encoded[row], of) + [0] * (longest - len(encoded[row].ids))
                        for row in rows
                    ]
                )
                for name, of in TENSORS.items()
            }
            scores[rows] = torch.sigmoid(model(**tensors)).numpy()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=Path, help="Parquet with document_id, source, reference")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--max-pieces", type=int, default=512)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "torch", "transformers", "tokenizers")
    torch.set_num_threads(options.threads)
    pairs = options.pairs or data_file("cnndm_pairs.parquet")
    table = read_rows(pairs, options.rows, np.random.default_rng(options.seed))
    with tempfile.TemporaryDirectory() as work:
        folder, corpus = Path(work) / "scorer", Path(work) / "corpus.parquet"
        table.write_parquet(corpus)
        settings = TrainSettings(out=folder, scorer="bert", max_pieces=options.max_pieces)
        built = build(settings.recipe().model)
        save_scorer(folder, built, loss="bce", trained_on={}, held_out={}, versions={})
        model = built.model.eval()
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(options.max_pieces, strategy="longest_first")
        turns = itertools.count()
        scores: dict[str, np.ndarray] = {}

        def bare() -> None:
            scores["bare"] = bare_scores(model, tokenizer, table, options.batch)

        def assay() -> None:
            out = f"{work}/out{next(turns)}"
            score_corpus(
                corpus,
                ScoreSettings(
                    out=out, metrics=[f"reffree@{folder}"], local=True, workers=options.threads
                ),
            )
            found = pl.read_parquet(f"{out}/scores/*.parquet").sort(
                pl.col("system_id").cast(pl.Int64)
            )
            scores["assay score"] = found[f"reffree@{folder}"].to_numpy()

        contenders = {"bare": (bare, options.rows), "assay score": (assay, options.rows)}
        rounds = interleave(contenders, options.rounds, warm_up=False)
    # Their tokenizer cuts a pair that is too long at other places by a piece now and then.
    gap = np.abs(scores["bare"] - scores["assay score"])
    say(f"largest difference {gap.max():.1e}; above {ATOL:g}: {(gap > ATOL).sum()} rows")
    if (gap > ATOL).mean() > 0.01:
        raise RuntimeError("the scores differ; there is nothing to compare")
    source = "made-up texts" if pairs is None else pairs.name
    say(f"{options.rows} rows of {source}, {options.max_pieces} pieces, {options.threads} threads")
    say("rows per second: median, fastest, slowest")
    for name in contenders:
        spread = rounds[name]
        rates = [1 / seconds for seconds in (spread.median, spread.fastest, spread.slowest)]
        say(f"{name:>12}{rates[0]:>9.2f}{rates[1]:>9.2f}{rates[2]:>9.2f}")
    share = rounds.times_faster("assay score", than="bare")
    say(
        f"share of the bare model's speed {share.median:.3f} "
        f"({min(share.fastest, share.slowest):.3f}–{max(share.fastest, share.slowest):.3f})"
    )
    cpu = [
        one / other
        for one, other in zip(*(rounds.cpu_seconds[name] for name in contenders), strict=True)
    ]
    say(f"by processor time, which a busy machine disturbs less: {np.median(cpu):.3f}")
    finish(options, facts, {"share": share.median})


if __name__ == "__main__":
    main()

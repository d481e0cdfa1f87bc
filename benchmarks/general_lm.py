"""Compare weights of the language model in `reffree@general+lm`, and write that scorer.

The sets are those of `rated_sets.py` that are there; a column `likelihood@lm` that one has already,
as `assay score --keep all` writes it, is not computed again. A head of
`reffree@general` and the likelihood of the summary are brought to the same spread within documents,
the mean over the sets of an aspect, and added up with each of several weights. Prints the agreement
of each with people and how much it is above the likelihood alone, with an interval over documents.
`--write DIR` writes the scorer with the weights in `CHOSEN`; the ratings have no other part in it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import polars as pl
from rated_sets import SETS, drawn_agreements, draws_of_documents

from reffree.features.linear import CLIPPED_AT, linear_model
from reffree.scorers.folder import read_settings, signature_of_linear, write_settings
from reffree.scorers.naming import find_scorer
from sms.scoring import score_texts

LIKELIHOOD = "likelihood@lm"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PROMPT = (
    "<|im_start|>user\nSummarize this text:\n\n{context}<|im_end|>\n<|im_start|>assistant\n{text}"
)
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Of the likelihood, where the head has 1."""
CHOSEN = {"coherence": 3.0, "consistency": 2.0, "fluency": 2.0, "relevance": 2.0}


def spread(rows: pl.DataFrame, metric: str) -> float:
    """Return the deviation within documents, or of all rows where a document has one summary."""
    values = rows[metric].cast(pl.Float64)
    if rows["document_id"].n_unique() < rows.height:
        means = rows.select(pl.col(metric).cast(pl.Float64).mean().over("document_id"))
        values = values - means.to_series()
    return float(np.std(values.to_numpy()))


def scored_sets(folder: Path, model: str) -> dict[str, pl.DataFrame]:
    """Read the sets that are there, and compute the heads and the likelihood where they are not."""
    sets = {}
    for name in sorted({name for of_aspect in SETS.values() for name in of_aspect}):
        file = folder / f"{name}.parquet"
        if not file.exists():
            continue
        rows = pl.read_parquet(file)
        heads = [f"reffree@general.{aspect}" for aspect in SETS]
        new = [metric for metric in (*heads, LIKELIHOOD) if metric not in rows.columns]
        table = score_texts(
            rows["candidate"].to_list(),
            sources=rows["source"].to_list(),
            metrics=new,
            models={"lm": {"path": model, "prompt": PROMPT}},
        )
        columns = [pl.Series(each, table[each].to_numpy()) for each in new]
        sets[name] = rows.with_columns(columns)
        print(f"{name}: {rows.height} summaries", flush=True)
    return sets


def compare(sets: dict[str, pl.DataFrame], aspect: str, n_resamples: int) -> tuple[float, float]:
    """Print the agreement of an aspect by weight; return the spreads of head and likelihood."""
    head = f"reffree@general.{aspect}"
    rated = {name: sets[name] for name in SETS[aspect] if name in sets}
    of_head, of_model = (
        float(np.mean([spread(rows, metric) for rows in rated.values()]))
        for metric in (head, LIKELIHOOD)
    )
    names = {LIKELIHOOD: pl.col(LIKELIHOOD), head: pl.col(head)} | {
        f"head + {weight:g} likelihood": pl.col(head) / of_head
        + weight / of_model * pl.col(LIKELIHOOD)
        for weight in WEIGHTS
    }
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for name, rows in rated.items():
        draws = draws_of_documents(rows, n_resamples)
        columns = rows.with_columns(
            expression.cast(pl.Float64).alias(each) for each, expression in names.items()
        )
        for each in names:
            drawn[each].append(drawn_agreements(columns, each, SETS[aspect][name], draws))
    print(f"\n{aspect}: {', '.join(rated)}")
    alone = np.mean(drawn[LIKELIHOOD], axis=0)
    for each, values in drawn.items():
        mean = np.mean(values, axis=0)
        low, high = np.quantile((mean - alone)[1:], (0.025, 0.975))
        by_set = " ".join(f"{of_set[0]:.3f}" for of_set in values)
        print(
            f"{each:28} {by_set}  mean {mean[0]:.3f}, {mean[0] - alone[0]:+.3f} "
            f"[{low:+.3f}, {high:+.3f}] above the likelihood"
        )
    return of_head, of_model


def write(
    folder: Path, sets: dict[str, pl.DataFrame], spreads: dict[str, tuple[float, float]]
) -> None:
    """Write the scorer: the heads of `reffree@general`, each with its part of the likelihood."""
    settings = read_settings(find_scorer("general"))
    model = settings["model"]
    values = [rows[LIKELIHOOD].cast(pl.Float64) for rows in sets.values()]
    mean = float(np.mean([np.mean(of_set.to_numpy()) for of_set in values]))
    deviation = float(np.mean([np.std(of_set.to_numpy()) for of_set in values]))
    model["features"] |= {
        "names": [*model["features"]["names"], LIKELIHOOD],
        "models": {"lm": {"path": HUB_ID, "prompt": PROMPT}},
        "paths": {LIKELIHOOD: HUB_ID},
    }
    model["means"].append(mean)
    model["deviations"].append(deviation)
    for aspect, head in model["heads"].items():
        of_head, of_model = spreads[aspect]
        weight = CHOSEN[aspect] * deviation / of_model
        # a score of the head is its sum less the mean, by the deviation
        scale = 1 / (head["deviation"] * of_head)
        sums = [
            rows[f"reffree@general.{aspect}"].to_numpy() / of_head
            + head["mean"] * scale
            + weight * np.clip((of_set.to_numpy() - mean) / deviation, -CLIPPED_AT, CLIPPED_AT)
            for rows, of_set in zip(sets.values(), values, strict=True)
        ]
        head["weights"] = [*(each * scale for each in head["weights"]), weight]
        head["mean"] = float(np.mean([np.nanmean(of_set) for of_set in sums]))
        head["deviation"] = float(np.mean([np.nanstd(of_set) for of_set in sums]))
    settings |= {"signature": signature_of_linear(linear_model(model)), "encoder_content": ""}
    del settings["held_out"], settings["format"]
    write_settings(folder, **settings)
    print(json.dumps({"mean": mean, "deviation": deviation, "spreads": spreads}, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default=HUB_ID, help="folder or hub id")
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--write", type=Path, metavar="DIR")
    given = parser.parse_args()
    sets = scored_sets(given.data, given.model)
    spreads = {aspect: compare(sets, aspect, given.resamples) for aspect in SETS}
    if given.write is not None:
        write(given.write, sets, spreads)


if __name__ == "__main__":
    main()

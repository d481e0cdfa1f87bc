"""Compare weights of the language model in `reffree@general+lm`, and write that scorer.

The sets are those of `rated_sets.py` that are there; a column `likelihood@lm` that one has already,
as `assay score --keep all` writes it, is not computed again. The parts of a score (the likelihood
of the summary, a head of `reffree@general`, or some of its features) are brought to the same spread
within documents, the mean over the sets of an aspect, and added up with each of several weights.
Prints the agreement of each with people and how much it is above the likelihood alone, with an
interval over documents. `--write DIR` writes the scorer with the weights in `CHOSEN`; the ratings
have no other part in it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from rated_sets import SETS, drawn_agreements, draws_of_documents

from reffree.features.linear import CLIPPED_AT, linear_model
from reffree.scorers.folder import read_settings, signature_of_linear, write_settings
from reffree.scorers.naming import find_scorer
from reffree.scorers.scorer import LinearPairs, load_scorer
from sms.scoring import score_texts

LIKELIHOOD = "likelihood@lm"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PROMPT = (
    "<|im_start|>user\nSummarize this text:\n\n{context}<|im_end|>\n<|im_start|>assistant\n{text}"
)
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Of the likelihood, where the head has 1."""
WITHOUT_COPYING = {"said": 0.5, "recalled": 0.5, "density": -1.0}
"""What is in the summary of the document, less what was copied, which a likelihood after the
document counts already."""
WEIGHTS_WITHOUT_COPYING = (2.0, 3.0, 4.0, 6.0, 8.0)
"""Of the likelihood, where these features have the weights above."""

HEAD = "the head"
# Of each aspect, those whose interval above the likelihood has the highest lower end.
CHOSEN = {
    "coherence": {LIKELIHOOD: 4.0, **WITHOUT_COPYING},
    "consistency": {LIKELIHOOD: 1.0, HEAD: 1.0},
    "fluency": {LIKELIHOOD: 2.0, HEAD: 1.0},
    "relevance": {LIKELIHOOD: 0.5, HEAD: 1.0},
}


def variants(aspect: str) -> dict[str, dict[str, float]]:
    """Return the weights of the parts of each score that is compared."""
    compared = {LIKELIHOOD: {LIKELIHOOD: 1.0}, HEAD: {HEAD: 1.0}} | {
        f"head + {weight:g} likelihood": {LIKELIHOOD: weight, HEAD: 1.0} for weight in WEIGHTS
    }
    if aspect == "coherence":
        compared |= {
            f"less copying + {weight:g} likelihood": {LIKELIHOOD: weight, **WITHOUT_COPYING}
            for weight in WEIGHTS_WITHOUT_COPYING
        }
    return compared


def spread(rows: pl.DataFrame, metric: str) -> float:
    """Return the deviation within documents, or of all rows where a document has one summary."""
    values = rows[metric].cast(pl.Float64)
    if rows["document_id"].n_unique() < rows.height:
        means = rows.select(pl.col(metric).cast(pl.Float64).mean().over("document_id"))
        values = values - means.to_series()
    return float(np.std(values.to_numpy()))


def scored_sets(folder: Path, model: str, general: LinearPairs) -> dict[str, pl.DataFrame]:
    """Read the sets that are there, with scaled features, heads and, where it is not, likelihood.

    A head is called by its aspect.
    """
    sets = {}
    for name in sorted({name for of_aspect in SETS.values() for name in of_aspect}):
        file = folder / f"{name}.parquet"
        if not file.exists():
            continue
        rows = pl.read_parquet(file)
        sources, candidates = rows["source"].to_list(), rows["candidate"].to_list()
        if LIKELIHOOD not in rows.columns:
            models = {"lm": {"path": model, "prompt": PROMPT}}
            table = score_texts(candidates, sources=sources, metrics=[LIKELIHOOD], models=models)
            rows = rows.with_columns(pl.Series(LIKELIHOOD, table[LIKELIHOOD].to_numpy()))
        values = general.features.read(sources, candidates).values
        features = dict(
            zip(general.features.config.names, general.model.scaled(values).T, strict=True)
        )
        heads = dict(zip(general.heads, general.model.scores(values).T, strict=True))
        columns = {f"scaled {feature}": column for feature, column in features.items()}
        columns |= {f"head {aspect}": column for aspect, column in heads.items()}
        sets[name] = rows.with_columns(pl.Series(each, column) for each, column in columns.items())
        print(f"{name}: {rows.height} summaries", flush=True)
    return sets


def column_of(part: str, aspect: str) -> str:
    """Return the column of a part of the score of an aspect."""
    if part == LIKELIHOOD:
        return part
    return f"head {aspect}" if part == HEAD else f"scaled {part}"


def spreads_of(sets: dict[str, pl.DataFrame], aspect: str) -> dict[str, float]:
    """Return the spread of every part within documents, the mean over the sets of an aspect."""
    rated = [sets[name] for name in SETS[aspect] if name in sets]
    return {
        part: float(np.mean([spread(rows, column_of(part, aspect)) for rows in rated]))
        for part in (LIKELIHOOD, HEAD, *WITHOUT_COPYING)
    }


def compare(sets: dict[str, pl.DataFrame], aspect: str, n_resamples: int) -> None:
    """Print the agreement of an aspect for each variant."""
    spreads = spreads_of(sets, aspect)
    scores = {
        name: pl.sum_horizontal(
            weight / spreads[part] * pl.col(column_of(part, aspect)).cast(pl.Float64)
            for part, weight in parts.items()
        )
        for name, parts in variants(aspect).items()
    }
    rated = {name: sets[name] for name in SETS[aspect] if name in sets}
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in scores}
    for name, rows in rated.items():
        draws = draws_of_documents(rows, n_resamples)
        for each, score in scores.items():
            columns = rows.with_columns(score.alias("score"))
            drawn[each].append(drawn_agreements(columns, "score", SETS[aspect][name], draws))
    print(f"\n{aspect}: {', '.join(rated)}")
    alone = np.mean(drawn[LIKELIHOOD], axis=0)
    for each, values in drawn.items():
        mean = np.mean(values, axis=0)
        by_set = ", ".join(map(with_interval, values))
        print(
            f"{each:30} {by_set}; mean {mean[0]:.3f}, {with_interval(mean - alone)} above the "
            "likelihood"
        )


def with_interval(drawn: np.ndarray) -> str:
    """Write a value, the first one, and its interval over the draws of documents."""
    low, high = np.quantile(drawn[1:], (0.025, 0.975))
    return f"{drawn[0]:.3f} [{low:.3f}, {high:.3f}]"


def write(folder: Path, sets: dict[str, pl.DataFrame], general: LinearPairs) -> None:
    """Write the scorer: the features of `reffree@general` and the likelihood, weighted anew."""
    names = general.features.config.names
    likelihoods = [rows[LIKELIHOOD].cast(pl.Float64).to_numpy() for rows in sets.values()]
    mean = float(np.mean([np.mean(of_set) for of_set in likelihoods]))
    # of all sets, each counting the same: a kind of text that is unlikely as a whole is not clipped
    deviation = float(np.sqrt(np.mean([np.mean((of_set - mean) ** 2) for of_set in likelihoods])))
    scaled = [
        np.column_stack(
            [
                rows.select(f"scaled {name}" for name in names).to_numpy(),
                np.clip((of_set - mean) / deviation, -CLIPPED_AT, CLIPPED_AT),
            ]
        )
        for rows, of_set in zip(sets.values(), likelihoods, strict=True)
    ]
    settings = read_settings(find_scorer("general"))
    model = settings["model"]
    for aspect in SETS:
        spreads, weights = spreads_of(sets, aspect), np.zeros(len(names) + 1)
        fitted = general.model.heads[aspect]
        for part, weight in CHOSEN[aspect].items():
            share = weight / spreads[part]
            if part == LIKELIHOOD:
                weights[-1] += share * deviation
            elif part == HEAD:
                weights[:-1] += share / fitted.deviation * np.array(fitted.weights)
            else:
                weights[names.index(part)] += share
        sums = [of_set @ weights for of_set in scaled]
        model["heads"][aspect] = {
            "weights": weights.tolist(),
            "mean": float(np.mean([np.mean(of_set) for of_set in sums])),
            "deviation": float(np.mean([np.std(of_set) for of_set in sums])),
        }
    model["features"] |= {
        "names": [*names, LIKELIHOOD],
        "models": {"lm": {"path": HUB_ID, "prompt": PROMPT}},
        "paths": {LIKELIHOOD: HUB_ID},
    }
    model["means"].append(mean)
    model["deviations"].append(deviation)
    settings |= {"signature": signature_of_linear(linear_model(model)), "encoder_content": ""}
    del settings["held_out"], settings["format"]
    write_settings(folder, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default=HUB_ID, help="folder or hub id")
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--write", type=Path, metavar="DIR")
    given = parser.parse_args()
    general = load_scorer("general").linear
    assert general is not None
    sets = scored_sets(given.data, given.model, general)
    for aspect in SETS:
        compare(sets, aspect, given.resamples)
    if given.write is not None:
        write(given.write, sets, general)


if __name__ == "__main__":
    main()

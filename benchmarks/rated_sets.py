"""How well do scorers without references agree with people on sets of several kinds of text?

Each set is a Parquet file SET.parquet in `--data` with `document_id`, `system_id`, `source`,
`candidate` and the columns of ratings that `SETS` names. Prints for each aspect and set the rank
correlation within documents (over all rows where a document has one summary), the mean over sets,
and how much the first scorer is above each other one, with an interval over documents.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import rankdata

from sms.scoring import score_texts

SETS = {
    "coherence": {"Newsroom": ["coherence"], "opinsumm": ["self_coh"]},
    "fluency": {"Newsroom": ["fluency"], "opinsumm": ["readblty"]},
    "relevance": {
        "Newsroom": ["relevance", "informativeness"],
        "opinsumm": ["asp_rel"],
        "REALSumm": ["litepyramid_recall"],
        "primer_news": ["overall"],
    },
    "consistency": {
        "opinsumm": ["sent_con"],
        "QAGS_CNN": ["fact"],
        "QAGS_XSUM": ["fact"],
        "Rank19": ["fact"],
    },
}
BASELINES = ("length", "density", "rouge2_p:source")
SCORERS = ("general", "news")


def correlation(scores: np.ndarray, ratings: np.ndarray) -> float:
    """Spearman; 0 where all scores are equal, NaN where all ratings are."""
    ranks = rankdata(scores.round(9)), rankdata(ratings.round(9))
    if np.ptp(ranks[1]) == 0:
        return float("nan")
    return 0.0 if np.ptp(ranks[0]) == 0 else float(np.corrcoef(*ranks)[0, 1])


def draws_of_documents(rows: pl.DataFrame, n_resamples: int) -> np.ndarray:
    """Return numbers of documents to take; the first draw has each document once."""
    n_documents = rows["document_id"].n_unique()
    resampled = np.random.default_rng(0).integers(0, n_documents, (n_resamples, n_documents))
    return np.vstack([np.arange(n_documents), resampled])


def drawn_agreements(
    rows: pl.DataFrame, metric: str, ratings: list[str], draws: np.ndarray
) -> np.ndarray:
    """Return the agreement over each draw of documents."""
    groups = rows.with_row_index().group_by("document_id", maintain_order=True).agg("index")
    places = [group.to_numpy() for group in groups["index"]]
    scores = rows[metric].cast(pl.Float64).to_numpy()
    of_ratings = []
    for name in ratings:
        rated = rows[name].cast(pl.Float64).to_numpy()
        if len(places) == rows.height:  # a summary for each document
            of_ratings.append([correlation(scores[draw], rated[draw]) for draw in draws])
            continue
        by_document = np.array([correlation(scores[at], rated[at]) for at in places])
        of_ratings.append(np.nanmean(by_document[draws], axis=1))
    return np.mean(of_ratings, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--resamples", type=int, default=1_000)
    given = parser.parse_args()
    scored: dict[str, pl.DataFrame] = {}
    for aspect, sets in SETS.items():
        names = [*(f"reffree@{scorer}.{aspect}" for scorer in SCORERS), *BASELINES]
        drawn: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for name, ratings in sets.items():
            rows = scored.get(name, pl.read_parquet(given.data / f"{name}.parquet"))
            new = [metric for metric in names if metric not in rows.columns]
            table = score_texts(
                rows["candidate"].to_list(), sources=rows["source"].to_list(), metrics=new
            )
            columns = [pl.Series(metric, table[metric].to_numpy()) for metric in new]
            scored[name] = rows = rows.with_columns(columns)
            draws = draws_of_documents(rows, given.resamples)
            for metric in names:
                drawn[metric].append(drawn_agreements(rows, metric, ratings, draws))
        print(f"\n{aspect}: {', '.join(sets)}")
        first = np.mean(drawn[names[0]], axis=0)
        for metric in names:
            mean = np.mean(drawn[metric], axis=0)
            ahead = first - mean
            low, high = np.quantile(ahead[1:], (0.025, 0.975))
            each = " ".join(f"{values[0]:.3f}" for values in drawn[metric])
            print(
                f"{metric:30} {each}  mean {mean[0]:.3f}, "
                f"the first is {ahead[0]:+.3f} [{low:+.3f}, {high:+.3f}] above"
            )


if __name__ == "__main__":
    main()

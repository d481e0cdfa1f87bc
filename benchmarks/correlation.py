"""How long does a report take that holds 28 metrics against four aspects of ratings?

Made-up scores and ratings of 16 systems on 100 documents (ratings in thirds of a point, as three
raters give them; metrics that agree with them more or less; all six trivial ones), through
`assay correlate` from start to exit. Some correlations are checked against scipy first.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from corpora import ROOT
from scipy import stats
from timing import finish, in_one_line, machine, say

ASPECTS = ("coherence", "consistency", "fluency", "relevance")
BASELINES = ("length", "compression", "coverage", "density", "novelty", "lead3")
SHAPE = 16, 100


def write_study(folder: Path, n_metrics: int, rng: np.random.Generator) -> None:
    quality = rng.normal(size=(16, 1)) + 0.5 * rng.normal(size=SHAPE)
    systems, documents = np.indices(SHAPE)
    keys = {
        "document_id": [f"d{j:03}" for j in documents.ravel()],
        "system_id": [f"M{i}" for i in systems.ravel()],
    }
    ratings = {
        name: np.clip(np.round(3 * (3.5 + quality + rng.normal(size=SHAPE))) / 3, 1, 5).ravel()
        for name in ASPECTS
    }
    named = [*BASELINES, *(f"metric{i:02}" for i in range(n_metrics))][:n_metrics]
    noise = np.linspace(0.5, 3.0, n_metrics)
    scores = {
        name: (quality + scale * rng.normal(size=SHAPE)).round(3).ravel()
        for name, scale in zip(named, noise, strict=True)
    }
    pl.DataFrame({**keys, **ratings}).write_parquet(folder / "ratings.parquet")
    pl.DataFrame({**keys, **scores}).write_parquet(folder / "scores.parquet")


def check(folder: Path) -> None:
    scores, ratings = (
        pl.read_parquet(folder / f"{name}.parquet") for name in ("scores", "ratings")
    )
    found = pl.read_parquet(folder / "report" / "correlations.parquet")
    for name, function in (("spearman", stats.spearmanr), ("kendall_b", stats.kendalltau)):
        rows = found.filter(level="global", coefficient=name, aspect=ASPECTS[0])
        for metric, value in rows.select("metric", "value").iter_rows():
            expected = function(scores[metric], ratings[ASPECTS[0]]).statistic
            assert np.isclose(value, expected, rtol=0, atol=1e-12), (metric, value, expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metrics", type=int, default=28)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_study(folder, options.metrics, np.random.default_rng(0))
        command = [
            *(sys.executable, "-m", "assay", "correlate", str(folder / "scores.parquet")),
            *("--ratings", str(folder / "ratings.parquet"), "--out", str(folder / "report")),
            *("--resamples", str(options.resamples), "--quiet"),
        ]
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        seconds = time.perf_counter() - started
        check(folder)
        files = [path for path in (folder / "report").rglob("*") if path.is_file()]
        mebibytes = sum(path.stat().st_size for path in files) / 2**20
    facts = machine("numpy", "scipy", "polars")
    say(in_one_line(facts))
    say(f"{options.metrics} metrics, 4 aspects, 16 x 100 cells, {options.resamples:,} resamples")
    say(f"{seconds:8.1f} s")
    say(f"{len(files):8} files of {mebibytes:.1f} MiB in the report")
    finish(options, facts, {"seconds": seconds, "n_files": len(files)})


if __name__ == "__main__":
    main()

"""How far do scores differ between batches and kinds of processors, by precision? How fast is each?

Other kinds of processor than this one are this one with less of what it has. Differences of
mover's similarities are shares of them, those of cosines are differences.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from timing import finish, in_one_line, machine, say

METRICS = ("sms", "wms", "s+wms", "cosine")
PRECISIONS = ("fp32", "bf16", "fp16")
KINDS = {
    "as it is": {},
    "no AMX": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
EXAMPLE = Path(__file__).resolve().parents[1] / "pipelines" / "examples" / "quality_ladder.jsonl"


def read(data: Path, n_rows: int) -> pl.DataFrame:
    frame = pl.read_parquet(data) if data.suffix == ".parquet" else pl.read_ndjson(data)
    if "reference" in frame.columns:
        frame = frame.with_columns(pl.concat_list("reference").alias("references"))
    return frame.head(n_rows).select("candidate", pl.col("references").list.head(2))


def compute(data: Path, n_rows: int, precision: str) -> dict[str, object]:
    """Score all rows at once and one by one, in this process."""
    from sms.scoring import ScoringConfig, SummaryScorer

    def scorer() -> SummaryScorer:
        return SummaryScorer(ScoringConfig(metrics=METRICS, precision=precision), 1, device="cpu")

    rows = read(data, n_rows).to_arrow()
    scorer().score(rows.slice(0, 8))  # compiles
    whole, single = scorer(), scorer()
    started = time.process_time()
    together = whole.score(rows)
    seconds = time.process_time() - started
    alone = [single.score(rows.slice(row, 1)) for row in range(len(rows))]
    return {
        "seconds": seconds,
        "together": {name: together[name].to_pylist() for name in METRICS},
        "alone": {name: [one[name][0].as_py() for one in alone] for name in METRICS},
    }


def difference(one: dict[str, list[float]], other: dict[str, list[float]]) -> dict[str, float]:
    """Return the largest, of mover's similarities and of cosines."""
    found = {"movers": 0.0, "cosine": 0.0}
    for name in METRICS:
        a, b = (np.array(scores[name], float) for scores in (one, other))
        kind = "cosine" if name == "cosine" else "movers"
        gaps = np.abs(a - b) / (1.0 if name == "cosine" else np.maximum(a, b))
        found[kind] = max(found[kind], float(np.nanmax(gaps)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=EXAMPLE, help="Parquet or JSONL")
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--one", metavar="PRECISION", help="what a process of it does")
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compute(options.data, options.rows, options.one)))
        return
    facts = machine("torch")
    say(in_one_line(facts))
    command = [sys.executable, __file__, "--data", options.data, "--rows", str(options.rows)]
    table = []
    fp32_seconds: dict[str, float] = {}
    say(f"{'':>8} {'':>10} {'times':>6} {'other batches':>17} {'this as it is':>17}")
    say(f"{'':>8} {'':>10} {'fp32':>6} {'movers':>8} {'cosine':>8} {'movers':>8} {'cosine':>8}")
    for precision in PRECISIONS:
        base = None
        for kind, limits in KINDS.items():
            text = subprocess.check_output(
                [*command, "--one", precision], env={**os.environ, **limits}, text=True
            )
            found = json.loads(text.splitlines()[-1])
            base = base or found
            batches = difference(found["together"], found["alone"])
            kinds = difference(found["together"], base["together"])
            speed = fp32_seconds.setdefault(kind, found["seconds"]) / found["seconds"]
            figures = [*batches.values(), *kinds.values()]
            say(
                f"{precision:>8} {kind:>10} {speed:>6.2f} " + " ".join(f"{x:8.0e}" for x in figures)
            )
            table.append(
                {"precision": precision, "kind": kind, "times_fp32": speed}
                | {"other_batches": batches, "as_it_is": kinds}
            )
    finish(options, facts, {"table": table})


if __name__ == "__main__":
    main()

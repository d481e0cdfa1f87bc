"""Calls of every public function, for tests that make them after each other, in forks and threads.

`python -m tests.assay.public_calls FOLDER BEFORE AFTER...` makes one call, forks a process for each
of the others, which a timer ends if it hangs, and prints those that do not return what they return
in a process that was not forked. What that is, `python -m tests.assay.public_calls FOLDER` writes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import assay
import sms

EXAMPLES = Path(__file__).parents[2] / "pipelines" / "examples"
CORPUS, RATINGS = EXAMPLES / "quality_ladder.jsonl", EXAMPLES / "written_quality.csv"
N_DOCUMENTS = 6
TIMEOUT_S = 240
"""A child that waits for threads it does not have waits for ever; others take a few seconds."""


class Calls:
    """The calls, by name, with the files that they read; what they return can be compared."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = [json.loads(line) for line in CORPUS.read_text().splitlines()]
        documents = list(dict.fromkeys(row["document_id"] for row in self.rows))[:N_DOCUMENTS]
        self.rows = [row for row in self.rows if row["document_id"] in documents]
        self.texts = [row["candidate"] for row in self.rows]
        self.references = [row["references"] for row in self.rows]

    def prepare(self) -> None:
        """Write the files."""
        lines = [json.dumps(row) for row in self.rows]
        (self.folder / "corpus.jsonl").write_text("\n".join(lines))
        judged = [f"d{k},x,y,{'y' if k % 3 else 'x'}" for k in range(9)]
        header = "document_id,system_a,system_b,winner"
        (self.folder / "judgements.csv").write_text("\n".join([header, *judged]))
        by_document = {row["document_id"]: row for row in self.rows}
        splits = ("train", "validation", "test")
        pairs = [
            {
                "document_id": document,
                "source": row["source"],
                "reference": row["references"][0],
                "split": splits[k // 2],
            }
            for k, (document, row) in enumerate(by_document.items())
        ]
        (self.folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
        self.score_files(self.folder / "run")

    def score_files(self, out: Path, **more: Any) -> Any:
        metrics = ["rouge1_f", "length"]
        return assay.score(self.folder / "corpus.jsonl", out=out, metrics=metrics, **more)

    def new(self, name: str) -> Path:
        """Name a file or folder that is not there yet."""
        return Path(tempfile.mkdtemp(dir=self.folder)) / name

    def score(self) -> Any:
        scored = assay.score(self.rows, metrics=["rouge1_f", "sms", "density", "reffree@news"])
        return [(row["rouge1_f"], row["sms"], row["reffree@news"]) for row in scored]

    def score_pandas(self) -> Any:
        import pandas as pd

        return assay.score(pd.DataFrame(self.rows), metrics="rouge1_f")["rouge1_f"].tolist()

    def score_polars(self) -> Any:
        import polars as pl

        columns = [pl.Series(name, [row[name] for row in self.rows]) for name in self.rows[0]]
        return assay.score(pl.DataFrame(columns), metrics="rouge1_f")["rouge1_f"].to_list()

    def score_to_files(self) -> Any:
        run = self.score_files(self.new("run"))
        assert (Path(run.out) / "scores.html").exists()
        return run.means

    def score_in_processes(self) -> Any:
        return self.score_files(self.new("run"), workers=2).means

    def tables_of_a_run(self) -> Any:
        run = self.score_files(self.new("run"))
        frames = run.to_arrow().to_pandas(), run.to_polars(), run.to_pandas()
        return [list(frame["rouge1_f"]) for frame in frames]

    def status(self) -> Any:
        return assay.status(self.folder / "run").n_done_rows

    def judge(self) -> Any:
        judged = assay.judge(self.folder / "corpus.jsonl", ratings=RATINGS, resamples=20)
        assert "Whole corpus" in judged.text()
        return judged.result.about.compared

    def correlate(self) -> Any:
        told = []
        out = self.new("report")
        options = {"resamples": 20, "out": out, "on_progress": told.append}
        result = assay.correlate(self.folder / "run", ratings=RATINGS, **options)
        assert (out / "report.html").exists()
        return result.about.compared

    def compare(self) -> Any:
        result = assay.compare(
            self.folder / "run", self.folder / "run", systems_a="good", systems_b="vague"
        )
        return result.frame().to_dicts()

    def explain(self) -> Any:
        document = self.rows[0]["document_id"]
        shown = assay.explain([], document=document, scores=self.folder / "run", metric="rouge1_f")
        return [(system.system_id, system.explanation.score) for system in shown]

    def preferences(self) -> Any:
        return assay.preferences(self.folder / "judgements.csv").frame().to_dicts()

    def negatives(self) -> Any:
        out = self.new("negatives.parquet")
        return assay.negatives(self.folder / "pairs.jsonl", out=out).n_rows

    def evaluate(self) -> Any:
        return [each.n_pairs for each in assay.evaluate("news", self.folder / "pairs.jsonl")]

    def train(self) -> Any:
        out = self.new("scorer")
        assay.train(self.folder / "pairs.jsonl", out=out, scorer="sentence", epochs=1)
        return sorted(path.name for path in out.iterdir())

    def export(self) -> Any:
        exported = assay.export("scorer", "news", to=self.new("given"), licence="mit")
        return [exported.signature, [*exported.files]]

    def reward(self) -> Any:
        return assay.Reward("sms")(self.texts, references=self.references)

    def scorer(self) -> Any:
        with assay.Scorer(metrics=["sms", "reffree@news"]) as scorer:
            found = scorer(self.rows)
        return [(row["sms"], row["reffree@news"]) for row in found]

    def score_texts(self) -> Any:
        metrics = ("wms", "cosine", "rougeL_f", "bertscore_f", "bleu", "length")
        scored = sms.score_texts(self.texts[:9], self.references[:9], metrics=metrics)
        return [list(row.values()) for row in scored.to_pylist()]

    def explain_texts(self) -> Any:
        return sms.explain(self.texts[0], self.references[0][0]).score


NAMES = [name for name in vars(Calls) if name not in ("prepare", "score_files", "new")]
NAMES = [name for name in NAMES if not name.startswith("_")]


def rounded(value: Any) -> Any:
    """Leave out what the number of threads may change in a sum."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value


def run_in_fork(call: Callable[[], Any]) -> Any:
    """Return what a call returns in a forked process, or how that one ended, as a text."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks, which are what is tested
        child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(TIMEOUT_S)
        try:
            answer = json.dumps(rounded(call()))
        except BaseException:  # noqa: BLE001  (the parent is told)
            answer = json.dumps(traceback.format_exc())
        with os.fdopen(write, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(answer) if answer else f"ended by signal {status}, 14 if it hung"


def main(folder: str, before: str = "", *after: str) -> None:
    calls, file = Calls(Path(folder)), Path(folder) / "expected.json"
    if not before:
        calls.prepare()
        file.write_text(json.dumps({name: rounded(getattr(calls, name)()) for name in NAMES}))
        return
    expected = json.loads(file.read_text())
    getattr(calls, before)()
    for name in after:
        found = run_in_fork(getattr(calls, name))
        if found != expected[name]:
            sys.stdout.write(f"{name} after {before}: {found}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

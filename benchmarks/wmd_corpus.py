"""How many pairs/s does a whole `assay score` do, against a loop over gensim's `wmdistance`?

The corpus: 100,000 pairs of about 30 words and 3 sentences, 20 systems on 5,000 documents, made of
the words of a static vector file. Ours is the command from start to exit, with `wms`, `sms` and
`s+wms`; theirs is a plain loop that splits, drops stop words and punctuation and computes the word
mover's distance alone, on some of the same pairs, vectors already loaded.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os

os.environ["POT_BACKEND_DISABLE_TENSORFLOW"] = "1"
os.environ["POT_BACKEND_DISABLE_JAX"] = "1"

import statistics
import string
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from command import assay_score
from corpora import CorpusSize, vector_file, words_of, write_corpus
from timing import begin, finish, say

from sms.text import Segmenter, TextRules, stop_words

try:
    from gensim.models import KeyedVectors
except ImportError:
    raise SystemExit("needs gensim; install the extra `bench`") from None

METRICS = ("wms", "sms", "s+wms")
SCORE_ATOL = 1e-5
"""gensim subtracts float32 vectors."""

_STOP = stop_words(TextRules())
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def gensim_tokens(text: str) -> list[str]:
    words = text.lower().translate(_NO_PUNCTUATION).split()
    return [word for word in words if word not in _STOP]


def gensim_loop(vectors: KeyedVectors, pairs: list[tuple[str, str]]) -> list[float]:
    return [
        vectors.wmdistance(gensim_tokens(candidate), gensim_tokens(reference), norm=False)
        for candidate, reference in pairs
    ]


def same_tokens(pairs: list[tuple[str, str]]) -> np.ndarray:
    """Tell for which pairs both take the same bags of words."""
    texts = sorted({text for pair in pairs for text in pair})
    cut = Segmenter().segment(pa.array(texts))
    words, kept = cut.vocabulary.words, cut.vocabulary.is_kept
    is_same = {}
    for k, text in enumerate(texts):
        ours = [words[w].lower() for w in cut.text_words[k].tolist() if kept[w]]
        is_same[text] = sorted(ours) == sorted(gensim_tokens(text))
    return np.array([is_same[candidate] and is_same[reference] for candidate, reference in pairs])


def check_scores(pairs: list[tuple[str, str]], ours: np.ndarray, theirs: list[float]) -> int:
    """Check that wms is exp(-distance) wherever the tokens are the same; return where they are."""
    same = same_tokens(pairs)
    if not same.any():
        raise RuntimeError("no pair has the same tokens on both sides")
    np.testing.assert_allclose(ours[same], np.exp(-np.array(theirs))[same], rtol=0, atol=SCORE_ATOL)
    return int(same.sum())


def describe(table: pa.Table) -> dict[str, float]:
    """Say what the texts are like, from the first ones."""
    part = table.slice(0, 2_000)
    texts = part["candidate"].to_pylist()
    cut = Segmenter().segment(pa.array(texts))
    kept = [set(gensim_tokens(text)) for text in texts]
    known = [set(gensim_tokens(text)) for text in part["reference"].to_pylist()]
    common = [len(a & b) / len(a) for a, b in zip(kept, known, strict=True)]
    return {
        "words": float(np.mean([len(text.split()) for text in texts])),
        "content_words": float(np.mean([len(gensim_tokens(text)) for text in texts])),
        "sentences": float(cut.text_sentences.lengths.mean()),
        "common": float(np.mean(common)),
    }


def report(result: dict[str, object]) -> None:
    say(
        f"assay score: {result['assay_pairs_per_s']:,.0f} pairs/s, three metrics, "
        f"{result['assay_seconds']:.2f} s from start to exit"
    )
    say(f"  its shards alone: {result['assay_shard_pairs_per_s']:,.0f} pairs/s")
    say(f"gensim wmdistance: {result['gensim_pairs_per_s']:,.0f} pairs/s, one metric")
    say(
        f"ratio: {result['ratio']:.1f} ({result['ratio_lowest']:.1f}–"
        f"{result['ratio_highest']:.1f}); "
        f"shards alone {result['ratio_of_shards']:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=Path, help="GloVe text file")
    parser.add_argument("--documents", type=int, default=5_000)
    parser.add_argument("--systems", type=int, default=20)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--sample", type=int, default=3_000, help="pairs for gensim")
    parser.add_argument("--workers", type=int, help="processes; by default one with all cores")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "gensim", "POT", "pyarrow", "sentencex")
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        vectors = vector_file(options.vectors, folder, rng)
        corpus = folder / "corpus.parquet"
        size = CorpusSize(
            n_systems=options.systems, n_documents=options.documents, n_words=options.words
        )
        table = write_corpus(corpus, words_of(vectors), size, rng)
        texts = describe(table)
        say(
            f"{len(table):,} pairs; a candidate has {texts['words']:.1f} words "
            f"({texts['content_words']:.1f} without stop words) in {texts['sentences']:.2f} "
            f"sentences, and {texts['common']:.0%} of its content words are in the reference"
        )
        spec = f"glove:{vectors.resolve()}"
        command = ["--metrics", ",".join(METRICS), "--encoder", spec]
        workers = ["--workers", str(options.workers)] if options.workers else ["--local"]

        chosen = np.sort(rng.choice(len(table), min(options.sample, len(table)), replace=False))
        part = table.take(pa.array(chosen))
        pairs = list(zip(part["candidate"].to_pylist(), part["reference"].to_pylist(), strict=True))
        loaded = KeyedVectors.load_word2vec_format(vectors, no_header=True)

        run = assay_score(corpus, folder / "warm", [*command, *workers])  # compiles; not timed
        if run.result["n_rows"] != len(table) or run.result["n_with_status"]:
            raise RuntimeError(f"not all rows have scores: {run.result}")
        ours = run.scores["wms"].take(pa.array(chosen)).to_numpy()
        n_same = check_scores(pairs, ours, gensim_loop(loaded, pairs))
        say(
            f"wms is exp(-wmdistance) to {SCORE_ATOL:g} on all {n_same:,} of {len(pairs):,} pairs "
            "for which both have the same tokens"
        )

        runs, loops = [], []
        for turn in range(options.rounds):
            runs.append(assay_score(corpus, folder / f"run-{turn}", [*command, *workers]))
            started = time.perf_counter()
            gensim_loop(loaded, pairs)
            loops.append(len(pairs) / (time.perf_counter() - started))
    rates = [len(table) / run.seconds for run in runs]
    ratios = [rate / loop for rate, loop in zip(rates, loops, strict=True)]
    shard_rates = [len(table) / run.shard_seconds() for run in runs]
    result = {
        "pairs": len(table),
        "assay_seconds": statistics.median(run.seconds for run in runs),
        "assay_pairs_per_s": statistics.median(rates),
        "assay_shard_pairs_per_s": statistics.median(shard_rates),
        "gensim_pairs_per_s": statistics.median(loops),
        "ratio": statistics.median(ratios),
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "ratio_of_shards": statistics.median(
            rate / loop for rate, loop in zip(shard_rates, loops, strict=True)
        ),
    }
    report(result)
    finish(options, facts, {**result, "texts": texts})


if __name__ == "__main__":
    main()

"""How long does one call take, for 1, 16 and 1,000 rows?

Contenders: `assay.Scorer`; `sms.score_texts`, which loads its models in each call; Assay's encoder
alone, over texts that are cut already: it computes in blocks of equal size, so that a sentence has
one vector in any batch; that of sentence-transformers, which does not; and `BERTScorer` of the
package `bert-score` (extra `bench`), if it is installed. All use all-MiniLM-L6-v2, and in a round
all get the same texts, which none has seen before: two sentences of words of news, and one as the
reference. `Scorer` and `score_texts` give equal scores, which is checked. Ratios are taken within a
round, and medians of them.

`Scorer above its encoder` is what a call takes by the clock outside of its encoder's `encode`,
which is timed inside of that very call: the median over further calls, with the quartiles. (Calls
of `Scorer` and of the encoder that run apart differ by more than that from one to the next, and the
processor time of several threads has in it how long they wait for each other.)

    python benchmarks/calls.py [--rows 1 16 1000] [--rounds 9] [--threads 1]
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import astuple
from importlib.util import find_spec
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if "--threads" in sys.argv:
    os.environ["OMP_NUM_THREADS"] = sys.argv[sys.argv.index("--threads") + 1]

import numpy as np
import pyarrow as pa
from reward import corpus_texts
from sentence_transformers import SentenceTransformer
from timing import begin, finish, interleave, say, short

import assay
import sms
from sms.encoders import EncoderRuntime
from sms.encoders.bert import BertEncoder, minilm_folder
from sms.encoders.registry import load_encoder
from sms.process import available_threads
from sms.text import SegmentedTexts, Segmenter, TextRules

METRIC = "sms"
SCORER, LISTS = "assay.Scorer", "sms.score_texts"
ENCODER, BARE = "its encoder alone", "sentence-transformers"
BERTSCORE = "BERTScorer"
FEWEST_CALLS = 100
"""Calls of one row in which the time outside of the encoder is measured; of more rows fewer."""
Texts = tuple[list[str], list[str]]
Work = Callable[[list[str], list[str]], object]


def drawn_texts(n_rows: int, rng: np.random.Generator) -> Texts:
    """Draw candidates and references that were never drawn before."""
    candidates, references = corpus_texts()
    texts = [" ".join(sentences) for sentences in candidates] + references
    words = [word for text in texts for word in text.lower().split() if word.isalpha()]

    def sentences(n: int) -> str:
        return " ".join(f"{' '.join(rng.choice(words, 15)).capitalize()}." for _ in range(n))

    return [sentences(2) for _ in range(n_rows)], [sentences(1) for _ in range(n_rows)]


def contenders() -> dict[str, Work]:
    """Return what is called with candidates and references; models are loaded, but for LISTS."""
    scorer = assay.Scorer(metrics=METRIC, device="cpu")
    bare = SentenceTransformer(str(minilm_folder()), device="cpu")

    def by_lists(candidates: list[str], references: list[str]) -> list[float]:
        return sms.score_texts(candidates, references, metrics=METRIC)[METRIC].to_pylist()

    def by_scorer(candidates: list[str], references: list[str]) -> list[float]:
        return [row[METRIC] for row in scorer.score(candidates, references=references)]

    def bare_encoded(candidates: list[str], references: list[str]) -> object:
        return bare.encode([*candidates, *references])

    named: dict[str, Work] = {SCORER: by_scorer, LISTS: by_lists, BARE: bare_encoded}
    if find_spec("bert_score") is not None:
        from bert_score import BERTScorer

        theirs = BERTScorer(model_type=str(minilm_folder()), num_layers=6, device="cpu")
        named[BERTSCORE] = theirs.score
    return named


def by_encoder(texts: list[Texts]) -> Callable[[], object]:
    """Return what encodes the next texts each time it is called."""
    runtime = EncoderRuntime(device="cpu", threads=available_threads(), finest="sentences")
    encoder = load_encoder("minilm", runtime)
    cut = [Segmenter(TextRules()).segment(pa.array([*one, *other])) for one, other in texts]
    coming = iter(cut)
    return lambda: encoder.encode(next(coming))


def above_encoder(texts: list[Texts]) -> list[float]:
    """Return the milliseconds by the clock that calls spend outside of their encoder's `encode`.

    The first call warms up and is left out.
    """
    scorer = assay.Scorer(metrics=METRIC, device="cpu")
    encode, inside = BertEncoder.encode, 0.0

    def timed(encoder: BertEncoder, texts: SegmentedTexts) -> object:
        nonlocal inside
        begun = time.perf_counter()
        encoded = encode(encoder, texts)
        inside += time.perf_counter() - begun
        return encoded

    above = []
    with mock.patch.object(BertEncoder, "encode", timed):
        for candidates, references in texts:
            inside, begun = 0.0, time.perf_counter()
            scorer.score(candidates, references=references)
            above.append(1e3 * (time.perf_counter() - begun - inside))
    return above[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 1000])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "torch", "sentence-transformers", "bert-score")
    named, rng = contenders(), np.random.default_rng(options.seed)
    figures: dict[str, dict[str, float]] = {}
    for n_rows in options.rows:
        texts = [drawn_texts(n_rows, rng) for _ in range(options.rounds + 1)]
        checked = drawn_texts(n_rows, rng)
        assert named[SCORER](*checked) == named[LISTS](*checked)

        def one_after_the_other(work: Work, texts: list[Texts] = texts) -> Callable[[], object]:
            coming = iter(texts)
            return lambda: work(*next(coming))

        works = {name: (one_after_the_other(work), 1) for name, work in named.items()}
        rounds = interleave(works | {ENCODER: (by_encoder(texts), 1)}, options.rounds)
        say(f"rows: {n_rows:,}; milliseconds a call: median, fastest, slowest")
        figures[str(n_rows)] = {}
        for name in rounds.seconds:
            ms = [1e3 * seconds for seconds in astuple(rounds[name])]
            ratio = short(rounds.times_faster(SCORER, than=name).median)
            say(f"{name:>24}{ms[0]:>10.2f}{ms[1]:>10.2f}{ms[2]:>10.2f}   {ratio} of Scorer's time")
            figures[str(n_rows)][name] = ms[0]
        n_calls = 1 + max(options.rounds, FEWEST_CALLS // n_rows)
        above = above_encoder([drawn_texts(n_rows, rng) for _ in range(n_calls)])
        lower, median, upper = map(float, np.quantile(above, [0.25, 0.5, 0.75]))
        say(
            f"Scorer above its encoder: {median:.2f} ms, median of {len(above)} calls; "
            f"quartiles {lower:.2f} and {upper:.2f}"
        )
        figures[str(n_rows)]["above its encoder"] = median
    finish(options, facts, figures)


if __name__ == "__main__":
    main()

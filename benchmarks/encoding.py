"""How much faster than sentence-transformers' `encode` are vectors, and how near to the machine?

One core, MiniLM, fp32, distinct sentences of news; processor seconds, which other users of the core
disturb less than the clock. In every round, each in its turn:

- "words and sentences": `minilm`, cutting into words and pieces included;
- "sentences": the same model without word vectors;
- "text": splitting and cutting into words and pieces alone;
- "encode": `SentenceTransformer.encode` of the same sentences;
- "products": the linear layers' matrix products alone, by the faster of torch's two libraries.

"sentences" does what "encode" does, and is what is compared with it and with the products; the cost
of words is on top. The share of the products' rate counts all matrix products of the model,
attention's as well, and no padding.

Then SummEval against its sources: the whole `assay score`, from start to exit, against a loop that
encodes the sentences of both texts of each row with `encode` (a sample of rows, no start-up).
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from command import assay_score
from corpora import data_file
from sentence_transformers import SentenceTransformer
from summeval import model_folder
from timing import Rounds, finish, in_one_line, interleave, machine, say, short

from sms.encoders import EncodedSentences, EncoderRuntime, base
from sms.encoders.bert import BLOCK_TOKENS, BertEncoder, load_minilm
from sms.encoders.sentence_transformer import load_st
from sms.encoders.tokens import SentenceTokens
from sms.text import SegmentedTexts, Segmenter

VECTOR_ATOL = 2e-6
SCORE_ATOL = 1e-5
WIDTH, INNER, N_LAYERS = 384, 1536, 6
PRODUCTS = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH))
"""Inputs and outputs of a layer's linear parts."""
FLOP_PER_TOKEN = 2 * N_LAYERS * sum(n * m for n, m in PRODUCTS)
PRODUCT_BLOCKS = 20
"""Blocks whose products are timed in a round; about 4 s."""


@dataclass(frozen=True)
class News:
    """Sentences, as both sides read them."""

    sentences: list[str]
    lengths: np.ndarray
    """Tokens of each, special ones included."""

    @property
    def n_tokens(self) -> int:
        """Of all sentences."""
        return int(self.lengths.sum())

    @property
    def flop(self) -> float:
        """Of all matrix products: the linear layers' and attention's two."""
        attention = 4 * WIDTH * N_LAYERS * float((self.lengths**2).sum())
        return FLOP_PER_TOKEN * self.n_tokens + attention


def draw_news(model: SentenceTransformer, n: int, rng: np.random.Generator) -> News:
    """Draw distinct sentences that `encode` does not cut, and count their tokens."""
    found = data_file("cnndm_pairs.parquet")
    if found is None:
        raise SystemExit("needs cnndm_pairs.parquet; set ASSAY_DATA to its folder")
    texts = pq.read_table(found)["source"].to_pylist()
    sentences = Segmenter().segment(pa.array(texts[: max(n // 10, 50)])).sentences
    drawn = [sentences[k] for k in rng.permutation(len(sentences))[: n + n // 10]]
    lengths = [
        len(row) for row in model.tokenizer(drawn, truncation=False, verbose=False)["input_ids"]
    ]
    short_ones = [k for k, length in enumerate(lengths) if length <= model.max_seq_length][:n]
    return News([drawn[k] for k in short_ones], np.array([lengths[k] for k in short_ones]))


def cut(sentences: list[str]) -> SegmentedTexts:
    """Segment as `assay score` does, sentence by sentence."""
    return Segmenter().segment(pa.array(sentences))


def encode_ours(encoder: BertEncoder, sentences: list[str]) -> EncodedSentences:
    return encoder.encode(cut(sentences))


def cut_ours(encoder: BertEncoder, sentences: list[str]) -> object:
    texts = cut(sentences)  # a new table of words, and so one of word pieces
    every = np.arange(len(texts.sentences))
    nothing = np.zeros(texts.sentence_words.values.size, dtype=bool)
    return SentenceTokens.of(texts, every, nothing, encoder._cutter, encoder._max_pieces)


def make_products():
    """Return a callable that computes `PRODUCT_BLOCKS` blocks' products."""
    rng = torch.Generator().manual_seed(0)
    rows = BLOCK_TOKENS["cpu"]
    parts = [
        (torch.randn(rows, n, generator=rng), torch.randn(m, n, generator=rng), torch.zeros(m))
        for n, m in PRODUCTS
    ]

    def by_linear() -> None:
        for _ in range(PRODUCT_BLOCKS * N_LAYERS):
            for x, weight, bias in parts:
                F.linear(x, weight, bias)

    return by_linear


def check(news: News, model: SentenceTransformer, with_words: BertEncoder, alone: BertEncoder):
    """Check that all three give the same vectors."""
    texts = cut(news.sentences)
    vectors = with_words.encode(texts).pooled
    np.testing.assert_array_equal(alone.encode(texts).pooled, vectors)
    chosen = np.random.default_rng(1).permutation(len(texts.sentences))[:300]
    expected = model.encode([texts.sentences[k] for k in chosen], show_progress_bar=False)
    np.testing.assert_allclose(vectors[chosen], expected, rtol=0, atol=VECTOR_ATOL)


def time_encoding(model: SentenceTransformer, n: int, n_rounds: int, seed: int) -> dict:
    news = draw_news(model, n, np.random.default_rng(seed))
    base.CACHE_BYTES = 0  # every round computes everything
    runtime = EncoderRuntime(device="cpu", threads=1)
    with_words = load_minilm(runtime=runtime)
    alone = load_st(str(model_folder()), runtime=runtime)
    check(news, model, with_words, alone)
    timed = interleave(
        {
            "words and sentences": (
                partial(encode_ours, with_words, news.sentences),
                news.n_tokens,
            ),
            "sentences": (partial(encode_ours, alone, news.sentences), news.n_tokens),
            "text": (partial(cut_ours, with_words, news.sentences), news.n_tokens),
            "encode": (
                partial(model.encode, news.sentences, show_progress_bar=False),
                news.n_tokens,
            ),
            "products": (make_products(), PRODUCT_BLOCKS * BLOCK_TOKENS["cpu"]),
        },
        n_rounds,
        warm_up=False,  # the check was one
    )
    rounds = Rounds(timed.cpu_seconds, timed.cpu_seconds)
    say(f"\n{len(news.sentences):,} sentences, {news.n_tokens:,} tokens, {n_rounds} rounds")
    say(f"{'':>22} {'us/token':>9} {'fastest':>8} {'slowest':>8} {'GFLOP/s':>8}")
    for name in rounds.seconds:
        spread = rounds[name]
        us = [1e6 * value for value in (spread.median, spread.fastest, spread.slowest)]
        rate = "" if name == "text" else short(FLOP_PER_TOKEN / spread.median / 1e9)
        say(f"{name:>22} {us[0]:>9.1f} {us[1]:>8.1f} {us[2]:>8.1f} {rate:>8}")
    found = ratios(rounds)
    found["gemm_share"] *= news.flop / news.n_tokens / FLOP_PER_TOKEN
    return found


def ratios(rounds: Rounds) -> dict[str, float]:
    """Take every ratio within each round, and the median of the rounds."""
    cost = [
        both / alone - 1
        for both, alone in zip(
            rounds.seconds["words and sentences"], rounds.seconds["sentences"], strict=True
        )
    ]
    return {
        "vs_encode": rounds.times_faster("sentences", than="encode").median,
        "gemm_share": rounds.times_faster("sentences", than="products").median,
        "words_cost": median(cost),
        "text_share": rounds.times_faster("sentences", than="text").median,
    }


def text_vector(model: SentenceTransformer, segmenter: Segmenter, text: str) -> np.ndarray:
    """Encode a text's sentences with `encode`; their mean, weighted by words."""
    texts = segmenter.segment(pa.array([text]))
    vectors = model.encode(texts.sentences, show_progress_bar=False)
    return texts.sentence_words.lengths @ vectors


def loop(model: SentenceTransformer, rows: list[dict[str, str]]) -> list[float]:
    """Score rows one by one: the cosine of candidate and source."""
    segmenter = Segmenter()
    found = []
    for row in rows:
        a, b = (text_vector(model, segmenter, row[side]) for side in ("candidate", "source"))
        found.append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    return found


def processor_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_source(model: SentenceTransformer, n_rows: int, n_rounds: int, seed: int) -> float | None:
    """Return how much faster `assay score` is on SummEval's sources, per row."""
    corpus = data_file("summeval.parquet")
    if corpus is None:
        say("\nno summeval.parquet; set ASSAY_DATA to its folder")
        return None
    table = pq.read_table(corpus, columns=["candidate", "source"])
    chosen = np.sort(np.random.default_rng(seed).permutation(len(table))[:n_rows])
    rows = table.take(pa.array(chosen)).to_pylist()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(n_rounds):
            started = time.process_time()
            scores = loop(model, rows)
            theirs = (time.process_time() - started) / len(rows) * len(table)
            before = processor_seconds_of_children()
            run = assay_score(
                corpus,
                Path(folder) / str(turn),
                ["--local", "--metrics", "sms:source,cosine:source"],
            )
            ours = processor_seconds_of_children() - before
            cosines = run.scores["cosine:source"].to_numpy()
            np.testing.assert_allclose(cosines[chosen], scores, rtol=0, atol=SCORE_ATOL)
            found.append(theirs / ours)
            say(
                f"SummEval against the source: `assay score` {ours:.1f} s ({run.seconds:.1f} by "
                f"the clock), the loop {theirs:.0f} s ({len(rows)} of {len(table)} rows timed)"
            )
    return median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=40, help="of SummEval, timed in the loop")
    parser.add_argument("--source-rounds", type=int, default=1, help="0 leaves SummEval out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    options = parser.parse_args()
    if sys.platform == "linux":  # one core for the processes that are started, too
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    facts = machine("torch", "transformers", "sentence-transformers")
    say(in_one_line(facts))
    model = SentenceTransformer(str(model_folder()), device="cpu")
    found: dict[str, float | None] = dict(
        time_encoding(model, options.sentences, options.rounds, options.seed)
    )
    if options.source_rounds:
        found["vs_plain_loop_source"] = time_source(
            model, options.rows, options.source_rounds, options.seed
        )
    say()
    for name, value in found.items():
        if value is not None:
            say(f"{name} {value:.3f}")
    finish(options, facts, found)


if __name__ == "__main__":
    main()

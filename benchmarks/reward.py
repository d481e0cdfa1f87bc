"""How much faster is a reward of a whole batch than one pair after the other?

As in training with GRPO: some references, several candidates of each, and candidates that nobody
has seen before, so that only references can be remembered. They are made of the sentences of the
example corpus, the words of each in a new random order. Contenders: one call per batch; a call for
each pair, which remembers references, too; and the same without any memory, as in a loop around
an encoder.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("POT_BACKEND_DISABLE_TENSORFLOW", "1")
os.environ.setdefault("POT_BACKEND_DISABLE_JAX", "1")

import numpy as np
from timing import begin, finish, interleave, say, short

from sms.encoders import base
from sms.reward import Reward

CORPUS = Path(__file__).resolve().parents[1] / "examples" / "quality_ladder.jsonl"
RTOL = {"fp32": 1e-4, "bf16": 0.05}
"""Between a batch and single pairs in fp32: a model's sums depend on what is computed together."""
BATCH, PAIRS, NO_MEMORY = "one call per batch", "pair by pair", "pair by pair, no memory"


def corpus_texts() -> tuple[list[list[str]], list[str]]:
    """Return the candidates' sentences, roughly cut, and every document's first reference."""
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    candidates = [row["candidate"].rstrip(".").split(". ") for row in rows]
    return candidates, list(dict.fromkeys(row["references"][0] for row in rows))


def drawn_candidate(sentences: list[str], rng: np.random.Generator) -> str:
    """Shuffle the words of each sentence."""
    shuffled = (" ".join(rng.permutation(sentence.split())) for sentence in sentences)
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in shuffled)


@contextmanager
def no_memory() -> Iterator[None]:
    """Let encoders forget every sentence at once."""
    kept = base.CACHE_BYTES
    base.CACHE_BYTES = 0
    try:
        yield
    finally:
        base.CACHE_BYTES = kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metric", default="sms")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--batch", type=int, default=64, help="candidates of one call")
    parser.add_argument("--group", type=int, default=8, help="candidates of one reference")
    parser.add_argument("--sentences", type=int, help="of a candidate, at most; all by default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--precision", choices=RTOL, default="fp32", help="of the batch; the loops are in fp32"
    )
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "torch", "sentence-transformers")

    rng = np.random.default_rng(options.seed)
    candidates, references = corpus_texts()

    def draw() -> tuple[list[str], list[str]]:
        chosen = rng.permutation(len(references))[: -(-options.batch // options.group)]
        against = [references[i] for i in chosen for _ in range(options.group)][: options.batch]
        picked = rng.integers(len(candidates), size=options.batch)
        cut = [candidates[i][: options.sentences] for i in picked]
        return [drawn_candidate(sentences, rng) for sentences in cut], against

    def made(precision: str = "fp32") -> Reward:
        return Reward(
            options.metric,
            encoder=options.encoder,
            precision=precision,
            threads=options.threads,
            device=options.device,
        )

    batched, single, forgetful = made(options.precision), made(), made()

    def in_one_call(texts: list[str], against: list[str]) -> list[float]:
        return batched(texts, references=against)

    def one_by_one(texts: list[str], against: list[str], reward: Reward = single) -> list[float]:
        pairs = zip(texts, against, strict=True)
        return [reward([text], references=[reference])[0] for text, reference in pairs]

    def without_memory(texts: list[str], against: list[str]) -> list[float]:
        with no_memory():
            return one_by_one(texts, against, forgetful)

    texts, against = draw()
    n_words = sum(len(text.split()) for text in texts) / len(texts)
    expected = in_one_call(texts, against)
    for loop in (one_by_one, without_memory):
        np.testing.assert_allclose(loop(texts, against), expected, rtol=RTOL[options.precision])

    def fresh(work: Callable[[list[str], list[str]], list[float]]) -> Callable[[], object]:
        """Give every call candidates of its own; drawing them costs next to nothing."""
        return lambda: work(*draw())

    works = {BATCH: in_one_call, PAIRS: one_by_one, NO_MEMORY: without_memory}
    contenders = {name: (fresh(work), options.batch) for name, work in works.items()}
    rounds = interleave(contenders, options.rounds)
    say(
        f"{options.metric} with {options.encoder}, {options.batch} candidates of "
        f"{n_words:.0f} words in groups of {options.group}, {options.rounds} rounds; milliseconds "
        "per candidate: median, fastest, slowest; processors it had"
    )
    for name in contenders:
        ms = [1e3 * seconds for seconds in astuple(rounds[name])]
        had = rounds.processors_used(name)
        say(f"{name:>24}{ms[0]:>9.2f}{ms[1]:>9.2f}{ms[2]:>9.2f}{had:>9.2f}")
    gains = {name: rounds.times_faster(BATCH, than=name) for name in (PAIRS, NO_MEMORY)}
    for name, gain in gains.items():
        say(
            f"one call is {short(gain.median)} times as fast as {name} "
            f"({short(gain.fastest)}–{short(gain.slowest)})"
        )
    figures = {
        "times_faster": {name: gain.median for name, gain in gains.items()},
        "ms_per_candidate": {name: 1e3 * rounds[name].median for name in contenders},
        "words": n_words,
    }
    finish(options, facts, figures)


if __name__ == "__main__":
    main()

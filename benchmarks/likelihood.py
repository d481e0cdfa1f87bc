"""How much faster is a likelihood of every summary than one forward pass per row?

The plain loop is what one writes by hand with transformers: for each row the tokens of document,
prompt and summary go through the model, and the log-probabilities of the summary's tokens are taken
from the logits. Both have the same model and the same threads, in one process, and take turns of a
few documents, so that a busy machine slows both; their log-probabilities are compared token by
token. The first documents of SummEval, with all 16 summaries of each; `--documents 100` takes all.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import torch
from corpora import data_file
from timing import Rounds, finish, in_one_line, interleave, machine, say

from reffree.language_models import GENERATOR, load_pretrained
from reffree.likelihood.model import AFTER, LanguageModel, SharedModel
from reffree.likelihood.settings import CAUSAL_PROMPT
from sms.encoders import EncoderRuntime
from sms.encoders.pretrained import Pretrained

ATOL = 1e-3
BETWEEN = "\nTL;DR:"


def plain_loop(model: Pretrained, sources: Sequence[str], texts: Sequence[str]) -> list[np.ndarray]:
    found = []
    for source, text in zip(sources, texts, strict=True):
        before = model.tokenizer(source + BETWEEN)["input_ids"]
        continuation = model.tokenizer(f" {text}", add_special_tokens=False)["input_ids"]
        ids = torch.tensor([before + continuation], device=model.machine.device)
        with torch.inference_mode():
            logits = model.model(ids, use_cache=False).logits[0, len(before) - 1 : -1]
            values = torch.log_softmax(logits.float(), -1)
            chosen = values.gather(1, ids[0, len(before) :, None])[:, 0]
        found.append(chosen.double().cpu().numpy())
    return found


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of a causal model in transformers' format")
    parser.add_argument("--corpus", type=Path, help="default: summeval.parquet of ASSAY_DATA")
    parser.add_argument("--documents", type=int, default=10)
    parser.add_argument("--turn", type=int, default=2, help="documents of one turn")
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16", "fp16"))
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    return parser.parse_args()


def report(rounds: Rounds, apart: float) -> dict[str, float]:
    say(f"largest difference of a token's log-probability: {apart:.1e}")
    say(f"{'seconds a row':<16}{'all':>9}{'fastest':>9}{'slowest':>9}{'processors':>12}")
    for name in ("assay", "loop"):
        spread = rounds[name]
        say(
            f"{name:<16}{np.mean(rounds.seconds[name]):>9.3f}{spread.fastest:>9.3f}"
            f"{spread.slowest:>9.3f}{rounds.processors_used(name):>12.2f}"
        )
    by_turn = rounds.times_faster("assay", "loop")
    times, by_processor = (
        sum(seconds["loop"]) / sum(seconds["assay"])
        for seconds in (rounds.seconds, rounds.cpu_seconds)
    )
    say(
        f"{times:.1f} times as fast ({by_turn.fastest:.1f} to {by_turn.slowest:.1f} by turn); "
        f"{by_processor:.1f} times by processor time"
    )
    return {"times_faster": times, "times_faster_by_processor_time": by_processor}


def in_turns(
    model: Pretrained, turns: Sequence[tuple[list[str], list[str]]]
) -> tuple[Rounds, float]:
    """Time both over every turn; return also the largest difference of two log-probabilities."""
    found: dict[str, list[np.ndarray]] = {}
    seconds, cpu_seconds = ({"assay": [], "loop": []} for _ in range(2))
    apart = 0.0
    for k, (sources, texts) in enumerate(turns):

        def ours(sources: list[str] = sources, texts: list[str] = texts) -> None:
            # a new one each time, for it remembers what it computed
            language_model = LanguageModel(SharedModel(model), CAUSAL_PROMPT)
            log_p = language_model.log_probabilities(sources, texts).log_p
            found["assay"] = [log_p[row] for row in range(len(texts))]

        def theirs(sources: list[str] = sources, texts: list[str] = texts) -> None:
            found["loop"] = plain_loop(model, sources, texts)

        contenders = {"assay": (ours, len(texts)), "loop": (theirs, len(texts))}
        if k % 2:
            contenders = dict(reversed(contenders.items()))
        timed = interleave(contenders, 1, warm_up=False)
        for name in contenders:
            seconds[name] += timed.seconds[name]
            cpu_seconds[name] += timed.cpu_seconds[name]
        pairs = zip(found["assay"], found["loop"], strict=True)
        apart = max(apart, *(float(np.abs(a - b).max()) for a, b in pairs))
        so_far, by_processor = (sum(s["loop"]) / sum(s["assay"]) for s in (seconds, cpu_seconds))
        say(
            f"  after turn {k + 1} of {len(turns)}: {so_far:.2f} times as fast, {by_processor:.2f} "
            f"by processor time, {apart:.1e} apart"
        )
    return Rounds(seconds, cpu_seconds), apart


def main() -> None:
    options = asked()
    corpus = options.corpus or data_file("summeval.parquet")
    if corpus is None:
        raise SystemExit("needs summeval.parquet; set ASSAY_DATA to its folder, or use --corpus")
    table = pl.read_parquet(corpus, columns=["document_id", "source", "candidate"])
    documents = table.partition_by("document_id", maintain_order=True)[: options.documents]
    if len(documents) % options.turn or len({*map(len, documents)}) > 1:
        raise SystemExit("turns must be of equally many documents and rows; change --turn")
    together = [
        pl.concat(documents[at : at + options.turn])
        for at in range(0, len(documents), options.turn)
    ]
    turns = [(turn["source"].to_list(), turn["candidate"].to_list()) for turn in together]
    n_rows = sum(map(len, together))
    runtime = EncoderRuntime(threads=options.threads, precision=options.precision)
    model = load_pretrained(options.model, GENERATOR, runtime=runtime, after=AFTER)
    facts = machine("torch", "transformers")
    say(in_one_line(facts))
    say(
        f"{model.name}, {options.precision}, {torch.get_num_threads()} threads; {len(documents)} "
        f"documents, {n_rows:,} rows"
    )
    rounds, apart = in_turns(model, turns)
    if options.precision == "fp32" and apart > ATOL:
        raise RuntimeError(f"the log-probabilities differ by {apart:.1e}, more than {ATOL:g}")
    found = report(rounds, apart)
    figures = {"documents": len(documents), "rows": n_rows, "difference": apart}
    finish(options, facts, found | figures)


if __name__ == "__main__":
    main()

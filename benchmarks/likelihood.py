"""How much faster is a likelihood of every summary than one forward pass per row?

The plain loop is what one writes by hand with transformers: for each row the tokens of document,
prompt and summary go through the model, and the log-probabilities of the summary's tokens are taken
from the logits. Both have the same model and the same threads, in one process, in turns; their
log-probabilities are compared token by token. The first documents of SummEval, with all 16
summaries of each; `--documents 100` takes all.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import torch
from corpora import data_file
from timing import Rounds, in_one_line, interleave, machine, print_json, say

from reffree.language_models import GENERATOR, Pretrained
from reffree.likelihood import AFTER, LanguageModel, SharedModel, TokenScores
from reffree.likelihood_settings import CAUSAL_PROMPT
from sms.encoders import EncoderRuntime

ATOL = 1e-3
GOAL = 4.0
BETWEEN = "\nTL;DR:"


def plain_loop(model: Pretrained, sources: Sequence[str], texts: Sequence[str]) -> list[np.ndarray]:
    found = []
    for source, text in zip(sources, texts, strict=True):
        before = model.tokenizer(source + BETWEEN)["input_ids"]
        own = model.tokenizer(f" {text}", add_special_tokens=False)["input_ids"]
        ids = torch.tensor([before + own], device=model.machine.device)
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16", "fp16"))
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    return parser.parse_args()


def report(rounds: Rounds, apart: float) -> dict[str, float]:
    say(f"largest difference of a token's log-probability: {apart:.1e}")
    say(f"{'seconds a row':<16}{'median':>9}{'fastest':>9}{'slowest':>9}{'processors':>12}")
    for name in ("assay", "loop"):
        own = rounds[name]
        say(
            f"{name:<16}{own.median:>9.3f}{own.fastest:>9.3f}{own.slowest:>9.3f}"
            f"{rounds.processors_used(name):>12.2f}"
        )
    times = rounds.times_faster("assay", "loop")
    cpu = {name: float(np.median(rounds.cpu_seconds[name])) for name in ("assay", "loop")}
    by_processor = cpu["loop"] / cpu["assay"]
    say(
        f"{times.median:.1f} times as fast ({times.fastest:.1f} to {times.slowest:.1f}), at least "
        f"{GOAL:g}: {'yes' if times.median >= GOAL else 'no'}; {by_processor:.1f} times by "
        "processor time"
    )
    return {"times_faster": times.median, "times_faster_by_processor_time": by_processor}


def main() -> None:
    options = asked()
    corpus = options.corpus or data_file("summeval.parquet")
    if corpus is None:
        raise SystemExit("needs summeval.parquet; set ASSAY_DATA to its folder, or use --corpus")
    table = pl.read_parquet(corpus, columns=["document_id", "source", "candidate"])
    chosen = table["document_id"].unique(maintain_order=True).head(options.documents)
    table = table.filter(pl.col("document_id").is_in(chosen.implode()))
    sources, texts = table["source"].to_list(), table["candidate"].to_list()
    runtime = EncoderRuntime(threads=options.threads, precision=options.precision)
    model = Pretrained.load(options.model, GENERATOR, runtime=runtime, after=AFTER)
    facts = machine("torch", "transformers")
    say(in_one_line(facts))
    say(
        f"{model.name}, {options.precision}, {torch.get_num_threads()} threads; {len(chosen)} "
        f"documents, {len(texts):,} rows"
    )
    results: dict[str, list[np.ndarray]] = {}

    def ours() -> None:
        # a new one each time, for it remembers what it computed
        found: TokenScores = LanguageModel(SharedModel(model), CAUSAL_PROMPT).log_probabilities(
            sources, texts
        )
        results["assay"] = [found.log_p[row] for row in range(len(texts))]

    def theirs() -> None:
        results["loop"] = plain_loop(model, sources, texts)

    rounds = interleave(
        {"assay": (ours, len(texts)), "loop": (theirs, len(texts))},
        options.rounds,
        warm_up=False,
    )
    pairs = zip(results["assay"], results["loop"], strict=True)
    apart = max(float(np.abs(a - b).max()) for a, b in pairs)
    if options.precision == "fp32" and apart > ATOL:
        raise RuntimeError(f"the log-probabilities differ by {apart:.1e}, more than {ATOL:g}")
    found = report(rounds, apart)
    if options.json:
        print_json(
            {
                **found,
                "documents": len(chosen),
                "rows": len(texts),
                "difference": apart,
                "goal": GOAL,
                "machine": facts,
            }
        )


if __name__ == "__main__":
    main()

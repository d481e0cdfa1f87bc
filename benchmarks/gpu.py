"""How fast is one GPU, from sentences to vectors and from file to file, and where does time go?

One run answers it in less than ten minutes: tokens/s by model, number format and block, against
`SentenceTransformer.encode`; summaries/s by metric; copies and kernels; the largest difference
from fp32 on a CPU; two runs bit by bit; a memory error; likelihoods. Models but MiniLM have random
weights of the published shape, which are as fast. `--smoke` runs the same code, small, without a
GPU. It prints a Markdown table as it goes and ends with one line of JSON; a part that fails says
why in its place.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from stand_in import StandIn, busy_share
from timing import in_one_line, machine, print_json, say, short

from cluster import Job, Shard, list_inputs, plan_shards, run_local, run_processes, start_processes
from sms.config import ScoringConfig
from sms.encoders import EncoderRuntime
from sms.encoders.bert import BertEncoder, load_minilm, minilm_folder
from sms.encoders.sentence_transformer import LibraryEncoder, load_st
from sms.encoders.tokens import SentenceTokens
from sms.process import available_threads
from sms.scoring import SummaryScorer
from sms.text import SegmentedTexts, Segmenter

METRICS = ("cosine", "sms", "s+wms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is done."""

    device: str
    models: tuple[str, ...]
    precisions: tuple[str, ...]
    blocks: tuple[int, ...]
    n_sentences: int
    n_rows: int
    n_compared: int
    """Sentences that are held against fp32 on a CPU."""
    workers: tuple[int, ...]
    """Numbers of workers that share the GPU."""
    limit_s: float = 480.0
    """No part is begun after that."""
    threads: int | None = None
    """Of this process; None for all cores."""


SIZES = {
    "gpu": Size(
        device="cuda",
        models=("minilm", "mpnet", "bert-base"),
        precisions=("bf16", "fp16"),
        blocks=(16_384, 65_536, 262_144),
        n_sentences=30_000,
        n_rows=60_000,
        n_compared=1_000,
        workers=(4, 8, 16),
    ),
    "smoke": Size(
        device="cpu",
        models=("minilm", "tiny-mpnet", "tiny-bert"),
        precisions=("fp32",),
        blocks=(64, 512),
        n_sentences=24,
        n_rows=12,
        n_compared=8,
        workers=(2,),
        limit_s=float("inf"),
        threads=1,
    ),
}
SHAPES: dict[str, dict[str, int]] = {
    "mpnet": {},
    "bert-base": {},
    "tiny-mpnet": {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2},
    "tiny-bert": {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2},
}
"""What of the published configuration is another one."""


class Bench:
    """What the parts share."""

    def __init__(self, size: Size, folder: Path) -> None:
        self.size, self.folder = size, folder
        rng = np.random.default_rng(0)
        self.words = plain_words()
        lengths = np.clip(rng.gamma(4.0, 6.0, size.n_sentences), 4, 120).astype(int)
        self.sentences = sorted(
            {f"No {k} {' '.join(rng.choice(self.words, n))}." for k, n in enumerate(lengths)}
        )

    @cached_property
    def texts(self) -> SegmentedTexts:
        """The sentences, cut."""
        return Segmenter().segment(pa.array(self.sentences))

    def model_folder(self, name: str) -> Path:
        """Return the folder of a model; of a shape with random weights it is written first."""
        if name == "minilm":
            return minilm_folder()
        folder = self.folder / name
        if not folder.exists():
            import transformers

            kind = "MPNet" if "mpnet" in name else "Bert"
            config = getattr(transformers, f"{kind}Config")(vocab_size=30_527, **SHAPES[name])
            torch.manual_seed(0)
            getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
            for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
                if (minilm_folder() / file).exists():
                    shutil.copy(minilm_folder() / file, folder)
        return folder

    def encoder(self, name: str, precision: str, device: str | None = None) -> BertEncoder:
        """Load a model as `st:FOLDER` does."""
        runtime = EncoderRuntime(
            precision=precision,
            device=device or self.size.device,
            threads=self.size.threads,
            finest="texts",
        )
        if name == "minilm":
            found: BertEncoder | LibraryEncoder = load_minilm(runtime=runtime)
        else:
            found = load_st(str(self.model_folder(name)), runtime=runtime)
        if not isinstance(found, BertEncoder):
            raise RuntimeError(f"{name} is not run by this project's forward pass")
        return found

    def seconds(self, work: Callable[[], object]) -> float:
        """Time something once, after it has been done once."""
        work()
        self.wait()
        started = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - started

    def wait(self) -> None:
        """Wait until the device has done all that it was given."""
        if self.size.device == "cuda":
            torch.cuda.synchronize()


def plain_words() -> list[str]:
    """Return whole words that MiniLM's tokeniser knows."""
    known = json.loads((minilm_folder() / "tokenizer.json").read_text())["model"]["vocab"]
    return sorted(word for word in known if word.isascii() and word.isalpha())[::10]


def encode(encoder: BertEncoder, bench: Bench) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Return what encodes all sentences, whose text has been handled before."""
    texts = bench.texts
    none = np.zeros(texts.sentence_words.values.size, dtype=bool)
    every = np.arange(len(texts.sentences))
    tokens = SentenceTokens.of(texts, every, none, encoder._cutter, encoder._max_pieces)
    return lambda: encoder.run(tokens)


def encoding_rates(bench: Bench) -> Iterator[dict[str, Any]]:
    """Tokens/s by model, format and block, and by the library's `encode`."""
    for name in bench.size.models:
        for precision in bench.size.precisions:
            encoder = bench.encoder(name, precision)
            run = encode(encoder, bench)
            encoder.counts["tokens"] = 0
            run()
            n_tokens = encoder.counts["tokens"]
            row: dict[str, Any] = {"model": name, "precision": precision, "tokens": n_tokens}
            for block in bench.size.blocks:
                encoder._batches._most = encoder._batches._now = block
                row[f"tokens_per_s_{block}"] = n_tokens / bench.seconds(run)
            row["encode_tokens_per_s"] = n_tokens / library_seconds(bench, name, precision)
            yield row
            del encoder, run


def library_seconds(bench: Bench, name: str, precision: str) -> float:
    """Time `SentenceTransformer.encode` on a part of the sentences, as if it were all."""
    from sentence_transformers import SentenceTransformer

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    model = SentenceTransformer(str(bench.model_folder(name)), device=bench.size.device).to(dtype)
    part = bench.sentences[:: max(len(bench.sentences) // 20_000, 1)]
    seconds = bench.seconds(
        lambda: model.encode(part, batch_size=512, convert_to_tensor=True, show_progress_bar=False)
    )
    return seconds * len(bench.sentences) / len(part)


def times_of_encoding(bench: Bench) -> dict[str, float]:
    """Seconds of the device in kernels and copies, and of the clock, for all sentences."""
    run = encode(bench.encoder("minilm", bench.size.precisions[0]), bench)
    on_gpu = bench.size.device == "cuda"
    activity = torch.profiler.ProfilerActivity
    kind = activity.CUDA if on_gpu else activity.CPU
    clock_s = bench.seconds(run)
    with torch.profiler.profile(activities=[kind]) as profile:
        run()
        bench.wait()
    found = {"clock": clock_s, "kernels": 0.0, "copies to it": 0.0, "copies back": 0.0}
    for event in profile.key_averages():
        us = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        where = "kernels"
        if "Memcpy" in event.key:
            where = "copies to it" if "HtoD" in event.key else "copies back"
        found[where] += us / 1e6
    started = time.perf_counter()
    Segmenter().segment(pa.array(bench.sentences))
    return found | {"text, one process": time.perf_counter() - started}


def write_rows(bench: Bench) -> Path:
    """Write a corpus: candidates and references of three sentences each."""
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, len(bench.sentences), (2, bench.size.n_rows, 3))
    texts = [
        [f"{' '.join(bench.sentences[k] for k in row)} Row {at}." for at, row in enumerate(side)]
        for side in chosen.tolist()
    ]
    path = bench.folder / "corpus.parquet"
    ids = [str(k) for k in range(bench.size.n_rows)]
    rows = pa.table({"document_id": ids, "candidate": texts[0], "reference": texts[1]})
    pq.write_table(rows, path)
    return path


def score(bench: Bench, metrics: tuple[str, ...], name: str) -> tuple[Any, dict[str, float], Path]:
    """Score the corpus in this process; return the run, its seconds by stage, and its folder."""
    from pipelines.score import score_corpus
    from pipelines.settings.score import ScoreSettings

    corpus, out = bench.folder / "corpus.parquet", bench.folder / name
    run = score_corpus(
        [corpus if corpus.exists() else write_rows(bench)],
        ScoreSettings(
            out=out,
            metrics=list(metrics),
            local=True,
            cpus_per_worker=bench.size.threads,
            device=bench.size.device,
        ),
    )
    shards = json.loads((out / "run.json").read_text())["result"]["shards"]
    stages: dict[str, float] = {"shards": sum(shard["seconds"] for shard in shards)}
    for shard in shards:
        for stage, seconds in shard["stage_seconds"].items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    return run, stages, out


def file_to_file(bench: Bench) -> Iterator[dict[str, Any]]:
    """Summaries/s from file to file by metric, start-up and models apart, and seconds by stage."""
    for metrics in (*((metric,) for metric in METRICS), METRICS):
        run, stages, _ = score(bench, metrics, "-".join(metrics).replace("+", ""))
        per_s = run.n_rows / stages["shards"]
        yield {"metrics": ",".join(metrics), "summaries_per_s": per_s, "stages": stages}


def two_runs(bench: Bench) -> dict[str, Any]:
    """Whether two runs have the same scores, and how far they are apart if not."""
    tables = []
    for name in ("once", "again"):
        _, _, out = score(bench, METRICS, name)
        parts = sorted((out / "scores").glob("part-*"))
        tables.append(pa.concat_tables([pq.read_table(part) for part in parts]))
    differences = [
        float(np.abs(np.subtract(*(table[name].to_numpy() for table in tables))).max())
        for name in METRICS
    ]
    return {"equal_bits": not any(differences), "largest_difference": max(differences)}


def difference_from_cpu(bench: Bench) -> dict[str, float]:
    """Largest difference of a component of a vector from fp32 on a CPU, by format."""
    texts = Segmenter().segment(pa.array(bench.sentences[: bench.size.n_compared]))
    expected = bench.encoder("minilm", "fp32", "cpu").encode(texts).pooled
    return {
        precision: float(
            np.abs(bench.encoder("minilm", precision).encode(texts).pooled - expected).max()
        )
        for precision in {*bench.size.precisions, "fp32"}
    }


def memory_error(bench: Bench) -> dict[str, Any]:
    """Take memory away until a block does not fit; the vectors must be those of before."""
    encoder = bench.encoder("minilm", bench.size.precisions[0])
    run = encode(encoder, bench)
    _, expected = run()
    most = encoder._batches._now
    if bench.size.device == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.mem_get_info()[1]
        reserved = torch.cuda.memory_reserved()
        torch.cuda.set_per_process_memory_fraction((reserved + most * 4_096) / total)
    else:
        make_short(encoder, bench.size.blocks[0])
    try:
        _, found = run()
    finally:
        if bench.size.device == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    return {
        "provoked": encoder._batches._now < most,
        "tokens_at_once_before": most,
        "tokens_at_once_after": encoder._batches._now,
        "largest_difference": float(np.abs(found - expected).max()),
    }


def make_short(encoder: BertEncoder, most: int) -> None:
    """Have a model on a CPU fail beyond so many tokens as a GPU would."""
    states = encoder._model.states

    def failing(ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        if lengths.size > 1 and ids.size > most:
            raise torch.OutOfMemoryError
        return states(ids, lengths)

    encoder._model.states = failing  # type: ignore[method-assign]


def likelihood_rate(bench: Bench) -> dict[str, float]:
    """Tokens/s of a causal model of 135 million parameters, random weights."""
    import transformers

    from reffree.language_models import BATCH_TOKENS

    tiny = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    small = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
    shape = small if bench.size.device == "cuda" else tiny
    config = transformers.LlamaConfig(
        vocab_size=49_152, num_attention_heads=8, num_key_value_heads=4, **shape
    )
    model = transformers.LlamaForCausalLM(config).to(bench.size.device, torch.bfloat16).eval()
    width = 512
    ids = torch.zeros(BATCH_TOKENS[bench.size.device] // 4 // width, width, dtype=torch.int64)
    ids = ids.to(bench.size.device)

    @torch.inference_mode()
    def run() -> object:
        return model(input_ids=ids, logits_to_keep=64).logits.float().log_softmax(-1)

    return {"tokens_per_s": ids.numel() / bench.seconds(run)}


def training_rate(bench: Bench) -> dict[str, float]:
    """Tokens/s of training steps of a BERT-base shape with AdamW, half precision where there is."""
    import transformers

    name = "bert-base" if bench.size.device == "cuda" else "tiny-bert"
    model = transformers.BertModel(transformers.BertConfig(**SHAPES[name])).to(bench.size.device)
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    shape = (64, 256) if bench.size.device == "cuda" else (2, 16)
    ids = torch.ones(shape, dtype=torch.int64, device=bench.size.device)

    def step() -> None:
        with torch.autocast(bench.size.device, torch.bfloat16):
            loss = model(input_ids=ids).last_hidden_state.float().square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return {"tokens_per_s": ids.numel() / bench.seconds(step)}


def stand_in(bench: Bench) -> Iterator[dict[str, Any]]:
    """Busy share of a made-up device with several workers on it, in as many processes.

    It encodes half as fast as all cores but one cut text.
    """
    corpus = write_rows(bench)
    few = min(bench.size.n_rows, 4_096)
    rows = pq.read_table(corpus, columns=["candidate", "reference"])[:few]
    listed = pa.array([[text] for text in rows["reference"].to_pylist()])
    rows = pa.table({"candidate": rows["candidate"], "references": listed})
    device = bench.folder / "device"
    scorer = StandIn(device, 1.0)
    started = time.perf_counter()
    text_per_s = scorer.n_tokens(rows) / (time.perf_counter() - started)
    tokens_per_s = text_per_s * max(available_threads() - 1, 1) / 2
    for n_workers in (1, *bench.size.workers):
        out = bench.folder / f"stand-in-{n_workers}"
        job = Job(out=str(out), fingerprint="0" * 12, has_gpu=True, batch_rows=max(few // 4, 1))
        shards = plan_shards(list_inputs([corpus]), max(bench.size.n_rows // (3 * n_workers), 1))
        workers = start_processes(partial(StandIn, device, tokens_per_s), n_workers)
        run_processes(shards, workers, job)
        row: dict[str, Any] = {"workers": n_workers, "tokens_per_s_of_device": tokens_per_s}
        row["tokens_per_s_of_one_process"] = text_per_s
        yield row | {"busy_share": busy_share(sorted((out / "scores").iterdir()))}


def sharing(bench: Bench) -> Iterator[dict[str, Any]]:
    """Rows/s with one worker alone, and with several workers on one GPU.

    Workers have loaded their model before the clock starts.
    """
    corpus = bench.folder / "corpus.parquet"
    inputs = list_inputs([corpus if corpus.exists() else write_rows(bench)])
    n_threads = bench.size.threads or available_threads()
    for metrics in (("cosine",), METRICS):
        make = partial(SummaryScorer, ScoringConfig(metrics=metrics), device=bench.size.device)
        for n_workers in (0, *bench.size.workers):
            job = Job(
                out=str(bench.folder / f"share-{len(metrics)}-{n_workers}"),
                fingerprint="0" * 12,
                threads=max(n_threads // max(n_workers, 1), 1),
                has_gpu=not n_workers,
                batch_rows=4_096 if n_workers else 1_024,
            )
            n_shards = 5 * n_workers or 2
            shards = plan_shards(inputs, max(bench.size.n_rows // n_shards, 1))
            with Watched(bench.size.device) as watched:
                seconds = shared_seconds(make, shards, job, n_workers)
            row: dict[str, Any] = {"metrics": ",".join(metrics), "workers": n_workers}
            row["threads_of_each"] = job.threads
            yield row | {"rows_per_s": bench.size.n_rows / seconds} | watched.figures()


def shared_seconds(
    make: Callable[[int], SummaryScorer], shards: list[Shard], job: Job, n_workers: int
) -> float:
    """Time the shards with so many worker processes; with none, in this one."""
    if not n_workers:
        scorer = make(job.threads)
        started = time.perf_counter()
        reports = run_local(shards, lambda _: scorer, job)
    else:
        workers = start_processes(make, n_workers, job.threads)
        workers.wait_for(n_workers)
        started = time.perf_counter()
        reports = run_processes(shards, workers, job)
    seconds = time.perf_counter() - started
    failed = [report.error for report in reports if report.error]
    if failed:
        raise RuntimeError(failed[0])
    return seconds


class Watched:
    """How busy a GPU was meanwhile, and how much of its memory was taken at most."""

    def __init__(self, device: str) -> None:
        self._is_gpu, self._is_over = device == "cuda", threading.Event()
        self._busy: list[int] = []
        self._used_gib = 0.0

    def __enter__(self) -> Watched:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while self._is_gpu and not self._is_over.wait(0.1):
            self._busy.append(torch.cuda.utilization())
            free, total = torch.cuda.mem_get_info()
            self._used_gib = max(self._used_gib, (total - free) / 2**30)

    def figures(self) -> dict[str, float]:
        """Return the mean share of the time that a kernel ran while any did, and the memory."""
        at_work = np.flatnonzero(self._busy)
        if not at_work.size:
            return {}
        busy = np.mean(self._busy[at_work[0] : at_work[-1] + 1]) / 100
        return {"busy_share": float(busy), "most_memory_gib": self._used_gib}


NAMES = ("model", "precision", "metrics", "workers")
"""What rows of a part are told apart by."""
PARTS: dict[str, Callable[[Bench], Any]] = {
    "stand_in": stand_in,
    "encoding": encoding_rates,
    "files": file_to_file,
    "sharing": sharing,
    "times": times_of_encoding,
    "difference": difference_from_cpu,
    "two_runs": two_runs,
    "memory": memory_error,
    "likelihood": likelihood_rate,
    "training": training_rate,
}


def rows_of_table(part: str, found: dict[str, Any]) -> list[str]:
    """Return the rows of the table for something that a part has found."""
    lines = []
    named = [str(found[key]) for key in NAMES if key in found]
    for key, value in flat({key: value for key, value in found.items() if key not in NAMES}):
        shown = value
        if isinstance(value, float):
            shown = f"{value:.1e}" if 0 < abs(value) < 0.01 else short(value)
        lines.append(f"| {' '.join([part, *named, key]).replace('_', ' ')} | {shown} |")
    return lines


def flat(row: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Return the figures of nested tables."""
    found: list[tuple[str, Any]] = []
    for key, value in row.items():
        if isinstance(value, dict):
            found += flat(value, f"{before}{key} ")
        else:
            found.append((f"{before}{key}", value))
    return found


def run_parts(size: Size, chosen: list[str]) -> dict[str, Any]:
    """Run the parts one after the other while there is time."""
    started, result = time.perf_counter(), {}
    with tempfile.TemporaryDirectory(prefix="assay-") as temporary:
        bench = Bench(size, Path(temporary))
        for name in chosen:
            elapsed = time.perf_counter() - started
            if elapsed > size.limit_s:
                result[name] = [{"left out": f"after {elapsed:.0f} s"}]
                continue
            result[name] = []
            try:
                found = PARTS[name](bench)
                for row in [found] if isinstance(found, dict) else found:
                    result[name].append(row)
                    say("\n".join(rows_of_table(name, row)))  # a run may be stopped
            except Exception as error:  # noqa: BLE001  (the others are still worth something)
                result[name].append({"failed": f"{type(error).__name__}: {error}"})
                say("\n".join(rows_of_table(name, result[name][-1])))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small, on the CPU")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    options = parser.parse_args()
    if not options.smoke and not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU; --smoke runs the same code without one")
    facts = machine("torch", "transformers", "sentence-transformers")
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    say(in_one_line(facts))
    say("\n| what | figure |\n| --- | --- |")
    started = time.perf_counter()
    result = run_parts(SIZES["smoke" if options.smoke else "gpu"], options.parts)
    result["run"] = [{"seconds": time.perf_counter() - started}]
    say("\n".join(rows_of_table("run", result["run"][0])))
    print_json({**json.loads(json.dumps(result, default=float)), "machine": facts})


if __name__ == "__main__":
    main()

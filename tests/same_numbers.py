"""Do all commands give the same numbers before and after a change of the code?

    PYTHONPATH=OLD python tests/same_numbers.py BEFORE [--quick]
    PYTHONPATH=NEW python tests/same_numbers.py AFTER [--quick]
    diff -r BEFORE AFTER

A run prepares a folder of inputs (the example corpus, and without `--quick` parts of the data in
`ASSAY_DATA`), runs every command of `same_numbers.toml` there as a user would, and writes what came
out to FOLDER/COMMAND.json: a line with a key and a value for each number, with all its digits.
"""

# ruff: noqa: T201 (a command line)

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ASSAY_DATA") or ROOT.parent / "shared" / "data")
RTOL = {"exact": 0.0, "statistics": 1e-9, "neural": 1e-5, "trained": 1e-3}
"""How far numbers of one code may differ between two machines, relative to their size. Training
enlarges last bits: 8.5e-5 between two kinds of processor."""


@dataclass(frozen=True)
class Command:
    """A command line, and the files to read after it."""

    name: str
    line: str
    reads: Sequence[str] = ()
    config: str = ""
    """What a file of `--config` says."""
    needs_data: bool = False
    rtol: str = "statistics"


COMMANDS = [
    Command(**each)
    for each in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["command"]
]
QUICK = [command for command in COMMANDS if not command.needs_data]


# The inputs


def prepare(folder: Path, *, with_data: bool) -> None:
    """Write what the commands read into an empty folder."""
    example = pl.read_ndjson(next(ROOT.glob("*/examples/quality_ladder.jsonl")))
    good = example.filter(pl.col("system_id") == "good")
    sides = ["train"] * 8 + ["dev"] * 3 + ["test"] * (len(good) - 11)
    pairs = good.select("document_id", "source", "references", split=pl.Series(sides))
    pairs.write_ndjson(folder / "pairs.jsonl")
    texts = [*example["source"], *example["candidate"], *good["references"].explode()]
    words = sorted(set(re.findall("[a-z]+", " ".join(texts).lower())))
    with open(folder / "vectors.txt", "w", encoding="utf-8") as file:
        for word in words[::2] + words[1::4]:  # some words have no vector
            digest = hashlib.sha256(word.encode()).digest()
            file.write(f"{word} {' '.join(f'{byte / 64 - 2:.3f}' for byte in digest[:8])}\n")
    odd = ["", None, "...", "The the of.", "Cracks in the bearing closed the bridge in May.\nYes."]
    rows = {"document_id": [f"d{i}" for i in range(5)], "system_id": "s", "text": odd}
    pl.DataFrame(rows | {"reference": good["candidate"][0]}).write_ndjson(folder / "words.jsonl")
    (folder / "small.toml").write_text(
        "hidden = 8\ndimensions = 8\nsummary_words = 6\nbatch_size = 5\nmixed_epochs = 1\n"
        "seed = 1\n"
    )
    lines = ["document_id,judge,system_a,system_b,winner"]
    for i in range(40):
        item = f"d{i % 20},{'ann' if i < 20 else 'bo'}"
        lines.append(f"{item},old,new,{('old', 'new', 'new', 'tie', 'new')[i * i % 5]}")
        lines.append(f"{item},new,third,{('new', 'third')[i % 3 > 0]}")
    (folder / "judged.csv").write_text("\n".join(lines) + "\n")
    if with_data:
        _prepare_data(folder)


def _prepare_data(folder: Path) -> None:
    for part, n_documents in (("news", 25), ("few", 4)):
        (folder / part).mkdir()
        for vectors in ("*.txt", "*.bin", "*.vec"):
            for path in DATA.glob(vectors):
                (folder / part / path.name).symlink_to(path.resolve())
        ids = pl.read_parquet(DATA / "summeval.parquet")["document_id"].unique(maintain_order=True)
        for name in ("summeval", "summeval_ratings", "summeval_peer_scores"):
            rows = pl.read_parquet(DATA / f"{name}.parquet")
            kept = rows.filter(pl.col("document_id").is_in(ids[:n_documents].to_list()))
            kept.write_parquet(folder / part / f"{name}.parquet")
    papers = pl.read_parquet(DATA / "scitldr_pairs.parquet")
    parts = [papers.filter(pl.col("split") == side).head(n)
             for side, n in (("train", 120), ("dev", 30), ("test", 40))]  # fmt: skip
    pl.concat(parts).write_parquet(folder / "papers.parquet")


# What came out

KEYS = (
    "table", "document_id", "instance_id", "source_id", "system_id", "summarizer_id", "system",
    "rater", "name", "criterion", "aspect", "metric", "level", "coefficient", "test", "metric_a",
    "metric_b", "system_a", "system_b", "scorer", "domain", "kind", "place",
)  # fmt: skip
"""Columns whose texts say which row it is, whatever its place."""
VOLATILE = re.compile(
    r"version|second|duration|elapsed|hardware|machine|created|started|path$|^input_"
)
TIMES = re.compile(r" in [\d.,]+ (?:ms|s|min|h)\b|[\d.]+ rows/s|\bscorer-\S+")
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")  # noqa: RUF001


def told(value: object) -> object:
    """Make a value one that JSON holds; a long text is told by its hash."""
    if isinstance(value, str) and len(value) > 600:
        return "sha256:" + hashlib.sha256(value.encode()).hexdigest()
    return value if isinstance(value, int | float | str | None) else str(value)


def walk(value: object, key: str) -> Iterator[tuple[str, object]]:
    """Give every single value in nested dicts and lists a key of its own."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not VOLATILE.search(str(name)):
                yield from walk(inner, f"{key}.{name}")
    elif isinstance(value, list):
        seen: Counter[str] = Counter()
        for place, inner in enumerate(value):
            names = inner.keys() if isinstance(inner, Mapping) else ()
            known = [name for name in KEYS if name in names and isinstance(inner[name], str)]
            label = "|".join(inner[name] for name in known) if known else str(place)
            seen[label] += 1
            again = f"~{seen[label]}" if seen[label] > 1 else ""
            left = {n: v for n, v in inner.items() if n not in known} if known else inner
            yield from walk(left, f"{key}[{label}{again}]")
    else:
        yield key, told(value)


def read_file(path: Path, part: str) -> Iterator[tuple[str, object]]:
    """Read all values of a table or of (a part of) a JSON file."""
    stem = re.sub(r"^part-(\d+)-\w+$", r"part-\1", path.stem)
    if path.suffix == ".parquet":
        value: object = pl.read_parquet(path).to_dicts()
    elif path.suffix == ".csv":
        value = pl.read_csv(path, infer_schema_length=None).to_dicts()
    elif path.suffix == ".jsonl":
        value = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    else:
        value = json.loads(path.read_text(encoding="utf-8"))
        value = value[part] if part else value
    return walk(value, f"{stem}.{part}" if part else stem)


def read_printed(text: str) -> Iterator[tuple[str, object]]:
    """Read the numbers of each printed line; the words around them are the key."""
    seen: Counter[str] = Counter()
    for line in text.splitlines():
        if "|v:" in line:  # a signature
            yield f"signature[{line.split('|')[0].strip()}~{len(seen)}]", line.strip()
            continue
        line = TIMES.sub("", line)
        label = " ".join(NUMBER.sub("#", line).split())
        seen[label] += 1
        for place, number in enumerate(NUMBER.findall(line)):
            yield f"printed[{label}~{seen[label]}].{place}", number


def values_of(command: Command, folder: Path, status: int, printed: str) -> dict[str, object]:
    """Return everything that a command has given, by key."""
    found: dict[str, object] = {"exit status": status}
    if command.name in ("metrics", "encoders"):
        found |= {f"listed[{line.split()[0]}]": True for line in printed.splitlines() if line}
    else:
        if command.name == "status":  # its table of nodes has the machine's name and speed
            printed = "\n".join(line for line in printed.splitlines() if ": " in line)
        found |= read_printed(printed.replace(f"{folder}/", ""))
    for entry in command.reads:
        pattern, _, part = entry.partition("#")
        paths = sorted(folder.glob(pattern))
        found |= {} if paths else {f"{entry} is missing": True}
        for path in paths:
            found |= read_file(path, part)
    return found


# Running and comparing

Call = Callable[[list[str], Path], tuple[int, str]]
"""Runs arguments in a folder and returns the exit status and what was printed."""


def gather(
    commands: Iterable[Command], folder: Path, call: Call
) -> Iterator[tuple[str, dict[str, object]]]:
    """Run the commands in a prepared folder, one after the other, and read what each has given."""
    for command in commands:
        arguments = shlex.split(command.line)
        if command.config:
            (folder / f"{command.name}.toml").write_text(command.config, encoding="utf-8")
            arguments += ["--config", f"{command.name}.toml"]
        status, printed = call(arguments, folder)
        yield command.name, values_of(command, folder, status, printed)


def in_a_process(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Run a command in a process of its own, as a user does."""
    fixed = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments], cwd=folder, env=os.environ | fixed,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        print(f"  assay {shlex.join(arguments)}: {done.returncode}; {done.stderr[-600:]}")
    return done.returncode, done.stdout


def run(folder: Path, *, is_quick: bool) -> None:
    """Run the commands and write FOLDER/NAME.json for each."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), with_data=not is_quick)
        commands = QUICK if is_quick else COMMANDS
        for name, values in gather(commands, Path(scratch), in_a_process):
            text = json.dumps(values, indent=0, ensure_ascii=False)
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
            print(f"{name:20} {len(values):6} values", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="the example corpus only")
    given = parser.parse_args()
    run(given.folder, is_quick=given.quick)


if __name__ == "__main__":
    main()

"""Every command gives on the example corpus the numbers that are kept in `same_numbers.json`.

Where a change of numbers is meant: `python -m tests.test_same_numbers` writes the file anew, and
the commit says what changed. To see which numbers differ, write all of them with two states of the
code:

    PYTHONPATH=OLD python tests/test_same_numbers.py BEFORE [--quick]
    PYTHONPATH=NEW python tests/test_same_numbers.py AFTER [--quick]
    diff -r BEFORE AFTER

Commands are in `same_numbers.toml`; those on parts of the data in `ASSAY_DATA` run here alone, and
not with `--quick`. What came out of one is a key and a value for each number, with
all its digits.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).with_name("same_numbers.json")
DATA = Path(os.environ.get("ASSAY_DATA") or ROOT.parent / "shared" / "data")
_LISTED = tomllib.loads(KEPT.with_suffix(".toml").read_text("utf-8"))
COMMANDS, ON_DATA = _LISTED["command"], _LISTED["on_data"]
"""Each has a `name`, a `line`, and perhaps files that it `reads` and what its `config` says."""
RTOL = {"exact": 0.0, "statistics": 1e-9, "neural": 1e-5, "trained": 1e-3}
"""How far numbers of one code may differ between two machines, relative to their size. Training
enlarges last bits: 8.5e-5 between two kinds of processor."""
RTOL_OF = {command["name"]: RTOL[command.get("rtol", "statistics")] for command in COMMANDS}


# The inputs


def prepare(folder: Path) -> None:
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


def prepare_data(folder: Path) -> None:
    """Write parts of the data there, too."""
    ids = pl.read_parquet(DATA / "summeval.parquet")["document_id"].unique(maintain_order=True)
    for part, n_documents in (("news", 25), ("few", 4)):
        (folder / part).mkdir()
        for path in DATA.glob("*.*d.*"):  # word vectors
            (folder / part / path.name).symlink_to(path.resolve())
        for path in DATA.glob("summeval*.parquet"):
            rows = pl.read_parquet(path)
            kept = rows.filter(pl.col("document_id").is_in(ids[:n_documents].to_list()))
            kept.write_parquet(folder / part / path.name)
    papers = pl.read_parquet(DATA / "scitldr_pairs.parquet").partition_by("split", as_dict=True)
    sizes = {"train": 120, "dev": 30, "test": 40}
    chosen = [papers[(side,)].head(n) for side, n in sizes.items()]
    pl.concat(chosen).write_parquet(folder / "papers.parquet")


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


def run(command: Mapping, folder: Path) -> dict[str, object]:
    """Run a command in a prepared folder and return everything that it has given, by key."""
    from pipelines.cli.app import run as assay

    name, printed = command["name"], io.StringIO()
    arguments = shlex.split(command["line"])
    if config := command.get("config"):
        (folder / f"{name}.toml").write_text(config, encoding="utf-8")
        arguments += ["--config", f"{name}.toml"]
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        found: dict[str, object] = {"exit status": assay(arguments)}
    lines = printed.getvalue().splitlines()
    if name in ("metrics", "encoders"):
        found |= {f"listed[{line.split()[0]}]": True for line in lines if line}
    else:
        if name == "status":  # its table of nodes has the machine's name and speed
            lines = [line for line in lines if ": " in line]
        found |= read_printed("\n".join(lines).replace(f"{folder}/", ""))
    for entry in command.get("reads", ()):
        pattern, _, part = entry.partition("#")
        paths = sorted(folder.glob(pattern))
        found |= {} if paths else {f"{entry} is missing": True}
        for path in paths:
            found |= read_file(path, part)
    return found


def gather(*, with_data: bool = False) -> Iterator[tuple[str, dict[str, object]]]:
    """Run the commands, one after the other: later ones read what earlier ones wrote."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        if with_data:
            prepare_data(Path(folder))
        for command in COMMANDS + ON_DATA * with_data:
            yield command["name"], run(command, Path(folder))


# Keeping and comparing


def digest(values, *, is_exact):
    """Tell the values of each column by their number and a hash, or by sums if they may differ."""
    is_table = any("[" in key and not key.startswith(("printed", "signature")) for key in values)
    columns = defaultdict(list)
    for key, value in sorted(values.items()):
        if is_exact or not (is_table and key.startswith("printed")):  # rounded, so they may jump
            columns[re.sub(r"\[.*?\]", "", key)].append(value)
    told = {}
    for column, cells in columns.items():
        numbers = [number for cell in cells if (number := float_of(cell)) is not None]
        if numbers and not is_exact:
            total = math.fsum(map(abs, numbers))
            turned = math.fsum(x * (1 + i % 7) for i, x in enumerate(numbers))
            told[column] = [len(numbers), math.fsum(numbers), turned, total]
        rest = [cell for cell in cells if is_exact or float_of(cell) is None]
        if rest:
            rest = [cell.hex() if isinstance(cell, float) else cell for cell in rest]
            text = re.sub("weights:[0-9a-f]+", "", json.dumps(rest))  # of a trained scorer
            told[f"{column}#"] = [len(rest), hashlib.sha256(text.encode()).hexdigest()[:12]]
    return told


def float_of(cell):
    if isinstance(cell, str) and NUMBER.fullmatch(cell):
        return float(cell.replace(",", "").replace("−", "-"))  # noqa: RUF001
    return cell if isinstance(cell, float) and math.isfinite(cell) else None


def digests():
    return {name: digest(values, is_exact=RTOL_OF[name] == 0) for name, values in gather()}


@pytest.fixture(scope="module")
def now():
    return digests()


@pytest.mark.slow  # 40 s; CI runs it
@pytest.mark.parametrize("name", RTOL_OF)
def test_numbers_are_those_that_are_kept(now, name):
    kept = json.loads(KEPT.read_text())[name]
    assert now[name].keys() == kept.keys()
    for column, before in kept.items():
        after = now[name][column]
        assert after[0] == before[0], column
        if column.endswith("#"):
            assert after == before, column
        else:
            tolerance = RTOL_OF[name] * before[-1]
            assert after[1:] == pytest.approx(before[1:], rel=0, abs=7 * tolerance), column


def test_every_value_has_a_key_of_its_own():
    assert dict(
        walk([{"metric": "sms", "value": 0.5, "n": 3}, {"metric": "sms", "n": 4}], "t")
    ) == {"t[sms].value": 0.5, "t[sms].n": 3, "t[sms~2].n": 4}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        out = Path(sys.argv[1])
        out.mkdir(parents=True, exist_ok=True)
        for name, values in gather(with_data="--quick" not in sys.argv):
            text = json.dumps(values, indent=0, ensure_ascii=False)
            (out / f"{name}.json").write_text(text, encoding="utf-8")
    else:
        KEPT.write_text(json.dumps(digests(), indent=0, allow_nan=False) + "\n")

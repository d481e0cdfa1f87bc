"""Writes the positives and negatives of pairs into one Parquet file, to look at or to train from.

The file appears whole or not at all. It has what epoch 0 of a training with the same
configuration sees, in the order of the documents' hashes.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.output import Output
from pipelines.prepare_pairs import PreparedPairs, prepare_pairs
from pipelines.runs.progress import Progress
from reffree.aspects import KINDS_OF_HEAD
from reffree.buckets import bucket_paths
from reffree.comparisons import heads_of
from reffree.examples import Example, Examples
from reffree.negatives import POSITIVE, NegativesConfig
from reffree.neighbours import find_neighbours
from reffree.pairs import SIDES
from sms.naming import AnyPath, OneOrMore, several

SCHEMA = pa.schema(
    {
        "document_id": pa.string(),
        "split": pa.string(),
        "kind": pa.string(),
        "base": pa.string(),  # the positive that it is or was made from: candidates to compare
        "aspect": pa.string(),  # heads that it teaches, with commas between them
        "weight": pa.float64(),
        "source": pa.large_string(),
        "candidate": pa.large_string(),
        "label": pa.float64(),
        "n_edits": pa.int32(),
        # With the seed these make the random numbers of a row: `NegativesConfig.generator`.
        "number": pa.int64(),
        "index": pa.int32(),
        "seed": pa.int64(),
    }
)
N_SAMPLES = 3
GROUP_BYTES = 32 << 20
"""Text of a row group: of many small ones the file's footer, kept in memory, would be large."""

_ROWS_AT_ONCE = 2_000
_TEXTS = ("source", "candidate")


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """The rows of one kind."""

    n: int
    mean_label: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativesRun:
    """What was written."""

    out: str
    pairs: PreparedPairs
    kinds: Mapping[str, KindCount]
    """By kind, the positive first."""
    left_out: Mapping[tuple[str, str], int]
    """Negatives that could not be made, by kind and reason."""
    n_repeated: int
    """Pairs that were in the files more than once and are used once."""
    samples: Sequence[Example]
    """Some negatives of different kinds."""

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return sum(kind.n for kind in self.kinds.values())


def write_negatives(
    paths: OneOrMore,
    out: AnyPath,
    config: NegativesConfig,
    *,
    side: str = "all",
    on_progress: Callable[[Progress], None] | None = None,
    **of_pairs: Any,  # noqa: ANN401
) -> NegativesRun:
    """Write the examples of pairs into a new Parquet file or URL.

    `side` is one of `train`, `validation`, `test` and `all`; words come from the documents for
    training either way. The options `of_pairs` are those of `prepare_pairs`.
    """
    tell = on_progress or (lambda _progress: None)
    paths = several(paths)
    output = Output.named("--out", out)
    output.check_file(".parquet", is_new=True)
    output.check_apart(paths)
    sides = SIDES if side == "all" else (side,)
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        tell(Progress(stage="reading the pairs"))
        folder = Path(work) / "pairs"
        pairs = prepare_pairs(paths, folder, sides=sides, seed=config.seed, **of_pairs)
        if config.needs_neighbours:
            tell(Progress(stage="looking for neighbours"))
            find_neighbours(pairs.folder, sides, config.n_neighbours)
        tell(Progress(stage="writing the negatives"))
        count = _Count()
        with output.written() as file:
            _write(file, pairs, sides, config, count)
    return NegativesRun(
        out=output.path,
        pairs=pairs,
        kinds=count.kinds((POSITIVE, *config.kinds)),
        left_out=dict(count.left_out.most_common()),
        n_repeated=count.n_repeated,
        samples=list(islice(count.samples.values(), N_SAMPLES)),
    )


class _Count:
    """Counts examples while they are written."""

    def __init__(self) -> None:
        self.n: Counter[str] = Counter()
        self.label_sums: Counter[str] = Counter()
        self.left_out: Counter[tuple[str, str]] = Counter()
        self.n_repeated = 0
        self.samples: dict[str, Example] = {}
        """The first negative of every kind."""

    def add(self, example: Example) -> None:
        """Count one."""
        self.n[example.kind] += 1
        self.label_sums[example.kind] += example.label  # type: ignore[assignment]
        if example.kind != POSITIVE:
            self.samples.setdefault(example.kind, example)

    def kinds(self, order: Sequence[str]) -> dict[str, KindCount]:
        """Return numbers and mean labels of the kinds there are."""
        return {
            kind: KindCount(n=self.n[kind], mean_label=self.label_sums[kind] / self.n[kind])
            for kind in order
            if self.n[kind]
        }


def _write(
    file: Path, pairs: PreparedPairs, sides: Sequence[str], config: NegativesConfig, count: _Count
) -> None:
    metadata = {"assay.negatives": json.dumps(dataclasses.asdict(config))}
    counted = [name for name in SCHEMA.names if name not in _TEXTS]
    with pq.ParquetWriter(
        file,
        SCHEMA.with_metadata(metadata),
        compression="zstd",
        write_statistics=counted,  # of texts they are whole texts
    ) as writer:
        for side in sides:
            made = Examples(bucket_paths(pairs.folder, side), config, pairs.vocabulary)
            n_positives, n_before = count.n[POSITIVE], count.n.total()
            for table in _row_groups(_tables(made, side, config.seed, count)):
                writer.write_table(table)
            count.left_out.update(made.left_out)
            count.n_repeated += made.n_repeated
            if count.n.total() - n_before == count.n[POSITIVE] - n_positives:
                why = ", ".join(f"{n} {kind}: {text}" for (kind, text), n in made.left_out.items())
                raise ValueError(
                    f"`kinds` must give negatives, got none for {side} ({why}); choose other kinds "
                    "or give more documents"
                )


def _tables(made: Examples, side: str, seed: int, count: _Count) -> Iterator[pa.Table]:
    """Make the rows of a side, and count them."""
    stream = (example for group in made.epoch(0, in_order=True) for example in group)
    while examples := list(islice(stream, _ROWS_AT_ONCE)):
        for example in examples:
            count.add(example)
        yield _table(examples, side, seed)


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put tables together until they are large enough."""
    held: list[pa.Table] = []
    n_bytes = 0
    for table in tables:
        held.append(table)
        n_bytes += table.nbytes
        if n_bytes >= GROUP_BYTES:
            yield pa.concat_tables(held)
            held, n_bytes = [], 0
    if held:
        yield pa.concat_tables(held)


def _table(examples: Sequence[Example], side: str, seed: int) -> pa.Table:
    of_all: dict[str, Any] = {"split": side, "seed": seed}
    columns = {
        name: [of_all[name] if name in of_all else getattr(one, name) for one in examples]
        for name in SCHEMA.names
    }
    heads = [() if one.kind == POSITIVE else heads_of(one, KINDS_OF_HEAD) for one in examples]
    columns["aspect"] = [",".join(own) for own in heads]
    return pa.table(columns, schema=SCHEMA)

"""Writes the positives and negatives of pairs into one Parquet file, to look at or to train from.

The file appears whole or not at all. It has what epoch 0 of a training with the same
configuration sees, in the order of the documents' hashes.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.output import Output
from pipelines.prepare_pairs import prepare_for_negatives
from pipelines.runs.forks import with_threads
from pipelines.settings.negatives import NegativesSettings
from pipelines.training_runs import stages
from reffree.features.aspects import NEWS_HEADS, heads_of
from reffree.negatives import POSITIVE, NegativesConfig
from reffree.training_pairs.examples import Example, PreparedPairs
from reffree.training_pairs.rows import SIDES
from sms.naming import OneOrMore, several

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
GROUP_CHARACTERS = 32 << 20
"""Text of a row group: of many small ones the file's footer, kept in memory, would be large."""

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
    kinds: Mapping[str, KindCount]  # by kind, the positive first
    left_out: Mapping[str, int]  # negatives that could not be made, by kind and reason

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return sum(kind.n for kind in self.kinds.values())


@with_threads
def negatives(paths: OneOrMore, settings: NegativesSettings) -> NegativesRun:
    """Write the examples of pairs into a new Parquet file or URL."""
    tell, paths, config = stages(settings.on_progress), several(paths), settings.config()
    output = Output.named("--out", settings.out)
    output.check_file(".parquet", is_new=True)
    output.check_apart(paths)
    n, label_sums, left_out = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        pairs = prepare_for_negatives(config, paths, Path(work) / "pairs", settings, tell)
        tell("writing the negatives")
        with output.written() as file, _writer(file, config) as writer:
            for side in SIDES:
                made = pairs.examples(side, config)
                made.check_negatives(side)
                held: list[Example] = []
                n_characters = 0
                for group in made.epoch(0, in_order=True):
                    held += group
                    for one in group:
                        n[one.kind] += 1
                        label_sums[one.kind] += one.label  # type: ignore[assignment]
                        n_characters += len(one.source) + len(one.candidate)
                    if n_characters >= GROUP_CHARACTERS:
                        writer.write_table(_table(held, side, config.seed))
                        held, n_characters = [], 0
                writer.write_table(_table(held, side, config.seed))
                left_out.update(made.reasons())
    return NegativesRun(
        out=output.path,
        pairs=pairs,
        kinds={
            kind: KindCount(n=n[kind], mean_label=label_sums[kind] / n[kind])
            for kind in (POSITIVE, *config.kinds)
            if n[kind]
        },
        left_out=dict(left_out.most_common()),
    )


def _writer(file: Path, config: NegativesConfig) -> pq.ParquetWriter:
    metadata = {"assay.negatives": json.dumps(dataclasses.asdict(config))}
    return pq.ParquetWriter(
        file,
        SCHEMA.with_metadata(metadata),
        compression="zstd",
        # Not for texts: the smallest and largest value would be stored as whole texts.
        write_statistics=[name for name in SCHEMA.names if name not in _TEXTS],
    )


def _table(examples: Sequence[Example], side: str, seed: int) -> pa.Table:
    heads = [() if one.kind == POSITIVE else heads_of(one, NEWS_HEADS.kinds) for one in examples]
    columns: dict[str, list[Any]] = {
        "split": [side] * len(examples),
        "seed": [seed] * len(examples),
        "aspect": [",".join(names) for names in heads],
    }
    for name in SCHEMA.names:
        if name not in columns:
            columns[name] = [getattr(one, name) for one in examples]
    return pa.table(columns, schema=SCHEMA)

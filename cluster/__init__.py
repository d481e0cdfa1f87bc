"""Runs any scorer over a corpus of rows, whole or nothing per shard, here or on a Ray cluster.

The order of a run: `list_inputs` and `plan_shards` say what there is to do, `committed` says what
an earlier run has done, `run_local`, `run_processes` or `run_ray` does the rest, each with one
`Driver` over a pool of workers: this process, other processes, Ray actors. This package knows no
metric: it is handed a function that makes a `Scorer`. What is in the folder of a run is in
`manifest`, who works in it in `live`, what its scores come to in `totals`. Importing it does not
import Ray.
"""

from __future__ import annotations

from cluster.inputs import InputFile, is_unchanged, list_inputs, with_content
from cluster.parts import (
    Job,
    ShardReport,
    part_path,
)
from cluster.ray_options import RayOptions
from cluster.rows import column_names
from cluster.runners import run_local, run_processes, run_ray, start_processes
from cluster.schema import canonical_table, resolve_columns
from cluster.scores_files import committed, committed_parts, reports_from_file
from cluster.shards import Piece, Shard, longest_first, plan_shards, with_file_facts
from cluster.store import write_whole
from cluster.worker import score_shard
from sms.scorers import Scorer

__all__ = [
    "InputFile",
    "Job",
    "Piece",
    "RayOptions",
    "Scorer",
    "Shard",
    "ShardReport",
    "canonical_table",
    "column_names",
    "committed",
    "committed_parts",
    "is_unchanged",
    "list_inputs",
    "longest_first",
    "part_path",
    "plan_shards",
    "reports_from_file",
    "resolve_columns",
    "run_local",
    "run_processes",
    "run_ray",
    "score_shard",
    "start_processes",
    "with_content",
    "with_file_facts",
    "write_whole",
]

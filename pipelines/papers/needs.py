"""What a table needs: data sets, weights, trained scorers; where each is looked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import polars as pl

from sms.encoders.registry import parse_spec

ENCODERS_FOLDER = "encoders"
"""Weights are looked for in this folder of the data, or in the data's own where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataNeed:
    """A data set: a folder as its owner publishes it, or a corpus and ratings in our columns."""

    name: str
    """As in `assay import --list`, if it can be imported."""
    what: str
    is_rated: bool = True

    def imported_in(self, root: Path) -> tuple[Path, Path]:
        """Return where the corpus (or pairs) and the ratings of the imported data set are."""
        return root / f"{self.name}.parquet", root / f"{self.name}_ratings.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedData:
    """Summaries that people judged, as a paper uses them."""

    need: DataNeed
    aspects: Mapping[str, str]
    """By the aspect, what the paper calls it; "" where it names the data set instead."""
    raters: Sequence[str] = ()
    keep: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] | None = None
    """Makes of the corpus and the ratings the rows of the corpus that the paper is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsNeed:
    """Weights of an encoder."""

    alias: str
    """What the paper's tables call it."""
    spec: str
    """Its specification, `{}` standing for the folder of encoders."""
    what: str

    def spec_in(self, data: Path | None) -> str:
        """Return the specification with its paths in the folder of the encoders."""
        if data is None:
            return self.spec.replace("{}", f"DIR/{ENCODERS_FOLDER}")
        folder = data / ENCODERS_FOLDER
        return self.spec.replace("{}", str(folder if folder.is_dir() else data))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedNeed:
    """A folder of `--scorers`, from `assay train`, from `assay reinforce`, or from `--train`."""

    name: str
    what: str
    holds: str
    """The file that marks a finished training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerNeed:
    """A trained scorer: what it learned from, and how."""

    data: str
    """The data set of its pairs."""
    kinds: tuple[str, ...]
    """Of negatives."""
    scorer: str
    """`bert`, `sentence` or `word`."""
    head: str
    encoder: WeightsNeed
    n_pairs: int = 30_000
    """Pairs that are drawn from the data set."""
    holds: str = "scorer.json"

    @property
    def name(self) -> str:
        """The name of its folder, for example "cnn-dailymail-30k-cross-pair-bert-fc"."""
        kinds = "mix" if len(self.kinds) > 1 else self.kinds[0]
        encoder = self.encoder.alias.lower()
        return f"{self.data}-{self.n_pairs // 1000}k-{kinds}-{encoder}-{self.head}"

    @property
    def what(self) -> str:
        """What it is, for people."""
        return f"{self.scorer} on {self.data}: {', '.join(self.kinds)}"


Need: TypeAlias = DataNeed | WeightsNeed | ScorerNeed | TrainedNeed


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that a table needs, and whether it is there."""

    kind: str
    """`data`, `weights` or `trained`."""
    name: str
    place: str
    """Where it is, or has to be."""
    is_there: bool
    what: str


def find_need(need: Need, data: Path | None, scorers: Path | None, spec: str = "") -> Found:
    """Say where something is, or where it belongs; `spec` is that of an encoder."""
    if isinstance(need, DataNeed):
        from pipelines.datasets.run import SOURCES

        root = data or Path("DIR")
        parts = need.imported_in(root)[: 1 + need.is_rated]
        is_known = need.name in SOURCES
        place, is_there = " + ".join(map(str, parts)), False
        if is_known:
            place = f"{root / need.name}/ or {place}"
        if data is not None and all(path.is_file() for path in parts):
            place, is_there = str(parts[0]), True
        elif is_known and data is not None and (root / need.name).is_dir():
            place, is_there = str(root / need.name), True
        return Found("data", need.name, place, is_there, need.what)
    if isinstance(need, WeightsNeed):
        parsed = parse_spec(spec)
        paths = [path for path in (parsed.path, parsed.options.get("vectors")) if path]
        # A path with a scheme, or a name of a hub, is for the loader to find.
        is_there = all("://" in path or os.path.exists(path) for path in paths)
        return Found("weights", need.alias, spec, is_there, need.what)
    folder = (scorers or Path("SCORERS")) / need.name
    return Found("trained", need.name, str(folder), (folder / need.holds).is_file(), need.what)

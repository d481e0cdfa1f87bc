"""What a table needs: data sets, weights, trained scorers; where each is looked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sms.encoders.registry import parse_spec

ENCODERS_FOLDER = "encoders"
"""Weights are looked for in this folder of the data, or in the data's own where there is none."""
DATA, WEIGHTS, TRAINED = "data", "weights", "trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataNeed:
    """A data set: a folder as its owner gives it out, or what `assay import` made of it."""

    name: str
    """As in `assay import --list`."""
    what: str
    is_rated: bool = True


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
class ScorerNeed:
    """A trained scorer: a folder of `--scorers`, from `assay train` or trained with `--train`."""

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
    """The file that marks a finished training."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarisersNeed:
    """Trained summarisers: a folder of `--scorers`, from `assay reinforce` or `--train`."""

    name: str
    what: str
    holds: str
    """The file that marks a finished run."""


Need: TypeAlias = DataNeed | WeightsNeed | ScorerNeed | SummarisersNeed


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that a table needs, and whether it is there."""

    kind: str
    name: str
    place: str
    """Where it is, or has to be."""
    is_there: bool
    what: str


def find_data(need: DataNeed, data: Path | None) -> Found:
    """Say where a data set is, or where its files belong."""
    root = data or Path("DIR")
    corpus, ratings = imported_paths(need, root)
    parts = [corpus, *([ratings] if need.is_rated else [])]
    folder = root / need.name
    if data is not None and all(path.is_file() for path in parts):
        return Found(DATA, need.name, str(corpus), is_there=True, what=need.what)
    if data is not None and folder.is_dir():
        return Found(DATA, need.name, str(folder), is_there=True, what=need.what)
    where = f"{folder}/ or {' + '.join(map(str, parts))}"
    return Found(DATA, need.name, where, is_there=False, what=need.what)


def imported_paths(need: DataNeed, root: Path) -> tuple[Path, Path]:
    """Return where the corpus (or pairs) and the ratings of an imported data set are."""
    return root / f"{need.name}.parquet", root / f"{need.name}_ratings.parquet"


def find_weights(need: WeightsNeed, spec: str) -> Found:
    """Say whether the files that a specification names are there.

    Raises
    ------
    ValueError
        If the specification is wrong.
    """
    parsed = parse_spec(spec)
    paths = [path for path in (parsed.path, parsed.options.get("vectors")) if path]
    # A path with a scheme, or a name of a hub, is for the loader to find.
    is_there = all("://" in path or os.path.exists(path) for path in paths)
    return Found(WEIGHTS, need.alias, spec, is_there=is_there, what=need.what)


def find_trained(need: ScorerNeed | SummarisersNeed, scorers: Path | None) -> Found:
    """Say whether a trained scorer, or summarisers, are there."""
    folder = (scorers or Path("SCORERS")) / need.name
    is_there = (folder / need.holds).is_file()
    return Found(TRAINED, need.name, str(folder), is_there=is_there, what=need.what)

"""The place where tables are made: finds what is needed, imports, scores.

Scores stay in a folder, and serve all tables that need them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from cluster.progress import Progress
from cluster.store import local_folder
from pipelines.papers.printed import PrintedTable, printed_table, toml
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.table import Cell, Ours, Row, Scored, Shown
from pipelines.settings.reproduce import ReproduceSettings
from pipelines.settings.score import ScoreSettings
from pipelines.tables.keyed import KEYS
from pipelines.tables.ratings import read_ratings
from pipelines.tables.scores import find_scores, read_scores
from pipelines.tables.study import make_study
from sms.encoders.registry import parse_spec
from sms.naming import AnyPath
from sms.options import encoders_of

if TYPE_CHECKING:
    from pipelines.runs.score_run import ScoreRun

ENCODERS_FOLDER = "encoders"
"""Weights are looked for in this folder of the data, or in the data's own where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something that a table needs."""

    kind: Literal["data", "weights", "trained"]
    name: str
    """A data set as in `assay import --list`, what the paper's tables call an encoder, or the
    folder of something trained."""
    what: str
    spec: str = ""
    """Of weights: the specification, `{}` standing for the folder of encoders."""
    is_rated: bool = False
    """Of a data set: whether it has ratings."""
    holds: str = ""
    """Of something trained: the file that marks a finished training."""
    made_of: tuple[Need, ...] = ()
    """Of something trained: what it is trained from."""


def needs_in(group: str) -> dict[str, Need]:
    """Read the data sets or the weights of a group of `inputs.toml`, by name."""
    if group in ("data", "pairs"):
        return {
            name: Need(kind="data", name=name, what=what, is_rated=group == "data")
            for name, what in toml("inputs")[group].items()
        }
    return {
        name: Need(kind="weights", name=name, spec=spec, what=what)
        for name, (spec, what) in toml("inputs")[group].items()
    }


def differences(table: str) -> list[str]:
    """Say what of a table is not as in the paper, whatever the data and weights."""
    return [
        each["text"]
        for each in toml("inputs")["differs"]
        if any(fnmatch.fnmatchcase(table, pattern) for pattern in each["tables"])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedData:
    """Summaries that people judged, as a paper uses them."""

    name: str
    """Of the data set."""
    aspects: Mapping[str, str]
    """By the aspect, what the paper calls it; "" where it names the data set instead."""
    raters: Sequence[str] = ()
    keep: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] | None = None
    """Makes of the corpus and the ratings the rows of the corpus that the paper is about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table or figure of a paper: what it is about, what it needs, and what fills it."""

    name: str
    """As in `published.toml`."""
    data: Mapping[str, RatedData] = field(default_factory=dict)
    """What it is about, by what the paper calls it."""
    encoders: Sequence[Need] = ()
    others: Sequence[Need] = ()
    """What else it needs."""
    metrics: Callable[[Bench, Sequence[str]], Mapping[str, str]] | None = None
    """What the paper calls each metric, for the encoders that are there; a metric without a name
    is scored, for the other tables, and not shown."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """Options of `score_corpus`."""
    cuts: Sequence[int | None] = (None,)
    """Numbers of tokens of the source; with several, a metric is called `RUN/METRIC`."""
    shows: Callable[[Scored], Shown | None] | None = None
    """Correlates and lays out; None for a table that is no comparison of scores with ratings."""
    make: Callable[[Bench, Table], Reproduction] | None = None
    """Makes a table that is no such comparison, or needs several together; what is missing, and
    differs whatever is there, is added."""
    needs_nothing: bool = False
    """Whether some of it follows from what the paper prints."""

    @property
    def is_figure(self) -> bool:
        """Whether it is a picture."""
        return "figure" in self.name

    @property
    def needs(self) -> list[Need]:
        """Everything that it needs."""
        rated = needs_in("data")
        return [*(rated[d.name] for d in self.data.values()), *self.encoders, *self.others]

    @property
    def printed(self) -> PrintedTable:
        """What the paper prints."""
        return printed_table(self.name)


class Bench:
    """One run of `reproduce`; remembers what was missing."""

    def __init__(self, settings: ReproduceSettings, work: Path = Path()) -> None:
        """Look for data and scorers in their folders; import and score in the folder `work`."""
        self.settings = settings
        self.work = work
        self.data = _folder("data", settings.data)
        self.scorers = _folder("scorers", settings.scorers)
        self.encoders = encoders_of(settings.encoders or {})
        """Specifications that take the place of the paper's, by alias."""
        self.missing: dict[str, None] = {}
        """Sentences on what was needed and is not there, in order."""
        self.differs: dict[str, None] = {}
        """Sentences on weights that are not the paper's."""
        self._imported: set[str] = set()

    def tell(self, stage: str) -> None:
        """Say what is being done."""
        if self.settings.on_progress:
            self.settings.on_progress(Progress(stage=stage))

    # What is there

    def find(self, need: Need) -> tuple[str, bool]:
        """Say where something is or has to be, and whether it is there."""
        if need.kind == "data":
            return self._find_data(need)
        if need.kind == "trained":
            folder = (self.scorers or Path("SCORERS")) / need.name
            return str(folder), (folder / need.holds).is_file()
        spec = self.spec_of(need)
        parsed = parse_spec(spec)
        paths = [path for path in (parsed.path, parsed.options.get("vectors")) if path]
        # A path with a scheme, or a name of a hub, is for the loader to find.
        return spec, all("://" in path or os.path.exists(path) for path in paths)

    def _find_data(self, need: Need) -> tuple[str, bool]:
        from pipelines.datasets.readers import SOURCES

        root = self.data or Path("DIR")
        parts = _imported_in(root, need)
        if self.data and all(path.is_file() for path in parts):
            return str(parts[0]), True
        place = " + ".join(map(str, parts))
        if need.name not in SOURCES:
            return place, False
        if self.data and (root / need.name).is_dir():
            return str(root / need.name), True
        return f"{root / need.name}/ or {place}", False

    def spec_of(self, need: Need) -> str:
        """Return the specification of an encoder: the one asked for, or the paper's."""
        folder = (self.data or Path("DIR")) / ENCODERS_FOLDER
        if self.data and not folder.is_dir():
            folder = self.data
        return self.encoders.get(need.name) or need.spec.replace("{}", str(folder))

    def has(self, need: Need) -> bool:
        """Say whether something is there, and remember it if not."""
        place, is_there = self.find(need)
        if not is_there:
            self.missing[f"{need.kind} {need.name} ({need.what}): {place}"] = None
        elif need.kind == "weights" and need.name in self.encoders:
            self.differs[f"{need.name} is {self.encoders[need.name]}, not {need.what}."] = None
        return is_there

    def trained(self, need: Need) -> Path | None:
        """Return the folder of something trained, None if it is not there."""
        return Path(self.find(need)[0]) if self.has(need) else None

    def specs(self, needs: Sequence[Need]) -> dict[str, str]:
        """Return the specifications of the encoders that are there, by alias."""
        return {need.name: self.spec_of(need) for need in needs if self.has(need)}

    # Data

    def judged(self, data: RatedData) -> tuple[Path, Path] | None:
        """Return corpus and ratings, cut down to what a paper used; None if they are not there."""
        need = needs_in("data")[data.name]
        if not self.has(need):
            return None
        corpus, ratings = self.imported(need)
        if data.keep is None:
            return corpus, ratings
        rated = pl.read_parquet(ratings)
        kept = data.keep(pl.read_parquet(corpus), rated)
        if kept.is_empty():
            raise ValueError(
                f"`{data.name}` must hold the summaries that the paper judged, got none after its "
                f"filter; see what `assay import {data.name}` takes"
            )
        rated = rated.join(kept.select(KEYS), on=KEYS, how="semi", maintain_order="left")
        return self._written(kept, f"{data.name}-kept"), self._written(
            rated, f"{data.name}-kept_ratings"
        )

    def pairs(self, need: Need, n_pairs: int) -> Path | None:
        """Return pairs of a data set, at most so many, drawn at random; None if it is not there."""
        if not self.has(need):
            return None
        seed = self.settings.seed
        rows = pl.scan_parquet(self.imported(need)[0]).with_row_index("row")
        n_rows = rows.select(pl.len()).collect().item()
        drawn = np.random.default_rng(seed).permutation(n_rows)[:n_pairs]
        kept = pl.LazyFrame({"row": np.sort(drawn).astype(np.uint32)})
        drawn_rows = kept.join(rows, on="row", how="left", maintain_order="left").drop("row")
        return self._written(drawn_rows.collect(), f"{need.name}-{n_pairs}-seed{seed}")

    def imported(self, need: Need) -> list[Path]:
        """Return the files of a data set that is there, imported if its owner's are."""
        root, made = self.data or Path(), self.work / "imported"
        if all(path.is_file() for path in _imported_in(root, need)):
            return _imported_in(root, need)
        corpus, *ratings = _imported_in(made, need)
        if need.name not in self._imported:
            from pipelines.datasets.run import import_data

            self.tell(f"importing {need.name}")
            for left_over in (corpus, *ratings):
                left_over.unlink(missing_ok=True)
            made.mkdir(parents=True, exist_ok=True)
            import_data(need.name, [root / need.name], corpus, ratings=next(iter(ratings), None))
            self._imported.add(need.name)
        return [corpus, *ratings]

    def _written(self, frame: pl.DataFrame, name: str) -> Path:
        path = self.work / "data" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(path)
        return path

    def counted(
        self, table: Table, statistics: Callable[[str, pl.DataFrame, pl.DataFrame], Row]
    ) -> Reproduction:
        """Fill a table of statistics: by row, of a data set's name, its corpus and its ratings."""
        judged = {name: self.judged(data) for name, data in table.data.items()}
        ours: dict[Cell, Ours] = {
            ((row,), name): Ours(None if value is None else float(value))
            for name, paths in judged.items()
            if paths
            for row, value in statistics(name, *map(pl.read_parquet, paths)).items()
        }
        return Reproduction(printed=table.printed, ours=ours)

    # Scores

    def fill(self, table: Table) -> Iterator[tuple[str, Scored]]:
        """Score a table's metrics on each of its data sets that is there.

        Yields what the paper calls the data set, and its scores and ratings.
        """
        encoders = self.specs(table.encoders)
        for name, data in table.data.items():
            judged = self.judged(data)
            names = table.metrics(self, list(encoders)) if judged and table.metrics else {}
            if judged is None or not names:
                continue
            corpus, ratings = judged
            rated = read_ratings(
                str(ratings), aspects=list(data.aspects), raters=data.raters, columns={}
            )
            runs = [
                self._score(data.name, corpus, list(names), encoders, {**table.scoring, **cut})
                for cut in ({"source_tokens": n_tokens} for n_tokens in table.cuts)
            ]
            read = read_scores([find_scores(run.out) for run in runs], rated.keys, columns={})
            measured = Scored.of(
                make_study(rated, read),
                signatures=read.signatures,
                names=names,
                heads={aspect: title or name for aspect, title in data.aspects.items()},
                encoders=[need.name for need in table.encoders],
                seed=self.settings.seed,
            )
            shown = {metric: x for metric, x in measured.scores.items() if names.get(metric, "?")}
            yield name, replace(measured, scores=shown)

    def _score(
        self,
        name: str,
        corpus: Path,
        metrics: Sequence[str],
        encoders: Mapping[str, str],
        options: Mapping[str, Any],
    ) -> ScoreRun:
        from pipelines.score import score_corpus  # takes a moment

        asked = json.dumps([metrics, encoders, options], sort_keys=True)
        digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
        n_tokens = options["source_tokens"]
        cut = f"first{n_tokens}-" if n_tokens else ""
        settings = ScoreSettings(
            out=self.work / "scores" / f"{name}-{cut}{digest}",
            metrics=metrics,
            encoders=dict(encoders) or "minilm",
            device=self.settings.device,
            local=True,
            on_progress=self.settings.on_progress,
            **options,
        )
        run = score_corpus(corpus, settings)
        if not run.is_complete:
            raise RuntimeError(f"not all of {name} could be scored: {run.failed_shards}")
        return run


def _folder(option: str, folder: AnyPath | None) -> Path | None:
    if folder is None:
        return None
    local = local_folder(option, folder)
    if not local.is_dir():
        raise ValueError(f"`{option}` must be a folder, got {os.fspath(folder)}")
    return local


def _imported_in(root: Path, need: Need) -> list[Path]:
    """Return where the corpus (or pairs), and the ratings, of an imported data set are."""
    suffixes = ("", "_ratings")[: 1 + need.is_rated]
    return [root / f"{need.name}{suffix}.parquet" for suffix in suffixes]

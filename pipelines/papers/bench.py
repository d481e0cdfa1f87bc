"""The place where tables are made: finds what is needed, imports, scores, lays out.

What was imported and scored stays in a folder and serves all tables that need it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from pipelines.papers.needs import (
    DataNeed,
    Found,
    Need,
    RatedData,
    ScorerNeed,
    TrainedNeed,
    WeightsNeed,
    find_need,
)
from pipelines.papers.table import Numbers, Scored, Shown
from pipelines.runs.progress import Progress
from pipelines.tables.keyed import KEYS
from pipelines.tables.ratings import read_ratings
from pipelines.tables.scores import find_scores, read_scores
from pipelines.tables.study import Study, make_study
from sms.file_hashes import hash_of_file

if TYPE_CHECKING:
    from pipelines.runs.score_run import ScoreRun


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """The result of making a table."""

    ours: Numbers = field(default_factory=dict)
    notes: Sequence[str] = ()
    differs: Sequence[str] = ()
    """In addition to what is known of the table beforehand."""
    figures: Sequence[Shown] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table or figure of a paper: what it is about, what it needs, and what fills it."""

    name: str
    """As in `published.toml`."""
    data: Mapping[str, RatedData] = field(default_factory=dict)
    """What it is about, by what the paper calls it."""
    encoders: Sequence[WeightsNeed] = ()
    others: Sequence[Need] = ()
    """What else it needs."""
    metrics: Callable[[Bench, Sequence[str]], Mapping[str, str]] | None = None
    """What the paper calls each metric, for the encoders that are there; a metric without a name
    is scored, for the other tables, and not shown."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """Options of `score_corpus`."""
    shows: Callable[[Scored], Shown | None] | None = None
    """Correlates and lays out; None for a table that is no comparison of scores with ratings."""
    make: Callable[[Bench], Made] | None = None
    """Makes a table that is no such comparison, or needs several together."""
    differs: Sequence[str] = ()
    """What is not as in the paper, whatever the data and weights."""
    needs_nothing: bool = False
    """Whether some of it follows from what the paper prints."""

    @property
    def paper(self) -> str:
        """The part of the name that stands for the paper."""
        return self.name.partition("-")[0]

    @property
    def needs(self) -> list[Need]:
        """Everything that it needs."""
        return [*(data.need for data in self.data.values()), *self.encoders, *self.others]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """A corpus with ratings, as two Parquet files."""

    name: str
    corpus: Path
    ratings: Path


@dataclass(kw_only=True)
class Bench:
    """One run of `reproduce`; remembers what was missing."""

    data: Path | None
    work: Path
    """Folder for what is imported and scored."""
    encoders: Mapping[str, str] = field(default_factory=dict)
    """Specifications that take the place of the paper's, by alias."""
    scorers: Path | None = None
    trains: bool = False
    """Whether scorers that are not there are trained."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    seed: int = 0
    tell: Callable[[Progress], None] = lambda _progress: None
    missing: dict[str, None] = field(default_factory=dict)
    """Sentences on what was needed and is not there, in order."""
    differs: dict[str, None] = field(default_factory=dict)
    """Sentences on weights that are not the paper's."""

    # What is there

    def find(self, need: Need) -> Found:
        """Say where something is, or belongs."""
        spec = self.spec_of(need) if isinstance(need, WeightsNeed) else ""
        return find_need(need, self.data, self.scorers, spec)

    def spec_of(self, need: WeightsNeed) -> str:
        """Return the specification of an encoder: the one asked for, or the paper's."""
        return self.encoders.get(need.alias) or need.spec_in(self.data)

    def has(self, need: Need) -> bool:
        """Say whether something is there, and remember it if not."""
        thing = self.find(need)
        if not thing.is_there:
            self.missing[f"{thing.kind} {thing.name} ({thing.what}): {thing.place}"] = None
        elif isinstance(need, WeightsNeed) and need.alias in self.encoders:
            self.differs[f"{need.alias} is {self.encoders[need.alias]}, not {need.what}."] = None
        return thing.is_there

    def trained(
        self, need: TrainedNeed | ScorerNeed, train: Callable[[Path], bool] | None = None
    ) -> Path | None:
        """Return the folder of what is trained; None if it is not there and cannot be trained.

        With `--train`, `train` fills the folder, or returns False where it lacks something.
        """
        folder = (self.scorers or Path()) / need.name
        if train is None or not self.trains or self.find(need).is_there:
            return folder if self.has(need) else None
        return folder if train(folder) else None

    def specs(self, needs: Sequence[WeightsNeed]) -> dict[str, str]:
        """Return the specifications of the encoders that are there, by alias."""
        return {need.alias: self.spec_of(need) for need in needs if self.has(need)}

    # Data

    def judged(self, data: RatedData) -> Judged | None:
        """Return a judged corpus, imported and cut down to what a paper used; None without it."""
        name = data.need.name
        if not self.has(data.need):
            return None
        corpus, ratings = self.imported(data.need)
        if data.keep is None:
            return Judged(name=name, corpus=corpus, ratings=ratings)
        rated = pl.read_parquet(ratings)
        kept = data.keep(pl.read_parquet(corpus), rated)
        if kept.is_empty():
            raise ValueError(
                f"`{name}` must hold the summaries that the paper judged, got none after its "
                f"filter; see what `assay import {name}` takes"
            )
        corpus, ratings = (
            self.work / "data" / f"{name}-kept{suffix}.parquet" for suffix in ("", "_ratings")
        )
        _write_if_new(kept, corpus)
        _write_if_new(rated.join(kept.select(KEYS), on=KEYS, how="semi"), ratings)
        return Judged(name=name, corpus=corpus, ratings=ratings)

    def pairs(self, need: DataNeed, n_pairs: int) -> Path | None:
        """Return pairs of a data set, at most so many, drawn at random; None if it is not there."""
        if not self.has(need):
            return None
        whole, _ = self.imported(need)
        path = self.work / "data" / f"{need.name}-{n_pairs}-seed{self.seed}.parquet"
        n_rows = pl.scan_parquet(whole).select(pl.len()).collect().item()
        drawn = np.random.default_rng(self.seed).permutation(n_rows)[:n_pairs]
        rows = pl.scan_parquet(whole).with_row_index("row")
        kept = pl.LazyFrame({"row": np.sort(drawn).astype(np.uint32)})
        drawn_rows = kept.join(rows, on="row", how="left", maintain_order="left")
        _write_if_new(drawn_rows.drop("row").collect(), path)
        return path

    def imported(self, need: DataNeed) -> tuple[Path, Path]:
        """Import a data set that is there, unless that was done; return its files."""
        root = self.data or Path()
        ours = need.imported_in(root)
        if all(path.is_file() for path in ours[: 1 + need.is_rated]):
            return ours
        source = root / need.name
        corpus, ratings = need.imported_in(self.work / "imported" / _state_of(source))
        if not corpus.exists():
            from pipelines.datasets.run import import_data

            self.tell(Progress(stage=f"importing {need.name}"))
            corpus.parent.mkdir(parents=True, exist_ok=True)
            ratings.unlink(missing_ok=True)  # of an import that did not end
            import_data(need.name, [source], corpus, ratings=ratings if need.is_rated else None)
        return corpus, ratings

    # Scores

    def measure(
        self,
        judged: Judged,
        *,
        metrics: Sequence[str],
        encoders: Mapping[str, str],
        aspects: Sequence[str] = (),
        raters: Sequence[str] = (),
        source_tokens: Sequence[int | None] = (None,),
        **options: Any,  # noqa: ANN401  (of `score_corpus`)
    ) -> Scored:
        """Score a corpus and lay scores and ratings out over its systems and documents.

        The corpus is scored once for each of `source_tokens`; with several, a metric is called
        `RUN/METRIC`. The rest is as in `score_corpus` and `pipelines.correlate`.
        """
        runs = [
            self._score(judged, metrics, encoders, {**options, "source_tokens": n_tokens})
            for n_tokens in source_tokens
        ]
        rated = read_ratings(str(judged.ratings), aspects=aspects, raters=raters, columns={})
        scores = read_scores([find_scores(run.out) for run in runs], rated.keys, columns={})
        return scored(make_study(rated, scores), scores.signatures, seed=self.seed)

    def _score(
        self,
        judged: Judged,
        metrics: Sequence[str],
        encoders: Mapping[str, str],
        options: Mapping[str, Any],
    ) -> ScoreRun:
        from pipelines.score import score_corpus

        asked = json.dumps([metrics, encoders, options], sort_keys=True)
        n_tokens = options["source_tokens"]
        cut = f"first{n_tokens}-" if n_tokens else ""
        digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
        run = score_corpus(
            [judged.corpus],
            self.work / "scores" / f"{judged.name}-{cut}{digest}",
            metrics=metrics,
            encoders=dict(encoders) or "minilm",
            device=self.device,
            local=True,
            on_progress=self.tell,
            **options,
        )
        if not run.is_complete:
            raise RuntimeError(f"not all of {judged.name} could be scored: {run.failed_shards}")
        return run

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
            measured = self.measure(
                judged,
                metrics=list(names),
                encoders=encoders,
                aspects=list(data.aspects),
                raters=data.raters,
                **table.scoring,
            )
            shown = {
                metric: x for metric, x in measured.scores.items() if names.get(metric, metric)
            }
            yield name, replace(measured, scores=shown, names=names)

    def clear(self) -> None:
        """Delete what earlier runs imported and scored."""
        shutil.rmtree(self.work, ignore_errors=True)


def scored(study: Study, signatures: Mapping[str, str], **more: Any) -> Scored:  # noqa: ANN401
    """Name the matrices of a study; `more` are other fields of `Scored`."""
    return Scored(
        systems=study.systems,
        scores=dict(zip(study.metrics, study.scores, strict=True)),
        ratings=dict(zip(study.aspects, study.ratings, strict=True)),
        signatures=signatures,
        **more,
    )


def _state_of(folder: Path) -> str:
    """Tell one state of a data set's files from another."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path}\0{hash_of_file(path)}\n".encode())
    return digest.hexdigest()[:8]


def _write_if_new(frame: pl.DataFrame, path: Path) -> None:
    """Write a table whole, unless the file has it already: scores know their input by its bytes."""
    if not (path.exists() and pl.read_parquet(path).equals(frame)):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}")
        frame.write_parquet(aside)
        aside.replace(path)

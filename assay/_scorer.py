"""A scorer to hold: loaded once, called on rows in a loop, handed to other processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.settings.form import keywords, shared_fields
from pipelines.settings.score import ScorerSettings
from sms.scorers import HeldScorer
from sms.settings import shown
from sms.urls import is_url

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from assay._rows import Memory, Rows
    from sms.scoring import SummaryScorer


class Scorer:
    """Scores rows in memory, again and again: models are loaded once.

    `scorer(data)` returns what `assay.score` does, `scorer.score` is for lists of texts, and
    `scorer.columns` returns the scores alone. Scores and statuses are those of a run over files.

    **Other processes.** A pickle has the settings and no weights, which are loaded again where it
    is used; so they are in a forked process. Metrics and encoders that only your program has added
    do not travel; those of an installed package do.

    **Threads.** Several may call the same scorer: one is served, the others wait. It uses all cores
    by itself, unless `threads` says otherwise, so many rows at a time are better than many threads.

    **Memory.** It is freed, on a GPU, too, when the scorer is deleted, or by `close`, or at the end
    of a `with` statement. A scorer that was closed loads again when it is called.

    Raises
    ------
    ValueError
        If a setting is wrong, or a model cannot be loaded.

    Examples
    --------
    >>> scorer = Scorer(metrics="rouge1_r")
    >>> scorer.score(["A cat sat."], references=["The cat sat down."])[0]["rouge1_r"]
    0.5
    """

    @keywords(ScorerSettings)
    def __init__(self, settings: ScorerSettings) -> None:
        """Load what the metrics need."""
        from cluster.store import local_folder
        from pipelines.fetched import open_scorer, with_paths
        from sms.config import ScoringConfig
        from sms.noticing import Notices

        named = {name: getattr(settings, name) for name in ("candidate", "reference", "source")}
        self._names = {name: theirs for name, theirs in named.items() if theirs is not None}
        self._columns = settings.columns
        config = ScoringConfig(**shared_fields(ScoringConfig, settings))
        self._config = with_paths(config, _absolute).pinned()
        self._notices = Notices(self._config.language)
        self._device = settings.device
        cache = settings.embedding_cache
        if cache is not None:
            cache = os.path.abspath(local_folder("embedding_cache", cache))
        self._held: HeldScorer[SummaryScorer] = HeldScorer(
            partial(
                open_scorer,
                self._config,
                settings.threads,
                device=self._device,
                cache_folder=cache,
            )
        )
        with self._held.in_use():
            pass

    def __call__(self, data: Rows) -> Any:
        """Score rows: the same kind of table comes back, with a column per score and `status`.

        Parameters
        ----------
        data : list of dict, dict of lists, or a table of pandas, polars, Arrow or datasets
            A batch of `datasets.Dataset.map` or of Ray Data is one, too.
        """
        return self._put_to(self._rows(data))

    def score(
        self,
        candidates: Iterable[Any],
        *,
        references: Iterable[Any] | None = None,
        sources: Iterable[Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Score lists of texts: a dict for each candidate, with the texts, scores and `status`.

        Parameters
        ----------
        candidates : list of str
        references, sources : list of str or of list of str, optional
            As many as candidates; several for one candidate as a list.
        """
        from assay._rows import of_texts

        given = {"candidate": candidates, "references": references, "sources": sources}
        memory = of_texts({name: x for name, x in given.items() if x is not None}, {})
        scored: list[dict[str, Any]] = memory.with_scores(self._scores_of(memory), {})
        return scored

    def columns(self, data: Rows) -> dict[str, np.ndarray]:
        """Score rows, as a call does, and return the new columns alone.

        For `datasets.Dataset.map(scorer.columns, batched=True)`, which adds them to the others, and
        needs the same types in every batch: a score that is missing is NaN, and a row that has its
        scores has "" as `status`.
        """
        memory = self._rows(data)
        scores = self._scores_of(memory)
        names = memory.names_beside(scores.column_names)
        return {names[name]: _typed(scores[name].combine_chunks()) for name in names}

    @property
    def signatures(self) -> dict[str, str]:
        """A text for each column of scores that identifies its numbers."""
        with self._held.in_use() as scorer:
            return dict(scorer.signatures)

    def close(self) -> None:
        """Free the memory of the models, on a GPU, too."""
        self._held.close()

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, data: Rows) -> Memory:
        from assay._rows import rows_of

        memory = rows_of(data, self._names, self._columns)
        if memory is None:
            raise TypeError(
                f"`data` must be rows, got {shown(data)}; for lists of texts use `.score(texts)`, "
                "for files `assay.score`"
            )
        return memory

    def _put_to(self, memory: Memory) -> Any:
        """Put their scores to rows."""
        return memory.with_scores(self._scores_of(memory), self.signatures)

    def _scores_of(self, memory: Memory) -> pa.Table:
        """Return the scores of rows and their status, as a worker of a run computes them."""
        import pyarrow as pa

        from cluster.parts import STATUS
        from cluster.schema import CANDIDATE, UNREADABLE, Wanted
        from cluster.worker import score_tables
        from sms.noticing import TEXTS_LOOKED_AT
        from sms.text.sentences import sentence_end

        config = self._config
        needed = config.input_columns
        wanted = Wanted(needed=needed, sentence_end=sentence_end(config.sentences))
        if memory.n_rows:
            with memory.naming_columns():
                table = memory.texts(wanted)
            self._notices.look_at(table[CANDIDATE][:TEXTS_LOOKED_AT].to_pylist())
        else:
            table = pa.table({UNREADABLE: pa.array([], pa.string())})
        starts = range(0, max(len(table), 1), config.batch_rows)
        batches = [table.slice(start, config.batch_rows) for start in starts]
        with self._held.in_use() as scorer:
            has_gpu = len(batches) > 1 and self._has_gpu
            overlaps = len(batches) > 1 and (has_gpu or scorer.threads > 1)
            tables = score_tables(batches, scorer, overlaps=overlaps, has_gpu=has_gpu)
            scores = pa.concat_tables(tables)
            self._notices.look_at_counts(scorer.counters())
        return scores.select([*config.columns, STATUS])

    @property
    def _has_gpu(self) -> bool:
        if not self._config.is_neural:
            return False
        from sms.encoders.devices import uses_gpu  # brings torch

        return uses_gpu(self._device)


def _typed(column: pa.Array) -> np.ndarray:
    """Return a column as an array whose type does not depend on what is in it."""
    is_status = column.type == "string"
    found = column.fill_null("") if is_status else column
    array: np.ndarray = found.to_numpy(zero_copy_only=False)
    return array.astype(str) if is_status else array


def _absolute(path: str) -> str:
    """Return a path as other processes find it, which may have another working folder."""
    return os.path.abspath(path) if os.path.exists(path) else path


_warm: list[tuple[Any, Scorer]] = []
"""The scorer of the last call of `assay.score`, and what it was made of."""


def warm_scorer(settings: ScorerSettings) -> Scorer:
    """Return the scorer of the call before, if it is the one that is asked for, or load one.

    It is another one if a file of its models was changed meanwhile, or a metric was added anew.
    """
    from pipelines.fetched import paths_of
    from sms.config import ScoringConfig

    config = ScoringConfig(**shared_fields(ScoringConfig, settings))
    paths = paths_of(config)
    made_of = (settings, config.asked, [*map(_files_in, paths)])
    for known, scorer in _warm:
        if known == made_of:
            return scorer
    _warm.clear()  # there may be no memory for two
    scorer = Scorer(**vars(settings))
    if not any(map(is_url, paths)):  # nobody knows what is in a store by now
        _warm[:] = [(made_of, scorer)]
    return scorer


def _files_in(path: str) -> list[tuple[str, int, int, int]]:
    """Return what changes if a file, or one in a folder, is changed; nothing of a hub's model."""
    folders = os.walk(path) if os.path.isdir(path) else [("", [], [path])]
    found = []
    for folder, _, names in folders:
        for name in names:
            with suppress(OSError):
                at = os.stat(file := os.path.join(folder, name))
                found.append((os.path.abspath(file), at.st_size, at.st_mtime_ns, at.st_ino))
    return sorted(found)

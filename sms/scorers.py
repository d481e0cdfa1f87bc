"""What a scorer is: rows in, columns of scores out; and how a process holds one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from sms.process import forget_in_forks

if TYPE_CHECKING:
    import pyarrow as pa

S = TypeVar("S", bound="Scorer")


class Scorer(Protocol):
    """Turns rows into scores in two steps, so that the steps of two batches may overlap.

    `SummaryScorer` is one; runs over files and rewards take any. `prepare` and `compare` may run in
    different threads, each in one thread at a time. A scorer may also have `bounds`, the lowest and
    highest possible score, and by column `signatures`.
    """

    @property
    def input_columns(self) -> tuple[str, ...]:
        """What is read besides the ids: out of `candidate`, `references`, `sources`."""

    @property
    def score_fields(self) -> tuple[str, ...]:
        """Names of the score columns."""

    def prepare(self, rows: pa.Table) -> Any:  # noqa: ANN401  (private to the scorer)
        """Handle and encode the text of some rows of the canonical table."""

    def compare(self, prepared: Any) -> pa.Table:  # noqa: ANN401
        """Return `score_fields` as float64 and `status`, null when fine; one row per row."""

    def counters(self) -> Mapping[str, int]:
        """Return what was done so far by name, as numbers that may be added up."""


class HeldScorer(Generic[S]):
    """A scorer that is loaded when it is first needed, and used by one thread at a time.

    A pickle brings no weights along, and a forked process uses none of its parent's, whose locks,
    threads and GPU it does not have: there the scorer is loaded again. So it is after a failure,
    which may have left it damaged, and after `close`.

    Parameters
    ----------
    load : callable
        Makes the scorer. It must be picklable for the holder to be.
    """

    def __init__(self, load: Callable[[], S]) -> None:
        self._load = load
        self._forget()
        _held.add(self)

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._scorer: S | None = None

    def _forget_in_fork(self) -> None:
        """Leave the parent's scorer as it is: to delete it would ask a GPU it cannot reach."""
        _of_parents.append(self._scorer)
        self._forget()

    @contextmanager
    def in_use(self) -> Iterator[S]:
        """Wait until no other thread uses the scorer, and load it if need be."""
        with self._lock:
            if self._scorer is None:
                self._scorer = self._load()
            try:
                yield self._scorer
            except BaseException:
                self._scorer = None
                raise

    def close(self) -> None:
        """Free its memory, on a GPU, too."""
        with self._lock:
            self._scorer = None
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def __del__(self) -> None:
        if getattr(self, "_scorer", None) is not None and not sys.is_finalizing():
            self.close()

    def __reduce__(self) -> tuple[type[HeldScorer[S]], tuple[Callable[[], S]]]:
        return HeldScorer, (self._load,)


_held: WeakSet[HeldScorer[Any]] = WeakSet()
_of_parents: list[Any] = []


def _forget_all() -> None:
    for holder in _held:
        holder._forget_in_fork()


forget_in_forks(_forget_all)

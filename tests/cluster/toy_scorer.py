"""A scorer that other processes can import, too."""

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc


class CountCharacters:
    """Scores a candidate by its length; can be told to fail, or to kill its process once.

    Where a failure `spoils` it, it gives wrong scores from then on.
    """

    input_columns = ("candidate",)
    score_fields = ("characters", "half")

    def __init__(self, fails_on=None, kills_on=None, once=None, spoils=False):
        self.fails_on, self.kills_on, self.once, self.spoils = fails_on, kills_on, once, spoils
        self.n_rows, self.offset = 0, 0.0

    def counters(self):
        return {"rows": self.n_rows}

    def prepare(self, rows):
        self.n_rows += rows.num_rows
        texts = rows["candidate"].to_pylist()
        if self.fails_on is not None and self.fails_on in texts:
            self.offset = 1000.0 if self.spoils else 0.0
            raise RuntimeError(f"cannot score {self.fails_on}")
        if self.kills_on is not None and self.kills_on in texts and not self._has_killed():
            os.kill(os.getpid(), signal.SIGKILL)
        return rows["candidate"].combine_chunks()

    def _has_killed(self):
        """Whether `once` is there already; it is from now on."""
        if self.once is None:
            return False
        has_killed = Path(self.once).exists()
        Path(self.once).touch()
        return has_killed

    def compare(self, prepared):
        characters = pc.add(pc.utf8_length(prepared).cast(pa.float64()), self.offset)
        status = pc.if_else(pc.is_null(prepared), "no candidate", pa.scalar(None, pa.string()))
        return pa.table(
            {"characters": characters, "half": pc.divide(characters, 2.0), "status": status}
        )


class MakeScorer:
    """What a runner is given; `before` is called with the rows of every batch first."""

    def __init__(self, before=None, **how):
        self.before, self.how = before, how

    def __call__(self, threads):
        scorer = CountCharacters(**self.how)
        if self.before is not None:
            prepare = scorer.prepare

            def prepare_after(rows):
                self.before(rows)
                return prepare(rows)

            scorer.prepare = prepare_after
        return scorer


class CannotBeMade:
    """A scorer whose weights are missing."""

    def __call__(self, threads):
        raise FileNotFoundError("no weights")


def name_of(scorer):
    """Describe a scorer by the name of its class."""
    return {"class": {"name": type(scorer).__name__}}


class Slowly:
    """Takes its time, and leaves a file named after its process for each batch."""

    def __init__(self, folder, seconds=0.4):
        self.folder, self.seconds = folder, seconds

    def __call__(self, rows):
        number = len(list(self.folder.iterdir()))
        (self.folder / f"{os.getpid()}-{number}").touch()
        time.sleep(self.seconds)


class HeldBy:
    """Waits while a file is there, but not with the first rows of a corpus."""

    def __init__(self, file):
        self.file = file

    def __call__(self, rows):
        while self.file.exists() and not rows["candidate"][0].as_py().startswith("0 says"):
            time.sleep(0.1)


class UntilOnNodes:
    """Leaves a file named after its node, and waits for a minute until so many nodes have."""

    def __init__(self, folder, n_nodes):
        self.folder, self.n_nodes = folder, n_nodes

    def __call__(self, rows):
        (self.folder / os.environ["RAY_CLOUD_INSTANCE_ID"]).touch()
        until = time.monotonic() + 60
        while len(os.listdir(self.folder)) < self.n_nodes and time.monotonic() < until:
            time.sleep(0.1)


class WaitsForNextShard(CountCharacters):
    """Compares the first shard only when the one that begins with row 8 has been prepared."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def prepare(self, rows):
        first = int(rows["candidate"][0].as_py().partition(" ")[0])
        (self.folder / str(first)).touch()
        return super().prepare(rows), first

    def compare(self, given):
        prepared, first = given
        until = time.monotonic() + 60
        while first == 0 and not (self.folder / "8").exists():
            assert time.monotonic() < until, "nothing else is under way"
            time.sleep(0.01)
        return super().compare(prepared)

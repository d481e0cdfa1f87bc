"""A scorer that other processes can import, too."""

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc


class CountCharacters:
    """Scores a candidate by its length; can be told to fail, or to kill its process once."""

    input_columns = ("candidate",)
    score_fields = ("characters", "half")

    def __init__(self, fails_on=None, kills_on=None, once=None):
        self.fails_on, self.kills_on, self.once = fails_on, kills_on, once
        self.n_rows = 0

    def counters(self):
        return {"rows": self.n_rows}

    def prepare(self, rows):
        self.n_rows += rows.num_rows
        texts = rows["candidate"].to_pylist()
        if self.fails_on is not None and self.fails_on in texts:
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
        characters = pc.utf8_length(prepared).cast(pa.float64())
        status = pc.if_else(pc.is_null(prepared), "no candidate", pa.scalar(None, pa.string()))
        return pa.table(
            {"characters": characters, "half": pc.divide(characters, 2.0), "status": status}
        )


class MakeScorer:
    """What a runner is given."""

    def __init__(self, **how):
        self.how = how

    def __call__(self, threads):
        return CountCharacters(**self.how)


class MakeSlowScorer(MakeScorer):
    """One that takes its time, and leaves a file named after its process for each batch."""

    def __init__(self, folder, seconds=0.4):
        super().__init__()
        self.folder, self.seconds = folder, seconds

    def __call__(self, threads):
        scorer = super().__call__(threads)
        prepare = scorer.prepare

        def prepare_slowly(rows):
            number = len(list(self.folder.iterdir()))
            (self.folder / f"{os.getpid()}-{number}").touch()
            time.sleep(self.seconds)
            return prepare(rows)

        scorer.prepare = prepare_slowly
        return scorer

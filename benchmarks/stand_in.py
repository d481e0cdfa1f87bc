"""Not a benchmark: a made-up device of known speed, in the place of a GPU that is not there."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from sms.config import ScoringConfig
from sms.cutting import TextReader
from sms.encoders.bert import minilm_folder
from sms.encoders.pieces import PieceCutter

MOST_PIECES = 254
"""That MiniLM reads at once."""


class StandIn:
    """A scorer on a made-up device, which encodes so many tokens a second by sleeping.

    Scorers in several processes share the device, which does one batch at a time. The scores of a
    row say when it began with the row's batch, and when it was done.
    """

    input_columns = ("candidate", "references")
    score_fields = ("began", "ended")

    def __init__(self, device: Path, tokens_per_s: float, threads: int = 1) -> None:
        del threads
        self._device = device.open("w")  # who locks it uses the device
        self._tokens_per_s = tokens_per_s
        self._reader = TextReader(ScoringConfig(metrics=("sms",)))
        self._cutter = PieceCutter(Tokenizer.from_file(str(minilm_folder() / "tokenizer.json")))

    def counters(self) -> dict[str, int]:
        """Count nothing."""
        return {}

    def n_tokens(self, rows: pa.Table) -> int:
        """Cut the text of some rows as an encoder does; return how many tokens that gives."""
        texts = self._reader.read(rows).texts
        pieces = self._cutter.cut(texts, np.arange(len(texts.sentences)), MOST_PIECES)
        return pieces.ids.values.size + self._cutter.n_special * len(texts.sentences)

    def prepare(self, rows: pa.Table) -> tuple[int, float, float]:
        """Cut the text, wait for the device, and sleep for as long as it would take."""
        n_tokens = self.n_tokens(rows)
        fcntl.flock(self._device, fcntl.LOCK_EX)
        began = time.monotonic()  # which all processes of a machine share
        time.sleep(n_tokens / self._tokens_per_s)
        ended = time.monotonic()
        fcntl.flock(self._device, fcntl.LOCK_UN)
        return rows.num_rows, began, ended

    def compare(self, prepared: tuple[int, float, float]) -> pa.Table:
        """Return when the device worked, for each row of the batch."""
        n_rows, began, ended = prepared
        columns = {"began": [began] * n_rows, "ended": [ended] * n_rows, "status": [None] * n_rows}
        return pa.table(
            columns, schema=pa.schema({"began": "f8", "ended": "f8", "status": "string"})
        )


def busy_share(scores: Sequence[Path]) -> float:
    """Return the share of the time after its first batch that the device was at work."""
    tables = [pq.read_table(path, columns=["began", "ended"]) for path in scores]
    turns = pa.concat_tables(tables).group_by(["began", "ended"]).aggregate([]).sort_by("began")
    began, ended = turns["began"].to_numpy(), turns["ended"].to_numpy()
    return float((ended - began)[1:].sum() / (ended[-1] - ended[0]))

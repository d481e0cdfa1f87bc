"""What a made-up input is, and the sound rows that stand between the broken ones.

A case is a command line on files that its maker wrote into a folder. It is made of its seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_TEXT = (
    "the a man near boston sells snow online council raised parking fees ship is to buyers cat sat "
    "mat dog ran fast hello world was and of it in on for with not river bridge harbour"
)
WORDS = _TEXT.split()
SOUND = (
    ("A man near Boston sells snow online.", "A Boston man ships snow to buyers."),
    ("The council raised parking fees. It was not the river.", "The council raised fees."),
    ("The cat sat on the mat.", "The cat sat on the mat."),
)
"""Candidate and reference of rows whose scores are known."""
SOURCE = "The dog ran fast. A man near Boston sells snow. The council raised parking fees."
METRICS = "sms,wms,s+wms,cosine:source,rouge1_f,density,novelty"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command line, and what is known about what must come of it."""

    arguments: Sequence[str]
    out: Path | None = None
    """Where a run of `assay score` is written to."""
    n_rows: int | None = None
    """Rows of the corpus, where that can be known."""
    sound: Sequence[tuple[str, int]] = ()
    """`document_id` and place in `SOUND` of the rows that must have their usual scores."""
    sound_if_any: Sequence[tuple[str, int]] = ()
    """The same, of rows that may be missing because their file cannot be read."""
    before: Callable[[], None] | None = None
    """Where given, the command is run, then this, then the command again, which is judged."""
    is_out_certain: bool = True
    """Whether a run that succeeds must have written to `out`."""


def write_vectors(path: Path) -> Path:
    """Write word vectors that all cases share."""
    rng = np.random.default_rng(7)
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=8))}\n" for word in WORDS]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def score_arguments(corpora: Sequence[str], out: Path, vectors: Path) -> list[str]:
    """Return the command line that most cases use."""
    return [
        "score",
        "--local",
        "--quiet",
        f"--encoder=glove:{vectors}",
        f"--metrics={METRICS}",
        f"--out={out}",
        "--",
        *corpora,
    ]


def sound_row(number: int, of: int) -> dict[str, str]:
    """Return a row whose scores are known."""
    candidate, reference = SOUND[of]
    return {
        "document_id": f"sound-{number}",
        "system_id": "s",
        "candidate": candidate,
        "reference": reference,
        "source": SOURCE,
    }

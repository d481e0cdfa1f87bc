"""CNN/DailyMail: the hub's Parquet files, and the story files of Hermann et al. (2015)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from pipelines.datasets.files import Member, members, records
from pipelines.datasets.rows import PAIRS, DataSource, LeftOut, Pair, pass_over, whole_pair

NAME = "cnn-dailymail"
TAKES = (
    "*.parquet or *.jsonl with `article`, `highlights` and `id`; *.story files, their folders, or "
    "cnn_stories.tgz and dailymail_stories.tgz"
)

_HIGHLIGHT = re.compile(r"^[ \t]*@highlight.*$", re.MULTILINE)
_ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


def read(paths: Sequence[str]) -> Iterator[Pair | LeftOut]:
    """Read articles with their highlights."""
    for member in members(paths):
        if member.name.endswith(".story"):
            yield _story(member)
        elif member.name.endswith((".parquet", ".jsonl", ".jsonl.gz")):
            for record in records(member):
                texts = record.text("article"), record.text("highlights")
                yield whole_pair(record.identifier("id"), *texts)
        else:
            pass_over(member, NAME, TAKES)


def _story(member: Member) -> Pair | LeftOut:
    """Read a story as the hub did: paragraphs in one line, a line per highlight.

    A line without a full stop (headlines, most highlights) gets one, so that it ends a sentence.
    """
    article, *highlights = _HIGHLIGHT.split(member.text())
    if not highlights:
        raise ValueError(f"{member.path} must be a story with `@highlight` lines, got none")
    return whole_pair(
        PurePosixPath(member.name).stem,
        " ".join(_sentences(article)),
        "\n".join(line for text in highlights for line in _sentences(text)),
    )


def _sentences(text: str) -> Iterator[str]:
    for line in map(str.strip, text.split("\n")):
        if line:
            yield line if line.endswith(_ENDS) else f"{line} ."


SOURCE = DataSource(
    name=NAME,
    title="CNN/DailyMail news and highlights",
    gives=PAIRS,
    takes=TAKES,
    origin="huggingface.co/datasets/abisee/cnn_dailymail (3.0.0); cs.nyu.edu/~kcho/DMQA",
    licence="the articles belong to CNN and the Daily Mail",
    paper="Hermann et al. 2015; Nallapati et al. 2016",
    read=read,
    note="A story's id is its file name, which is the hub's id. Stories are read as the hub reads "
    "them: full stops are added to lines without one, highlights are joined by line breaks.",
)

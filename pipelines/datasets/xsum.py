"""XSum: the hub's files, and the BBC files the data set was made from (Narayan et al. 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from pipelines.datasets.files import Member, members, records
from pipelines.datasets.rows import LeftOut, Pair, whole_pair
from pipelines.datasets.source import PAIRS, DataSource, pass_over

NAME = "xsum"
TAKES = (
    "*.parquet or *.jsonl with `document`, `summary` and `id`; *.summary or *.data files, their "
    "folders, or XSUM-EMNLP18-Summary-Data-Original.tar.gz"
)

# [SN] in the archive the authors give out, [XSUM] in what their script extracts today.
_HEADING = re.compile(r"^\[(SN|XSUM)\]([A-Z-]+)\[\1\]\s*$", re.MULTILINE)
_SUMMARY_NAMES = ("FIRST-SENTENCE", "INTRODUCTION")
# Buttons of the web page, which the hub's version 1.1 leaves out as well.
_BUTTONS = frozenset(
    {
        "Share this with",
        "Email",
        "Facebook",
        "Messenger",
        "Twitter",
        "Pinterest",
        "WhatsApp",
        "Linkedin",
        "LinkedIn",
        "Copy this link",
        "These are external links and will open in a new window",
    }
)


def read(paths: Sequence[str]) -> Iterator[Pair | LeftOut]:
    """Read articles with their one-sentence summaries."""
    for member in members(paths):
        if member.name.endswith((".summary", ".data")):
            yield _bbc_file(member)
        elif member.name.endswith((".parquet", ".jsonl", ".jsonl.gz")):
            for record in records(member):
                texts = record.text("document"), record.text("summary")
                yield whole_pair(record.identifier("id"), *texts)
        else:
            pass_over(member, NAME, TAKES)


def _bbc_file(member: Member) -> Pair | LeftOut:
    """Read a file of sections, each under a line such as `[SN]RESTBODY[SN]`."""
    _, *pieces = _HEADING.split(member.text().replace("\r\n", "\n"))
    sections = dict(zip(pieces[1::3], pieces[2::3], strict=True))
    summary = next((sections[name] for name in _SUMMARY_NAMES if name in sections), None)
    if summary is None or "RESTBODY" not in sections:
        raise ValueError(
            f"{member.path} must have the sections RESTBODY and {' or '.join(_SUMMARY_NAMES)}, got "
            f"{', '.join(sections) or 'none'}"
        )
    return whole_pair(
        PurePosixPath(member.name).stem,
        "\n".join(_lines(sections["RESTBODY"])),
        "\n".join(_lines(summary)),
    )


def _lines(section: str) -> Iterator[str]:
    for line in section.split("\n"):
        if line.strip() and line not in _BUTTONS:
            yield line.strip()


SOURCE = DataSource(
    name=NAME,
    title="XSum BBC articles and one-sentence summaries",
    gives=PAIRS,
    takes=TAKES,
    origin="huggingface.co/datasets/EdinburghNLP/xsum; github.com/EdinburghNLP/XSum",
    licence="the articles belong to the BBC; the code of the repository is MIT",
    paper="Narayan, Cohen and Lapata 2018",
    read=read,
    note="`document_id` is the BBC's id, the file's name. The sections of *.summary are as several "
    "public loaders read them; those of *.data are in the authors' script.",
)

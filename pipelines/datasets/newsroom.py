"""Newsroom: the JSON lines of the data set (Grusky et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.datasets.files import Record
from pipelines.datasets.rows import PAIRS, DataSource, LeftOut, Pair, records_of, whole_pair

NAME = "newsroom"
SUFFIXES = (".jsonl", ".jsonl.gz", ".dataset")
TAKES = "train, dev and test as *.jsonl or *.jsonl.gz (or *.dataset of newsroom-extract)"


def read(paths: Sequence[str]) -> Iterator[Pair | LeftOut]:
    """Read articles with their summaries."""
    return map(_pair, records_of(paths, NAME, TAKES, SUFFIXES))


def _pair(record: Record) -> Pair | LeftOut:
    if "text" not in record.cells or "summary" not in record.cells:
        raise ValueError(
            f"{record.where} must have `text` and `summary`, got {', '.join(record.cells)}; the "
            "thin data set has only addresses: run newsroom-scrape and newsroom-extract first"
        )
    # A page that could not be extracted has null.
    texts = (record.text(name) if record.cells[name] else "" for name in ("text", "summary"))
    return whole_pair(record.identifier("archive" if "archive" in record.cells else "url"), *texts)


SOURCE = DataSource(
    name=NAME,
    title="Newsroom articles and summaries",
    gives=PAIRS,
    takes=TAKES,
    origin="lil.nlp.cornell.edu/newsroom",
    licence="on request, for research; the texts belong to their publishers",
    paper="Grusky, Naaman and Artzi 2018",
    read=read,
    note="`document_id` is the archive's address.",
)

"""BigPatent: patents and their abstracts (Sharma et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.datasets.rows import PAIRS, DataSource, LeftOut, Pair, records_of, whole_pair

NAME = "bigpatent"
TAKES = "train.tar.gz, val.tar.gz, test.tar.gz, their folders, or the *.gz files in them"


def read(paths: Sequence[str]) -> Iterator[Pair | LeftOut]:
    """Read descriptions with their abstracts."""
    for record in records_of(paths, NAME, TAKES, (".gz", ".jsonl")):
        texts = record.text("description"), record.text("abstract")
        yield whole_pair(record.identifier("publication_number"), *texts)


SOURCE = DataSource(
    name=NAME,
    title="BigPatent patents and abstracts",
    gives=PAIRS,
    takes=TAKES,
    origin="evasharma.github.io/bigpatent (bigPatentData.tar)",
    licence="CC BY 4.0",
    paper="Sharma, Li and Wang 2019",
    read=read,
    note="Names of the fields are those the hub's loader reads (publication_number, description, "
    "abstract, a JSON object a line); the owners' page does not describe them. To import one class "
    "of patents, name its folder, for example train/d.",
)

"""`assay example`: a small corpus to try the other commands on."""

from __future__ import annotations

import click

FILES = {
    "quality_ladder.jsonl": "14 documents with references, each summarised by 5 systems",
    "written_quality.csv": "ratings: the quality that each summary was written to have (5 is best)",
}
"""Of the folder `pipelines/examples`, and what they are."""


@click.command()
@click.option(
    "--out", metavar="DIR", default=".", show_default=True, help="Write the corpus to this folder."
)
def example(out: str) -> None:
    """Write a small corpus, with ratings, to try the commands on.

    The texts are invented. The ratings are not human judgements: they say what each summary was
    written to be, from 5 (good) over 4 (copied), 3 (vague) and 2 (corrupted) to 1 (of another
    document). An existing file is never replaced by a different one.
    """
    from importlib.resources import files

    from cluster.output import Output
    from cluster.store import join, read_whole

    output = Output.named("--out", out)
    output.check_folder()
    contents = {name: files("pipelines").joinpath("examples", name).read_bytes() for name in FILES}
    for name, content in contents.items():
        there = join(output.path, name)
        if name in output.names() and read_whole(there) != content:
            raise click.UsageError(f"{there} exists with other content; choose another `--out`")
    for name, content in contents.items():
        output.write(content, name)
        print(f"{join(out, name).removeprefix('./')}: {FILES[name]}")

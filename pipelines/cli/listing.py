"""`assay metrics`, `assay encoders` and `assay example`: what there is, and texts to try it on."""

from __future__ import annotations

from dataclasses import MISSING

import click

EXAMPLES = {
    "quality_ladder.jsonl": "14 documents with references, each summarised by 5 systems",
    "written_quality.csv": "ratings: the quality that each summary was written to have (5 is best)",
}
"""Of the folder `pipelines/examples`, and what they are."""


@click.command()
def metrics() -> None:
    """List the metrics, what each needs and how to read it."""
    from pipelines.reports.terminal import table_text
    from sms.metrics import all_metrics

    rows = [
        (m.spec or m.name, m.higher_is, ", ".join(m.needs) or "–", m.summary)
        for m in all_metrics().values()
    ]
    print(table_text(("metric", "higher means", "needs", "what it is"), rows, n_left=4))
    print("\nWrite METRIC[@ENCODER][:AGAINST], for example sms, wms@glove, cosine:source,")
    print("or cosine@all, the mean over the encoders of the run.")


@click.command()
def encoders() -> None:
    """List the encoders, their options and what they need."""
    from pipelines.reports.terminal import table_text
    from sms.encoders.registry import all_encoders
    from sms.settings import settings_of

    known = all_encoders().values()
    rows = [
        (e.spec, ", ".join(e.vectors), f"extra {e.extra}" if e.extra else "–", e.summary)
        for e in known
    ]
    options = [
        (e.kind, f"{option.name}={'|'.join(option.choices) or 'PATH'}",
         "must be given" if option.default is MISSING else str(option.default), option.help)
        for e in known
        for option in settings_of(e.options)
    ]  # fmt: skip
    print(table_text(("encoder", "vectors of", "needs", "what it is"), rows, n_left=4))
    print()
    print(table_text(("encoder", "option", "default", "what it is"), options, n_left=4))
    print("\nWrite --encoder [ALIAS=]SPEC[,OPTION=VALUE...], for example")
    print("--encoder news=glove:vectors.txt,pooling=max, or in the file of --config:")
    print('encoders = {news = "glove:vectors.txt,pooling=max"}')
    print("An extra is installed with: pip install 'assay[EXTRA]'")


@click.command()
@click.option(
    "--out", metavar="DIR", default=".", show_default=True, help="Write the corpus to this folder."
)
def example(out: str) -> None:
    """Write a small corpus, with ratings, to try the commands on.

    The texts are invented. The ratings are not human judgements: they say how each summary was
    written: 5 (good), 4 (copied), 3 (vague), 2 (corrupted) or 1 (about another
    document). An existing file is never replaced by a different one.
    """
    from importlib.resources import files

    from cluster.output import Output
    from cluster.store import join, read_whole

    output = Output.named("--out", out)
    output.check_folder()
    folder = files("pipelines").joinpath("examples")
    contents = {name: folder.joinpath(name).read_bytes() for name in EXAMPLES}
    for name, content in contents.items():
        there = join(output.path, name)
        if name in output.names() and read_whole(there) != content:
            raise click.UsageError(f"{there} exists with other content; choose another `--out`")
    for name, content in contents.items():
        output.write(content, name)
        print(f"{join(out, name).removeprefix('./')}: {EXAMPLES[name]}")

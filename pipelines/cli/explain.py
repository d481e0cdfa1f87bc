"""`assay explain`."""

from __future__ import annotations

from typing import Any

import click

from pipelines.cli.common import DONE, columns_of, columns_option, show, split


@click.command()
@click.argument("corpora", nargs=-1, metavar="[CORPUS]...")
@click.option("--document", metavar="ID", help="The document. Required.")
@click.option(
    "--system",
    metavar="ID",
    multiple=True,
    help="May be repeated.  [default: all systems of the document]",
)
@click.option(
    "--metric",
    metavar="NAME",
    default="s+wms",
    show_default=True,
    help="METRIC[@ENCODER][:AGAINST] or a score column; see `assay metrics`.",
)
@click.option("--encoder", metavar="SPEC", help="See `assay encoders`.  [default: minilm]")
@columns_option("candidate=summary")
@click.option("--preset", metavar="NAME", help="As in `assay score`.  [default: default]")
@click.option(
    "--multi-reference", metavar="best|mean|first", help="As in `assay score`.  [default: best]"
)
@click.option("--language", metavar="CODE", help="Language of the texts.  [default: en]")
@click.option("--sentences", metavar="split|given", help="As in `assay score`.  [default: split]")
@click.option(
    "--source-tokens", metavar="N", type=int, help="Read only the first N tokens of a source."
)
@click.option(
    "--scores",
    metavar="DIR",
    help="Folder of `assay score`: take its settings and corpus, and check that the scores are "
    "the same.",
)
@click.option("--ratings", metavar="FILE", help="Human ratings to show beside the scores.")
@click.option("--aspects", metavar="LIST", default="", help="Aspects to show.  [default: all]")
@click.option("--raters", metavar="LIST", default="", help="Raters to average.  [default: all]")
@click.option("--out", metavar="FILE", help="The page, one HTML file.")
@click.option("--svg", metavar="FILE", help="A picture of the best of the systems, for papers.")
def explain(
    corpora: tuple[str, ...],
    document: str | None,
    system: tuple[str, ...],
    metric: str,
    encoder: str | None,
    columns: tuple[str, ...],
    aspects: str,
    raters: str,
    out: str | None,
    svg: str | None,
    **options: Any,  # noqa: ANN401  (handed on as they are)
) -> int:
    """Show what a score is made of: which words and sentences move where, and at what cost.

    CORPUS is what `assay score` reads. Mover's similarities are explained by their transport plan,
    other metrics by what the score loses when a sentence is left out.
    """
    if document is None:
        raise click.UsageError("`--document` is missing; name one document_id of the corpus")
    if out is None and svg is None:
        raise click.UsageError("`--out` is missing; name an HTML file (or `--svg` a picture)")
    from cluster.output import Output
    from pipelines.explain import encoders_for, open_explainer
    from pipelines.reports.explain_page import picture_of, render_explanations

    outputs = {
        option: Output.named(option, path)
        for option, path in (("--out", out), ("--svg", svg))
        if path is not None
    }
    for output in outputs.values():
        output.check_file()
    if len({output.path for output in outputs.values()}) < len(outputs):
        raise click.UsageError(f"`--svg` must not be the file of `--out`, got {svg}")
    explainer = open_explainer(
        corpora,
        metric=metric,
        columns=columns_of(columns) or None,
        aspects=split(aspects),
        raters=split(raters),
        **{
            name: value
            for name, value in {**options, "encoders": encoders_for(metric, encoder)}.items()
            if value is not None
        },
    )
    for output in outputs.values():
        output.check_apart(
            [*(f.path for f in explainer.files), *filter(None, [options["ratings"]])]
        )
    systems = explainer.explain({document: system})[document]
    make = {"--out": render_explanations, "--svg": picture_of}
    for option, output in outputs.items():
        output.write(make[option](document, systems).encode("utf-8", "surrogateescape"))
    for each in systems:
        found = each.explanation
        shown = f"no score: {found.status}" if found.score is None else str(found.score)
        show(f"{each.system_id}\t{found.metric}\t{shown}")
    return DONE

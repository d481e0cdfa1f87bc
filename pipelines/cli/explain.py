"""`assay explain`."""

from __future__ import annotations

import click

from pipelines import verbs
from pipelines.cli.common import DONE, show
from pipelines.cli.options import command
from pipelines.settings.explain import ExplainSettings


@command(ExplainSettings, "[CORPUS...]")
def explain(corpora: tuple[str, ...], settings: ExplainSettings) -> int:
    """Show what a score is made of.

    You see which words and sentences move where, and at what cost. CORPUS is what `assay score`
    reads. A mover's similarity is explained by its transport plan, any other metric by how much
    the score loses when a sentence is left out.
    """
    if settings.out is None:
        raise click.UsageError("`--out FILE` is missing: name a page (.html) or a picture (.svg)")
    for each in verbs.explain(corpora, settings):
        explanation = each.explanation
        shown = (
            f"no score: {explanation.status}"
            if explanation.score is None
            else str(explanation.score)
        )
        show(f"{each.system_id}\t{explanation.metric}\t{shown}")
    show(f"{'Picture' if str(settings.out).endswith('.svg') else 'Page'}: {settings.out}")
    return DONE

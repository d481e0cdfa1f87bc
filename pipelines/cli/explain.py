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

    CORPUS is as for `assay score`. For a mover (sms, wms, s+wms), you see which words and sentences
    of the reference those of the summary are matched with, and at what cost. For other metrics, you
    see how the score changes without each sentence, and for trained scorers, likelihoods and judges
    more details.
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

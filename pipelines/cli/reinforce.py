"""`assay reinforce`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pipelines import verbs
from pipelines.cli.common import DONE, INTERRUPTED, fail, show
from pipelines.cli.options import command, shown_progress
from pipelines.settings.reinforce import ReinforceSettings

if TYPE_CHECKING:
    from pipelines.reinforcement import ReinforcedSummarisers
    from reffree.checkpoint import TrainNews

_SHOWN = {
    "train_loss": "loss",
    "mle_loss": "likelihood loss",
    "reward_drawn": "reward of drawn",
    "reward_greedy": "reward of greedy",
    "validation_loss": "validation loss",
    "validation_reward": "validation reward",
}
"""Figures that are shown while it trains, and what they are called."""


@command(ReinforceSettings, "PAIRS...")
def reinforce(pairs: tuple[str, ...], settings: ReinforceSettings) -> int:
    """Train a summariser with a metric as reward.

    The result is compared with a summariser trained without a reward. One row of PAIRS is one
    document: `document_id`, `source`, `reference` or `references`, and optionally `split`. The
    summariser is trained by maximum likelihood first, then by likelihood and reward (Clark et al.
    2019, section 5). To continue an interrupted run, give the same command again.
    """
    try:
        with shown_progress(settings, on_news=_show_news) as settings:
            summarisers = verbs.reinforce(pairs, settings)
    except KeyboardInterrupt:
        return fail(
            "interrupted; run the same command (without `--fresh`) to continue",
            INTERRUPTED,
        )
    show("\n".join(_summary(summarisers)))
    return DONE


def _show_news(news: TrainNews) -> None:
    line = news.line()
    if "validation_reward" in line:  # the loss is minus that
        del line["validation_loss"]
    figures = [f"{name} {line[key]:.4g}" for key, name in _SHOWN.items() if key in line]
    print(f"epoch {news.epoch + 1}, step {news.step}: {', '.join(figures)}", file=sys.stderr)


def _summary(summarisers: ReinforcedSummarisers) -> list[str]:
    from pipelines.reinforcement import SCORES_FOLDER, SUMMARIES_FILE
    from pipelines.reports.comparison import comparison_sheet

    sides = ", ".join(f"{side} {n:,}" for side, n in summarisers.pairs.n_pairs.items())
    left_out = [
        f"Left out: {n:,} rows or texts, {why}." for why, n in summarisers.pairs.left_out.items()
    ]
    compared = comparison_sheet(summarisers.comparison).text(is_terminal=sys.stdout.isatty())
    return [
        f"Pairs: {sides}. Test documents: {summarisers.n_test_documents:,}.",
        *left_out,
        "",
        compared,
        "",
        f"Summaries, as a corpus for `assay score` and `assay explain`: "
        f"{summarisers.out}/{SUMMARIES_FILE}",
        f"Their scores, for `assay compare`: {summarisers.out}/{SCORES_FOLDER}",
    ]

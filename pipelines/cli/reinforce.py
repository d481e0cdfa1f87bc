"""`assay reinforce`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.common import (
    DONE,
    INTERRUPTED,
    columns_of,
    columns_option,
    config_option,
    fail,
    quiet_option,
    show,
    split,
)
from pipelines.cli.pair_options import (
    check_named,
    leaks_option,
    limit_option,
    machines_of,
    machines_options,
    pairs_argument,
    refuses,
    resume_option,
    split_anew_option,
)

if TYPE_CHECKING:
    from pipelines.reinforcement import ReinforcedSummarisers, ReinforceRecipe
    from reffree.checkpoint import TrainNews

_SHOWN = {
    "train_loss": "loss",
    "mle_loss": "likelihood loss",
    "reward_drawn": "drawn",
    "reward_greedy": "greedy",
    "validation_loss": "validation loss",
    "validation_reward": "validation reward",
}
"""Figures that are shown while it trains, and what they are called."""


def _number(flag: str, default: Any, summary: str, *, metavar: str = "N") -> Any:  # noqa: ANN401
    """Make an option that is a number."""
    return click.option(
        flag, metavar=metavar, type=type(default), default=default, show_default=True, help=summary
    )


@click.command()
@pairs_argument
@config_option()
@click.option("--out", metavar="DIR", help="New folder for summarisers and results. Required.")
@click.option(
    "--reward",
    metavar="METRIC",
    default="sms",
    show_default=True,
    help="A mover, cosine or ROUGE column; several with commas give a summariser each.",
)
@click.option(
    "--encoder",
    metavar="SPEC",
    default="minilm",
    show_default=True,
    help="Of the rewards and of the final table; see `assay encoders`.",
)
@click.option(
    "--model",
    metavar="pointer|hf:PATH",
    default="pointer",
    show_default=True,
    help="The paper's network, or an encoder-decoder model of transformers.",
)
@click.option(
    "--start",
    metavar="DIR",
    help="Begin with this summariser, its sizes and cuts, instead of maximum likelihood.",
)
@click.option("--vectors", metavar="SPEC", help="Word vectors: glove:PATH, word2vec:, fasttext:.")
@_number("--vocabulary-size", 30_000, "Most frequent words of the training side.")
@_number("--dimensions", 128, "Of random word vectors; a file has its own.")
@_number("--hidden", 128, "Units of an LSTM.")
@_number("--layers", 2, "Of encoder and decoder.")
@_number("--dropout", 0.0, "Of word vectors and between layers.", metavar="P")
@_number("--source-words", 400, "First words of a document that are read; 800 in some papers.")
@_number("--summary-words", 100, "Words of a summary, at most.")
@_number("--batch-size", 32, "Documents of a step, of all workers.")
@_number("--epochs", 25, "Of maximum likelihood, at most.")
@_number("--learning-rate", 1e-3, "Of maximum likelihood.", metavar="RATE")
@click.option("--decay", is_flag=True, help="Let it fall to 0 by the last of --epochs.")
@_number("--mixed-epochs", 25, "Of the mixed loss, at most.")
@_number("--mixed-learning-rate", 1e-5, "Of the mixed loss.", metavar="RATE")
@_number("--gamma", 0.97, "Weight of the reward in the first step.", metavar="G")
@_number("--gamma-last", 0.997, "And in the last; a straight line between them.", metavar="G")
@click.option(
    "--advantage",
    metavar="raw|unit",
    default="raw",
    show_default=True,
    help="Take advantages as they are, or divide them by their root mean square in the batch.",
)
@_number("--drawn", 1, "Summaries drawn of a document; several are compared with each other.")
@click.option(
    "--control/--no-control",
    default=True,
    show_default=True,
    help="Train as long without a reward, too, and compare with that.",
)
@_number("--patience", 3, "Validations without a better figure after which a stage ends.")
@_number("--validation-documents", 1_000, "Documents judged after an epoch, at most.")
@click.option("--test-documents", metavar="N", type=int, help="Summarised in the end, at most.")
@_number("--beam", 5, "Width of the final search.")
@click.option("--block-trigrams", is_flag=True, help="No three words twice in a final summary.")
@_number("--checkpoint-steps", 200, "Steps between checkpoints.")
@_number("--log-steps", 20, "Steps over which figures are averaged.")
@_number("--seed", 0, "Of weights, order, drawn summaries and the split.")
@machines_options
@click.option("--threads", metavar="N", type=int, help="Of one process.  [default: all]")
@resume_option
@split_anew_option
@leaks_option
@columns_option("source=article")
@limit_option()
@quiet_option
def reinforce(
    pairs: tuple[str, ...],
    out: str | None,
    columns: tuple[str, ...],
    leaks: str,
    quiet: bool,
    start: str | None,
    workers: int,
    gpus_per_worker: float,
    address: str | None,
    insecure_cluster: bool,
    device: str,
    threads: int | None,
    resume: bool,
    split_anew: bool,
    test_documents: int | None,
    limit: int | None,
    **options: Any,  # noqa: ANN401  (read by `_recipe`)
) -> int:
    """Train a summariser with a metric as reward, and compare it with one that has none.

    One row of PAIRS is one document: `document_id`, `source`, `reference` or `references`, and
    perhaps `split`. First by maximum likelihood, then by likelihood and reward (Clark et al. 2019,
    section 5). A run that was interrupted goes on with `--resume`.
    """
    out = check_named(pairs, out, "a folder for the summarisers")
    if test_documents is not None and test_documents < 1:
        raise click.UsageError(f"`--test-documents` must be at least 1, got {test_documents}")
    refuses_leaks = refuses(leaks)
    recipe = _recipe(**options)

    from pipelines.reinforcement import reinforce_summariser
    from pipelines.runs.progress import show_progress

    shown = show_progress(sys.stderr, is_terminal=sys.stderr.isatty())
    try:
        with nullcontext() if quiet else shown as on_progress:
            found = reinforce_summariser(
                pairs,
                out,
                recipe,
                start=start,
                columns=columns_of(columns),
                limit=limit,
                split_anew=split_anew,
                refuse_leaks=refuses_leaks,
                test_documents=test_documents,
                machines=machines_of(
                    workers=workers,
                    gpus_per_worker=gpus_per_worker,
                    address=address,
                    insecure_cluster=insecure_cluster,
                    device=device,
                ),
                threads=threads,
                resume=resume,
                on_progress=on_progress,
                on_news=None if quiet else _show_news,
            )
    except KeyboardInterrupt:
        return fail(f"interrupted; go on with `--resume` and `--out {out}`", INTERRUPTED)
    show("\n".join(_summary(found)))
    return DONE


def _recipe(
    *,
    reward: str,
    encoder: str,
    model: str,
    vectors: str | None,
    vocabulary_size: int,
    dimensions: int,
    hidden: int,
    layers: int,
    dropout: float,
    source_words: int,
    summary_words: int,
    epochs: int,
    learning_rate: float,
    decay: bool,
    mixed_epochs: int,
    mixed_learning_rate: float,
    gamma: float,
    gamma_last: float,
    advantage: str,
    drawn: int,
    control: bool,
    beam: int,
    block_trigrams: bool,
    **both: Any,  # noqa: ANN401  (fields of `StageConfig` that both stages share)
) -> ReinforceRecipe:
    from pipelines.reinforcement import ReinforceRecipe
    from reinforce.decoding import BeamConfig
    from reinforce.learning import SummariserConfig
    from reinforce.stages import RewardConfig, StageConfig
    from reinforce.summarisers import Limits

    return ReinforceRecipe(
        summariser=SummariserConfig(
            model=model,
            vocabulary_size=vocabulary_size,
            vectors=vectors,
            n_dimensions=dimensions,
            n_hidden=hidden,
            n_layers=layers,
            dropout=dropout,
            limits=Limits(source_words=source_words, summary_words=summary_words),
        ),
        likelihood=StageConfig(
            learning_rate=learning_rate, is_decaying=decay, epochs=epochs, **both
        ),
        mixed=StageConfig(learning_rate=mixed_learning_rate, epochs=mixed_epochs, **both),
        rewards=tuple(
            RewardConfig(
                metric=metric,
                encoder=encoder,
                gamma_first=gamma,
                gamma_last=gamma_last,
                advantage=advantage,
                n_drawn=drawn,
            )
            for metric in split(reward)
        ),
        beam=BeamConfig(width=beam, blocks_trigrams=block_trigrams),
        has_control=control,
        seed=both["seed"],
    )


def _show_news(news: TrainNews) -> None:
    line = news.line()
    if "validation_reward" in line:  # the loss is minus that
        del line["validation_loss"]
    figures = [f"{name} {line[key]:.4g}" for key, name in _SHOWN.items() if key in line]
    print(f"epoch {news.epoch + 1}, step {news.step}: {', '.join(figures)}", file=sys.stderr)


def _summary(found: ReinforcedSummarisers) -> list[str]:
    from pipelines.reinforcement import SCORES_FOLDER, SUMMARIES_FILE
    from pipelines.reports.comparison import comparison_sheet

    sides = ", ".join(f"{side} {n:,}" for side, n in found.pairs.n_pairs.items())
    left_out = [f"Left out: {n:,} rows or texts, {why}." for why, n in found.pairs.left_out.items()]
    compared = comparison_sheet(found.comparison).text(is_terminal=sys.stdout.isatty())
    return [
        f"Pairs: {sides}. Test documents: {found.n_test_documents:,}.",
        *left_out,
        "",
        compared,
        "",
        f"Summaries, as a corpus for `assay score` and `assay explain`: "
        f"{found.out}/{SUMMARIES_FILE}",
        f"Their scores, for `assay compare`: {found.out}/{SCORES_FOLDER}",
    ]

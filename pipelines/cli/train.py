"""`assay train`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
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
    embedding_cache_option,
    leaks_option,
    limit_option,
    machines_of,
    machines_options,
    neighbour_encoder_option,
    pairs_argument,
    refuses,
    resume_option,
    split_anew_option,
    weights_of,
)

if TYPE_CHECKING:
    from pipelines.learning_curve import CurvePoint
    from pipelines.train import TrainedScorer
    from reffree.checkpoint import TrainNews
    from reffree.evaluation import KindFigures
    from reffree.negatives import NegativesConfig
    from reffree.training import Recipe

_SHOWN_LOSS = 4  # digits
_LEARNING_RATES = {"features": 3e-3, "bert": 5e-5}


@click.command()
@pairs_argument
@config_option()
@click.option("--out", metavar="DIR", help="New folder for the scorer. Required.")
@click.option(
    "--scorer",
    metavar="bert|sentence|word|features",
    help="A transformer over document and summary, a head over vectors of sentences or words, or "
    "nothing but the metrics of `--features`.  [default: features, bert with a preset]",
)
@click.option(
    "--encoder",
    metavar="SPEC",
    default="minilm",
    show_default=True,
    help="What it begins with; see `assay encoders`. `bert` takes minilm and hf:PATH.",
)
@click.option(
    "--head",
    metavar="fc|cnn|lstm|match",
    default="fc",
    show_default=True,
    help="Over the vectors of `sentence` and `word`; `match`, which compares, is not in the paper.",
)
@click.option(
    "--dropout",
    metavar="P",
    type=float,
    help="Share of the inputs and hidden units that a step leaves out; `fc` over vectors only."
    "  [default: 0.3, 0 with a preset]",
)
@click.option(
    "--features",
    metavar="LIST",
    help="Untrained metrics that are read as well, for example coverage,sms:source; `standard` for "
    "a choice of them.  [default: none, standard for the scorer features]",
)
@click.option(
    "--negatives",
    metavar="LIST",
    help="Kinds separated by commas, each for every pair; with weights (add=2,cross-pair=1) they "
    "are drawn.  [default: cross-pair,sentence-delete,replace]",
)
@click.option(
    "--per-positive",
    metavar="N",
    type=int,
    help="Negatives of a pair: of each kind, or in all where they are drawn.  [default: 1]",
)
@click.option("--preset", metavar="NAME", help="`bao2020` is the recipe of Bao et al.")
@click.option(
    "--length-matched", is_flag=True, help="Negatives as long as their positive, within a tenth."
)
@click.option(
    "--loss",
    metavar="bce|mse|ranking",
    help="What is minimised.  [default: ranking; with `--negatives` or a preset mse if all are "
    "edits, else bce]",
)
@click.option(
    "--calibration/--no-calibration",
    default=None,
    help="Scale and shift the scores to fit the validation documents, once trained.  [default: "
    "calibrated; not with the loss ranking or a preset]",
)
@click.option(
    "--epochs", metavar="N", type=int, help="At most.  [default: 1 for features, 10 for the others]"
)
@click.option(
    "--batch-size", metavar="N", type=int, default=32, show_default=True, help="Of all workers."
)
@click.option(
    "--learning-rate",
    metavar="RATE",
    type=float,
    help="Peak value.  [default: 3e-3 for features, 5e-5 for bert, 1e-3 for the others]",
)
@click.option(
    "--max-pieces",
    metavar="N",
    type=int,
    help="Word pieces of document and summary together; `bert` only.  [default: 512]",
)
@click.option(
    "--frozen-layers",
    metavar="N",
    type=int,
    default=0,
    show_default=True,
    help="First layers that are not trained; `bert` only.",
)
@click.option("--patience", metavar="N", type=int, default=3, show_default=True)
@click.option(
    "--ema-decay",
    metavar="D",
    type=float,
    default=0.0,
    show_default=True,
    help="Validate and keep a running mean of the weights, in which the past counts D; 0.995 is a "
    "mean over some 200 steps.",
)
@click.option(
    "--checkpoint-steps", metavar="N", type=int, default=200, show_default=True,
    help="Steps between checkpoints.",
)  # fmt: skip
@click.option(
    "--precision",
    metavar="auto|fp32|bf16",
    default="auto",
    show_default=True,
    help="Of the model's products; auto is bf16 on a GPU, fp32 elsewhere.",
)
@click.option("--seed", metavar="N", type=int, default=0, show_default=True)
@machines_options
@resume_option
@split_anew_option
@leaks_option
@neighbour_encoder_option
@embedding_cache_option
@click.option(
    "--learning-curve",
    "curve",
    metavar="LIST",
    help="Train on so many documents each, for example 100,300,1000, and write how good each is.",
)
@columns_option("source=article")
@limit_option()
@quiet_option
def train(
    pairs: tuple[str, ...],
    out: str | None,
    columns: tuple[str, ...],
    leaks: str,
    quiet: bool,
    workers: int,
    gpus_per_worker: float,
    address: str | None,
    insecure_cluster: bool,
    device: str,
    resume: bool,
    split_anew: bool,
    neighbour_encoder: str,
    embedding_cache: str | None,
    curve: str | None,
    limit: int | None,
    **options: Any,  # noqa: ANN401  (read by `_recipe`)
) -> int:
    """Train a scorer that needs no reference on the right and made-up wrong summaries in PAIRS.

    One row of PAIRS is one document: `document_id`, `source`, `reference` or `references`, and
    perhaps `split`. A run that was interrupted goes on with `--resume`.
    """
    out = check_named(pairs, out, "a folder for the scorer")
    refuses_leaks = refuses(leaks)
    recipe = _recipe(**options)
    sizes = _sizes(curve) if curve is not None else None

    from pipelines.learning_curve import learning_curve
    from pipelines.runs.progress import show_progress
    from pipelines.train import train_scorer

    machines = machines_of(
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        address=address,
        insecure_cluster=insecure_cluster,
        device=device,
    )
    shown = show_progress(sys.stderr, is_terminal=sys.stderr.isatty())
    try:
        with nullcontext() if quiet else shown as on_progress:
            settings: dict[str, Any] = {
                "columns": columns_of(columns),
                "limit": limit,
                "split_anew": split_anew,
                "refuse_leaks": refuses_leaks,
                "neighbour_encoder": neighbour_encoder,
                "embedding_cache": embedding_cache,
                "machines": machines,
                "resume": resume,
                "on_progress": on_progress,
                "on_news": None if quiet else _show_news,
            }
            if sizes is None:
                lines = _summary(train_scorer(pairs, out, recipe, **settings))
            else:
                lines = _curve(learning_curve(pairs, out, recipe, sizes, **settings), out)
    except KeyboardInterrupt:
        return fail(f"interrupted; go on with `--resume` and `--out {out}`", INTERRUPTED)
    show("\n".join(lines))
    return DONE


def _sizes(listed: str) -> list[int]:
    try:
        return [int(item) for item in split(listed)]
    except ValueError as error:
        raise click.UsageError(
            f"`--learning-curve` must be numbers of documents, got `{listed}`; for example "
            "100,300,1000"
        ) from error


def _curve(points: Sequence[CurvePoint], out: str) -> list[str]:
    """Show what every kind of negative is judged by, for every number of training documents."""
    from pipelines.learning_curve import CURVE_FILE, curve_figure
    from pipelines.reports.terminal import table_text

    kinds = list(dict.fromkeys(kind for point in points for kind in point.kinds))
    judged_by = {kind: curve_figure(kind, points) for kind in kinds}
    header = ("documents", "steps", *(f"{kind}, {name}" for kind, name in judged_by.items()))
    rows = []
    for point in points:
        found = [
            getattr(point.kinds[kind], judged_by[kind]) if kind in point.kinds else None
            for kind in kinds
        ]
        rows.append((f"{point.n_documents:,}", f"{point.steps:,}", *map(shown, found)))
    place = f"{out.rstrip('/')}/{CURVE_FILE}"
    return [
        table_text(header, rows, n_left=0),
        "",
        f"All figures: {place}.json; the curve: {place}.svg and .png",
    ]


def _recipe(
    *,
    scorer: str | None,
    encoder: str,
    head: str,
    dropout: float | None,
    max_pieces: int | None,
    frozen_layers: int,
    features: str | None,
    negatives: str | None,
    per_positive: int | None,
    preset: str | None,
    length_matched: bool,
    loss: str | None,
    calibration: bool | None,
    learning_rate: float | None,
    epochs: int | None,
    seed: int,
    **training: Any,  # noqa: ANN401  (fields of `TrainConfig`)
) -> Recipe:
    from reffree.losses import compares_candidates, default_loss
    from reffree.models import MODEL_PRESETS, ModelConfig
    from reffree.training import Recipe, TrainConfig

    chosen = _negatives(
        negatives, per_positive, preset, is_length_matched=length_matched, seed=seed
    )
    scorer = scorer or ("bert" if preset else "features")
    _check_options_of_bert(scorer, max_pieces=max_pieces, frozen_layers=frozen_layers)
    published: dict[str, Any] = dict(MODEL_PRESETS[preset]) if preset else {}
    if dropout is not None:
        published["dropout"] = dropout
    if features is None and scorer == "features":
        features = "standard"
    if learning_rate is None:
        learning_rate = _LEARNING_RATES.get(scorer, 1e-3)
    if epochs is None:
        epochs = 1 if scorer == "features" else 10
    if loss is None:
        is_named = negatives is not None or preset is not None
        loss = default_loss(chosen.kinds) if is_named else "ranking"
    config = TrainConfig(
        loss=loss,
        learning_rate=learning_rate,
        epochs=epochs,
        seed=seed,
        **training,
    )
    has_threshold = not compares_candidates(config.loss)
    if calibration and not has_threshold:
        raise click.UsageError(
            f"`--calibration` must be left out with the loss {config.loss}, whose scores only have "
            "an order"
        )
    model = ModelConfig(
        scorer=scorer,
        encoder=encoder,
        head=head,
        max_pieces=512 if max_pieces is None else max_pieces,
        frozen_layers=frozen_layers,
        features=_features(features),
        is_calibrated=has_threshold and preset is None if calibration is None else calibration,
        **published,
    )
    return Recipe(model=model, negatives=chosen, training=config)


def _check_options_of_bert(scorer: str, **given: int | None) -> None:
    for name, value in given.items():
        if value and scorer != "bert":
            option = name.replace("_", "-")
            raise click.UsageError(
                f"`--{option}` is for the scorer bert, got the scorer {scorer}; add "
                f"`--scorer bert` or leave `--{option}` out"
            )


def _features(listed: str | None) -> tuple[str, ...]:
    from reffree.features import STANDARD

    names = split(listed) if listed else []
    return tuple(chain.from_iterable(STANDARD if n == "standard" else (n,) for n in names))


def _negatives(
    kinds: str | None,
    per_positive: int | None,
    preset: str | None,
    *,
    is_length_matched: bool,
    seed: int,
) -> NegativesConfig:
    from reffree.negatives import PRESETS, NegativesConfig

    if preset is not None and preset not in PRESETS:
        raise click.UsageError(f"`--preset` must be {' or '.join(PRESETS)}, got `{preset}`")
    chosen: dict[str, Any] = dict(PRESETS[preset]) if preset else {}
    if kinds is not None and "=" in kinds:
        weights = weights_of(kinds, "negatives")
        chosen |= {"kinds": tuple(weights), "proportions": tuple(weights.values())}
    elif kinds is not None:
        chosen["kinds"] = tuple(split(kinds))
    if per_positive is not None:
        chosen["per_positive"] = per_positive
    if is_length_matched:
        chosen["length_tolerance"] = 0.1
    return NegativesConfig(seed=seed, **chosen)


def _show_news(news: TrainNews) -> None:
    figures = [
        f"{name} loss {value:.{_SHOWN_LOSS}f}"
        for name, value in (
            ("training", news.train_loss),
            ("validation", news.validation_loss),
        )
        if value is not None
    ]
    print(f"epoch {news.epoch + 1}, step {news.step}: {', '.join(figures)}", file=sys.stderr)


def _summary(trained: TrainedScorer) -> list[str]:
    pairs, state = trained.pairs, trained.state
    sides = ", ".join(f"{side} {n:,}" for side, n in pairs.n_pairs.items())
    lines = [
        f"Pairs: {sides}.",
        f"{state.step:,} steps in {state.epoch} epochs; the best validation loss, "
        f"{state.best_loss:.{_SHOWN_LOSS}f}, came after step {state.best_step:,}.",
        "",
        figures_table(trained.held_out),
        "",
    ]
    left_out = [f"{n:,} rows or texts, {reason}" for reason, n in pairs.left_out.items()]
    left_out += [f"{n:,} {kind}, {reason}" for (kind, reason), n in trained.left_out.items()]
    lines += [f"Left out: {text}." for text in left_out]
    return [*lines, trained.signature, f"The scorer is in {trained.out}"]


def figures_table(figures: Mapping[str, KindFigures]) -> str:
    """Lay out the figures of every kind of negative."""
    from pipelines.reports.terminal import table_text

    header = (
        "negatives", "rows", "accuracy", "AUC", "preferred", "MSE", "Pearson", "calibration", "cut",
    )  # fmt: skip
    rows = [
        (
            kind,
            f"{found.n:,}",
            shown(found.accuracy),
            shown(found.auc),
            shown(found.preferred),
            shown(found.mse),
            shown(found.pearson),
            shown(found.calibration_error),
            f"{found.n_cut:,}",
        )
        for kind, found in figures.items()
    ]
    return table_text(header, rows, n_left=1)


def shown(value: float | None) -> str:
    """Write a figure, or a dash where there is none."""
    return "–" if value is None else f"{value:.3f}"

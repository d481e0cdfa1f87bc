"""Options of the commands that read pairs: `negatives`, `train`, `reinforce` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.common import device_option, insecure_cluster_option, split

if TYPE_CHECKING:
    from pipelines.training_folder import Machines

LEAKS = ("drop", "refuse")

pairs_argument = click.argument("pairs", nargs=-1, metavar="PAIRS...")
split_anew_option = click.option(
    "--split-anew", is_flag=True, help="Split by document, whatever the files say."
)
leaks_option = click.option(
    "--leaks",
    metavar="|".join(LEAKS),
    default=LEAKS[0],
    show_default=True,
    help="What to do where the files' own split has a text on two sides.",
)
neighbour_encoder_option = click.option(
    "--neighbour-encoder",
    metavar="SPEC",
    default="minilm",
    show_default=True,
    help="Finds the nearest documents for cross-pair-hard; see `assay encoders`.",
)
embedding_cache_option = click.option(
    "--embedding-cache",
    metavar="DIR",
    help="Folder that keeps the vectors of `sentence` and `word` for later runs.",
)


def limit_option(of: str = "all files together") -> Callable[[Callable[..., Any]], Any]:
    """Make `--limit`."""
    return click.option(
        "--limit", metavar="N", type=int, help=f"Read only the first N rows, of {of}."
    )


def machines_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where something is trained; `machines_of` reads them."""
    options = (
        click.option(
            "--workers",
            metavar="N",
            type=int,
            default=1,
            show_default=True,
            help="Processes that share every batch.",
        ),
        click.option(
            "--gpus-per-worker",
            metavar="G",
            type=float,
            default=0.0,
            show_default=True,
            help="GPUs of a worker.",
        ),
        click.option("--address", metavar="auto|HOST", help="Ray cluster to join."),
        insecure_cluster_option,
        device_option("Where one worker without Ray trains."),
    )
    for option in reversed(options):
        command = option(command)
    return command


resume_option = click.option(
    "--resume", is_flag=True, help="Go on with the run that was interrupted in DIR."
)


def machines_of(
    *,
    workers: int,
    gpus_per_worker: float,
    address: str | None,
    insecure_cluster: bool,
    device: str,
) -> Machines:
    """Read the options of `machines_options`."""
    from pipelines.training_folder import Machines

    return Machines(
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        address=address,
        is_open_allowed=insecure_cluster,
        device=device,
    )


def check_named(pairs: Sequence[str], out: str | None, what: str) -> str:
    """Refuse a command without files, or without a place for what comes of them."""
    if not pairs:
        raise click.UsageError("name at least one file, folder, glob or URL with pairs")
    if not out:
        raise click.UsageError(f"`--out` is missing; name {what}")
    return out


def refuses(leaks: str) -> bool:
    """Read `--leaks`."""
    if leaks not in LEAKS:
        raise click.UsageError(f"`--leaks` must be {' or '.join(LEAKS)}, got `{leaks}`")
    return leaks == "refuse"


def weights_of(text: str, option: str) -> dict[str, float]:
    """Read `KIND=WEIGHT`, several separated by commas."""
    found: dict[str, float] = {}
    for item in split(text):
        kind, _, weight = (part.strip() for part in item.partition("="))
        if kind in found:
            raise click.UsageError(f"`--{option}` must name `{kind}` once")
        try:
            found[kind] = float(weight)
        except ValueError as error:
            raise click.UsageError(
                f"`--{option}` must give every kind a weight, got `{item}`; for example "
                "add=2,cross-pair=1"
            ) from error
    return found

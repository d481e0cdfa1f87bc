"""Options of the commands that read pairs: `negatives`, `train` and `evaluate`."""

from __future__ import annotations

import click

LEAKS = ("drop", "refuse")

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


def refuses(leaks: str) -> bool:
    """Read `--leaks`."""
    if leaks not in LEAKS:
        raise click.UsageError(f"`--leaks` must be {' or '.join(LEAKS)}, got `{leaks}`")
    return leaks == "refuse"

"""How good a scorer becomes with how many documents: the same recipe trained on nested samples.

A sample is the documents for training with the smallest hashes, so each holds the smaller ones.
Validation and test documents, their negatives and the vocabulary are the same for all. Every
sample's scorer stays, in a folder of its own; a curve that was stopped goes on with `resume`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cluster import list_inputs, with_content
from cluster.output import Output
from pipelines.train import train_fingerprint
from pipelines.train_features import train_any
from reffree.evaluation import KindFigures, main_figure
from reffree.fitting import LinearRecipe
from reffree.naming import SCORER_FILE
from reffree.scorer_folder import read_settings
from reffree.training import Recipe
from sms.naming import AnyPath, OneOrMore, several

CURVE_FILE = "learning_curve.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """What so many training documents give."""

    n_documents: int
    n_pairs: int  # training pairs; more than documents where these have several references
    steps: int  # none are taken for a scorer of features: 0
    kinds: Mapping[str, KindFigures]  # on the test documents, by kind of negative


def learning_curve(
    paths: OneOrMore,
    out: AnyPath,
    recipe: Recipe | LinearRecipe,
    sizes: Sequence[int],
    *,
    resume: bool = False,
    **options: Any,  # noqa: ANN401  (of `train_scorer`)
) -> list[CurvePoint]:
    """Train a scorer on samples of several sizes and write how good each is.

    `out` is a new folder: it gets a scorer's folder for every size, and `learning_curve.json`.
    Epochs are counted, not steps, so a smaller sample takes fewer steps.
    """
    if len(set(sizes)) < max(2, len(sizes)) or min(sizes, default=0) < 1:
        raise ValueError(
            "`learning_curve` must be two or more different numbers of documents, got "
            f"{', '.join(map(str, sizes)) or 'none'}"
        )
    output = Output.named("--out", out)
    folder = output.local
    output.check_folder()
    if not resume and output.names():
        raise ValueError(
            f"`--out` must be a new or empty folder, got {os.fspath(out)}; a curve that was "
            "stopped goes on without `--fresh`"
        )
    was_there = folder.exists()
    points = []
    try:
        for size in sorted(sizes, reverse=True):  # the largest first: it may be too large
            asked = {**options, "training_documents": size}
            points.append(
                _point(several(paths), folder / f"{size}-documents", recipe, resume, asked)
            )
    except (ValueError, OSError):
        if not was_there:
            with suppress(OSError):  # not empty: there is something to go on with
                folder.rmdir()
        raise
    points.reverse()
    text = json.dumps([asdict(point) for point in points], indent=1)
    output.write(f"{text}\n".encode(), CURVE_FILE)
    return points


def curve_figure(kind: str, points: Sequence[CurvePoint]) -> str:
    """Name the figure that a kind of negative is judged by, as in `evaluation.main_figure`."""
    return main_figure(kind, (point.kinds[kind] for point in points if kind in point.kinds))


def _point(
    paths: Sequence[str],
    folder: Path,
    recipe: Recipe | LinearRecipe,
    is_resumed: bool,
    asked: Mapping[str, Any],
) -> CurvePoint:
    """Train a scorer, unless it is there, and read how good it is."""
    is_trained = is_resumed and (folder / SCORER_FILE).exists()
    if not is_trained:
        train_any(paths, folder, recipe, resume=is_resumed, **asked)
    settings = read_settings(folder)
    trained_on = settings["trained_on"]
    if is_trained:
        inputs = with_content(list_inputs(paths))
        if trained_on["fingerprint"] != train_fingerprint(inputs, recipe, **asked):
            raise ValueError(
                "a curve goes on only with the same data and options, but the scorer in "
                f"{folder} had others; choose another `--out`"
            )
    return CurvePoint(
        n_documents=asked["training_documents"],
        n_pairs=trained_on["pairs"]["train"],
        steps=trained_on.get("steps", 0),
        kinds={kind: KindFigures(**figures) for kind, figures in settings["held_out"].items()},
    )

"""Hands over a trained scorer: its files and a card, in a new folder or as a commit on the hub."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.fetching import fetch
from cluster.output import Output
from pipelines.reports.scorer_card import is_card, scorer_card
from pipelines.runs.forks import with_threads
from pipelines.settings.export import ExportSettings
from reffree.scorers.folder import (
    check_stands_alone,
    files_of,
    is_linear,
    read_settings,
    write_settings,
)
from reffree.scorers.hub import CARD_FILE, HubName, check_upload, upload_scorer
from reffree.scorers.naming import SCORER_FILE, find_scorer, is_on_hub
from reffree.scorers.scorer import load_scorer
from sms.naming import AnyPath, check_choice

EXPORTED = ("scorer",)
"""What can be handed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedScorer:
    """A scorer that was handed over."""

    to: str
    """Its folder or URL, or its name on the hub with the commit."""
    page: str
    """Its page on the hub; empty for a folder."""
    files: Mapping[str, int]
    """Bytes of each."""
    signature: str


@with_threads
def export(what: str, scorer: AnyPath, settings: ExportSettings) -> ExportedScorer:
    """Hand over a trained scorer.

    Raises ValueError or OSError if it is none, reads models that are not in its folder, or the
    place is not one for it; then nothing is written or uploaded.
    """
    check_choice("WHAT", what, EXPORTED)
    to = os.fspath(settings.to)
    name = _checked_place(to, settings)
    place = Output.named("--to", to).path if name is None else to
    folder = find_scorer(fetch(os.fspath(scorer)))
    said = read_settings(folder)
    check_stands_alone(folder, said)
    signature = load_scorer(folder).signature  # all is there, and is what was written
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        staged = Path(work)
        _copy(folder, staged, said)
        (staged / CARD_FILE).write_text(_card(folder, said, place, settings.licence), "utf-8")
        files = {file.name: file.stat().st_size for file in sorted(staged.iterdir())}
        page = ""
        if name is None:
            with Output.named("--to", to).filled(last=SCORER_FILE) as filled:
                shutil.copytree(staged, filled, dirs_exist_ok=True)
        else:
            name = upload_scorer(staged, to, is_private=settings.private)
            to, page = str(name), name.page
    return ExportedScorer(to=to, page=page, files=files, signature=signature)


def _checked_place(to: str, settings: ExportSettings) -> HubName | None:
    """Return the name on the hub, or check the folder."""
    if is_on_hub(to):
        return check_upload(to)
    if settings.private:
        raise ValueError("`--private` is for a repository on the hub; leave it out for a folder")
    output = Output.named("--to", to)
    output.check_folder()
    if output.names():
        raise ValueError(
            f"`--to` must be a new or empty folder, or hf:OWNER/NAME, got {output.path}"
        )
    return None


def _copy(folder: Path, staged: Path, said: Mapping[str, Any]) -> None:
    """Copy the files of a scorer, without paths of the machine that it was trained on."""
    for name in files_of(said):
        if name != SCORER_FILE:
            shutil.copyfile(folder / name, staged / name)
    write_settings(staged, **{**said, "model": _without_paths(said)})


def _without_paths(said: Mapping[str, Any]) -> dict[str, Any]:
    model = dict(said["model"])
    if is_linear(said):
        model["features"] = {**model["features"], "models": {}, "paths": {}}  # of metrics with none
    elif model["scorer"] == "bert":  # whose transformer is among its weights
        kind, colon, path = model["encoder"].partition(":")
        model["encoder"] = f"{kind}{colon}{Path(path).name}"
    return model


def _card(folder: Path, said: Mapping[str, Any], place: str, licence: str | None) -> str:
    """Return the card: the one of an earlier export, which its author may have edited, or ours."""
    there = folder / CARD_FILE
    kept = there.read_text("utf-8") if there.is_file() else ""
    if is_card(kept):
        if licence is not None:
            raise ValueError(f"{there} has a licence; leave out `--licence`, or edit it there")
        return kept
    if licence is None:
        raise ValueError(
            "`--licence ID` is missing: say under which licence others may use the scorer, such as "
            "apache-2.0 or cc-by-4.0"
        )
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", licence):
        raise ValueError(
            f"`--licence` must be the hub's name of a licence, such as cc-by-4.0, got {licence!r}"
        )
    return scorer_card(said, place, licence)

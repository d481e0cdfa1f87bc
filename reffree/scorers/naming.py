"""How a trained scorer is named: its folder, or one of the package, and maybe one of its heads."""

from __future__ import annotations

import os
from pathlib import Path

from sms.naming import AnyPath, user_path

SCORER_FILE = "scorer.json"
PACKAGED = Path(__file__).parents[1] / "data"
"""Scorers that come with the package, each in its folder."""


def split_head(name: str) -> tuple[str, str | None]:
    """Read `FOLDER` or `FOLDER.HEAD`: a folder that there is, with its whole name, comes first.

    Examples
    --------
    >>> split_head("news.fluency"), split_head("runs/v1.2/news"), split_head("news")
    (('news', 'fluency'), ('runs/v1.2/news', None), ('news', None))
    """
    folder, _, head = name.rpartition(".")
    if not (folder and head.isidentifier()) or os.path.isdir(user_path(name)):
        return name, None
    return folder, head


def find_scorer(folder: AnyPath) -> Path:
    """Return the folder of that name, or else that of the scorer in the package of that name."""
    given, packaged = Path(user_path(folder)), PACKAGED / os.fspath(folder)
    return packaged if not given.exists() and (packaged / SCORER_FILE).is_file() else given

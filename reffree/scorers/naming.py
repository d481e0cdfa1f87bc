"""How a trained scorer is named: its folder, one of the package or of the hub, and maybe a head."""

from __future__ import annotations

import os
from pathlib import Path

from sms.naming import AnyPath, user_path

SCORER_FILE = "scorer.json"
HUB = "hf:"
"""What a scorer on the Hugging Face hub begins with (`hub`)."""
PACKAGED = Path(__file__).parents[1] / "data"
"""Scorers that come with the package, each in its folder."""


def split_head(name: str) -> tuple[str, str | None]:
    """Read `FOLDER` or `FOLDER.HEAD`: a folder that there is, with its whole name, comes first.

    Of a scorer on the hub whose name has a dot, the revision says where it ends.

    Examples
    --------
    >>> split_head("news.fluency"), split_head("runs/v1.2/news"), split_head("news")
    (('news', 'fluency'), ('runs/v1.2/news', None), ('news', None))
    >>> split_head("hf:me/my.news@main.fluency"), split_head("hf:me/my.news@main")
    (('hf:me/my.news@main', 'fluency'), ('hf:me/my.news@main', None))
    """
    folder, _, head = name.rpartition(".")
    if not (folder and head.isidentifier()) or os.path.isdir(user_path(name)):
        return name, None
    return folder, head


def is_on_hub(name: str) -> bool:
    """Say whether a scorer is named as one on the hub."""
    return name.startswith(HUB)


def find_scorer(folder: AnyPath) -> Path:
    """Return the folder of that name, or else that of the scorer in the package of that name."""
    given, packaged = Path(user_path(folder)), PACKAGED / os.fspath(folder)
    return packaged if not given.exists() and (packaged / SCORER_FILE).is_file() else given

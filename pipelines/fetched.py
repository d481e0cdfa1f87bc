"""Encoders and scorers whose files are in a store, made local on the machine that loads them.

What a run is asked for, and what `run.json` says, stays the URL; a column's signature has the
last part of it, as for a local path, and the hash of the content is in the fingerprint.
"""

from __future__ import annotations

from dataclasses import replace

from cluster.fetching import fetch
from cluster.store import SCHEMES
from reffree.scorers.naming import split_head
from sms.config import ScoringConfig
from sms.encoders.registry import parse_spec
from sms.settings import settings_of


def check_on_disk(**specs: str | None) -> None:
    """Refuse encoders on a store where their paths are kept in what is trained.

    Raises ValueError with the option's name.
    """
    for option, spec in specs.items():
        if any(f"{scheme}://" in (spec or "") for scheme in SCHEMES):
            raise ValueError(
                f"`{option}` must name files on a disk that all workers see, got {spec}"
            )


def fetched_scorer(name: str) -> str:
    """Fetch the folder of a scorer, `FOLDER` or `FOLDER.HEAD`."""
    folder, head = split_head(name)
    return fetch(folder) if head is None else f"{fetch(folder)}.{head}"


def fetched_config(config: ScoringConfig) -> ScoringConfig:
    """Fetch the files of the encoders that are used, and the folders of the scorers."""
    local = {}
    for alias in config.used_encoders:
        spec = parse_spec(config.specs[alias])
        known = (option for option in settings_of(spec.kind.options) if option.name in spec.options)
        paths = {
            option.name: fetch(spec.options[option.name]) for option in known if option.is_path
        }
        local[alias] = str(replace(spec, path=fetch(spec.path), options={**spec.options, **paths}))
    models = {name: fetch(path) for name, path in config.model_paths.items()}
    return replace(config, encoders=config.specs | local, model_paths=models)

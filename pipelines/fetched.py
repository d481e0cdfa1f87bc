"""Encoders and scorers whose files are in a store, made local on the machine that loads them.

What a run is asked for, and what `run.json` says, stays the URL; a column's signature has the
last part of it, as for a local path, and the hash of the content is in the fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cluster.fetching import fetch
from cluster.store import SCHEMES
from reffree.scorers.naming import split_head
from sms.config import ScoringConfig
from sms.encoders.registry import EncoderSpec, parse_spec
from sms.options import PATH
from sms.scoring import SummaryScorer
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
    return with_paths(config, fetch)


def with_paths(config: ScoringConfig, change: Callable[[str], str]) -> ScoringConfig:
    """Change the paths of the encoders that are used, of the models of metrics, and of theirs."""
    specs = {}
    for alias in config.used_encoders:
        spec = parse_spec(config.specs[alias])
        options = {**spec.options} | {
            name: change(path) for name, path in _path_options(spec).items()
        }
        specs[alias] = str(replace(spec, path=change(spec.path), options=options))
    paths = {name: change(path) for name, path in config.model_paths.items()}
    config = replace(config, encoders=config.specs | specs, model_paths=paths)
    # only a scorer that is here says which models of the run it reads
    tables = {
        alias: {**table, PATH: change(table[PATH])} for alias, table in config.read_models.items()
    }
    return replace(config, models={**(config.models or {}), **tables})


def paths_of(config: ScoringConfig) -> list[str]:
    """List the paths that `with_paths` changes."""
    specs = [parse_spec(config.specs[alias]) for alias in config.used_encoders]
    of_encoders = [path for spec in specs for path in (spec.path, *_path_options(spec).values())]
    of_scorers = [table[PATH] for table in config.read_models.values()]
    return [*filter(None, of_encoders), *config.model_paths.values(), *of_scorers]


def _path_options(spec: EncoderSpec) -> dict[str, str]:
    """Return the options of an encoder that are paths, by name."""
    known = (option for option in settings_of(spec.kind.options) if option.is_path)
    return {
        option.name: spec.options[option.name] for option in known if option.name in spec.options
    }


def open_scorer(
    config: ScoringConfig,
    threads: int | None = None,
    *,
    device: str = "auto",
    cache_folder: str | None = None,
    n_workers: int = 1,
) -> SummaryScorer:
    """Make a scorer, from files in a store, too."""
    local = fetched_config(config)
    return SummaryScorer(
        local, threads, device=device, cache_folder=cache_folder, n_workers=n_workers
    )

"""What a worker says of itself before it scores, and whether its scores would be the driver's."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from cluster.worker import node_name

ABSENT = "none"
"""The version of what is not installed."""
PACKAGES = ("sms", "reffree", "cluster", "pipelines")
"""What a worker needs of ours to score."""

Description = Mapping[str, Mapping[str, str]]
"""What a scorer is: by kind, such as the hashes of its files, then by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a process finds around it, and what scorer it has made."""

    node: str
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of Python and of distributions, `ABSENT` where one is not installed."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the source and data files of our packages, `ABSENT` where there is none."""
    sees_out: bool = True
    """Whether the folder of the run is the driver's."""
    scorer: Description = field(default_factory=dict)


def facts_here(distributions: Iterable[str], *, sees_out: bool = True) -> Facts:
    """Look around in this process; our packages are hashed, not imported."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    # what our own packages are is told by their hashes: nodes may have a copy that was sent
    versions = {name: _version(name) for name in distributions if name != "assay"}
    return Facts(
        node=node_name(),
        versions={"Python": python, **versions},
        packages={name: _package_hash(name) for name in PACKAGES},
        sees_out=sees_out,
    )


def refusal(expected: Facts, worker: Facts) -> str | None:
    """Say in one line why a worker must not score; None if it may.

    What only one of the two says is not compared.
    """
    differ = [
        f"{name} {worker.versions[name]} there and {version} here"
        for name, version in expected.versions.items()
        if worker.versions.get(name, version) != version
    ]
    if differ:
        return (
            f"node {worker.node} has other versions than this driver: {', '.join(differ)}; scores "
            "may differ, so install the same on both"
        )
    if _first_difference(expected.packages, worker.packages):
        return (
            f"node {worker.node} has other source files of Assay than this driver; install the "
            "same on both"
        )
    if not worker.sees_out:
        return (
            f"node {worker.node} does not see the `--out` folder; name a folder that every node "
            "has mounted at the same place, or a URL"
        )
    for kind, by_name in worker.scorer.items():
        if name := _first_difference(expected.scorer.get(kind, {}), by_name):
            return (
                f"the {kind} of `{name}` on {worker.node} are not those the run began with; make "
                "them the same on all nodes and run the same command again"
            )
    return None


def _first_difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str | None:
    differ = (name for name, value in found.items() if expected.get(name, value) != value)
    return next(differ, None)


def package_folders() -> list[str]:
    """Return the folders of our packages, without importing them."""
    return [folder for name in PACKAGES if (folder := _package_folder(name))]


def _package_folder(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return os.path.abspath(next(iter(spec.submodule_search_locations)))


def _package_hash(name: str) -> str:
    folder = _package_folder(name)
    if folder is None:
        return ABSENT
    digest = hashlib.sha256()
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(folder)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ABSENT

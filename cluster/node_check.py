"""What a node of a cluster has installed, and whether a driver's run would be the same there.

Uses the standard library alone and is sent to the nodes as source: some have none of our packages.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ABSENT = "none"
"""The version of what is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a process finds around it."""

    node: str
    python: str
    """Major and minor version."""
    packages: Mapping[str, str]
    """Hash of the source and data files of packages, `ABSENT` where there is none."""
    versions: Mapping[str, str]
    """By distribution, `ABSENT` where it is not installed."""
    sees_file: bool
    """Whether the file that was asked for is there."""


def node_facts(packages: Sequence[str], distributions: Sequence[str], file: str) -> NodeFacts:
    """Look around in this process; top-level packages are hashed, not imported."""
    return NodeFacts(
        node=socket.gethostname(),
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        packages={name: _package_hash(name) for name in packages},
        versions={name: _version(name) for name in distributions},
        sees_file=os.path.exists(file),
    )


def refusal(driver: NodeFacts, node: NodeFacts) -> str | None:
    """Say in one line why a node cannot work for a driver; None if it can.

    Our own packages may be absent, since the driver then sends its own.
    """
    if node.python != driver.python:
        return (
            f"node {node.node} has Python {node.python} and this driver {driver.python}; use the "
            "same on both"
        )
    are_absent = all(digest == ABSENT for digest in node.packages.values())
    are_ours = are_absent or node.packages == driver.packages
    differ = [
        f"{name} {node.versions.get(name, ABSENT)} there and {version} here"
        for name, version in driver.versions.items()
        if node.versions.get(name, ABSENT) != version and not (name == "assay" and are_ours)
    ]
    if differ:
        return (
            f"node {node.node} has other versions than this driver: {', '.join(differ)}; scores "
            "may differ, so install the same on both"
        )
    if not node.sees_file:
        return (
            f"node {node.node} does not see the `--out` folder; name a folder that every node "
            "has mounted at the same place, or a URL"
        )
    return None


def package_folder(name: str) -> str | None:
    """Return the folder of a package without importing it; None if there is no such package."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return os.path.abspath(next(iter(spec.submodule_search_locations)))


def _package_hash(name: str) -> str:
    folder = package_folder(name)
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

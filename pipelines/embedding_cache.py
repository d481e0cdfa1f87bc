"""The folder that keeps embeddings for later runs."""

from __future__ import annotations

import os

from cluster.store import absolute, is_url


def cache_folder_of(embedding_cache: str | os.PathLike[str] | None) -> str | None:
    """Return the folder as every worker can find it, None if there is none.

    Raises
    ------
    ValueError
        If it is in a store.
    """
    if embedding_cache is None:
        return None
    folder = os.fspath(embedding_cache)
    if is_url(folder):
        raise ValueError(
            f"`embedding_cache` must be a folder, got {folder}; name one that all workers can reach"
        )
    return absolute(folder)

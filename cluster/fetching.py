"""Copies files of a store into a folder of this machine, once for all processes of it.

A copy is named by what the store says of the files: names, sizes, and etags or times of change.
A file that was replaced there is therefore fetched anew, and one that was not never again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import pyarrow.fs as pafs
from filelock import FileLock

from cluster import store
from sms.naming import cache_folder, user_path
from sms.urls import is_url

_BLOCK_BYTES = 8 << 20
_KEY_LENGTH = 32

_Files: TypeAlias = list[tuple[str, str, int, str]]
"""Of every file its URL, its name in the folder, its size and its version."""


def fetch(path: str) -> str:
    """Return a local path with the content of a file or folder of a store.

    Anything but a store's URL, such as a local path or a name on a hub, is returned as it is, but
    for `~`, which is written out.
    Raises `ValueError` if the URL holds a secret, or there is nothing; `OSError` if the store
    cannot be reached, there is no room for the copy, or the files change while they are copied.
    """
    if not is_url(path) or path.partition("://")[0].lower() not in store.SCHEMES:
        return user_path(path)
    store.check_location(path)
    filesystem, inner = store.filesystem_for(path)
    if isinstance(filesystem, pafs.LocalFileSystem):
        return inner
    look = partial(_listed, path, filesystem, inner)
    files = look()
    digest = hashlib.sha256(b"folder/name")  # the layout of a copy; change it when that changes
    for file in files:
        digest.update("{}\0{}\0{}\0{}\n".format(*file).encode())
    folder = cache_folder() / digest.hexdigest()[:_KEY_LENGTH]
    place = path.rstrip("/")  # its folder's name is kept: some formats say there what a file is
    inside = Path(store.base_name(store.parent(place)) or "root", store.base_name(place) or "root")
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):
                if not folder.is_dir():
                    _copy(files, inside, folder, look)
        except OSError as error:
            if full := store.storage_full(error, f"the copy of {path} in {cache_folder()}"):
                raise full from error
            raise
    return str(folder / inside)


def _listed(path: str, filesystem: pafs.FileSystem, inner: str) -> list[tuple[str, str, int, str]]:
    with store.naming(path):
        if filesystem.get_file_info(inner).type == pafs.FileType.File:
            names = {path: ""}
        else:
            selector = pafs.FileSelector(inner, recursive=True, allow_not_found=True)
            names = {
                store.url_like(path, info.path): os.path.relpath(info.path, inner)
                for info in filesystem.get_file_info(selector)
                if info.type == pafs.FileType.File
            }
    if not names:
        raise ValueError(f"no file or folder at {path}; check the path")
    files = []
    for url, name in names.items():
        if ".." in name.split("/") or name.startswith("/"):
            raise ValueError(f"{url} must not lead out of its folder")
        with store.open_input(url) as stream:
            files.append((url, name, stream.size(), store.version_of(stream, url)))
    return sorted(files, key=lambda file: file[1])


def _copy(files: _Files, inside: Path, folder: Path, look: Callable[[], _Files]) -> None:
    """Copy aside, look again, then rename: whoever sees the folder sees all of it."""
    aside = folder.with_name(f"{folder.name}.{uuid4().hex}.partial")
    try:
        for url, name, *_ in files:
            target = aside / inside / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.open_input(url) as source, target.open("xb") as sink:
                shutil.copyfileobj(source, sink, _BLOCK_BYTES)
        if look() != files:
            raise OSError(f"{files[0][0]} changed while it was fetched; run the command again")
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)

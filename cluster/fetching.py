"""Copies files of a store into a folder of this machine, once for all processes of it.

A copy is named by what the store says of the files: names, sizes, and etags or times of change.
A file that was replaced there is therefore fetched anew, and one that was not never again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow.fs as pafs
from filelock import FileLock

from cluster.store import (
    SCHEMES,
    base_name,
    check_location,
    filesystem_for,
    is_url,
    naming,
    open_input,
    parent,
    storage_full,
    url_like,
    version_of,
)
from sms.naming import cache_folder

_BLOCK_BYTES = 8 << 20
_KEY_LENGTH = 32


def fetch(path: str) -> str:
    """Return a local path with the content of a file or folder of a store.

    Anything but a store's URL, such as a local path or a name on a hub, is returned as it is.
    Raises `ValueError` if the URL holds a secret, or there is nothing; `OSError` if the store
    cannot be reached, there is no room for the copy, or the files change while they are copied.
    """
    if not is_url(path) or path.partition("://")[0].lower() not in SCHEMES:
        return path
    check_location(path)
    filesystem, inner = filesystem_for(path)
    if isinstance(filesystem, pafs.LocalFileSystem):
        return inner
    files = _listed(path, filesystem, inner)
    folder = cache_folder() / _key(files)
    place = path.rstrip("/")  # its folder's name is kept: some formats say there what a file is
    copy = folder / (base_name(parent(place)) or "root") / (base_name(place) or "root")
    if folder.is_dir():
        return str(copy)
    with _room_for(path):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.is_dir():
                _copy(files, copy, folder)
    return str(copy)


class _File:
    """One file of the store, and its name in the folder that was asked for."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.size, self.version = self.look()

    def look(self) -> tuple[int, str]:
        with open_input(self.url) as stream:
            return stream.size(), version_of(stream, self.url)


def _listed(path: str, filesystem: pafs.FileSystem, inner: str) -> list[_File]:
    with naming(path):
        kind = filesystem.get_file_info(inner).type
        if kind == pafs.FileType.File:
            return [_File(path, "")]
        selector = pafs.FileSelector(inner, recursive=True, allow_not_found=True)
        listed = [
            info for info in filesystem.get_file_info(selector) if info.type == pafs.FileType.File
        ]
    if not listed:
        raise ValueError(f"no file or folder at {path}")
    files = [_File(url_like(path, info.path), os.path.relpath(info.path, inner)) for info in listed]
    for file in files:
        if ".." in file.name.split("/") or file.name.startswith("/"):
            raise ValueError(f"{file.url} must not lead out of its folder")
    return sorted(files, key=lambda file: file.name)


def _key(files: list[_File]) -> str:
    digest = hashlib.sha256(b"folder/name")  # how a copy is laid out
    for file in files:
        digest.update(f"{file.url}\0{file.name}\0{file.size}\0{file.version}\n".encode())
    return digest.hexdigest()[:_KEY_LENGTH]


def _copy(files: list[_File], copy: Path, folder: Path) -> None:
    """Copy aside, check, then rename: whoever sees the folder sees all of it."""
    aside = folder.with_name(f"{folder.name}.{uuid4().hex}.partial")
    try:
        for file in files:
            target = aside / copy.relative_to(folder) / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_input(file.url) as source, target.open("xb") as sink:
                shutil.copyfileobj(source, sink, _BLOCK_BYTES)
            if (target.stat().st_size, *file.look()) != (file.size, file.size, file.version):
                raise OSError(f"{file.url} changed while it was fetched; run the command again")
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _room_for(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if full := storage_full(error, f"the copy of {path} in {cache_folder()}"):
            raise full from error
        raise

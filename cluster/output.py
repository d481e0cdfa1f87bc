"""What a command is asked to write: where that is, whether it may be, and how it gets there.

An `Output` is named and checked before any work is done and written at the end, each file whole or
not at all, on this machine and on every store.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from cluster import store
from cluster.inputs import FORMATS
from sms.naming import AnyPath
from sms.urls import is_url


@dataclass(frozen=True, slots=True)
class Output:
    """A file or folder to write."""

    option: str
    """What names it, for messages."""
    path: str
    """Absolute path, or URL of a store."""

    @classmethod
    def named(cls, option: str, path: AnyPath) -> Output:
        """Take what a user gives: a path or a URL.

        Raises `ValueError` if a URL holds a secret, or is of a store that is not known.
        """
        store.filesystem_for(os.fspath(path))
        return cls(option, store.absolute(os.fspath(path)).rstrip("/") or "/")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return store.base_name(self.path)

    @property
    def suffix(self) -> str:
        """The end of its name, in small letters, with the dot."""
        return os.path.splitext(self.name)[1].lower()

    @property
    def local(self) -> Path:
        """The folder on this machine.

        Raises `ValueError` if it is on a store.
        """
        return store.local_folder(self.option, self.path)

    def beside(self, option: str, name: str) -> Output:
        """Name another file in the same folder."""
        return Output(option, store.join(store.parent(self.path), name))

    # Whether it may be written

    def check_file(self, *suffixes: str, is_new: bool = False) -> None:
        """Check that a file may be written there: with such a suffix; a new one if that is asked.

        Raises `ValueError` if its name ends otherwise, it is a folder, or there is one already;
        `OSError` if nothing may be written there.
        """
        if suffixes and self.suffix not in suffixes:
            raise ValueError(f"`{self.option}` must end in {', '.join(suffixes)}, got {self.path}")
        if self._kind(is_new) == pafs.FileType.Directory:
            raise ValueError(f"`{self.option}` must be a file, got the folder {self.path}")
        self._check_place(store.parent(self.path), "in a folder")

    def check_apart(self, inputs: Iterable[AnyPath]) -> None:
        """Check that nothing that is read would be replaced, or be read again with the output.

        Raises `ValueError` if it is one of the files that are read, or a table in one of the
        folders.
        """
        for each in inputs:
            path = os.fspath(each)
            if store.real_path(path) == store.real_path(self.path):
                raise ValueError(
                    f"`{self.option}` must not be a file that is read, got {self.path}; choose "
                    "another name"
                )
            if self.suffix in FORMATS and store.is_inside(self.path, path):
                raise ValueError(
                    f"`{self.option}` must be outside of the folders that are read, got {self.path}"
                )

    def check_folder(self, *inside: str, is_new: bool = False) -> None:
        """Check, without leaving anything behind, that a folder is there or can be made.

        Raises `NotADirectoryError` if a file is in the way; `PermissionError` if nothing may be
        written there; `ValueError` if one of the names `inside` is a link, or there is a folder
        already and it must be new.
        """
        if self._kind(is_new) == pafs.FileType.File:
            raise NotADirectoryError(f"`{self.option}` must be a folder, got a file: {self.path}")
        store.check_no_links(self.path, *inside)
        self._check_place(self.path, "a folder")

    def names(self) -> list[str]:
        """List what is right inside a folder, hidden names aside; nothing where there is none."""
        filesystem, inner = store.filesystem_for(self.path)
        with store.naming(self.path):
            infos = filesystem.get_file_info(pafs.FileSelector(inner, allow_not_found=True))
        return sorted(info.base_name for info in infos if not info.base_name.startswith("."))

    # Writing it

    def write(self, payload: bytes | pa.Buffer, *names: str) -> None:
        """Write the file, or one in the folder, whole or not at all."""
        store.write_whole(self._inside(*names), payload)

    @contextmanager
    def written(self) -> Iterator[Path]:
        """Give a local file to write to, which then appears as a whole, unless something fails."""
        with self._work_folder() as work:
            file = work / "file"
            yield file
            store.move_whole(file, self.path)

    @contextmanager
    def filled(self, *, last: str = "") -> Iterator[Path]:
        """Give a local folder whose files then appear in this one, `last` after all others.

        None does if what is done with that folder fails.
        """
        with self._work_folder() as work:
            yield work
            written = (path.relative_to(work) for path in work.rglob("*") if path.is_file())
            for name in sorted(written, key=lambda name: (str(name) == last, name)):
                store.move_whole(work / name, self._inside(*name.parts))

    def _inside(self, *names: str) -> str:
        """Name a file in the folder, whatever characters its name has; without names, itself."""
        return store.url_like(self.path, "/".join([store.filesystem_for(self.path)[1], *names]))

    def _kind(self, is_new: bool) -> pafs.FileType:
        """Say what is there, which must be nothing if it has to be new."""
        filesystem, inner = store.filesystem_for(self.path)
        with store.naming(self.path):
            kind = filesystem.get_file_info(inner).type
        if is_new and kind != pafs.FileType.NotFound:
            raise ValueError(
                f"`{self.option}` must not exist yet, got {self.path}; choose another name"
            )
        return kind

    def _check_place(self, folder: str, rule: str) -> None:
        """Check that a local folder can be made or written to; a store is not asked."""
        if is_url(self.path):
            return
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise NotADirectoryError(f"`{self.option}` must be {rule}, got a file: {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(
                f"no permission to write in {folder}; choose another `{self.option}` folder"
            )

    @contextmanager
    def _work_folder(self) -> Iterator[Path]:
        """Make a folder to write in: beside a local output, which may be too large to copy."""
        place, prefix = None, "assay-"
        if not is_url(self.path):
            place, prefix = os.path.dirname(self.path), f".{self.name}."
            os.makedirs(place, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix=prefix) as work:
            yield Path(work)


def output_of(
    file: AnyPath | None, *suffixes: str, apart: Iterable[AnyPath] = (), option: str = "--out"
) -> Output | None:
    """Name the file of an option, if there is one, once it is sure that it can be written."""
    if file is None:
        return None
    output = Output.named(option, file)
    output.check_file(*suffixes)
    output.check_apart(apart)
    return output

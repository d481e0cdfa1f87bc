"""Files, wherever they are: listing, opening, and writing one so that readers see all or nothing.

Paths are local, or URLs that `pyarrow.fs` understands (`s3://`, `gs://`, `hdfs://`, `file://`).
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs


def is_url(path: str) -> bool:
    """Say whether `path` names a scheme rather than a local file."""
    return "://" in path


def absolute(path: str) -> str:
    """Return a path that means the same in every process; a URL already does."""
    return path if is_url(path) else os.path.abspath(path)


def filesystem_for(path: str) -> tuple[pafs.FileSystem, str]:
    """Find the filesystem of a path or URL, and the path's name in it."""
    if is_url(path):
        return pafs.FileSystem.from_uri(path)
    return pafs.LocalFileSystem(), os.path.abspath(path)


def open_input(path: str) -> pa.NativeFile:
    """Open a file for reading at any position.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    """
    filesystem, inner = filesystem_for(path)
    return filesystem.open_input_file(inner)


def list_names(folder: str) -> list[str]:
    """List the names of the files right inside a folder; none where there is no folder."""
    filesystem, inner = filesystem_for(folder)
    found = filesystem.get_file_info(pafs.FileSelector(inner, allow_not_found=True))
    return sorted(info.base_name for info in found if info.type == pafs.FileType.File)


def write_whole(path: str | os.PathLike[str], payload: bytes | pa.Buffer) -> None:
    """Write `payload` so that readers see all of it or nothing.

    Locally it is written aside, flushed to the disk, then renamed. An object store publishes an
    object when its upload is closed, so there one write of everything is closed only after it
    succeeded. Writing the same file twice is harmless.

    Parameters
    ----------
    path : str or path
        Where it shall be; the folder is made when missing.
    payload : bytes or pyarrow.Buffer
        All of the file.
    """
    path = os.fspath(path)
    filesystem, inner = filesystem_for(path)
    if isinstance(filesystem, pafs.LocalFileSystem):
        _write_local(Path(inner), payload)
        return
    stream = filesystem.open_output_stream(inner)
    stream.write(payload)
    stream.close()  # not a `with`: leaving it by an exception would publish what was written


def _write_local(path: Path, payload: bytes | pa.Buffer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut (where folders can be opened)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

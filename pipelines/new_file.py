"""A Parquet file that a user asks for: whether it may be written there, and how it gets there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from cluster.store import absolute, filesystem_for, write_whole


def checked_new_file(
    option: str,
    out: str | os.PathLike[str],
    inputs: Sequence[str | os.PathLike[str]],
    *,
    inputs_are: str,
) -> str:
    """Return the absolute path of an output that does not exist and is not read as input later.

    Parameters
    ----------
    option : str
        What named it, for the message.
    out : str or path
    inputs : sequence of str or path
        A folder among them may not hold the output.
    inputs_are : str
        What such a folder is, for the message.

    Raises
    ------
    ValueError
        If its name does not end in .parquet, it exists, or it lies in a folder of the inputs.
    """
    path = absolute(os.fspath(out))
    if not path.endswith(".parquet"):
        raise ValueError(f"`{option}` must end in .parquet, got {path}")
    filesystem, inner = filesystem_for(path)
    if filesystem.get_file_info(inner).type.name != "NotFound":
        raise ValueError(f"`{option}` must not exist yet, got {path}; delete it or choose another")
    folders = [absolute(os.fspath(p)).rstrip("/") for p in inputs if os.path.isdir(p)]
    if any(path.startswith(f"{folder}/") for folder in folders):
        raise ValueError(f"`{option}` must not lie inside {inputs_are}, got {path}")
    return path


@contextmanager
def written_whole(path: str) -> Iterator[Path]:
    """Give a file to write to that appears at `path`, all of it, unless something fails.

    On a file system it lies beside `path` and is renamed: it may be too large to be copied, or for
    the disk of temporary files. What goes to an object store is such a file first, and then sent
    in one write.
    """
    filesystem, inner = filesystem_for(path)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        with tempfile.TemporaryDirectory(prefix="assay-") as work:
            file = Path(work) / "file"
            yield file
            with pa.memory_map(str(file)) as source:
                write_whole(path, source.read_buffer())
        return
    place = Path(inner)
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f"{place.name}.{uuid4().hex}.partial")
    try:
        yield partial
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)

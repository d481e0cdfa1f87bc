"""Which files a path names, on any filesystem: a file, all in a folder, or what matches a glob.

A glob means on a store what it means locally to Python's `glob` with `recursive=True`: `*`, `?`
and `[...]` stay inside one part of a path, `**` as a part stands for any number of folders, and
names that begin with a dot match only what begins with a dot, too. A glob names files only.

A file is listed once, however many names it has: links, a second mention on the command line, two
globs that match it. The name with the fewest links in its path counts, then the first in the
alphabet.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

import pyarrow.fs as pafs

from cluster.pipes import input_name, is_pipe
from cluster.store import absolute, filesystem_for, naming, url_like
from sms.naming import is_unicode, user_path
from sms.urls import is_url

logger = logging.getLogger(__name__)

_WILDCARDS = frozenset("*?[")
_ALL_BELOW = ("**",)
_NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def find_files(path: str) -> tuple[list[str], bool]:
    """List the files that a path names, and say whether it is that of a folder.

    A file or folder of that very name comes before a glob. Of a folder these are all files in it
    and its subfolders but for those whose names, or whose folders' names, begin with `.` or `_`.
    Raises `FileNotFoundError` if there is nothing of that name, or nothing matches; `OSError` if a
    folder cannot be read.
    """
    path = user_path(input_name(path))
    if not is_url(path) and is_pipe(path):
        return [path], False
    filesystem, inner = filesystem_for(path)
    is_local = isinstance(filesystem, pafs.LocalFileSystem)
    with naming(path):
        kind = _kind(filesystem, inner)
        if kind == pafs.FileType.File:
            return [absolute(path)], False
        if is_folder := kind == pafs.FileType.Directory:
            base, parts = inner, list(_ALL_BELOW)
        elif is_url(path) or os.path.isabs(path):
            base, parts = "/" * inner.startswith("/"), _parts_of(inner)
        else:  # wildcards in the working directory's name are literal
            base, parts = os.getcwd(), _parts_of(path)
        while len(parts) > 1 and _WILDCARDS.isdisjoint(parts[0]):
            base = _joined(base, parts.pop(0))
        files = files_like(filesystem, base, parts)
    if is_folder:
        files = [file for file in files if not _is_hidden(file.removeprefix(inner.rstrip("/")))]
    elif not files:
        what = "such file or folder:" if _WILDCARDS.isdisjoint(inner) else "file matches"
        raise FileNotFoundError(f"no {what} {path}")
    named = (os.path.normpath(file) if is_local else url_like(path, file) for file in files)
    return list(named), is_folder


def _is_hidden(below: str) -> bool:
    """Say whether a name on the way to a file hides it; one of `_a=b` is that of a partition."""
    return any(part.startswith("_") and "=" not in part for part in below.split("/"))


def each_once(paths: Iterable[str]) -> list[str]:
    """Return one path of every file, sorted, and say how many names are passed over."""
    names: defaultdict[Hashable, list[str]] = defaultdict(list)
    for path in paths:
        names[_identity(path)].append(path)
    kept, passed_over = [], []
    for same in names.values():
        first, *others = sorted(same, key=_by_links) if len(same) > 1 else same
        kept.append(first)
        passed_over += [(other, first) for other in others]
    if passed_over:
        other, first = passed_over[0]
        logger.warning(
            "each file is read only once, so %s ignored: %s is %s",
            "1 more name is" if len(passed_over) == 1 else f"{len(passed_over):,} more names are",
            other,
            "named twice" if other == first else f"the same file as {first}",
        )
    return sorted(kept)


def files_like(filesystem: pafs.FileSystem, base: str, parts: Sequence[str]) -> list[str]:
    """Find the files below a folder that match a glob, which is cut at its slashes."""
    is_local = isinstance(filesystem, pafs.LocalFileSystem)
    if parts[-1] == "**":
        parts = [*parts, "*"]
    below = _local_files(base, parts) if is_local else _store_files(filesystem, base, parts)
    return [path for path in below if _is_match(_names_below(base, path), parts)]


def _local_files(base: str, parts: Sequence[str]) -> Iterator[str]:
    """List files in the folders that may hold what matches, also those behind links."""
    walk = os.walk(base, followlinks=True, onerror=_raised) if os.path.isdir(base) else ()
    for folder, folders, files in walk:
        inside = _names_below(base, folder)
        folders[:] = [
            name
            for name in folders
            if _is_match([*inside, name], parts, is_start=True)
            and not _leads_back(base, _joined(folder, name))
        ]
        for path in (_joined(folder, name) for name in files):
            if not is_unicode(path):
                logger.warning("skipped, because its name is not UTF-8: %s; rename it", ascii(path))
            elif os.path.isfile(path):
                yield path


def _store_files(filesystem: pafs.FileSystem, base: str, parts: Sequence[str]) -> Iterator[str]:
    """List files below a folder: all with one request if the glob has `**`, else by folder."""
    all_at_once = "**" in parts
    waiting = [base]
    while waiting:
        selector = pafs.FileSelector(waiting.pop(), allow_not_found=True, recursive=all_at_once)
        infos: list[pafs.FileInfo] = []
        with suppress(NotADirectoryError):
            infos = filesystem.get_file_info(selector)
        for info in infos:
            if info.type == pafs.FileType.File:
                yield info.path
            elif not all_at_once and _is_match(_names_below(base, info.path), parts, is_start=True):
                waiting.append(info.path)


def _is_match(names: Sequence[str], parts: Sequence[str], *, is_start: bool = False) -> bool:
    """Say whether the names of a path match the parts of a glob, or those it may start with."""
    if not names or not parts:
        return not names and bool(parts) == is_start
    if parts[0] == "**":
        skips_one = not names[0].startswith(".") and _is_match(names[1:], parts, is_start=is_start)
        return skips_one or _is_match(names, parts[1:], is_start=is_start)
    rest = _is_match(names[1:], parts[1:], is_start=is_start)
    return rest and _is_like(names[0], parts[0])


def _is_like(name: str, part: str) -> bool:
    return (part.startswith(".") or not name.startswith(".")) and fnmatchcase(name, part)


def _kind(filesystem: pafs.FileSystem, inner: str) -> pafs.FileType:
    try:
        return filesystem.get_file_info(inner).type
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        return pafs.FileType.NotFound


def _leads_back(base: str, folder: str) -> bool:
    """Say whether a folder is a link to one that it is in itself."""
    if not os.path.islink(folder):
        return False
    above = folder
    while len(above) > len(base.rstrip("/")):
        above = os.path.dirname(above)
        if os.path.samefile(above, folder):
            return True
    return False


def _identity(path: str) -> Hashable:
    """Return what all names of a file share."""
    if is_url(path):
        filesystem, inner = filesystem_for(path)
        return id(filesystem), inner
    about = os.stat(path)
    return about.st_dev, about.st_ino


def _by_links(path: str) -> tuple[int, str]:
    """Order names of a file: those with the fewest links first, then as in the alphabet."""
    parts = path.split("/") if not is_url(path) else ()
    return sum(os.path.islink("/".join(parts[:i])) for i in range(2, len(parts) + 1)), path


def _raised(error: OSError) -> None:
    raise error


def _parts_of(pattern: str) -> list[str]:
    return [part for part in pattern.split("/") if part]


def _names_below(base: str, path: str) -> list[str]:
    return _parts_of(path[len(base) :])


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name

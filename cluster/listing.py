"""Which files a path names, on any filesystem: a file, all in a folder, or what matches a glob.

A glob means on a store what it means locally to Python's `glob` with `recursive=True`: `*`, `?`
and `[...]` stay inside one part of a path, `**` as a part stands for any number of folders, and
names that begin with a dot match only what begins with a dot, too. A glob names files only.

A file is listed once, however many names it has: links, a second mention on the command line, two
globs that match it. The name with the fewest links in its path counts, then the first in the
alphabet. A folder behind a link is walked through unless it has been already.
"""

from __future__ import annotations

import errno
import heapq
import logging
import os
import stat
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

import pyarrow.fs as pafs

from cluster.store import absolute, filesystem_for, is_url, naming, url_like

logger = logging.getLogger(__name__)

_WILDCARDS = frozenset("*?[")
_ALL_BELOW = ("**",)
_NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True)
class Named:
    """A file, or a folder that is passed over, under one of its names."""

    path: str
    """Absolute path or URL."""
    identity: Hashable
    """What all names of a file share."""
    same_as: str = ""
    """Of a folder: the name under which it was walked through."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a folder holds under one name."""

    path: str
    is_folder: bool
    identity: Hashable
    is_link: bool = False

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def find_files(path: str) -> tuple[list[Named], bool]:
    """List the files that a path names, for `each_once`, and say whether it is that of a folder.

    A file or folder of that very name comes before a glob. Of a folder these are all files in it
    and its subfolders but for those whose names, or whose folders' names, begin with `.` or `_`.
    Raises `FileNotFoundError` if there is nothing of that name, or nothing matches; `OSError` if a
    folder cannot be read.
    """
    filesystem, inner = filesystem_for(path)
    is_local = isinstance(filesystem, pafs.LocalFileSystem)
    tree = LocalTree() if is_local else StoreTree(filesystem)
    with naming(path):
        own = tree.entry(inner)
        if own is not None:
            files = list(walk(tree, inner, _ALL_BELOW)) if own.is_folder else []
        elif is_url(path) or os.path.isabs(path):
            files = list(walk(tree, "/" if inner.startswith("/") else "", parts_of(inner)))
        else:  # what the working directory is called is no pattern
            files = list(walk(tree, os.getcwd(), parts_of(path)))
    if own is None and not files:
        is_glob = not _WILDCARDS.isdisjoint(inner)
        what = "file matches" if is_glob else "such file or folder:"
        raise FileNotFoundError(f"no {what} {path}")
    if own is not None and not own.is_folder:
        return [Named(absolute(path), own.identity)], False
    if own is not None:
        files = [each for each in files if "/_" not in each.path.removeprefix(inner.rstrip("/"))]
    return [
        replace(each, path=os.path.normpath(each.path) if is_local else url_like(path, each.path))
        for each in files
    ], own is not None


def each_once(named: Iterable[Named]) -> list[str]:
    """Return one path of every file, sorted, and say how many names are passed over."""
    names: defaultdict[Hashable, list[str]] = defaultdict(list)
    passed_over = []
    for each in named:
        if each.same_as:
            passed_over.append((each.path, each.same_as))
        else:
            names[each.identity].append(each.path)
    kept = []
    for paths in names.values():
        first, *others = sorted(paths, key=_by_links) if len(paths) > 1 else paths
        kept.append(first)
        passed_over += [(other, first) for other in others]
    if passed_over:
        other, first = passed_over[0]
        logger.warning(
            "each file is read once: %s passed over, %s is %s",
            "1 more name is" if len(passed_over) == 1 else f"{len(passed_over):,} more names are",
            other,
            "named twice" if other == first else first,
        )
    return sorted(kept)


def walk(tree: Tree, base: str, parts: Sequence[str]) -> Iterator[Named]:
    """Find the files below a folder that match a glob, and the folders that were passed over.

    The glob, cut at its slashes, begins in the folder `base`. A folder is walked through once for
    every part of it that may begin there: links that lead back come to an end, and no file is
    missed.
    """
    seen: dict[tuple[Hashable, int], str] = {}
    files: set[str] = set()
    last = len(parts) - 1
    start = tree.folder(base)
    waiting = [] if start is None else [(0, base, 0, start.identity)]
    while waiting:  # paths with fewer links first, then in the order of the alphabet
        n_links, folder, turn, identity = heapq.heappop(waiting)
        first = seen.setdefault((identity, turn), folder)
        if first != folder:
            yield Named(folder, identity, same_as=first)
            continue
        part = parts[turn]
        if part == "**":
            tree.load_below(folder)
            if turn < last:
                heapq.heappush(waiting, (n_links, folder, turn + 1, identity))
        for entry in _entries_like(tree, folder, part, is_last=turn == last):
            if entry.is_folder:
                follows = turn if part == "**" else turn + 1
                if follows <= last:
                    state = (n_links + entry.is_link, entry.path, follows, entry.identity)
                    heapq.heappush(waiting, state)
            elif turn == last and entry.path not in files:
                files.add(entry.path)
                yield Named(entry.path, entry.identity)


def _entries_like(tree: Tree, folder: str, part: str, *, is_last: bool) -> Iterable[_Entry]:
    if not _WILDCARDS & set(part):
        path = _joined(folder, part)
        entry = tree.entry(path) if is_last else tree.folder(path)
        return [] if entry is None else [entry]
    return (entry for entry in tree.entries(folder) if is_match(entry.name, part))


def is_match(name: str, part: str) -> bool:
    """Say whether a name matches one part of a glob; `**` matches as `*` does.

    Examples
    --------
    >>> is_match("a.csv", "[ab].*"), is_match(".a", "*"), is_match(".a", ".?")
    (True, False, True)
    """
    return (part.startswith(".") or not name.startswith(".")) and fnmatchcase(name, part)


def parts_of(pattern: str) -> list[str]:
    """Cut a glob at its slashes."""
    return [part for part in pattern.split("/") if part]


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/" * path.startswith("/")


def _by_links(path: str) -> tuple[int, str]:
    """Order names of a file: those with the fewest links first, then as in the alphabet."""
    if is_url(path):
        return 0, path
    parts = path.split("/")
    return sum(os.path.islink("/".join(parts[:i])) for i in range(2, len(parts) + 1)), path


class LocalTree:
    """Folders of this machine; a file is known by its device and inode."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def entry(self, path: str) -> _Entry | None:
        """Return a file or folder, followed if it is a link."""
        try:
            about = os.stat(path)
        except OSError as error:
            if error.errno not in _NOTHING_THERE:
                raise
            return None
        if not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)):
            return None
        identity = (about.st_dev, about.st_ino)
        return _Entry(path, stat.S_ISDIR(about.st_mode), identity, os.path.islink(path))

    def folder(self, path: str) -> _Entry | None:
        """Return a folder, followed if it is a link."""
        entry = self.entry(path)
        return entry if entry is not None and entry.is_folder else None

    def entries(self, folder: str) -> Iterator[_Entry]:
        """List files and folders right inside a folder."""
        for name in os.listdir(folder):
            path = _joined(folder, name)
            if not _is_utf8(path):
                self._tell(path)
            elif (entry := self.entry(path)) is not None:
                yield entry

    def load_below(self, folder: str) -> None:
        """Do nothing: a folder is read when it is listed."""

    def _tell(self, path: str) -> None:
        if path not in self._told:
            self._told.add(path)
            logger.warning("skipped, because its name is not UTF-8: %s; rename it", ascii(path))


class StoreTree:
    """Folders of a store; below a folder everything comes with one listing."""

    def __init__(self, filesystem: pafs.FileSystem) -> None:
        self._filesystem = filesystem
        self._below: dict[str, dict[str, _Entry]] = {}
        """Of folders that were loaded, what is right inside, by path."""

    def entry(self, path: str) -> _Entry | None:
        """Return a file or folder."""
        above = _parent(path)
        if above in self._below:
            return self._below[above].get(path)
        info = self._filesystem.get_file_info(path)
        return None if info.type == pafs.FileType.NotFound else self._entry_of(info)

    def folder(self, path: str) -> _Entry:
        """Return a folder without asking: where there is none, nothing will be listed."""
        return self._entry(path, is_folder=True)

    def entries(self, folder: str) -> Iterable[_Entry]:
        """List files and folders right inside a folder."""
        if folder in self._below:
            return self._below[folder].values()
        return map(self._entry_of, self._listed(folder, recursive=False))

    def load_below(self, folder: str) -> None:
        """List a folder and all below at once, unless that has been done."""
        if folder in self._below:
            return
        self._below[folder] = {}
        for info in self._listed(folder, recursive=True):
            entry = self._entry_of(info)
            if entry.is_folder:
                self._below.setdefault(entry.path, {})
            while entry.path != folder:  # a store need not list the folders between
                above = _parent(entry.path)
                is_known = above in self._below
                self._below.setdefault(above, {})[entry.path] = entry
                if is_known:
                    break
                entry = self._entry(above, is_folder=True)

    def _listed(self, folder: str, *, recursive: bool) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(folder, recursive=recursive, allow_not_found=True)
        try:
            infos: list[pafs.FileInfo] = self._filesystem.get_file_info(selector)
        except NotADirectoryError:  # `folder` has not asked
            return []
        return infos

    def _entry_of(self, info: pafs.FileInfo) -> _Entry:
        return self._entry(info.path, is_folder=info.type == pafs.FileType.Directory)

    def _entry(self, path: str, *, is_folder: bool) -> _Entry:
        return _Entry(path, is_folder, (id(self._filesystem), path))


Tree: TypeAlias = LocalTree | StoreTree
"""What the walk asks."""


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Which documents are for training, which for validation and which for testing.

Sides go by document: by a hash of its name, or by what its file says. Documents that share a
text (a source or a reference, whatever its case and tokenisation; a source also if it is nearly
the same) belong together, and so do those that share a text with one of them: by hash such a
group is on one side as a whole; in a file's own split it may not be, which is a leak. Either way
the texts of all sides are compared in the end.

What has to be remembered of every text is kept in files and read a part at a time, so that memory
grows with the number of *shared* texts only.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from reffree.hashing import hash64, mixed
from reffree.training_pairs.rows import SIDES, near_keys, text_key

SHARES = (0.8, 0.1, 0.1)
"""Parts of the documents for training, validation and test (Bao et al. 2020, section 3.1)."""
LEAK = "document_id or text also on a later side"  # why rows of a file's own split are left out

_N_PARTS = 64
_ENTRY = np.dtype([("text", np.uint64), ("document", np.uint64), ("side", np.int8)])


@dataclass(frozen=True, slots=True)
class Groups:
    """Documents that belong together because they share a text."""

    documents: np.ndarray
    """Keys of the documents that share a text with another one, sorted; uint64, (n,)."""
    groups: np.ndarray  # the smallest key of each one's group; uint64, (n,)
    last_side: np.ndarray
    """Where the group's file says it is, its last place in `SIDES`; int8, (n,)."""
    has_leak: np.ndarray  # whether the file has the group on several sides; bool, (n,)

    def group_of(self, keys: np.ndarray) -> np.ndarray:
        """Return each document's group; one that shares no text is a group of its own."""
        places, is_shared = self._find(keys)
        groups = keys.copy()
        groups[is_shared] = self.groups[places[is_shared]]
        return groups

    def is_leak(self, keys: np.ndarray, sides: np.ndarray) -> np.ndarray:
        """Say which rows share a text with a later side, by the file's own split.

        The later side keeps its documents, so that a test is what it was; bool, (n_rows,).
        """
        places, is_leak = self._find(keys)
        shared = places[is_leak]
        is_leak[is_leak] = self.has_leak[shared] & (sides[is_leak] != self.last_side[shared])
        return is_leak

    @property
    def n_shared(self) -> int:
        """Count the documents that share a text with another one."""
        sizes = np.unique(self.groups, return_counts=True)[1]
        return int(sizes[sizes > 1].sum())

    def _find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = np.searchsorted(self.documents, keys)
        is_shared = places < self.documents.size
        is_shared[is_shared] = self.documents[places[is_shared]] == keys[is_shared]
        return places, is_shared


class TextRegister:
    """Remembers which document has which text, in files of a folder that is its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._paths = [folder / f"texts-{part:02}.bin" for part in range(_N_PARTS)]
        self._streams: list[BinaryIO] = [path.open("wb") for path in self._paths]

    def note(self, entries: Sequence[tuple[int | None, int, int]]) -> None:
        """Note keys of texts (or None) with the document of each and the side that a file names.

        A document's own key counts as one of its texts.
        """
        noted = np.array([entry for entry in entries if entry[0] is not None], dtype=_ENTRY)
        part = (noted["text"] % np.uint64(_N_PARTS)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(1, _N_PARTS))
        for stream, piece in zip(self._streams, np.split(noted[order], bounds), strict=True):
            stream.write(piece.tobytes())

    def groups(self) -> Groups:
        """Find the documents that belong together."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        edges = [_edges(entries) for entries in self._parts()]
        first, second, side = (np.concatenate(column) for column in zip(*edges, strict=True))
        documents, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
        links = (np.ones(first.size, dtype=bool), (ends[: first.size], ends[first.size :]))
        size = documents.size
        n_groups, label = connected_components(coo_array(links, shape=(size, size)), directed=False)
        smallest = np.full(n_groups, np.iinfo(np.uint64).max)
        np.minimum.at(smallest, label, documents)
        # A group leaks if its texts are on several sides; `side` has one for either end of a link.
        low, high = np.full(n_groups, len(SIDES), np.int8), np.full(n_groups, -1, np.int8)
        np.minimum.at(low, label[ends], side.T.ravel())
        np.maximum.at(high, label[ends], side.T.ravel())
        return Groups(documents, smallest[label], high[label], (low < high)[label])

    def n_leaks(
        self, side_of: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> dict[tuple[str, str], int]:
        """Count the texts that are on two sides, by these, whatever was done to avoid it.

        `side_of` says for documents' keys and the sides their file names where they are; negative
        if they were left out.
        """
        n_leaks: Counter[tuple[str, str]] = Counter()
        for entries in self._parts():
            sides = side_of(entries["document"], entries["side"])
            texts = [np.unique(entries["text"][sides == side]) for side in range(len(SIDES))]
            for a, b in itertools.combinations(range(len(SIDES)), 2):
                both = np.intersect1d(texts[a], texts[b], assume_unique=True).size
                if both:
                    n_leaks[SIDES[a], SIDES[b]] += both
        return dict(n_leaks)

    def documents(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Give all documents, each once: keys (uint64) and the sides their file names (int8)."""
        for entries in self._parts():
            of_documents = entries[entries["text"] == entries["document"]]
            keys, first = np.unique(of_documents["document"], return_index=True)
            yield keys, of_documents["side"][first]

    def _parts(self) -> Iterator[np.ndarray]:
        for stream, path in zip(self._streams, self._paths, strict=True):
            stream.flush()
            yield np.fromfile(path, dtype=_ENTRY)

    def close(self) -> None:
        """Close the files; the folder is its owner's to delete."""
        for stream in self._streams:
            stream.close()


def hashed_sides(groups: np.ndarray, *, seed: int) -> np.ndarray:
    """Put groups of documents on sides, places in `SIDES`, in the proportions of `SHARES`."""
    uniform = mixed(groups, seed) / 2.0**64
    return np.searchsorted(np.cumsum(SHARES[:-1]), uniform, side="right").astype(np.int8)


def shared_sources(
    names: Sequence[str], sources: Sequence[str], sides: np.ndarray
) -> tuple[np.ndarray, Groups]:
    """Find the documents whose sources are the same, or nearly; also return each row's key."""
    keys = np.array([hash64(name) for name in names], dtype=np.uint64)
    texts_of = {text: [text_key(text), *near_keys(text)] for text in dict.fromkeys(sources)}
    with (
        tempfile.TemporaryDirectory(prefix="assay-") as work,
        closing(TextRegister(Path(work) / "texts")) as register,
    ):
        register.note(
            [
                (text, key, side)
                for key, source, side in zip(keys.tolist(), sources, sides.tolist(), strict=True)
                for text in (key, *texts_of[source])
            ]
        )
        return keys, register.groups()


def number_groups(documents: np.ndarray, sources: Sequence[str]) -> np.ndarray:
    """Give the documents, numbers from 0, that share a source, or nearly, one number."""
    names = [str(document) for document in documents.tolist()]
    keys, groups = shared_sources(names, sources, np.zeros(len(names), dtype=np.int8))
    group = np.unique(groups.group_of(keys), return_inverse=True)[1]
    first = np.full(group.max(initial=-1) + 1, documents.max(initial=0))
    np.minimum.at(first, group, documents)
    return np.unique(first[group], return_inverse=True)[1]


def _edges(entries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Link documents that share a text, each to itself if on two sides; return ends and sides."""
    ordered = entries[np.lexsort((entries["side"], entries["document"], entries["text"]))]
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])] if ordered.size else ordered
    is_shared = distinct["text"][1:] == distinct["text"][:-1]
    left, right = distinct[:-1][is_shared], distinct[1:][is_shared]
    return left["document"], right["document"], np.stack([left["side"], right["side"]], axis=1)

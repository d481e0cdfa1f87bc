"""Static word vectors from GloVe, word2vec and fastText files.

The table of a large file is in the memory of a machine once: the first process that reads the file
writes arrays into the cache folder, and every process maps them into its memory, where the kernel
holds each page once.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from uuid import uuid4

import numpy as np
from filelock import FileLock

from sms.encoders import EncoderRuntime
from sms.encoders.base import WordEncoder
from sms.file_hashes import hash_of_file, hash_of_files
from sms.naming import cache_folder
from sms.text import SegmentedTexts, composed

SHARED_FROM_BYTES = 1 << 22
"""The table of a smaller file is in the memory of each process: there is nothing to gain."""
_TABLE_FORMAT = 2
"""Part of every table's name: another format finds nothing rather than something wrong."""
_ARRAYS = ("vectors", "keys", "rows")
_KEY_BYTES = 16
_LONGEST_LINE = 1 << 20
_LARGEST = np.finfo(np.float32).max
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_MOST_DIGITS = 12
"""Of a number in a header; one with more is none."""
_NUMBER_AT_END = re.compile(r" [-+]?[\d.]+(e[-+]?\d+)?$")
_SYMBOLS = "£€¥₹©®™°"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WordTable:
    """The vectors of words, and where each word's vector is."""

    vectors: np.ndarray
    """Shape (n_words + 1, d); the last row is the zero vector of unknown words."""
    keys: np.ndarray
    """Hashes of the distinct words in the form in which texts are read, sorted, bytes."""
    rows: np.ndarray
    """Where the vector of each key is, int64; of words that occur twice, the first."""

    @classmethod
    def of(cls, words: Sequence[str], vectors: np.ndarray) -> WordTable:
        """Make a table of words and their vectors, shape (n_words, d)."""
        composed_words = [*map(composed, words)]
        changed = [one != word for one, word in zip(composed_words, words, strict=True)]
        order = np.argsort(changed, kind="stable")  # a word as it stands comes before all others
        keys, first = np.unique(_keys_of(composed_words)[order], return_index=True)
        nothing = np.zeros((1, vectors.shape[1]), vectors.dtype)
        return cls(np.concatenate([vectors, nothing]), keys, order[first].astype(np.int64))

    def rows_of(self, words: Sequence[str]) -> np.ndarray:
        """Return the row of each word's vector, -1 where there is none; int64."""
        if not self.keys.size:
            return np.full(len(words), -1, dtype=np.int64)
        keys = _keys_of(words)
        places = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[places] == keys, self.rows[places], -1)


def _keys_of(words: Sequence[str]) -> np.ndarray:
    keys = [
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
        for word in words
    ]
    return np.array(keys, dtype=f"S{_KEY_BYTES}")


class StaticEncoder(WordEncoder):
    """Looks words up in a table of vectors.

    A word is looked up as it stands, then lower-cased, then without symbols at its ends. The rest
    is as in `WordEncoder`.
    """

    def __init__(
        self,
        table: WordTable,
        *,
        name: str,
        content_hash: str = "",
        pooling: str = "mean",
        zero_unknown: bool = False,
    ) -> None:
        n, d = table.vectors.shape
        unknown = "zero" if zero_unknown else "drop"
        super().__init__(
            signature=f"{name}-{n - 1}x{d}|pool:{pooling}|oov:{unknown}",
            content_hash=content_hash,
            dimension=d,
            pooling=pooling,
            zero_unknown=zero_unknown,
        )
        self._table = table

    def rows_of(self, words: Sequence[str]) -> np.ndarray:
        """Return the row of each word's vector, or -1; int64."""
        rows = self._table.rows_of(words)
        for other in (str.lower, lambda word: word.lower().strip(_SYMBOLS)):
            left = np.flatnonzero(rows < 0)
            rows[left] = self._table.rows_of([other(words[k]) for k in left.tolist()])
        return rows

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of the vocabulary are in the table, bool, (n_words,)."""
        return self.table(texts)[1] >= 0

    def table(self, texts: SegmentedTexts) -> tuple[np.ndarray, np.ndarray]:
        """Return the whole table, and its row for every word of the vocabulary, -1 for none."""
        return self._table.vectors, texts.vocabulary.column(self._column, self.rows_of)


def load_static(
    file_format: str, path: str, *, runtime: EncoderRuntime, pooling: str = "mean"
) -> StaticEncoder:
    """Read a vector file, see `read_vectors` and `StaticEncoder`."""
    table, content_hash = open_table(Path(path), file_format)
    return StaticEncoder(
        table,
        name=f"{file_format}-{Path(path).stem}",
        content_hash=content_hash,
        pooling=pooling,
        zero_unknown=runtime.zero_unknown,
    )


load_glove, load_word2vec, load_fasttext = (
    partial(load_static, file_format) for file_format in ("glove", "word2vec", "fasttext")
)


def _shared_table(name: str, read: Callable[[], tuple[list[str], np.ndarray]]) -> WordTable:
    """Return a table that this process shares with others, out of the cache folder.

    Where the folder has none of that name, which is of the content, `read` gives it.
    """
    folder = cache_folder() / "vectors" / f"{name}-{_TABLE_FORMAT}"
    try:
        if not _is_whole(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):  # one process reads the text, the others wait
                if not _is_whole(folder):
                    _write(WordTable.of(*read()), folder)
        # Copy on write: nobody writes, so no page is copied; and compiled code needs no second
        # variant for arrays that are read-only.
        return WordTable(
            *(np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in _ARRAYS)
        )
    except OSError as error:
        logger.warning(
            "every worker keeps a copy of the word vectors, because %s cannot be used (%s); "
            "set ASSAY_CACHE to a folder with room for them",
            folder.parent,
            error,
        )
    return WordTable.of(*read())


def _write(table: WordTable, folder: Path) -> None:
    """Write a table aside, then rename it, so that nobody sees half a table."""
    aside = folder.with_name(f"{folder.name}.{uuid4().hex}.partial")
    try:
        aside.mkdir()
        for name in _ARRAYS:
            np.save(aside / f"{name}.npy", getattr(table, name))
        (aside / "sum").write_text(_sum_of(aside))
        shutil.rmtree(folder, ignore_errors=True)  # it is damaged if it is there
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    with suppress(FileNotFoundError):
        return (folder / "sum").read_text() == _sum_of(folder)
    return False


def _sum_of(folder: Path) -> str:
    return hash_of_files([folder / f"{name}.npy" for name in _ARRAYS])


def open_table(path: Path, file_format: str) -> tuple[WordTable, str]:
    """Return the table of a vector file, shared with other processes, and the hash of the file."""
    if not path.is_file():
        raise ValueError(f"no vector file at `{path}`; check the path after `{file_format}:`")
    content_hash = hash_of_file(path)[:32]
    if path.stat().st_size < SHARED_FROM_BYTES:
        return WordTable.of(*read_vectors(path, file_format)), content_hash
    name = f"{content_hash}-{file_format}"
    return _shared_table(name, lambda: read_vectors(path, file_format)), content_hash


def read_vectors(path: Path, file_format: str) -> tuple[list[str], np.ndarray]:
    """Read the words of a vector file and their vectors, float32, shape (n_words, d).

    Of the formats `glove` has no header line; `word2vec`, text or binary, and `fasttext` have one.
    Raises `ValueError` if the file is missing, truncated or not in that format, with its path and
    line.
    """
    if not path.is_file():
        raise ValueError(f"no vector file at `{path}`; check the path after `{file_format}:`")
    with path.open("rb") as file:
        header = file.readline(_LONGEST_LINE)
        parts = header.removeprefix(BOM_UTF8).split()
        if file_format == "glove":
            if len(parts) < 2 or (len(parts) == 2 and parts[0].isdigit()):
                raise ValueError(
                    f"`{path}` line 1 must be a word and its values, got {_shown(header)}; a file "
                    "with a header is read with `word2vec:` or `fasttext:`"
                )
            lines = chain([header.removeprefix(BOM_UTF8)], file)
            return _read_lines(path, lines, 1, len(parts) - 1)
        numbers = [int(part) for part in parts if part.isdigit() and len(part) <= _MOST_DIGITS]
        if len(parts) != 2 or len(numbers) != 2 or numbers[1] < 1:
            raise ValueError(
                f"`{path}` line 1 must be `number-of-words dimension`, got {_shown(header)}; "
                "a file without a header is read with `glove:`"
            )
        n_words, dimension = numbers
        start = file.read(_LONGEST_LINE)
        is_text = _parsed(start.partition(b"\n")[0], dimension) is not None
        # a damaged line of text is no binary file
        if file_format == "word2vec" and not is_text and _CONTROL.search(start):
            return _read_binary(path, len(header), n_words, dimension)
        file.seek(len(header))
        words, vectors = _read_lines(path, file, 2, dimension)
    if words and all(_NUMBER_AT_END.search(word) for word in words):
        raise ValueError(
            f"the first line of `{path}` says {dimension} values per line, but there are more: "
            f"{words[0][:60]!r}; correct the first line"
        )
    if n_words != len(words):
        raise ValueError(
            f"`{path}` must hold the {n_words} vectors that its first line says, got {len(words)} "
            f"before it ends at line {len(words) + 1}; download it again"
        )
    return words, vectors


def _read_lines(
    path: Path, lines: Iterable[bytes], first_line: int, dimension: int
) -> tuple[list[str], np.ndarray]:
    words, rows = [], []
    for number, line in enumerate(lines, first_line):
        parsed = _parsed(line, dimension)
        if parsed is None:
            raise ValueError(
                f"`{path}` line {number} must be a word and {dimension} finite values, "
                f"got {_shown(line)}; download it again"
            )
        words.append(parsed[0])
        rows.append(parsed[1])
    return words, np.array(rows, dtype=np.float32).reshape(-1, dimension)


def _parsed(line: bytes, dimension: int) -> tuple[str, np.ndarray] | None:
    """Return a line's word, which may hold spaces, and its values; None if there is none."""
    word, *parts = line.rstrip().rsplit(b" ", dimension)
    try:
        values = np.array([float(part) for part in parts if b"_" not in part])
    except ValueError:
        return None
    if values.size != dimension or not (np.abs(values) <= _LARGEST).all():
        return None
    return word.strip(b" ").decode("utf-8", errors="replace"), values.astype(np.float32)


def _read_binary(path: Path, at: int, n_words: int, dimension: int) -> tuple[list[str], np.ndarray]:
    """Read what follows the header: each word, a space, and little-endian float32 values."""
    data = path.read_bytes()
    promised = f"`{path}` must hold {n_words} vectors of {dimension} values"
    width = 4 * dimension
    words: list[str] = []
    rows: list[np.ndarray] = []
    while len(words) < n_words:
        start = data.find(b" ", at) + 1
        if not start or start + width > len(data):
            raise ValueError(
                f"{promised}, got {len(words)} whole ones before it ends at byte {len(data)}; "
                "download it again"
            )
        words.append(data[at : start - 1].lstrip(b"\n").decode("utf-8", errors="replace"))
        rows.append(np.frombuffer(data, dtype="<f4", count=dimension, offset=start))
        at = start + width
    if data[at:].strip():
        raise ValueError(
            f"{promised}, as its first line says, got {len(data) - at} more bytes; "
            "download it again"
        )
    vectors = np.array(rows, dtype=np.float32).reshape(-1, dimension)
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        raise ValueError(f"`{path}` vector {int(bad.argmax()) + 1} must be finite")
    return words, vectors


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", errors="replace").strip()
    return repr(text[:60] + ("..." if len(text) > 60 else ""))

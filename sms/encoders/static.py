"""Static word vectors from GloVe, word2vec and fastText files."""

from __future__ import annotations

import contextlib
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sms.encoders import EncodedSentences, EncoderRuntime
from sms.encoders.word_table import WordTable, shared_table
from sms.file_hashes import hash_of_file
from sms.pooling import pool_rows
from sms.ragged import Ragged, offsets_of
from sms.text import SegmentedTexts

FORMATS = ("glove", "word2vec", "fasttext")
SHARED_FROM_BYTES = 1 << 22
"""The table of a smaller file is in the memory of each process: there is nothing to gain."""
_BLOCK_BYTES = 1 << 24
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_NUMBER_AT_END = re.compile(r" [-+]?[\d.]+(e[-+]?\d+)?$")


class StaticEncoder:
    """Looks words up in a table of vectors.

    A word is looked up as it stands, then lower-cased, then without symbols at its ends.
    Words that are not found are left out, or, with `zero_unknown`, stay in the bag as a zero
    vector, as in the released sentence mover code. `pooling`, "mean" or "max", says how a text's
    word vectors become one vector for cosine.
    """

    has_words = True
    unit = "sentence"

    def __init__(
        self,
        table: WordTable,
        *,
        name: str,
        content_hash: str = "",
        pooling: str = "mean",
        zero_unknown: bool = False,
    ) -> None:
        self._table = table
        self._vectors = table.vectors
        self._name = name
        self._column = f"row:{content_hash or id(self)}"
        self.content_hash = content_hash
        self.pooling = pooling
        self._zero_unknown = zero_unknown
        self._n_words = self._n_unknown = 0

    @property
    def signature(self) -> str:
        """Name, number of words, dimension and what happens to unknown words."""
        n, d = self._vectors.shape
        unknown = "zero" if self._zero_unknown else "drop"
        return f"{self._name}-{n - 1}x{d}|pool:{self.pooling}|oov:{unknown}"

    def rows_of(self, words: Sequence[str]) -> np.ndarray:
        """Return the row of each word's vector, or -1; int64."""
        rows = self._table.rows_of(words)
        for other in (str.lower, lambda word: word.lower().strip(_SYMBOLS)):
            left = np.flatnonzero(rows < 0)
            rows[left] = self._table.rows_of([other(words[k]) for k in left.tolist()])
        return rows

    def state(self) -> dict[str, int]:
        """Return how many words that count were asked for so far, and how many are unknown."""
        return {"words": self._n_words, "unknown": self._n_unknown}

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of the vocabulary have a vector, bool, (n_words,)."""
        return self._rows_of_words(texts) >= 0

    def _rows_of_words(self, texts: SegmentedTexts) -> np.ndarray:
        return texts.vocabulary.column(self._column, self.rows_of)

    def encode(self, texts: SegmentedTexts) -> EncodedSentences:
        """Look up the kept words of every sentence."""
        row_of_word = self._rows_of_words(texts)
        words = texts.sentence_words
        kept = texts.is_kept[words.values]
        rows = row_of_word[words.values]
        n_kept = words.sums(kept)
        n_known = words.sums(kept & (rows >= 0))
        self._n_words += int(n_kept.sum())
        self._n_unknown += int(n_kept.sum() - n_known.sum())
        if self._zero_unknown:
            rows = np.where(rows < 0, len(self._vectors) - 1, rows)
        used = kept & (rows >= 0)
        weights = words.sums(used)
        sentence_words = Ragged(rows[used], offsets_of(weights))
        means, largest = pool_rows(
            self._vectors, sentence_words, with_maximum=self.pooling == "max"
        )
        return EncodedSentences(
            word_points=self._vectors,
            sentence_words=sentence_words,
            sentence_points=means,
            weights=weights,
            pooled=largest if self.pooling == "max" else means,
            pooled_weights=weights.astype(np.float64),
            n_kept=n_kept,
            n_known=n_known,
        )


_SYMBOLS = "£€¥₹©®™°"


def load_glove(path: str, *, runtime: EncoderRuntime, pooling: str = "mean") -> StaticEncoder:
    """Read a GloVe text file, see `load_static`."""
    return load_static(Path(path), "glove", pooling=pooling, zero_unknown=runtime.zero_unknown)


def load_word2vec(path: str, *, runtime: EncoderRuntime, pooling: str = "mean") -> StaticEncoder:
    """Read a word2vec file, see `load_static`."""
    return load_static(Path(path), "word2vec", pooling=pooling, zero_unknown=runtime.zero_unknown)


def load_fasttext(path: str, *, runtime: EncoderRuntime, pooling: str = "mean") -> StaticEncoder:
    """Read a fastText `.vec` file, see `load_static`."""
    return load_static(Path(path), "fasttext", pooling=pooling, zero_unknown=runtime.zero_unknown)


def load_static(
    path: Path, file_format: str, *, pooling: str = "mean", zero_unknown: bool = False
) -> StaticEncoder:
    """Read a vector file in one of `FORMATS`, see `StaticEncoder`.

    `glove` has no header line; the other two have one; `word2vec` may be text or binary. Raises
    `ValueError` if the file is missing, truncated or not in that format, with its path and line.
    """
    table, content_hash = open_table(path, file_format)
    return StaticEncoder(
        table,
        name=f"{file_format}-{path.stem}",
        content_hash=content_hash,
        pooling=pooling,
        zero_unknown=zero_unknown,
    )


def open_table(path: Path, file_format: str) -> tuple[WordTable, str]:
    """Return the table of a vector file, shared with other processes, and the hash of the file.

    Raises `ValueError` as `load_static` does.
    """
    _check_there(path, file_format)
    content_hash = hash_of_file(path)[:32]
    if path.stat().st_size < SHARED_FROM_BYTES:
        return WordTable.of(*read_vectors(path, file_format)), content_hash
    name = f"{content_hash}-{file_format}"
    return shared_table(name, lambda: read_vectors(path, file_format)), content_hash


def read_vectors(path: Path, file_format: str) -> tuple[list[str], np.ndarray]:
    """Read the words of a vector file and their vectors, float32, shape (n_words, d).

    Raises `ValueError` as `load_static` does.
    """
    _check_there(path, file_format)
    if file_format == "word2vec" and _is_binary(path):
        return _read_binary(path)
    return _read_text(path, has_header=file_format != "glove")


def _check_there(path: Path, file_format: str) -> None:
    if not path.is_file():
        raise ValueError(f"no vector file at `{path}`; check the path after `{file_format}:`")


def _header(path: Path, line: bytes) -> tuple[int, int]:
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) < 1:
        raise ValueError(
            f"`{path}` line 1 must be `number-of-words dimension`, got {_shown(line)}; "
            "a file without a header is read with `glove:`"
        )
    return int(parts[0]), int(parts[1])


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        _, dimension = _header(path, file.readline(1 << 16))
        sample = file.read(1 << 16)
    parts = sample.partition(b"\n")[0].split()
    try:
        [float(part) for part in parts[-dimension:]]
    except ValueError:
        return _CONTROL.search(sample) is not None
    return len(parts) <= dimension and _CONTROL.search(sample) is not None


def _read_binary(path: Path) -> tuple[list[str], np.ndarray]:
    """Read word2vec's binary format: header, then word, space, little-endian float32 values."""
    data = path.read_bytes()
    end = data.index(b"\n")
    n_words, dimension = _header(path, data[:end])
    width = 4 * dimension
    n_fitting = len(data) // (width + 1)  # whatever the header says
    words, vectors = [], np.empty((min(n_words, n_fitting), dimension), dtype=np.float32)
    at = end + 1
    for row in range(n_words):
        space = data.find(b" ", at)
        if space < 0 or space + 1 + width > len(data):
            raise ValueError(
                f"`{path}` must hold {n_words} vectors of {dimension} values, got {row} whole ones "
                f"before it ends at byte {len(data)}; download it again"
            )
        words.append(data[at:space].lstrip(b"\n").decode("utf-8", errors="replace"))
        vectors[row] = np.frombuffer(data, dtype="<f4", count=dimension, offset=space + 1)
        at = space + 1 + width
    if data[at:].strip():
        raise ValueError(
            f"`{path}` must hold {n_words} vectors of {dimension} values by its first line, got "
            f"{len(data) - at} more bytes after them; download it again"
        )
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        raise ValueError(f"`{path}` vector {int(bad.argmax()) + 1} must be finite")
    return words, vectors


def _read_text(path: Path, *, has_header: bool) -> tuple[list[str], np.ndarray]:
    with path.open("rb") as file:
        first = file.readline(1 << 20)
        if not first:
            raise ValueError(f"`{path}` must hold vectors, got an empty file")
        start = len(BOM_UTF8) * first.startswith(BOM_UTF8)
        first = first[start:]
        if has_header:
            n_words, dimension = _header(path, first)
            first_line = 2
        else:
            n_words, dimension = -1, len(first.split()) - 1
            first_line = 1
            file.seek(start)
            if dimension == 1 and first.split()[0].isdigit():
                raise ValueError(
                    f"`{path}` line 1 looks like a header, got {_shown(first)}; "
                    "read the file with `word2vec:` or `fasttext:`"
                )
        if dimension < 1:
            raise ValueError(f"`{path}` line 1 must be a word and its values, got {_shown(first)}")
        words: list[str] = []
        blocks = []
        for lines in _blocks(file):
            heads, values = _parse_block(path, lines, dimension, first_line + len(words))
            words += heads
            blocks.append(values)
        if has_header and words and all(_NUMBER_AT_END.search(word) for word in words):
            raise ValueError(
                f"`{path}` must have {dimension} values in a line by its first line, got more: "
                f"{words[0][:60]!r}; mend the first line"
            )
    vectors = np.concatenate(blocks) if blocks else np.empty((0, dimension), dtype=np.float32)
    if n_words >= 0 and n_words != len(words):
        raise ValueError(
            f"`{path}` must hold {n_words} vectors by its first line, got {len(words)} before it "
            f"ends at line {first_line + len(words) - 1}; download it again"
        )
    return words, vectors


def _blocks(file: Iterator[bytes]) -> Iterator[list[bytes]]:
    while lines := file.readlines(_BLOCK_BYTES):  # type: ignore[attr-defined]
        yield lines


def _parse_block(
    path: Path, lines: list[bytes], dimension: int, first_line: int
) -> tuple[list[str], np.ndarray]:
    heads, numbers = [], []
    for line in lines:
        head, _, rest = line.rstrip().partition(b" ")
        heads.append(head)
        numbers.append(rest)
    values = np.empty(0)
    if all(rest.count(b" ") == dimension - 1 for rest in numbers):
        with contextlib.suppress(ValueError):  # the line is found below
            values = np.fromstring(b" ".join(numbers), dtype=np.float64, sep=" ")
    if values.size != dimension * len(lines) or not _fits_float32(values):
        # slow and exact: words may hold spaces, or a line is damaged
        values = np.empty(dimension * len(lines))
        for k, line in enumerate(lines):
            parts = line.rstrip().rsplit(b" ", dimension)
            try:
                row = [float(part) for part in parts[1:] if b"_" not in part]
            except ValueError:
                row = []
            if len(row) != dimension or not _fits_float32(np.array(row)):
                raise ValueError(
                    f"`{path}` line {first_line + k} must be a word and {dimension} finite values, "
                    f"got {_shown(line)}; download it again"
                )
            heads[k] = parts[0].strip(b" ")
            values[k * dimension : (k + 1) * dimension] = row
    shaped = values.reshape(len(lines), dimension).astype(np.float32)
    return [head.decode("utf-8", errors="replace") for head in heads], shaped


def _fits_float32(values: np.ndarray) -> bool:
    return bool((np.abs(values) <= np.finfo(np.float32).max).all())  # NaN is not, either


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", errors="replace").strip()
    return repr(text[:60] + ("..." if len(text) > 60 else ""))

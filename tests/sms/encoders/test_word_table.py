"""Tables of word vectors in the cache folder: shared by processes, the same bits, never damaged."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from sms.encoders import static, word_table
from sms.encoders.registry import load_encoder
from sms.encoders.word_table import WordTable

WORDS = ["cat", "dog", "cat", "naïve", "東京"]
VECTORS = np.random.default_rng(5).normal(size=(5, 7)).astype(np.float32)


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """A vector file, small, that is shared all the same."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(static, "SHARED_FROM_BYTES", 0)
    path = tmp_path / "vectors.txt"
    rows = zip(WORDS, VECTORS.tolist(), strict=True)
    path.write_text("".join(f"{word} {' '.join(map(repr, row))}\n" for word, row in rows))
    return path


def load(file: Path) -> WordTable:
    return load_encoder(f"glove:{file}")._table


def is_mapped(array: np.ndarray) -> bool:
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return array is not None


def test_later_loads_map_the_first_ones_table(file, monkeypatch):
    first = load(file)
    monkeypatch.setattr(static, "read_vectors", lambda *_: pytest.fail("read once more"))
    second = load(file)
    monkeypatch.undo()
    own = load(file)
    np.testing.assert_array_equal(own.vectors, [*VECTORS, np.zeros(7)])
    for name in ("vectors", "keys", "rows"):
        ours = getattr(own, name)
        assert not is_mapped(ours)
        for shared in (getattr(first, name), getattr(second, name)):
            assert is_mapped(shared)
            assert (shared.dtype, shared.tobytes()) == (ours.dtype, ours.tobytes())


def test_word_that_occurs_twice_has_its_first_vector():
    table = WordTable.of(WORDS, VECTORS)
    assert table.rows_of(["東京", "cat", "hen", "dog", "naïve"]).tolist() == [4, 0, -1, 1, 3]
    assert WordTable.of([], VECTORS[:0]).rows_of(["cat"]).tolist() == [-1]


@pytest.mark.parametrize("name", ["vectors.npy", "sum"])
@pytest.mark.parametrize("harm", ["cut", "changed", "missing"])
def test_damaged_table_is_written_again(file, name, harm):
    good = load(file).vectors.tobytes()
    damaged = next(file.parent.glob(f"cache/vectors/*/{name}"))
    data = damaged.read_bytes()
    damaged.unlink()
    if harm != "missing":
        damaged.write_bytes(data[:-3] if harm == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    assert load(file).vectors.tobytes() == good
    assert damaged.read_bytes() == data


def test_without_a_cache_folder_each_process_has_its_own(file, caplog):
    (file.parent / "cache").write_text("in the way")
    assert load(file).rows_of(["dog"]).tolist() == [1]
    assert "every worker keeps its own copy of the word vectors" in caplog.text
    assert "set ASSAY_CACHE" in caplog.text


def test_process_that_dies_while_it_writes_leaves_no_table(file, monkeypatch):
    def dies(path, array):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(word_table.np, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            load(file)
    assert not list(file.parent.glob("cache/vectors/*/*"))
    assert load(file).rows_of(["dog"]).tolist() == [1]

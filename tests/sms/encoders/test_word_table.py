"""Tables of word vectors in the cache folder: shared by processes, the same bits, never damaged."""

from __future__ import annotations

import mmap
import shutil
from pathlib import Path

import numpy as np
import pytest

from sms.encoders import static, word_table
from sms.encoders.static import load_static
from sms.encoders.word_table import WordTable, shared_table

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


def mapped_file(array: np.ndarray) -> str:
    """The file whose pages an array lies in, as the kernel names it."""
    base = array
    while not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else base.base
    address = array.ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(number, 16) for number in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[-1]
    raise AssertionError("not mapped")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_loads_of_one_file_lie_in_the_pages_of_one_file(file, monkeypatch):
    first = load_static(file, "glove")
    monkeypatch.setattr(static, "read_vectors", lambda *_: pytest.fail("read once more"))
    second = load_static(file, "glove")
    vectors = [encoder._table.vectors for encoder in (first, second)]
    assert mapped_file(vectors[0]) == mapped_file(vectors[1])
    assert mapped_file(vectors[0]).endswith("vectors.npy")
    assert first.signature == second.signature


def test_shared_table_has_the_same_bits(file, monkeypatch):
    shared = load_static(file, "glove")
    monkeypatch.setattr(static, "SHARED_FROM_BYTES", 1 << 30)
    own = load_static(file, "glove")
    for name in ("vectors", "keys", "rows"):
        ours, theirs = getattr(shared._table, name), getattr(own._table, name)
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
    np.testing.assert_array_equal(own._table.vectors, [*VECTORS, np.zeros(7)])
    assert shared.content_hash == own.content_hash


def test_word_that_occurs_twice_has_its_first_vector():
    table = WordTable.of(WORDS, VECTORS)
    assert table.rows_of(["東京", "cat", "hen", "dog", "naïve"]).tolist() == [4, 0, -1, 1, 3]
    assert WordTable.of([], VECTORS[:0]).rows_of(["cat"]).tolist() == [-1]


@pytest.mark.parametrize("name", ["vectors.npy", "keys.npy", "rows.npy", "sum"])
@pytest.mark.parametrize("harm", ["cut", "changed", "missing"])
def test_damaged_table_is_written_again(file, name, harm):
    good = load_static(file, "glove")._table
    damaged = next(file.parent.glob(f"cache/vectors/*/{name}"))
    data = damaged.read_bytes()
    damaged.unlink()
    if harm != "missing":
        damaged.write_bytes(data[:-3] if harm == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    again = load_static(file, "glove")._table
    assert again.vectors.tobytes() == good.vectors.tobytes()
    assert damaged.read_bytes() == data


def test_without_a_cache_folder_each_process_has_its_own(file, monkeypatch, caplog):
    (file.parent / "cache").write_text("in the way")
    encoder = load_static(file, "glove")
    assert encoder.rows_of(["dog"]).tolist() == [1]
    assert "every worker keeps its own copy of the word vectors" in caplog.text
    assert "set ASSAY_CACHE" in caplog.text


def test_process_that_dies_while_it_writes_leaves_no_table(file, monkeypatch):
    def dies(path, array):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(word_table.np, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            load_static(file, "glove")
    assert not list(file.parent.glob("cache/vectors/*/*"))
    assert load_static(file, "glove").rows_of(["dog"]).tolist() == [1]


def test_one_table_for_each_way_of_reading(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    one = shared_table("a", lambda: (["x"], np.ones((1, 2), np.float32)))
    other = shared_table("b", lambda: (["y"], np.ones((1, 2), np.float32)))
    assert one.rows_of(["x", "y"]).tolist() == [0, -1]
    assert other.rows_of(["x", "y"]).tolist() == [-1, 0]
    shutil.rmtree(tmp_path / "vectors")  # whoever has it mapped keeps it
    assert one.vectors.tolist() == [[1.0, 1.0], [0.0, 0.0]]

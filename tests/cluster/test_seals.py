"""Seals of what a run writes: every changed bit is found, and no reader minds."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import seals
from cluster.seals import (
    check_sealed_parquet,
    read_sealed_json,
    read_sealed_parquet,
    sealed_json,
    sealed_parquet,
)

TABLE = pa.table({"document_id": ["d0", "d1", "d2"], "sms": [0.25, 0.5, None]})


@pytest.fixture
def part(tmp_path):
    """A sealed file."""
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, compression="zstd", write_page_index=True)
    path = tmp_path / "part-000000-0123456789ab.parquet"
    data, seal = sealed_parquet(sink.getvalue(), path.name)
    path.write_bytes(data)
    assert read_sealed_parquet(str(path)) == (data, seal)
    footer, checked = check_sealed_parquet(str(path))
    assert data.endswith(footer)
    assert checked == seal
    return path


@pytest.fixture(params=[read_sealed_parquet, check_sealed_parquet])
def checked(request, monkeypatch):
    """What reads a file whole, and what does so in small blocks."""
    monkeypatch.setattr(seals, "_BLOCK_BYTES", 7)
    return request.param


def test_every_flipped_bit_of_a_parquet_file_is_found(part, checked):
    data = part.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        part.write_bytes(changed)
        with pytest.raises(ValueError, match=r"scores file .* is damaged .*delete it"):
            checked(str(part))


def test_parquet_of_another_length_or_name_is_found(part, checked):
    data = part.read_bytes()
    for changed in (data[:-1], data + b"\0", b"", b"PAR1"):
        part.write_bytes(changed)
        with pytest.raises(ValueError, match=r"is damaged"):
            checked(str(part))
    other = part.rename(part.with_name("part-000001-0123456789ab.parquet"))
    other.write_bytes(data)
    with pytest.raises(ValueError, match=r"part-000001-0123456789ab\.parquet is damaged"):
        checked(str(other))


@pytest.mark.parametrize("text", ['{"a": 1}', '{\n "a": "é \udcff",\n "b": {"seal": "x"}\n}\n'])
def test_every_flipped_bit_of_a_json_file_is_found(tmp_path, text):
    path = tmp_path / "run.json"
    data = sealed_json(text, "run.json")
    path.write_bytes(data)
    found = read_sealed_json(str(path), "run.json", "restore it")
    assert {key: found[key] for key in found if key != "seal"} == json.loads(text)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"run\.json is damaged .*; restore it"):
            read_sealed_json(str(path), "run.json", "restore it")


def test_json_of_another_kind_is_found(tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(sealed_json('{"a": 1}', "progress.json"))
    with pytest.raises(ValueError, match=r"run\.json is damaged"):
        read_sealed_json(str(path), "run.json", "restore it")

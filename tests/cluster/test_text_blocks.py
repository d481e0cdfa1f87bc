"""Text as programs write it: packed, in UTF-16, with carriage returns alone."""

import bz2
import codecs
import gzip

import pyarrow as pa
import pytest

from cluster import text_blocks
from cluster.text_blocks import opened_text

TEXT = "a,b\nBoston,é 😀\n"
RAW = TEXT.encode()


def read(path):
    with opened_text(str(path)) as given:
        blocks = list(given)
    assert all(blocks)  # an empty one would be the end
    return b"".join(blocks)


WRITTEN = {
    "UTF-8": RAW,
    "UTF-8 with a mark": codecs.BOM_UTF8 + RAW,
    "UTF-16 with a mark": TEXT.encode("utf-16"),
    "UTF-16, big end first": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    "UTF-16 without a mark": TEXT.encode("utf-16-le"),
    "UTF-16 without a mark, big end first": TEXT.encode("utf-16-be"),
    "UTF-32": TEXT.encode("utf-32"),
    "carriage returns": RAW.replace(b"\n", b"\r"),
    "carriage returns in UTF-16": TEXT.replace("\n", "\r").encode("utf-16"),
    "gzip": gzip.compress(RAW),
    "two members of gzip": gzip.compress(RAW[:5]) + gzip.compress(RAW[5:]),
    "gzip with zeros at its end": gzip.compress(RAW) + bytes(512),
    "gzip with zeros between": gzip.compress(RAW[:5]) + bytes(3) + gzip.compress(RAW[5:]),
    "zstd": pa.compress(RAW, "zstd", asbytes=True),
    "bzip2": bz2.compress(RAW),
    "UTF-16 in gzip": gzip.compress(TEXT.encode("utf-16")),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("block_bytes", [1, 3, 1 << 20])
def test_text_is_read_however_it_was_written(tmp_path, monkeypatch, written, block_bytes):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "text.csv"  # whatever its name says
    path.write_bytes(written)
    assert read(path) == RAW


def test_line_ends_of_two_kinds_stay(tmp_path):
    path = tmp_path / "text.csv"
    path.write_bytes(b"a\r\nb\rc\n")
    assert read(path) == b"a\r\nb\rc\n"


def test_half_a_pair_of_utf_16_stays_to_be_found(tmp_path):
    path = tmp_path / "text.csv"
    path.write_bytes(codecs.BOM_UTF16_LE + "a".encode("utf-16-le") + b"\x3d\xd8")
    assert read(path) == b"a\xed\xa0\xbd"  # no UTF-8


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(RAW)[:-9], "ended before the end-of-stream marker"),
        (gzip.compress(RAW) + b"more", "Not a gzipped file"),
        (pa.compress(RAW * 99, "zstd", asbytes=True)[:-9], ""),
        (TEXT.encode("utf-16")[:-1], "truncated data"),
    ],
    ids=["cut gzip", "gzip and more", "cut zstd", "cut UTF-16"],
)
def test_damaged_file_is_named(tmp_path, content, said):
    path = tmp_path / "text.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"cannot read .*text\.csv: .*{said}"):
        read(path)

"""Inputs: what is refused before anything runs; a file's size, footer and content."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import is_unchanged, list_inputs, with_content

# name and content of a file, what is listed, and what is said
BROKEN_FOOTER = b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1"


REFUSED = [
    ("", b"", "nowhere.parquet", r"no such file or folder: .*nowhere"),
    ("", b"", "*.parquet", "no file matches"),
    *(
        ("a.parquet", content, "", r"Parquet file.*a\.parquet")
        for content in (b"", b"PAR1", b"this is none", b"\xff" * 4 + b"PAR1", BROKEN_FOOTER)
    ),
    ("a.txt", b"", "a.txt", r"a.txt must end in .parquet, .* got `\.txt`"),
    ("a.txt", b"", "", "no files to read in"),
]


@pytest.mark.parametrize(("name", "content", "asked", "message"), REFUSED)
def test_wrong_input_rejected(tmp_path, name, content, asked, message):
    if name:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        list_inputs([str(tmp_path / asked)])


def test_footer_that_is_larger_than_what_is_read_of_it_first(tmp_path):
    table = pa.table({"candidate": ["x"] * 3}).replace_schema_metadata({"about": "x" * 200_000})
    pq.write_table(table, tmp_path / "a.parquet")
    (file,) = list_inputs([str(tmp_path)])
    assert file.outline.n_rows == 3


def content_of(path):
    (file,) = with_content(list_inputs([str(path)]))
    return file.content


def test_edit_that_size_or_footer_do_not_show_changes_the_hash(tmp_path):
    path = tmp_path / "corpus.jsonl"
    content = bytearray(b"a line of text\n" * 200_000)
    path.write_bytes(content)
    before = content_of(path)
    content[1_500_000] ^= 1
    path.write_bytes(content)
    assert content_of(path) != before
    path, found = tmp_path / "corpus.parquet", []
    for texts in (["aaa", "bbb"], ["aab", "bbb"]):
        table = pa.table({"candidate": texts})
        pq.write_table(table, path, compression="none", write_statistics=False)
        written = path.read_bytes()
        footer = written[-8 - int.from_bytes(written[-8:-4], "little") :]
        found.append((footer, content_of(path)))
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]


def test_file_that_is_only_linked_to_is_unchanged(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    (file,) = with_content(list_inputs([str(path)]))
    os.utime(path, ns=(1, 1))
    assert is_unchanged(file.path, file.version, file.content)
    path.write_text("[{}]\n", encoding="utf-8")
    assert not is_unchanged(file.path, file.version, file.content)

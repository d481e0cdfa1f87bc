"""Cells of text: a list as pandas, numpy or JSON write it."""

import csv

from tests.cluster.conftest import read_rows

# a list as pandas, numpy or JSON write it into a cell, or a text that begins like one
LISTS = {
    """["it's", 'say "x"']""": ["it's", 'say "x"'],
    """['a' 'b\\nc']""": ["a", "b\nc"],
    """array(['a, b', None], dtype=object)""": ["a, b"],
    """["\\u00e9", null]""": ["é"],
    "[]": [],
    "[Music] plays": ["[Music] plays"],
    "[1] See [2]": ["[1] See [2]"],
    "plain": ["plain"],
    "['a', 'b'": None,
    "['a', 1]": None,
    "['a' 'b', 'c']": None,
}


def test_csv_cell_with_a_list_is_read_as_one_or_refused(tmp_path):
    path = tmp_path / "corpus.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["document_id", "system_id", "candidate", "references"])
        table.writerows(["d", "s", "c", cell] for cell in LISTS)
    rows = read_rows(path, ("candidate", "references"))
    assert [row["references"] for row in rows] == [*LISTS.values()]
    said = "`references` begins like a list of texts but is not one; write it as JSON"
    told = [said if texts is None else None for texts in LISTS.values()]
    assert [row["unreadable"] for row in rows] == told

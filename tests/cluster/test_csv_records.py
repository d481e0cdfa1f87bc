"""CSV as programs write it: as many rows as Python's csv reads, none lost."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.csv_records import Stray, csv_records


def read(text):
    return [record for *_, record in csv_records(iter([text.encode()]), "x.csv")]


# a file, and its records by Python's csv: dialect, then what it calls them
LIKE_PYTHON = {
    "commas": ("a,b\n1,2\n", {}),
    "semicolons": ("a;b\n1;2,5\n", {"delimiter": ";"}),
    "tabs": ("a\tb\n1\t2\n", {"delimiter": "\t"}),
    "no end of the last line": ("a,b\n1,2", {}),
    "Windows": ("a,b\r\n1,2\r\n", {}),
    "mixed ends": ("a,b\r\n1,2\n3,4\r5,6\n", {}),
    "inch marks": ('a,b\n1,a 5" screen\n2,"a 7"" screen"\n3,12"\n', {}),
    "line breaks in cells": ('a,b\n1,"x\ny"\n2,"x\r\ny"\n', {}),
    "one column": ("a\n1\n2\n", {}),
    "a separator at the end": ("a,b,\n1,2,\n", {}),
    "blank lines": ("a,b\n\n1,2\n   \n\n3,4\n", {}),
    "Excel's numbers as text": ('a,b\n1,="007"\n', {}),
    "a quotation mark alone": ('a,b\n1,""""\n', {}),
    "long cells": (f"a,b\n1,{'x' * 200_000}\n", {}),
}


@pytest.mark.parametrize(("text", "dialect"), LIKE_PYTHON.values(), ids=LIKE_PYTHON)
def test_records_are_those_of_python(text, dialect):
    csv.field_size_limit(1 << 20)
    rows = csv.reader(io.StringIO(text, newline=""), **dialect)
    assert read(text) == [row for row in rows if any(map(str.strip, row))]


@pytest.mark.parametrize("first", ["sep=;\n", "sep=;\r\n", '"sep=;"\n', "SEP=;\n", "sep=;;;\n"])
def test_first_line_that_names_the_separator_is_no_header(first):
    assert read(f"{first}a,x;b\n1,0;2\n") == [["a,x", "b"], ["1,0", "2"]]
    assert read(first) == []


def test_column_called_sep_is_a_column():
    assert read("sep,b\n1,2\n") == [["sep", "b"], ["1", "2"]]


def test_stray_mark_spoils_its_own_cell_only():
    """As long as the other cells are certain: as many as there are columns."""
    records = read('a,b,c\n1,"x" y,"2, 3"\n"4,5,6\n7,"x, y" z,8\n9,10,11\n')
    assert records[1] == ["1", "malformed CSV: a quotation mark in line 2 is stray", "2, 3"]
    assert [isinstance(cell, Stray) for cell in records[1]] == [False, True, False]
    assert records[2][1:] == ["5", "6"]
    assert records[3] == "malformed CSV: a quotation mark in line 4 is stray"
    assert records[4] == ["9", "10", "11"]


CELLS = st.text('a" é', max_size=6).map("x{}".format)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_marks_inside_of_cells_are_characters_as_in_python(rows):
    text = "".join(f"{','.join(row)}\n" for row in [("a", "b"), *rows])
    assert read(text) == list(csv.reader(io.StringIO(text)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text('a,"', max_size=6), min_size=1, max_size=8), st.integers(0, 7))
def test_line_that_is_well_written_is_read_whatever_is_before_it(lines, at):
    """Unless a quoted text goes on over it, as in Python's csv."""
    written = [f"x{line}" for line in lines]
    written.insert(at, "good,row")
    records = read("".join(f"{line}\n" for line in ["a,b", *written]))
    texts = [cell for record in records for cell in record]
    assert ["good", "row"] in records or any("good,row" in text for text in texts)


def test_quotation_marks_may_be_characters_like_others():
    text = 'a\tb\n"x\ty"z\n'
    records = csv_records(iter([text.encode()]), "x.tsv", has_quotes=False)
    assert [record for *_, record in records] == [["a", "b"], ['"x', 'y"z']]

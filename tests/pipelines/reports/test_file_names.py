from itertools import combinations

import pytest

from pipelines.reports.file_names import explain_file, file_stem

TRICKY = [("a", "b"), ("a.b",), ("a/b",), ("a b",), ("a", "", "b"), ("..",), ("",), ("ä",), ("ab",)]


@pytest.mark.parametrize(("one", "other"), [*combinations(TRICKY, 2)])
def test_different_parts_give_different_names(one, other):
    assert file_stem(*one) != file_stem(*other)


@pytest.mark.parametrize(
    "text", ["../../etc/passwd", "a\\b", "C:x", "x\x00y", "~root", "-", "a" * 300]
)
def test_name_stays_in_its_folder(text):
    name = file_stem(text, "svg")
    assert not set(name) & set("/\\:\x00~")
    assert len(name) < 100


def test_explain_file_by_hand():
    assert explain_file("cnn-1", "M0", "s+wms@minilm") == "cnn-1.M0.s+wms@minilm.html"

"""Ids as text, whatever type they have in a file."""

import datetime
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from cluster.ids import id_array, id_text

UUIDS = [uuid.UUID(int=1), None, uuid.uuid5(uuid.NAMESPACE_URL, "assay")]
BYTES = [each and each.bytes for each in UUIDS]
AS_TEXT = [each and str(each) for each in UUIDS]
DAY = datetime.datetime(2026, 1, 2, 3, 4, 5)

ARRAYS = {
    "text": (pa.array(["a", None, "007"]), ["a", None, "007"]),
    "views": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "categories": (pa.array([7, None, 7]).dictionary_encode(), ["7", None, "7"]),
    "runs": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), ["a", "a", "b"]),
    "whole numbers": (pa.array([1, None, 2**62]), ["1", None, str(2**62)]),
    "numbers": (pa.array([1.0, None, 0.5, float("nan")]), ["1", None, "0.5", None]),
    "short numbers": (pa.array([1.0, 0.1], pa.float32()), ["1", "0.1"]),
    "decimals": (pa.array([Decimal("1.50"), Decimal("2.00")]), ["1.50", "2.00"]),
    "truth": (pa.array([True, False]), ["true", "false"]),
    "days": (pa.array([DAY.date(), None]), ["2026-01-02", None]),
    "times": (pa.array([DAY], pa.timestamp("s")), ["2026-01-02 03:04:05"]),
    "times of no zone": (
        pa.array([DAY], pa.timestamp("s", "Mars/X")),
        ["2026-01-02 03:04:05"],
    ),
    "UUIDs": (pa.array(BYTES, pa.uuid()), AS_TEXT),
    "sixteen bytes": (pa.array(BYTES, pa.binary(16)), AS_TEXT),
    "bytes, of UUIDs": (pa.array(BYTES, pa.binary()), AS_TEXT),
    "bytes, of text": (pa.array([b"sixteen letters.", b"\xc3\xa9"]), ["sixteen letters.", "é"]),
    "bytes, of neither": (pa.array([b"M\xfcller", b"\x00\xff"]), ["M\\xfcller", "\x00\\xff"]),
    "nothing": (pa.nulls(2), [None, None]),
}


@pytest.mark.parametrize(("array", "expected"), ARRAYS.values(), ids=ARRAYS)
def test_column_of_ids_by_hand(array, expected):
    assert id_array(array, "`id`").to_pylist() == expected
    assert id_array(pa.chunked_array([array, array]), "`id`").to_pylist() == expected * 2


@pytest.mark.parametrize(
    "array",
    [
        pa.array([["a"]]),
        pa.array([{"a": 1}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=["list", "struct", "map"],
)
def test_type_that_does_not_print_is_refused(array):
    with pytest.raises(
        ValueError, match=r"^`id` in x must be text or a number, got .*; convert it"
    ):
        id_array(array, "`id` in x")
    with pytest.raises(ValueError, match=r"^`id` in x must be text or a number"):
        id_array(array[:0], "`id` in x")  # before any row is read


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", "a"), (" a", " a"), ("", ""), (None, None), (7, "7"), (7.0, "7"), (1e300, "1e+300"),
        (0.1, "0.1"), (True, "true"), (2**70, str(2**70)), (UUIDS[0], AS_TEXT[0]),
        (BYTES[2], AS_TEXT[2]), (["é", 1], '["é", 1]'), ("\ud83d", "\\ud83d"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
    ],
)  # fmt: skip
def test_one_id_by_hand(value, expected):
    assert id_text(value) == expected

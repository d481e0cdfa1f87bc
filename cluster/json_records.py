"""Objects of JSON files: one a line, in a list, or one after the other.

A line that cannot be read stays a record, with a reason. In a list, or where objects go over
several lines, nothing tells where the next one begins, so damage there is an error.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeAlias

from cluster.text_blocks import check_length

JsonRecord: TypeAlias = tuple[int, int, dict[str, Any] | str]
"""The line on which it begins, its size, and the object, or why there is none."""

_LIST = re.compile(rb"\s*\[\s*(?:[{\]]|\Z)")
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


def json_records(blocks: Iterator[bytes], path: str) -> Iterator[JsonRecord]:
    """Read the objects of a file.

    Raises `ValueError` if a record is too long, or a list of objects is damaged.
    """
    start = b""
    for block in blocks:
        start += block
        if start.strip(b" \t\r\n["):
            break
    blocks = chain([start], blocks)
    if _LIST.match(start):
        return _objects(blocks, path, is_list=True)
    return _objects(blocks, path) if _goes_over_lines(start) else _lines(blocks, path)


def _goes_over_lines(start: bytes) -> bool:
    """Say whether the first object has line breaks inside, as programs indent it."""
    text = start.decode("utf-8", "surrogateescape").lstrip()
    try:
        _, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


# A line each


def _lines(blocks: Iterator[bytes], path: str) -> Iterator[JsonRecord]:
    number, rest = 0, b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield number, len(line), _object(line)
        check_length(len(rest), path)
    if rest.strip():
        yield number + 1, len(rest), _object(rest)


def _object(line: bytes) -> dict[str, Any] | str:
    """Read one line as an object, or say why it is none."""
    text = line.decode("utf-8", "surrogateescape")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:  # a line of a list, with its comma
            value = json.loads(text.rstrip().removesuffix(","))
        except (ValueError, RecursionError):
            return "malformed JSON"
    return _or_reason(value)


def _or_reason(value: Any) -> dict[str, Any] | str:  # noqa: ANN401  (any JSON)
    return value if isinstance(value, dict) else "not a JSON object"


# A list, or one after the other


def _objects(blocks: Iterator[bytes], path: str, *, is_list: bool = False) -> Iterator[JsonRecord]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    text, at, line, number, is_whole = "", 0, 1, 0, False
    if is_list:
        text = decoder.decode(next(blocks))
        at = text.index("[") + 1
        line += text.count("\n", 0, at)
    while True:
        begin = _between(text, at)
        line += text.count("\n", at, begin)
        at = begin
        if is_list and text.startswith("]", at):
            if text[at + 1 :].strip() or any(block.strip() for block in blocks):
                raise ValueError(f"{path} must end where its list of objects ends; delete the rest")
            return
        value, end = _value(text, at)
        # A value at the end of the text read so far may continue: the 1 of 12.
        if end is not None and (end < len(text) or is_whole):
            number += 1
            yield line, end - at, _or_reason(value)
            line += text.count("\n", at, end)
            at = end
        elif is_whole:
            if at < len(text) or is_list:
                what = "is damaged" if at < len(text) else "breaks off"
                raise ValueError(f"{path} {what} after object {number:,}; write it again")
            return
        else:
            check_length(len(text) - at, path)
            text, at = text[at:], 0
            n_enough = 2 * len(text)  # doubling, as the text is parsed from its start each time
            while not is_whole and len(text) <= n_enough:
                block = next(blocks, b"")
                is_whole = not block
                text += decoder.decode(block, final=is_whole)


def _between(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> tuple[Any, int | None]:
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, None

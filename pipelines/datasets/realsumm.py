"""RealSumm: 25 systems on 100 articles of CNN/DailyMail (Bhandari et al. 2020).

The authors give out pickles. A pickle can run any program when it is loaded, so these are read by
an unpickler that can make numbers, texts, lists and dictionaries and nothing else.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import struct
from collections.abc import Iterator, Sequence
from typing import IO, Any

from pipelines.datasets.files import BROKEN, Member, Record, members, shown
from pipelines.datasets.rows import Candidate, Numbers, Row
from pipelines.datasets.source import DataSource, pass_over

NAME = "realsumm"
TAKES = "scores_dicts/abs.pkl and scores_dicts/ext.pkl"

_RATING = "litepyramid_recall"
_SENTENCE_TAGS = re.compile(r"\s*</?t>\s*")
_FAILURES = (
    pickle.UnpicklingError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    struct.error,
    *BROKEN,
)
_MAX_BYTES = 256 << 20
_NUMBER_FORMATS = {"f4": "<f", "f8": "<d", "i4": "<i", "i8": "<q"}


def read(paths: Sequence[str]) -> Iterator[Row]:
    """Read summaries, the share of content units found in each, and the authors' metric scores."""
    for member in members(paths):
        if not member.name.endswith(".pkl"):
            pass_over(member, NAME, TAKES)
            continue
        found = load_plain(member.stream, member.path)
        if not isinstance(found, dict):
            raise ValueError(
                f"{member.path} must hold a dictionary of documents, got {shown(found)}"
            )
        for key, document in found.items():
            yield from _document(member, key, document)


def load_plain(stream: IO[bytes], where: str) -> Any:  # noqa: ANN401  (a pickle holds anything)
    """Load a pickle of plain values: numbers (NumPy's too), texts, lists, dictionaries.

    Parameters
    ----------
    stream : binary file
        The pickle.
    where : str
        Its name, for messages.

    Raises
    ------
    ValueError
        If it asks for anything else, before that is looked up, or is damaged.
    """
    try:
        data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise pickle.UnpicklingError(f"it has more than {_MAX_BYTES >> 20} MiB")
        _check_memo(data)
        return _PlainUnpickler(io.BytesIO(data)).load()
    except _Refused as error:
        raise ValueError(
            f"{where} asks for `{error}`, which could run a program, and is not loaded; get the "
            "file from its authors"
        ) from error
    # A damaged or crafted pickle fails in any of these ways; none of them has run foreign code.
    except _FAILURES as error:
        raise ValueError(f"{where} is not a pickle that can be read: {error}") from error


def _check_memo(data: bytes) -> None:
    """Refuse to remember a value under a number that a pickle of this length cannot need.

    The unpickler makes room for all numbers below it, which can be 64 GB.
    """
    for opcode, number, _ in pickletools.genops(data):
        if opcode.name.endswith("PUT") and (number or 0) > len(data):
            raise pickle.UnpicklingError(f"it remembers a value under {number}")


class _Refused(pickle.UnpicklingError):
    """A pickle that asks for a function or class."""


class _PlainUnpickler(pickle.Unpickler):
    """Stands in for NumPy's two constructors; nothing is imported."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        if (module, name) == ("numpy", "dtype"):
            return _NumberType
        if (module.split(".")[0], name) == ("numpy", "scalar"):
            return _number
        raise _Refused(f"{module}.{name}")


class _NumberType:
    """What a NumPy number is made of, as far as a pickle says it."""

    __slots__ = ("code",)

    def __init__(self, code: str, *_options: object) -> None:
        if code not in _NUMBER_FORMATS:
            raise _Refused(f"numpy.dtype({code!r})")
        self.code = code

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] != "<":
            raise _Refused(f"numpy.dtype({self.code!r}) in byte order {state[1]!r}")


def _number(kind: _NumberType, data: bytes) -> float | int:
    return struct.unpack(_NUMBER_FORMATS[kind.code], data)[0]


def _document(member: Member, key: object, cells: object) -> Iterator[Row]:
    where = f"{member.path}, document {key}"
    document = Record(where, cells if isinstance(cells, dict) else {})
    document_id = document.identifier("doc_id")
    references = [_without_tags(document.text("ref_summ"))]
    summaries = document.inner("system_summaries")
    for name in summaries.cells:
        _check_name(name, where)
        summary = summaries.inner(name)
        system_id = name.removesuffix(".txt")
        scores = summary.inner("scores")
        for metric in scores.cells:
            _check_name(metric, where)
        yield Candidate(
            document_id=document_id,
            system_id=system_id,
            candidate=_without_tags(summary.text("system_summary")),
            references=references,
        )
        yield Numbers(
            kind="ratings",
            document_id=document_id,
            system_id=system_id,
            values={_RATING: scores.number(_RATING)},
        )
        yield Numbers(
            kind="scores",
            document_id=document_id,
            system_id=system_id,
            values={metric: scores.number(metric) for metric in scores.cells if metric != _RATING},
        )


def _check_name(name: object, where: str) -> None:
    if not isinstance(name, str):
        raise ValueError(f"systems and metrics in {where} must have names, got {shown(name)}")


def _without_tags(text: str) -> str:
    """Put a line break where a sentence ends instead of the tags <t> and </t>."""
    return "\n".join(line for line in _SENTENCE_TAGS.split(text) if line)


SOURCE = DataSource(
    name=NAME,
    title="RealSumm",
    gives="corpus, ratings, scores",
    takes=TAKES,
    origin="github.com/neulab/REALSumm, scores_dicts",
    licence="CC BY 4.0; the articles belong to CNN and the Daily Mail",
    paper="Bhandari et al. 2020",
    read=read,
    note="The pickles are read without running anything in them. They have no articles. bart_out "
    "is in both files, with the same texts and ratings; it is kept once.",
)

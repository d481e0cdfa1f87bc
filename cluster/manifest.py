"""The folder of a run, and its `run.json`: what was asked for, on which inputs and versions.

The fingerprint covers everything the scores and their files depend on. A run may be resumed only
under the fingerprint it began with; `differences` says in words what is not the same. The scores
files themselves are written by `cluster.parts`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cluster.inputs import InputFile
from cluster.parts import ERRORS_FOLDER, FINGERPRINT_LENGTH, SCORES_FOLDER
from cluster.reading import COPIES_FOLDER
from cluster.shards import Shard
from cluster.store import delete_file, join, list_names, read_whole, write_whole
from sms.signature import without_content
from sms.urls import is_url

RUN_FILE = "run.json"
SUCCESS_FILE = "_SUCCESS"
PROGRESS_FILE = "progress.json"
"""What a run is doing; there while it goes on, and after its driver has died."""
PAGE_FILE = "scores.html"
"""The result of a run, for people."""
EXPLAIN_FOLDER = "explain"
"""Beside `scores.html` or a report: pages of single scores, which it links to."""
_PART = re.compile(r"part-\d{6,}(-\d{6,})?-[0-9a-f]+\.(parquet|jsonl)(\.[0-9a-f]+\.partial)?")
_OWN_FILES = {
    EXPLAIN_FOLDER: re.compile(r".*\.html"),
    SCORES_FOLDER: _PART,
    ERRORS_FOLDER: _PART,
    COPIES_FOLDER: re.compile(r"[0-9a-f]{32}\.parquet(\.[0-9a-f]+\.partial)?"),
}
"""What the files of a run are called, by folder."""
OWN_NAMES = (RUN_FILE, PAGE_FILE, SUCCESS_FILE, PROGRESS_FILE, *_OWN_FILES)
_FORMAT = 6
_DEPENDED_ON = ("configuration", "signatures", "encoders", "versions")
"""What scores depend on in addition to the inputs."""
_ABSENT: Any = "absent"  # told from such a text by identity


@dataclass(frozen=True, kw_only=True)  # no slots, for `cached_property`
class Manifest:
    """A run: the request and, once it has ended, the result."""

    configuration: Mapping[str, Any]
    """What to compute, columns, and how the inputs are cut."""
    signatures: Mapping[str, str]
    """By column."""
    encoders: Mapping[str, str]
    """Hash of the weights, by encoder."""
    versions: Mapping[str, str]
    """By distribution."""
    inputs: Sequence[InputFile]
    shards: Sequence[Shard]
    base: Mapping[str, Any] = field(default_factory=dict)
    """Of a run whose metrics are added to: the fingerprint and metrics it had; empty at the end."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Counts, means and seconds; empty until the run has ended."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that the scores depend on, in `run.json` but for what follows from it."""
        lines = [
            f"{name} {json.dumps(getattr(self, name), sort_keys=True, ensure_ascii=False)}"
            for name in _DEPENDED_ON
        ]
        lines += [_dumped(file.to_json()) for file in self.inputs]
        digest = hashlib.sha256()
        for line in lines:
            digest.update(f"{line}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def text(self) -> str:
        """Return the content of `run.json`: JSON, with a line for each key."""
        numbers = {file.path: number for number, file in enumerate(self.inputs)}
        values = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            **{name: getattr(self, name) for name in (*_DEPENDED_ON, "base")},
            "inputs": [file.to_json() for file in self.inputs],
            "shards": [shard.to_json(numbers) for shard in self.shards],
            "result": self.result,
        }
        lines = [f"{_dumped(name)}: {_dumped(value)}" for name, value in values.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"


def write_manifest(out: str, manifest: Manifest) -> None:
    """Write `run.json` into the folder of a run, whole or not at all."""
    write_whole(join(out, RUN_FILE), manifest.text().encode("utf-8", "surrogateescape"))


def read_manifest(out: str) -> Manifest | None:
    """Read `run.json`; None where there is none.

    Raises ValueError if it is damaged, or of another version of assay.
    """
    path = join(out, RUN_FILE)
    try:
        data = read_whole(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with refusing_damage(path, "put back the file that was there, or choose another folder"):
        values = json.loads(data.decode("utf-8", "surrogateescape"))
        if values["format"] == _FORMAT:
            return _manifest_of(values)
    raise ValueError(
        f"{path} has format {values['format']!r}, but this version of assay reads {_FORMAT}; "
        "choose another folder"
    )


def _manifest_of(values: Mapping[str, Any]) -> Manifest:
    inputs = [InputFile(**file) for file in values["inputs"]]
    paths = [file.path for file in inputs]
    return Manifest(
        **{name: values[name] for name in (*_DEPENDED_ON, "base", "result")},
        inputs=inputs,
        shards=[Shard.from_json(shard, paths) for shard in values["shards"]],
    )


@contextmanager
def refusing_damage(path: str, remedy: str) -> Iterator[None]:
    """Say in one line that a JSON file is damaged, where it is no JSON or lacks what is read."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}); {remedy}"
        ) from error


def differences(old: Manifest, new: Manifest) -> list[str]:
    """Say what makes two fingerprints differ, one short phrase each; none if nothing does."""
    texts = [
        f"`{name}` was {_shown(was)} and is {_shown(now)}"
        for name, was, now in changed(old.configuration, new.configuration)
    ]
    computed = {
        f"`{name}` would now be computed in another way": (was, now)
        for name, was, now in changed(old.signatures, new.signatures)
    }
    if len(texts) < 2:
        texts += [
            text
            for text, (was, now) in computed.items()
            if _ABSENT not in (was, now) and without_content(was) != without_content(now)
        ][:1]
    texts += [
        f"the vectors of encoder `{alias}` have changed"
        for alias, was, now in changed(old.encoders, new.encoders)
        if _ABSENT not in (was, now)
    ]
    texts += [
        f"{name} was {was} and is {now}" for name, was, now in changed(old.versions, new.versions)
    ]
    texts += [
        f"input file {'added' if was is _ABSENT else 'removed' if now is _ABSENT else 'changed'}: "
        f"{path}"
        for path, was, now in changed(by_path(old.inputs), by_path(new.inputs))
    ]
    return texts or list(computed)


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    """Yield the names whose values differ, with both values; one may be missing."""
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if was is _ABSENT or now is _ABSENT or was != now:
            yield name, was, now


def by_path(files: Sequence[InputFile]) -> dict[str, tuple[int, str]]:
    """Return size and content of files by their path."""
    return {file.path: (file.size, file.content) for file in files}


def refusal(out: str, old: Manifest, new: Manifest, n_shown: int = 3) -> str:
    """Say why a folder's run cannot be resumed, and what to do."""
    texts = differences(old, new)
    shown = "; ".join(texts[:n_shown])
    more = f"; and {len(texts) - n_shown} more" if len(texts) > n_shown else ""
    return (
        f"{out} holds another run: {shown}{more}; "
        "use `--fresh` to replace it, or another `--out` folder"
    )


def holds_copies_only(out: str) -> bool:
    """Say whether there is nothing but copies of inputs where a run that never began put them."""
    return all(map(_OWN_FILES[COPIES_FOLDER].fullmatch, list_names(join(out, COPIES_FOLDER))))


def delete_own_files(out: str) -> None:
    """Delete what runs have left in a folder, and nothing else.

    `run.json` stays until the next run replaces it, so that the folder is never without one while
    there are scores in it; `progress.json` is that of the driver that deletes.
    """
    for name in (SUCCESS_FILE, PAGE_FILE):
        delete_file(join(out, name))
    for folder in _OWN_FILES:
        _delete_in(out, folder)


def delete_other_files(out: str, fingerprint: str, parts: Collection[str]) -> None:
    """Delete what a complete run has no more use for.

    That is what killed processes had begun to write, scores files that are in a merged one, scores
    without the metrics that were added, and copies of the inputs. `parts` are the scores files.
    """
    mine = f"-{fingerprint[:FINGERPRINT_LENGTH]}."
    _delete_in(out, SCORES_FOLDER, lambda name: name not in parts)
    _delete_in(out, ERRORS_FOLDER, lambda name: mine not in name or name.endswith(".partial"))
    _delete_in(out, COPIES_FOLDER)
    if not is_url(out):
        with suppress(OSError):  # not there, or something else is in it
            os.rmdir(join(out, COPIES_FOLDER))


def _delete_in(out: str, folder: str, is_old: Callable[[str], bool] = lambda _name: True) -> None:
    """Delete old files of ours in a folder of a run."""
    inside = join(out, folder)
    for name in list_names(inside):
        if _OWN_FILES[folder].fullmatch(name) and is_old(name):
            delete_file(join(inside, name))


def _dumped(value: Any) -> str:  # noqa: ANN401  (any JSON)
    return json.dumps(value, ensure_ascii=False)  # `indent` would make it twenty times as slow


def _shown(value: Any) -> str:  # noqa: ANN401  (any JSON)
    text = "absent" if value is _ABSENT else _dumped(value)
    return text if len(text) <= 60 else f"{text[:60]}…"

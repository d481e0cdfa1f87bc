"""The code blocks of a document, and how they are run.

A block runs unless the line above it says why not. Marks are comments of the source, which no
reader of the page sees:

    <!-- not run: REASON -->    needs what a test has not: a GPU, a cluster, data
    <!-- slow -->               runs with the slow tests
    <!-- after: PAGE -->        once, anywhere: the page goes on in the folder of another one

A block `text` straight below a block that runs is what it prints: `...` stands for anything, and
decimals may differ in their last digit.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from pipelines.cli.app import run

RUNS = ("python", "sh")
SHOWN = ("csv", "json", "text", "toml")
"""Languages of blocks that are data or output."""
_MARK = re.compile(r"<!-- (not run|slow|after)(?:: (.+?))? -->")
_SHELL_ONLY = re.compile(r"[|<>$*?;&`]")
_DECIMAL = re.compile(r"-?\d[\d,]*\.\d+")


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    language: str
    text: str
    line: int
    not_run: str | None
    """Why it cannot run; None if it does."""
    is_slow: bool
    printed: str | None
    """What it prints, as the page says."""


@dataclass(frozen=True)
class Page:
    """The blocks of a page, in order."""

    blocks: tuple[Block, ...]
    after: str | None
    """The page in whose folder it goes on."""


def read_page(text: str) -> Page:
    """Find the blocks of a Markdown text.

    Raises
    ------
    ValueError
        If a block names no language we know, is indented instead of fenced, or its mark gives
        no reason.
    """
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    blocks: list[Block] = []
    marks: dict[str, str | None] = {}
    after, may_be_output = None, False
    for token in tokens:
        line = (token.map or [0])[0] + 1
        if token.type == "html_block":
            marks = {name: value for name, value in _MARK.findall(token.content)}
            if marks.get("not run") == "":
                raise ValueError(f"line {line}: `not run` must say why")
            after = marks.get("after") or after
        elif token.type == "code_block":
            raise ValueError(f"line {line}: fence this block and name its language")
        elif token.type == "fence" and not token.info.startswith("{"):
            if token.info not in RUNS + SHOWN:
                raise ValueError(
                    f"line {line}: language must be one of {RUNS + SHOWN}, got {token.info!r}"
                )
            if token.info in RUNS:
                blocks.append(
                    Block(
                        token.info, token.content, line, marks.get("not run"), "slow" in marks, None
                    )
                )
            elif token.info == "text" and may_be_output:
                last = blocks[-1]
                blocks[-1] = Block(**{**vars(last), "printed": token.content})
            may_be_output = token.info in RUNS
            marks = {}
            continue
        may_be_output = False
        if token.type != "html_block":
            marks = {}
    return Page(tuple(blocks), after)


class Runner:
    """Runs the blocks of one page in a folder.

    With `in_process`, a line that only calls `assay` calls it here, which spares the start of an
    interpreter and of the libraries; everything else goes to bash, and so do all lines without.
    """

    def __init__(self, folder: Path, *, in_process: bool) -> None:
        self._folder = folder
        self._in_process = in_process
        self._names: dict[str, object] = {"__name__": "guide"}

    def run(self, block: Block) -> str:
        """Run a block and return what it printed."""
        if block.language == "python":
            return self._python(block.text)
        if not self._in_process:
            return self._bash(block.text)
        return "".join(self._command(command) for command in commands_of(block.text))

    def _python(self, code: str) -> str:
        printed = io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(printed):
            sys.path.insert(0, str(self._folder))
            try:
                exec(compile(code, "<guide>", "exec"), self._names)
            finally:
                sys.path.remove(str(self._folder))
        return printed.getvalue()

    def _command(self, command: str) -> str:
        if not command.startswith("assay ") or _SHELL_ONLY.search(command):
            return self._bash(command)
        printed, complaints = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self._folder),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(complaints),
        ):
            status = run(shlex.split(command)[1:])
        assert status == 0, f"{command}\n{complaints.getvalue()}"
        return printed.getvalue()

    def _bash(self, text: str) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self._folder,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        return done.stdout


def commands_of(text: str) -> Iterator[str]:
    """Cut a block into its commands: continued lines joined, here-documents kept whole."""
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        command = line
        while command.endswith("\\"):
            command = f"{command[:-1].rstrip()} {next(lines).strip()}"
        if here := re.search(r"<<'?(\w+)'?", command):
            for part in lines:
                command += f"\n{part}"
                if part == here[1]:
                    break
        yield command


def differs(expected: str, printed: str) -> str | None:
    """Return where an output is not what the page says, None if it is that."""
    parts, at = [], 0
    for match in _DECIMAL.finditer(expected):
        parts += [_pattern(expected[at : match.start()]), r"(-?\d[\d,]*\.\d+)"]
        at = match.end()
    parts.append(_pattern(expected[at:]))
    found = re.fullmatch(rf"\s*{''.join(parts)}\s*", printed, re.DOTALL)
    if found is None:
        return f"expected\n{expected}\nprinted\n{printed}"
    for said, got in zip(_DECIMAL.findall(expected), found.groups(), strict=True):
        a, b = (float(number.replace(",", "")) for number in (said, got))
        one_digit = 10.0 ** -len(said.partition(".")[2])
        if abs(a - b) > max(1.5 * one_digit, 1e-3 * abs(a)):
            return f"the page says {said}, printed was {got}"
    return None


def _pattern(text: str) -> str:
    """Turn text into an expression in which `...` is anything and white space is white space."""
    return ".*?".join(
        r"\s+".join(re.escape(word) for word in re.split(r"\s+", piece))
        for piece in text.split("...")
    )

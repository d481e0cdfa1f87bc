"""Every block of the guide and the README runs, and prints what the page says.

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
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from pipelines.cli.app import run
from sms.encoders.registry import ENCODERS
from sms.metrics import METRICS, all_metrics

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
SLOW = [name for name, text in PAGES.items() if "<!-- slow -->" in text]
RUNS = ("python", "sh")
SHOWN = ("csv", "json", "text", "toml")
"""Languages of blocks that are data or output."""
MARK = re.compile(r"<!-- (not run|slow)(?:: (.+?))? -->")
SHELL_ONLY = re.compile(r"[|<>$*?;&`]")
DECIMAL = re.compile(r"-?\d[\d,]*\.\d+")


@dataclass
class Block:
    """One block of a page that can run."""

    language: str
    text: str
    line: int
    marks: dict[str, str]
    """`slow`, or `not run` and why."""
    printed: str | None = None
    """What it prints, as the page says."""


def blocks_of(text: str) -> list[Block]:
    """Find the blocks of a Markdown text; one that would never run is an error."""
    blocks: list[Block] = []
    marks: dict[str, str] = {}
    before = ""  # what stands straight above
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = (token.map or [0])[0] + 1
        assert token.type != "code_block", f"line {line}: fence this block and name its language"
        if token.type == "html_block":
            marks = dict(MARK.findall(token.content))
            assert marks.get("not run") != "", f"line {line}: `not run` must say why"
            before = ""
        elif token.type == "fence" and not token.info.startswith("{"):
            assert token.info in RUNS + SHOWN, f"line {line}: language must be {RUNS + SHOWN}"
            if token.info in RUNS:
                blocks.append(Block(token.info, token.content, line, marks))
            elif token.info == "text" and before in RUNS:
                blocks[-1].printed = token.content
            marks, before = {}, token.info
        else:
            marks, before = {}, ""
    return blocks


def commands_of(text: str) -> Iterator[str]:
    """Cut a block into its commands: continued lines joined, here-documents kept whole."""
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        command = line
        if here := re.search(r"<<'?(\w+)'?", line):
            for part in lines:
                command += f"\n{part}"
                if part == here[1]:
                    break
        if line.strip() and not line.startswith("#"):
            yield command


def differs(expected: str, printed: str) -> str | None:
    """Return where an output is not what the page says, None if it is that."""
    pieces = [re.escape(piece) for piece in DECIMAL.split(" ".join(expected.split()))]
    pattern = r"(-?\d[\d,]*\.\d+)".join(pieces).replace(r"\.\.\.", ".*?").replace(r"\ ", r"\s+")
    found = re.fullmatch(rf"\s*{pattern}\s*", printed, re.DOTALL)
    if found is None:
        return f"expected\n{expected}\nprinted\n{printed}"
    for said, got in zip(DECIMAL.findall(expected), found.groups(), strict=True):
        a, b = (float(number.replace(",", "")) for number in (said, got))
        one_digit = 10.0 ** -len(said.partition(".")[2])
        if abs(a - b) > max(1.5 * one_digit, 1e-3 * abs(a)):
            return f"the page says {said}, printed was {got}"
    return None


# Running


def run_page(name: str, folder: Path, *, slow_too: bool) -> None:
    """Run the blocks of a page in a folder."""
    names: dict[str, object] = {"__name__": "guide"}
    for block in blocks_of(PAGES[name]):
        if "not run" in block.marks or ("slow" in block.marks and not slow_too):
            continue
        if block.language == "python":
            printed = run_python(block.text, folder, names)
        else:
            printed = "".join(run_command(line, folder) for line in commands_of(block.text))
        wrong = None if block.printed is None else differs(block.printed, printed)
        assert wrong is None, f"{name}, line {block.line}: {wrong}"


def run_python(code: str, folder: Path, names: dict[str, object]) -> str:
    printed = io.StringIO()
    out, patches = contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context()
    with contextlib.chdir(folder), out, patches as patch:
        patch.syspath_prepend(folder)
        exec(compile(code, "<guide>", "exec"), names)
    return printed.getvalue()


def run_command(command: str, folder: Path) -> str:
    """Run a command in bash; one that only calls `assay` in this process, which is quicker."""
    if command.startswith("assay ") and not SHELL_ONLY.search(command):
        printed, complaints = io.StringIO(), io.StringIO()
        out, err = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaints)
        with contextlib.chdir(folder), out, err:
            status = run(shlex.split(command)[1:])
        assert status == 0, f"{command}\n{complaints.getvalue()}"
        return printed.getvalue()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """A function that runs a page, after those that it goes on from, and returns its folder."""

    @cache
    def folder_of(name, slow_too=False):
        folder = tmp_path_factory.mktemp("page")
        if after := re.search("<!-- after: (.+?) -->", PAGES[name]):
            earlier = folder_of(str(Path(name).parent / after[1]))
            shutil.copytree(earlier, folder, dirs_exist_ok=True)
        run_page(name, folder, slow_too=slow_too)
        return folder

    return folder_of


@pytest.fixture(autouse=True)
def registries():
    """Take out again what a page has added: other tests list what there is."""
    all_metrics()  # a module adds its metrics when it is first imported, and never again
    kept = [(names, dict(names)) for names in (METRICS, ENCODERS)]
    yield
    for names, before in kept:
        for name in names.keys() - before.keys():
            del names[name]


LONG = ("docs/agreement.md", "docs/explaining.md", "docs/scoring.md")
"""Pages that take five seconds each."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in PAGES],
)
def test_blocks_run(guide, name):
    guide(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_slow_blocks_run(guide, name):
    guide(name, slow_too=True)


def test_few_blocks_do_not_run():
    blocks = [block for text in PAGES.values() for block in blocks_of(text)]
    assert sum("not run" in block.marks for block in blocks) <= len(blocks) / 3


# What is made of a page


def test_block_that_would_never_run_and_other_output_are_noticed():
    for text in ("```\nassay score\n```", "Text.\n\n    assay score\n"):
        with pytest.raises(AssertionError, match="language"):
            blocks_of(text)
    assert differs("in ... s\na 0.5010", "in 12 s\na   0.5011\n") is None
    for expected, printed in (("a 0.5010", "a 0.5030"), ("rows 3", "rows 4")):
        assert differs(expected, printed)

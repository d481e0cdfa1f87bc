"""Every block of the guide and the README runs, and prints what the page says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from sms.encoders.registry import ENCODERS
from sms.metrics import METRICS, all_metrics
from tests.docs.blocks import Runner, commands_of, differs, read_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md"))]


def page_of(name):
    return read_page((ROOT / name).read_text(encoding="utf-8"))


SLOW = [name for name in PAGES if "<!-- slow -->" in (ROOT / name).read_text(encoding="utf-8")]


class Guide:
    """Runs pages, each in its own folder, which another page may go on with."""

    def __init__(self, root):
        self._root = root
        self._folders = {}

    def run(self, name, *, slow_too=False, in_process=True):
        """Run a page and those that it goes on from; return its folder."""
        key = (name, slow_too, in_process)
        if key not in self._folders:
            page = page_of(name)
            folder = Path(tempfile.mkdtemp(dir=self._root))
            if page.after is not None:
                earlier = self.run(str(Path(name).parent / page.after), in_process=in_process)
                shutil.copytree(earlier, folder, dirs_exist_ok=True)
            self._run_blocks(name, page, folder, slow_too, in_process)
            self._folders[key] = folder
        return self._folders[key]

    @staticmethod
    def _run_blocks(name, page, folder, slow_too, in_process):
        runner = Runner(folder, in_process=in_process)
        for block in page.blocks:
            if block.not_run is not None or (block.is_slow and not slow_too):
                continue
            printed = runner.run(block)
            if block.printed is not None:
                wrong = differs(block.printed, printed)
                assert wrong is None, f"{name}, line {block.line}: {wrong}"


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    return Guide(tmp_path_factory.mktemp("guide"))


@pytest.fixture(autouse=True)
def registries():
    """Take out again what a page has added: other tests list what there is."""
    all_metrics()  # a module adds its metrics when it is first imported, and never again
    found = (METRICS, ENCODERS)
    kept = [dict(names) for names in found]
    yield
    for names, before in zip(found, kept, strict=True):
        for name in names.keys() - before.keys():
            del names[name]


@pytest.mark.parametrize("name", PAGES)
def test_blocks_run(guide, name):
    guide.run(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_slow_blocks_run(guide, name):
    guide.run(name, slow_too=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/tour.md"])
def test_blocks_run_as_pasted_into_a_shell(guide, name):
    guide.run(name, in_process=False)


def test_few_blocks_do_not_run():
    blocks = [block for name in PAGES for block in page_of(name).blocks]
    assert sum(block.not_run is not None for block in blocks) <= len(blocks) / 3


# What the runner makes of a page

EXAMPLE = """
<!-- not run: needs a GPU -->
```sh
assay score --device cuda
```

```sh
printf 'one 0.5010\\n'
```

```text
one 0.5011
```

<!-- slow -->
```python
print(1)
```
"""


def test_marks_and_output_are_read():
    first, second, third = read_page(EXAMPLE).blocks
    assert (first.not_run, first.is_slow, first.printed) == ("needs a GPU", False, None)
    assert (second.not_run, second.printed) == (None, "one 0.5011\n")
    assert third.is_slow


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("```\nassay score\n```", "language must be one of"),
        ("Text.\n\n    assay score\n", "fence this block"),
    ],
)
def test_block_that_would_never_run_rejected(text, rule):
    with pytest.raises(ValueError, match=rule):
        read_page(text)


def test_commands_are_cut_as_a_shell_does():
    text = "assay a \\\n    --b c\n# not this\ncat > f <<'EOF'\nx\ny\nEOF\nassay d\n"
    commands = ["assay a --b c", "cat > f <<'EOF'\nx\ny\nEOF", "assay d"]
    assert list(commands_of(text)) == commands


@pytest.mark.parametrize(
    ("expected", "printed", "is_same"),
    [
        ("a 0.5010", "a   0.5011\n", True),
        ("a 0.5010", "a 0.5030", False),
        ("in ... s\nrows 3", "in 12 s\nrows 3", True),
        ("rows 3", "rows 4", False),
    ],
)
def test_output_is_compared(expected, printed, is_same):
    assert (differs(expected, printed) is None) == is_same

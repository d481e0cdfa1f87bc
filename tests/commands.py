"""Runs a command line on which rare settings stand as if they were options.

They are moved into a file of `--config`, which is where a user has them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.cli import app
from pipelines.reports.explain_page import render_explanations


def run(arguments: Sequence[str]) -> int:
    """Run the command `assay` and return its exit status."""
    if not arguments:
        return app.run([])
    name, *words = arguments
    settings = getattr(app.app.commands.get(name), "settings", ())
    rare = {setting.option: setting for setting in settings if "rare" in setting.words}
    values, left = {}, []
    while words:
        word, is_joined, given = words.pop(0).partition("=")
        setting = rare.get(word.replace("--no-", "--", 1))
        if setting is None:
            left.append(word + is_joined + given)
        elif setting.kind is bool:
            values[setting.name] = not word.startswith("--no-")
        else:
            values[setting.name] = setting.read(given if is_joined else words.pop(0))
    if not values:
        return app.run([name, *left])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rare.toml"
        lines = [f"{key} = {_toml(value)}\n" for key, value in values.items()]
        if "--config" in left:
            place = left.index("--config")
            lines.append(Path(left[place + 1]).read_text(encoding="utf-8"))
            del left[place : place + 2]
        file.write_text("".join(lines), encoding="utf-8")
        return app.run([name, "--config", str(file), *left])


def _toml(value: object) -> str:
    if isinstance(value, dict):
        items = [f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()]
        return f"{{{', '.join(items)}}}"
    return json.dumps(value)


def wrong(capsys: Any, result: tuple[int, object]) -> str:
    """Check that a call was refused, and return the one line that says why."""
    status, _ = result
    captured = capsys.readouterr()
    assert status == 2, captured
    (line,) = [text for text in captured.err.splitlines() if text.startswith("assay: ")]
    return str(line)


def page_of(explainer: Any, document: str, systems: Sequence[str] = ()) -> str:
    """Return the page of a document's explained systems, all of them by default."""
    return render_explanations(document, explainer.explain({document: systems})[document])

"""The directive `public-names`: every name of a package's `__all__`, by its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import assay


class PublicNames(SphinxDirective):
    """Documents what a package says is public, functions and classes alike."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what autodoc makes of every name."""
        package = import_module(self.arguments[0])
        found = nodes.section()
        found.document = self.state.document
        lines = StringList(list(_directives(package)), source=package.__name__)
        self.state.nested_parse(lines, self.content_offset, found)
        return found.children


def _directives(package: Any) -> Iterator[str]:  # noqa: ANN401  (any package)
    for name in sorted(package.__all__, key=str.lower):
        value = getattr(package, name)
        if package is not assay and getattr(assay, name, None) is value:
            yield from (f".. py:class:: {package.__name__}.{name}", "")
            yield from (f"   The same as `assay.{name}`.", "")
            continue
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        yield f".. auto{kind}:: {package.__name__}.{name}"
        if kind == "class":
            yield "   :members:"
        yield ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("public-names", PublicNames)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Formulas as MathML, which browsers draw themselves: no script and no font from elsewhere."""

from __future__ import annotations

from typing import Any, NoReturn

from docutils import nodes
from docutils.utils.math import pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def _inline(translator: Any, node: nodes.Node) -> NoReturn:  # noqa: ANN401  (Sphinx has no type)
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.Node) -> NoReturn:  # noqa: ANN401
    tex = node.astext()
    if (name := pick_math_environment(tex)).startswith("align"):
        tex = f"\\begin{{{name}}}{tex}\\end{{{name}}}"
    formula = tex2mathml(tex, as_block=True)
    translator.body.append(f'<div class="math">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

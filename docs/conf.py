"""How Sphinx builds the guide: `make docs`, or sphinx-build -W docs build/docs."""

import re
import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

_project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Assay"
author = "the authors of Assay"
version = release = _project["version"]
language = "en"

extensions = [
    "mathml",
    "myst_parser",
    "public_names",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
exclude_patterns = ["_ext"]

# A link to a heading is checked like a link to a page.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

default_role = "code"
nitpicky = False  # types in docstrings are words for people, not targets
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings have them, with shapes and units
napoleon_google_docstring = False
napoleon_use_param = False  # plain words, which link nowhere
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"Assay {version}"
html_theme_options = {
    "light_css_variables": {"color-code-background": "#f3f4f6"},
    "dark_css_variables": {"color-code-background": "#1d2127"},
}
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_math_renderer = "mathml"
html_baseurl = ""
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def _escape_stars(_app: Sphinx, _context: object, lines: list[str]) -> None:
    """Keep a pattern such as `human*` in a help text from being read as emphasis."""
    lines[:] = [re.sub(r"(``.*?``)|\*", lambda m: m[1] or r"\*", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Read the help texts of the commands as text."""
    for part in ("description", "options", "arguments"):
        app.connect(f"sphinx-click-process-{part}", _escape_stars)

"""Self-contained HTML pages: template, styles, scripts and charts in one file; names of files.

A page extends `templates/base.html` and names the style sheets and scripts it needs; they are
files that are put into the page as they are. A page says everything without its scripts, which sort
tables and copy. What it shows is escaped by the templates. A content security policy lets the
browser run these scripts only and load nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipelines.reports.numbers import count_text, interval_text, number_text, p_value_text
from sms.writing import isolated

TEMPLATES = Path(__file__).with_name("templates")
BASE_STYLES = ("base.css", "charts.css")
"""Those of every page."""
LONGEST_WHOLE = 16
"""Characters of a metric's name that is not broken."""
LONGEST_PART = 60
"""Characters kept of a name in a file's."""

_HARMFUL = re.compile(r"[^A-Za-z0-9_+@-]+")


def render_page(
    template: str,
    *,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    **context: Any,  # noqa: ANN401  (whatever the template shows)
) -> str:
    """Render a page that opens from disk.

    `BASE_STYLES` come first. Text in `context` is escaped, and a name the template lacks is an
    error.
    """
    inline_styles = [_inline(_read(name), "style") for name in (*BASE_STYLES, *styles)]
    inline_scripts = [_inline(_read(name), "script") for name in scripts]
    page = {
        "styles": inline_styles,
        "scripts": inline_scripts,
        "policy": _content_security_policy(inline_scripts),
    }
    return _environment().get_template(template).render(page=page, **context)


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8")


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters["breakable"] = breakable
    environment.filters["isolated"] = isolated
    environment.filters["number"] = number_text
    environment.filters["count"] = count_text
    environment.filters["p_value"] = p_value_text
    environment.globals["interval_text"] = interval_text
    return environment


def breakable(text: str) -> Markup:
    """Let long names of metrics break after their punctuation, and nowhere else."""
    return Markup(" ").join(
        Markup("<wbr>").join(
            re.split(r"(?<=[:./])(?=.)", word) if len(word) > LONGEST_WHOLE else [word]
        )
        for word in text.split(" ")
    )


def _inline(text: str, element: str) -> Markup:
    """Mark our own file as safe inside `element`, which it must not end itself."""
    if f"</{element}" in text.lower():
        raise ValueError(f"an inlined {element} must not contain `</{element}`; escape it there")
    # The browser hashes what stands between the tags, with line ends as "\n".
    return Markup(text.replace("\r\n", "\n"))


def _content_security_policy(scripts: Sequence[str]) -> str:
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


# Names of files, made of what users call things, which may be anything


def file_stem(*parts: str) -> str:
    """Make a file name without a suffix; different parts give different names.

    The parts are joined by dots. What is not a harmless character becomes a dash, and then a hash
    is added.
    """
    plain = [_HARMFUL.sub("-", part)[:LONGEST_PART] for part in parts]
    if plain == list(parts):
        return ".".join(plain)
    key = "\x00".join(parts).encode("utf-8", "surrogateescape")
    return ".".join([*plain, hashlib.sha256(key).hexdigest()[:8]])


def explain_file(document_id: str, system_id: str, metric: str) -> str:
    """Name the page that explains one score; other candidates and metrics have other names."""
    return f"{file_stem(document_id, system_id, metric)}.html"

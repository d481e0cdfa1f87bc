"""A headless Chromium for the tests that look at the pages we write."""

import os
import shutil

import pytest

from tests.hub import hub, offline  # noqa: F401  (fixtures)
from tests.object_stores import proxy, server  # noqa: F401  (fixtures)

CHROMIUM_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"width": 1280, "height": 900}


# Not for the session: playwright keeps an event loop in this thread, which Ray's tests would meet.
@pytest.fixture(scope="module")
def browser():
    """A Chromium for the tests of one file; CHROMIUM names its program if not on the path."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium; install it or set CHROMIUM to its program")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """A tab without a network; the test fails if the page reported an error or asked for a URL."""
    context = browser.new_context(viewport=DESKTOP, offline=True)
    tab = context.new_page()
    troubles = []
    tab.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    tab.on("console", lambda entry: troubles.append(entry.text) if entry.type == "error" else None)
    tab.on(
        "request",
        lambda request: (
            troubles.append(f"asked for {request.url}")
            if not request.url.startswith(("file:", "data:", "blob:"))
            else None
        ),
    )
    yield tab
    context.close()
    assert not troubles

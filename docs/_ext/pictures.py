"""Takes pictures of finished pages: python docs/_ext/pictures.py PAGE PNG BEGINNING HEIGHT ...

BEGINNING is the CSS selector of what a picture begins with, HEIGHT is in pixels.
"""

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH = 1100


def main(*words: str) -> None:
    """Take a picture of a part of each page."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for page, picture, first, height in zip(*[iter(words)] * 4, strict=True):
            tab = browser.new_page(viewport={"width": WIDTH, "height": 2000}, color_scheme="light")
            tab.goto(Path(page).resolve().as_uri())
            box = tab.locator(first).first.bounding_box() or {"y": 0}
            clip = {"x": 0, "y": box["y"], "width": WIDTH, "height": int(height)}
            tab.screenshot(path=picture, clip=clip)  # type: ignore[arg-type]
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

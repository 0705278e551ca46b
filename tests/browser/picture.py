"""`python -m tests.browser.picture`: take the README's picture anew, of a request of the demo."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.browser import chromium
from tests.running import ROOT, RunningUp

PICTURE = ROOT / "docs" / "images" / "request.png"
SIZE: ViewportSize = {"width": 1280, "height": 800}  # to the end of the waterfall
# The newest request that the new release slowed down: its tools ran one after the other.
LIST = "/p/demo/requests/?app=support-agent&finding=serial_tools&range=24h"
ROW = "main table tbody tr a[href*='/requests/']"


def take_picture() -> None:
    """Start the product on an empty directory, let the demo fill it, and photograph it."""
    with tempfile.TemporaryDirectory(prefix="tb-picture-") as directory:
        up = RunningUp(Path(directory))
        try:
            up.start()
            up.wait_for("Look at ", seconds=120)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=chromium.find(), args=list(chromium.FLAGS)
                )
                page = browser.new_page(viewport=SIZE, color_scheme="light")
                _photograph(page, up)
                browser.close()
        finally:
            up.stop()


def _photograph(page: Page, up: RunningUp) -> None:
    page.goto(up.credentials["sign_in_url"])
    page.goto(up.url + LIST)
    page.locator(ROW).first.click()
    page.wait_for_load_state("networkidle")
    PICTURE.parent.mkdir(exist_ok=True)
    page.screenshot(path=PICTURE)
    if optipng := shutil.which("optipng"):  # without it the file is a fifth larger
        subprocess.run([optipng, "-quiet", "-o5", "-strip", "all", str(PICTURE)], check=True)


if __name__ == "__main__":
    take_picture()

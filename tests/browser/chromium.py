"""The system's Chromium: where it is, how tests start it, and `python -m tests.browser.chromium`.

Run as a program it installs Chromium where it may (root, Debian's packages), and is quiet if it is
there already. Playwright's own browser download is not used.
"""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--no-sandbox",  # refused to root, as which CI runs
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOW_TO_INSTALL = "install it (Debian: apt-get install chromium) and run `make browser`"


def find() -> str | None:
    """The path of the browser, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def install() -> None:
    """Install Debian's package. Whatever hinders that, the tests tell what they did not run."""
    print("Installing Chromium for the browser tests ...", flush=True)
    for command in ("update", "install --yes --no-install-recommends chromium"):
        subprocess.run(["apt-get", "--quiet=2", *command.split()], check=False)  # noqa: S607


if __name__ == "__main__" and not find() and os.geteuid() == 0 and shutil.which("apt-get"):
    install()

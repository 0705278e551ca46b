"""Lets the other programs on this machine go first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")


def give_way(niceness: int) -> None:
    """Stand back: this process, and the session that its program has to itself.

    Linux may share the cores out among sessions first (sched_autogroup), and then niceness counts
    among the processes of one session alone. `up` and service managers start each program in its
    own. Where several programs share one, say in a terminal, it is not ours to slow down.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getppid():
        with suppress(OSError):  # no Linux, or a sister was first: it may be set ten times a second
            AUTOGROUP.write_text(str(niceness))

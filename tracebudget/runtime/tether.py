"""Start a command that ends when we end: `python -I -S tether.py PARENT SIGNAL USER COMMAND...`.

Linux sends SIGNAL to the command when process PARENT ends, even by SIGKILL; other systems only
start the command. USER "" stays who we are. This is a program, not a `preexec_fn`: Python code
between fork and exec can deadlock in a process that has threads. It needs the standard library
alone, so it costs 20 ms.

A parent with several threads counts as several parents that end one after the other: the signal
comes once for each. Python's signal handlers do not all bear that; SIGKILL does not care.
"""

import ctypes
import os
import pwd
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def become(user: str) -> None:
    """Give up root for `user`. Comes first: a change of user undoes `die_with_parent`."""
    entry = pwd.getpwnam(user)
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def die_with_parent(parent: int, signal_number: int) -> None:
    """Get the signal when process `parent` ends. Linux alone can do that."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it ended before we asked
        sys.exit(1)


def main(parent: str, signal_number: str, user: str, *command: str) -> None:
    if user:
        become(user)
    die_with_parent(int(parent), int(signal_number))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])

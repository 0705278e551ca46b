"""Where the embedded servers listen: Unix sockets that only we can open.

So there is no port to clash, and no password to keep.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from tracebudget.runtime.errors import StartError

# The kernel's limit for a socket's path is 103 bytes (macOS; 107 on Linux), less the longest name,
# "/.s.PGSQL.5432".
MAX_DIRECTORY_BYTES = 103 - 14


def socket_directory(data_dir: Path) -> Path:
    """`<data dir>/run`; where that is too long for the kernel, a short temporary path."""
    directory = data_dir / "run"
    if len(os.fsencode(directory)) <= MAX_DIRECTORY_BYTES:
        return directory
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tracebudget-{digest}"


def make_socket_directory(directory: Path, *, owner: int) -> None:
    """Make the directory for `owner` alone. StartError if someone else's stands there already."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.lstat().st_uid not in {os.geteuid(), owner}:
        raise StartError(
            f"{directory} belongs to another user. "
            "Remove it, or choose another TRACEBUDGET_DATA_DIR."
        )
    os.chown(directory, owner, -1)
    directory.chmod(0o700)

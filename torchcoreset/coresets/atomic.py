"""Files that are there whole or not at all: written beside their place, then moved into it."""

from __future__ import annotations

import glob
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a file to write instead of `path`; when all is written it takes its place in one step.

    A process that is killed at any moment leaves the old file, or the new one, and perhaps a file that begins with a
    dot, which the next writing of the same file removes. An error within leaves the old file. Of a symbolic link the
    file that it leads to is replaced.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    opened = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)  # less the umask, as `open` does it
    try:
        with suppress(OSError):  # a file system without locks
            _lock(opened)
        yield beside
        with open(beside, "rb") as file:  # the content must reach the disk before the name does
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        os.replace(beside, path)
    finally:
        os.close(opened)
        beside.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a file, and what killed processes have left of its writing; nothing happens if there is none."""
    path.unlink(missing_ok=True)
    _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    """Remove what killed processes have left beside a file: nobody locks it any more."""
    if sys.platform == "win32":  # has no such locks: what a killed process has left is not told from what one writes
        return
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}{glob.escape(path.suffix)}"):
        with suppress(OSError):  # it is locked, or another process was faster
            opened = os.open(left, os.O_RDONLY)
            try:
                _lock(opened)
                left.unlink()
            finally:
                os.close(opened)


def _lock(opened: int) -> None:
    """Lock an open file until it is closed; the system does that for a process that dies. OSError if another has it."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)

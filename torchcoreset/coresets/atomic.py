"""Files that are there whole or not at all: written beside their place, then moved into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a file to write instead of `path`; when all is written it takes its place in one step.

    A process that is killed at any moment leaves the old file, or the new one, and perhaps a file that begins with a
    dot. An error within leaves the old file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        with open(beside, "rb") as file:  # the content must reach the disk before the name does
            os.fsync(file.fileno())
        beside.chmod(_mode(path))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """Permissions as `open` would give them: mkstemp gives its files to the owner alone."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

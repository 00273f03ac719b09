"""Files that are there whole or not at all: written beside their place, then moved into it."""

from __future__ import annotations

import os
import secrets
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
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # less the umask, as `open` does it
    try:
        yield beside
        with open(beside, "rb") as file:  # the content must reach the disk before the name does
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)

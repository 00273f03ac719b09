"""Pictures as files, and whether a file can be written at a place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ...coresets import replacing
from ...errors import meant
from ..settings import UsageError

FORMATS = (".png", ".pdf", ".svg")


def check_place(path: Path, flag: str) -> None:
    """Raise unless a file can be written there, in a folder that is made if there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(
            f"{flag}: nothing can be written to the folder {str(path.parent)!r} ({error.strerror}). Name another one."
        ) from error


def check_picture(name: str | None) -> None:
    """Raise unless a picture of this name can be drawn, or none is wanted."""
    if name is None:
        return
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(
            f"--plot: got {name!r}; expected a name that ends in .png, .pdf or .svg{meant(suffix, FORMATS, '.')}"
        )
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError("--plot: needs matplotlib: pip install 'torchcoreset[plot]'.") from error
    check_place(Path(name), "--plot")


def save_picture(figure: Any, name: str) -> None:
    """Write a matplotlib Figure, whole or not at all."""
    with replacing(Path(name)) as path:
        figure.savefig(path)

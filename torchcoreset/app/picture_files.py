"""Pictures as files: what their names may be, and how they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..coresets.atomic import replacing
from .settings import UsageError


def check_picture(name: str) -> None:
    """Raise unless a picture of this name can be drawn."""
    if Path(name).suffix.lower() not in (".png", ".pdf", ".svg"):
        raise UsageError(f"--plot: got {name!r}; expected a name that ends in .png, .pdf or .svg.")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError("--plot: needs matplotlib: pip install 'torchcoreset[plot]'.") from error


def save_picture(figure: Any, name: str) -> None:
    """Write a matplotlib Figure, whole or not at all."""
    with replacing(Path(name)) as path:
        figure.savefig(path)

"""Packages that some files need, or how to get them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


def require_safetensors() -> None:
    """Raise ImportError, with the remedy, unless safetensors is installed."""
    try:
        import safetensors.torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "path: .safetensors files need safetensors: pip install 'torchcoreset[safetensors]'."
        ) from error


def pyarrow(module: str, name: str | Path) -> Any:
    """A module of pyarrow, such as "pyarrow.csv", or an ImportError that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"source: reading {getattr(name, 'name', name)} needs pyarrow: pip install 'torchcoreset[files]'."
        ) from error

"""Tensors in .pt and .safetensors files, which torch reads: it is imported when it has to."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .optional import require_safetensors

if TYPE_CHECKING:
    from torch import Tensor

EXPANDED = 1 << 28  # bytes; a tensor of more than its file holds is refused beyond it


def load_tensors(path: str | Path) -> Any:
    """What `torch.save` wrote, on the CPU, if it is tensors, numbers, text, and lists and dicts of them.

    Tensors are read as they are used, unless the file is of a torch before 1.6.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the pickle protocols of files that are then refused
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    for tensor in held.values() if isinstance(held, dict) else [held]:
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            size = tensor.numel() * tensor.element_size()
            if size > max(EXPANDED, tensor.untyped_storage().nbytes()):
                raise ValueError(f"it holds a tensor of {size:,} bytes, of which only a part is stored")
    return held


def wide(tensor: Tensor) -> Tensor:
    """The tensor in a dtype that NumPy has: it lacks bfloat16, and float32 holds all that are narrower exactly."""
    return tensor.float() if tensor.dtype.itemsize < 4 else tensor


def load_safetensors(path: str | Path, names: Collection[str] | None) -> dict[str, Any]:
    """Tensors by name, all or those among `names`, and the texts of the header."""
    require_safetensors()
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys() if names is None or name in names}  # noqa: SIM118
        return {**tensors, **(file.metadata() or {})}

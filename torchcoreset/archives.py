"""Archives of arrays by name, .npz, .pt and .safetensors, read without running anything in them.

A .npz file is read without pickle and a .pt file with weights_only, so that a file from anywhere is only numbers, or
refused. Only the arrays asked for are read, and none that would take more memory than the file holds of it.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

FORMATS = (".npz", ".pt", ".safetensors")
EXPANDED = 1 << 28  # bytes; a tensor of more than its file holds is refused beyond it


def read_archive(path: str | Path, names: Collection[str] | None = None) -> dict[str, Any]:
    """Arrays or tensors by name, on the CPU, and text as it is; all of them, or those among `names`.

    Raises:
        ImportError: safetensors is not installed.
        Exception: of many kinds, by zip, zlib, pickle, numpy and torch, for a damaged file or one that holds anything
            but plain arrays, tensors and text.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return load_npz(path, names)
    if suffix == ".safetensors":
        return _read_safetensors(path, names)
    held = load_tensors(path)
    if isinstance(held, Tensor):
        held = {"data": held}
    if not isinstance(held, dict):
        raise ValueError(f"it holds a {type(held).__name__}")
    return {str(name): part for name, part in held.items() if names is None or name in names}


def names_in(path: str | Path) -> list[str]:
    """Names of the arrays and texts of an archive, none of which is read; "data" where a .pt file is one tensor.

    Raises:
        Exception: as for `read_archive`.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a zip archive")
        return names_in_npz(path)
    if suffix == ".safetensors":
        require_safetensors()
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    held = load_tensors(path)
    return (
        [str(name) for name, part in held.items() if isinstance(part, (Tensor, list))]
        if isinstance(held, dict)
        else ["data"]
    )


def load_npz(path: str | Path, names: Collection[str] | None = None) -> dict[str, Any]:
    """Arrays by name, all or those among `names`, and single text as it is; never pickled objects."""
    # Opened here: numpy leaves a damaged file open.
    with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        found = {}
        for name in file.files:
            if names is None or name in names:
                _check_header(file.zip, name)
                array = file[name]
                found[name] = str(array) if array.dtype.kind == "U" and array.ndim == 0 else array
        return found


def names_in_npz(path: str | Path) -> list[str]:
    """Names of the arrays of a .npz file, none of which is read; none of another file."""
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def load_tensors(path: str | Path) -> Any:
    """What `torch.save` wrote, on the CPU, if it is tensors, numbers, text, and lists and dicts of them.

    Tensors are read as they are used, unless the file is of a torch before 1.6.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the pickle protocols of files that are then refused
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    for tensor in held.values() if isinstance(held, dict) else [held]:
        if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
            size = tensor.numel() * tensor.element_size()
            if size > max(EXPANDED, tensor.untyped_storage().nbytes()):
                raise ValueError(f"it holds a tensor of {size:,} bytes, of which only a part is stored")
    return held


def wide(tensor: Tensor) -> Tensor:
    """The tensor in a dtype that NumPy has: it lacks bfloat16, and float32 holds all that are narrower exactly."""
    return tensor.float() if tensor.dtype.itemsize < torch.float32.itemsize else tensor


def require_safetensors() -> None:
    """Raise ImportError, with the remedy, unless safetensors is installed."""
    try:
        import safetensors.torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "path: .safetensors files need safetensors: pip install 'torchcoreset[safetensors]'."
        ) from error


def _check_header(archive: zipfile.ZipFile, name: str) -> None:
    """Raise ValueError if an array says that it is larger than it is: numpy would make room for it first."""
    member = archive.getinfo(name if name in archive.namelist() else f"{name}.npy")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{name!r} is in version {version} of the format, which is for records")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        size, items = member.file_size - file.tell(), math.prod(shape)
        if not dtype.hasobject and (items * dtype.itemsize != size or items > size):
            raise ValueError(f"{name!r} is said to be {shape} numbers of type {dtype}, and has {size:,} bytes")


def _read_safetensors(path: str | Path, names: Collection[str] | None) -> dict[str, Any]:
    require_safetensors()
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys() if names is None or name in names}  # noqa: SIM118
        return {**tensors, **(file.metadata() or {})}

"""Files of arrays by name, .npz, .pt and .safetensors: written whole or not at all, and read without running anything.

A .npz file is read without pickle and a .pt file with weights_only, so that a file from anywhere is only numbers, or
refused.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .atomic import replacing

FORMATS = (".npz", ".pt", ".safetensors")


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Arrays or tensors by name, on the CPU, and text as it is.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: safetensors is not installed.
        ValueError: another suffix, a damaged file, or one that holds anything but plain arrays, tensors and text.
    """
    path, suffix = Path(path), _suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {path}.")
    if suffix == ".safetensors":
        require_safetensors()
    try:
        return {".npz": load_npz, ".pt": _read_pt, ".safetensors": _read_safetensors}[suffix](path)
    except Exception as error:  # zip, zlib, pickle, numpy and torch raise errors of many kinds for a damaged file
        # torch's text goes on to advise trusting the file, which is no advice.
        text = "" if suffix == ".pt" else f" ({error})"
        raise ValueError(
            f"path: {path} is not a {suffix} file of plain arrays{text}; expected a file by Coreset.save, whole, "
            "without pickled objects."
        ) from error


def write_arrays(
    path: str | Path, tensors: Mapping[str, Tensor], text: Mapping[str, str], labels: NDArray[Any] | None = None
) -> None:
    """Write tensors and text by name; a process that dies meanwhile leaves the old file, or none.

    Labels, if there are any, are numbers or text, one for each point. Text is an array of text in a .npz file, a list
    in a .pt file, and JSON in the header of a .safetensors file.
    """
    path, suffix = Path(path), _suffix(path)
    if suffix == ".safetensors":
        require_safetensors()
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    more: dict[str, Any] = dict(text)
    if labels is not None and labels.dtype.kind != "U":
        held["labels"] = torch.from_numpy(np.ascontiguousarray(labels))
    elif labels is not None:
        more["labels"] = {".npz": labels, ".pt": labels.tolist()}.get(suffix, json.dumps(labels.tolist()))
    with replacing(path) as beside:
        if suffix == ".safetensors":
            from safetensors.torch import save_file

            save_file(held, beside, metadata=more)
        elif suffix == ".npz":
            columns: dict[str, Any] = {**{name: _array(tensor) for name, tensor in held.items()}, **more}
            with open(beside, "wb") as file:
                np.savez(file, **columns)
        else:
            torch.save({**held, **more}, beside)


def load_tensors(path: str | Path) -> Any:
    """What `torch.save` wrote, on the CPU, if it is tensors, numbers, text, and lists and dicts of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the pickle protocols of files that are then refused
        return torch.load(path, map_location="cpu", weights_only=True)


def wide(tensor: Tensor) -> Tensor:
    """The tensor in a dtype that NumPy has: it lacks bfloat16, and float32 holds both half precisions exactly."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def labels_of(arrays: Mapping[str, Any]) -> NDArray[Any] | None:
    """The labels among what `read_arrays` found, numbers or text; None if there are none."""
    labels = arrays.get("labels")
    if isinstance(labels, str):  # of a .safetensors file
        labels = json.loads(labels)
    return None if labels is None else np.asarray(labels)


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = (wide(tensor) if tensor.is_floating_point() else tensor).numpy()
    return array


def load_npz(path: str | Path) -> dict[str, Any]:
    """Arrays by name, and single text as it is; never pickled objects."""
    # Opened here: numpy leaves a damaged file open.
    with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
        return {
            name: str(array) if array.dtype.kind == "U" and array.ndim == 0 else array for name, array in arrays.items()
        }


def _read_pt(path: Path) -> dict[str, Any]:
    held = load_tensors(path)
    if not isinstance(held, dict):
        raise ValueError(f"it holds a {type(held).__name__}")
    return {str(name): part for name, part in held.items()}


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {**{name: file.get_tensor(name) for name in file.keys()}, **(file.metadata() or {})}  # noqa: SIM118


def require_safetensors() -> None:
    """Raise ImportError, with the remedy, unless safetensors is installed."""
    try:
        import safetensors.torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "path: .safetensors files need safetensors: pip install 'torchcoreset[safetensors]'."
        ) from error


def _suffix(path: str | Path) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"path: got {path}; expected a file name that ends in .pt or .npz, or .safetensors.")
    return suffix

"""Files of arrays by name, .npz, .pt and .safetensors: written whole or not at all, and read without running anything.

A .npz file is read without pickle and a .pt file with weights_only, so that a file from anywhere is only numbers, or
refused. Only the arrays asked for are read, and none that would take more memory than the file holds of it.
"""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .atomic import replacing

FORMATS = (".npz", ".pt", ".safetensors")
NAMES = (
    "points",
    "weights",
    "labels",
    "metadata",
    "built_on",
    "scaling",
)  # of a coreset; what else a file holds is not read
EXPANDED = 1 << 28  # bytes; a tensor of more than its file holds is refused beyond it


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Arrays or tensors of a coreset by name, on the CPU, and text as it is.

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
        return {".npz": load_npz, ".pt": _read_pt, ".safetensors": _read_safetensors}[suffix](path, NAMES)
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
    content = io.BytesIO()  # of which a full disk is an OSError: torch and safetensors raise others
    if suffix == ".safetensors":
        from safetensors.torch import save

        content.write(save(held, metadata=more))
    elif suffix == ".npz":
        columns: dict[str, Any] = {**{name: _array(tensor) for name, tensor in held.items()}, **more}
        np.savez(content, **columns)
    else:
        torch.save({**held, **more}, content)
    with replacing(path) as beside:
        beside.write_bytes(content.getbuffer())


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
    """The tensor in a dtype that NumPy has: it lacks bfloat16, and float32 holds both half precisions exactly."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def labels_of(arrays: Mapping[str, Any]) -> NDArray[Any] | None:
    """The labels among what `read_arrays` found, numbers or text; None if there are none."""
    labels = arrays.get("labels")
    if isinstance(labels, str):  # of a .safetensors file
        try:
            labels = json.loads(labels)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                "path: the labels of the file are not a list in JSON; expected one label a point."
            ) from error
    return None if labels is None else np.asarray(labels)


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = (wide(tensor) if tensor.is_floating_point() else tensor).numpy()
    return array


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


def _read_pt(path: Path, names: Collection[str]) -> dict[str, Any]:
    held = load_tensors(path)
    if not isinstance(held, dict):
        raise ValueError(f"it holds a {type(held).__name__}")
    return {name: held[name] for name in names if name in held}


def _read_safetensors(path: Path, names: Collection[str]) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys() if name in names}  # noqa: SIM118
        return {**tensors, **(file.metadata() or {})}


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

"""Files of coresets as archives of arrays by name: written whole or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..archives import FORMATS, read_archive, require_safetensors, wide
from .atomic import replacing

# Of a coreset; what else a file holds is not read.
NAMES = ("points", "weights", "labels", "metadata", "built_on", "scaling", "cost")


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
    try:
        return read_archive(path, NAMES)
    except ImportError:
        raise
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


def _suffix(path: str | Path) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"path: got {path}; expected a file name that ends in .pt or .npz, or .safetensors.")
    return suffix

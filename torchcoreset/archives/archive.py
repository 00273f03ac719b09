"""A file of arrays by name, in any of the formats."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import meant, no_file
from .npz import load_npz, names_in_npz
from .optional import require_safetensors
from .tensors import load_safetensors, load_tensors

FORMATS = (".npz", ".pt", ".safetensors")
# Of a coreset; what else a file holds is not read.
OF_CORESETS = ("points", "weights", "labels", "metadata", "built_on", "scaling", "cost", "joint", "price")


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
        return load_safetensors(path, names)
    held = load_tensors(path)
    if hasattr(held, "layout"):  # a tensor
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
    if not isinstance(held, dict):
        return ["data"]
    return [str(name) for name, part in held.items() if isinstance(part, list) or hasattr(part, "layout")]


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Arrays or tensors of a coreset by name, on the CPU, and text as it is.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: safetensors is not installed.
        ValueError: another suffix, a damaged file, or one that holds anything but plain arrays, tensors and text.
    """
    path, suffix = Path(path), suffix_of(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: {no_file(path)}")
    try:
        return read_archive(path, OF_CORESETS)
    except ImportError:
        raise
    except Exception as error:  # zip, zlib, pickle, numpy and torch raise errors of many kinds for a damaged file
        # torch's text goes on to advise trusting the file, which is no advice.
        text = "" if suffix == ".pt" else f" ({error})"
        raise ValueError(
            f"path: {path} is not a {suffix} file of plain arrays{text}; expected a file by Coreset.save, whole, "
            "without pickled objects."
        ) from error


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


def suffix_of(path: str | Path) -> str:
    """The suffix of a file of arrays, in lower case; ValueError for another."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(
            f"path: got {path}; expected a file name that ends in .pt or .npz, or .safetensors"
            + meant(suffix, FORMATS, ".")
        )
    return suffix

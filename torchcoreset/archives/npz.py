"""Arrays in .npz files, by NumPy alone."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np


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

"""Archives of arrays by name, .npz, .pt and .safetensors, read without running anything in them.

A .npz file is read without pickle and a .pt file with weights_only, so that a file from anywhere is only numbers, or
refused. Only the arrays asked for are read, and none that would take more memory than the file holds of it.

`archive` is a file in any of the formats, by `npz` (NumPy alone) or `tensors` (torch); `optional` are the packages that
some of them need.
"""

from .archive import FORMATS, labels_of, names_in, read_archive, read_arrays, suffix_of
from .npz import load_npz, names_in_npz
from .optional import pyarrow, require_safetensors
from .tensors import load_tensors, wide

__all__ = [
    "FORMATS", "labels_of", "load_npz", "load_tensors", "names_in", "names_in_npz", "pyarrow", "read_archive",
    "read_arrays", "require_safetensors", "suffix_of", "wide",
]  # fmt: skip

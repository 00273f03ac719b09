"""From the path of a file to the source that reads it."""

import os
from pathlib import Path
from typing import Any

from ..layout import Layout
from .csv import CsvSource
from .npy import NpySource
from .parquet import ParquetSource
from .source import FileSource

_FORMATS: dict[str, type[NpySource] | type[ParquetSource] | type[CsvSource]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
    ".npy": NpySource,
}
_COMPRESSED = (".gz", ".bz2")


def open_file(path: str | os.PathLike[str], weights: Any, layout: Layout) -> FileSource:
    """The source that reads a file of this suffix.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: the format needs pyarrow, which is not installed.
        ValueError: the suffix is not known, or the file cannot be used.
    """
    file = Path(path)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in _COMPRESSED and suffixes[-2] in (".csv", ".tsv"):
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _FORMATS:
        raise ValueError(f"source: got the path {str(path)!r}; expected a file that ends in {', '.join(_FORMATS)}.")
    if not file.is_file():
        raise FileNotFoundError(f"source: there is no file {str(path)!r}.")
    return _FORMATS[suffixes[-1]](file, weights, layout)

"""From the path of a file to the source that reads it: the table of suffixes, and tables read whole."""

import os
from pathlib import Path
from typing import Any

from ..layout import Layout
from .columns import pyarrow
from .csv import CsvSource, csv_options, dialect_of, open_blocks
from .npy import NpySource
from .parquet import ParquetSource, opened
from .source import FileSource

FORMATS: dict[str, type[NpySource] | type[ParquetSource] | type[CsvSource]] = {
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
    ".npy": NpySource,
}
_COMPRESSED = (".gz", ".bz2")


def format_of(path: str | os.PathLike[str]) -> str:
    """The suffix that says what a file holds, in lower case; that of a compression comes after it."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes] or [""]
    if suffixes[-1] in _COMPRESSED and len(suffixes) > 1 and FORMATS.get(suffixes[-2]) is CsvSource:
        suffixes.pop()
    return suffixes[-1]


def open_file(path: str | os.PathLike[str], weights: Any, layout: Layout) -> FileSource:
    """The source that reads a file of this suffix.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: the format needs pyarrow, which is not installed.
        ValueError: the suffix is not known, or the file cannot be used.
    """
    if format_of(path) not in FORMATS:
        raise ValueError(f"source: got the path {str(path)!r}; expected a file that ends in {', '.join(FORMATS)}.")
    if not Path(path).is_file():
        raise FileNotFoundError(f"source: there is no file {str(path)!r}.")
    return FORMATS[format_of(path)](Path(path), weights, layout)


def schema_of(path: Path) -> Any:
    """Names and types of the columns of a CSV or Parquet file: a schema of pyarrow."""
    if FORMATS[format_of(path)] is ParquetSource:
        with opened(path) as file:
            return file.schema_arrow
    with open_blocks(path, dialect_of(path), None) as reader:
        return reader.schema


def read_column(path: Path, name: str) -> Any:
    """One column of a CSV or Parquet file, whole and of any type: an array of pyarrow. Empty text counts as missing."""
    if FORMATS[format_of(path)] is ParquetSource:
        with opened(path) as file:
            return file.read([name]).column(name)
    options = csv_options(path, dialect_of(path), include_columns=[name], strings_can_be_null=True)
    return pyarrow("pyarrow.csv", path).read_csv(path, *options).column(name)

"""Tables in files that may be larger than memory: `source` reads them in blocks, by format (`npy`, `csv`, `parquet`).

`formats` goes from a path to a source; `columns` is what pyarrow reads for CSV and Parquet.
"""

from .columns import pyarrow, usable
from .csv import CsvSource, Dialect, csv_options, dialect_of, open_blocks
from .formats import open_file
from .npy import NpySource
from .parquet import ParquetSource
from .source import FileSource

__all__ = [
    "CsvSource",
    "Dialect",
    "FileSource",
    "NpySource",
    "ParquetSource",
    "csv_options",
    "dialect_of",
    "open_blocks",
    "open_file",
    "pyarrow",
    "usable",
]

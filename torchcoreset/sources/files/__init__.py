"""Tables in files that may be larger than memory: `source` reads them in blocks, by format (`npy`, `csv`, `parquet`).

`formats` goes from a path to a source; `columns` is what pyarrow reads for CSV and Parquet, and how columns are chosen.
"""

from .columns import column_named, pyarrow, usable
from .csv import CsvSource
from .formats import FORMATS, format_of, open_file, read_column, schema_of
from .npy import NpySource, mapped
from .parquet import ParquetSource
from .source import FileSource

__all__ = [
    "FORMATS", "CsvSource", "FileSource", "NpySource", "ParquetSource", "column_named", "format_of", "mapped",
    "open_file", "pyarrow", "read_column", "schema_of", "usable",
]  # fmt: skip

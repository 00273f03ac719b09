"""Tables in files and in other libraries' hands, which may be larger than memory: one door for Python and commands.

`formats` goes from a path, folder or pattern to a `reader` of blocks, by format: `arrow` (Parquet, Feather, lazy
frames), `csv` with its `dialect`, `arrays` (NPY, HDF5, NPZ, PT). `columns` tells features from labels, weights and ids
and makes rows of numbers; `source` draws from the blocks, and `table` puts all of it together.
"""

from ...archives import pyarrow
from ...names import DateUnit, WeightsAre
from .arrays import NamedArrays, held_by_name
from .columns import OneHot, Roles, is_key
from .dialect import Dialect
from .formats import FORMATS, format_of
from .source import BlockSource, FileSource, LabeledBlocks
from .table import Table, is_table, names_of, read_table, table_of

__all__ = [
    "FORMATS", "BlockSource", "DateUnit", "Dialect", "FileSource", "LabeledBlocks", "NamedArrays", "OneHot", "Roles",
    "Table", "WeightsAre", "format_of", "held_by_name", "is_key", "is_table", "names_of", "pyarrow", "read_table",
    "table_of",
]  # fmt: skip

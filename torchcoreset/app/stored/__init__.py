"""What coreset files hold, as arrays: read and checked without torch, which `info` can do without.

`reading` finds points, weights, labels and metadata in files of all formats; `metadata` checks what they say.
"""

from .metadata import ROWS_MARK, parsed, read_metadata, rows_mark
from .reading import (
    FORMATS,
    SCHEMA_KEY,
    SPARE,
    WEIGHT,
    Stored,
    beside,
    check_format,
    is_coreset,
    names_of_features,
    read_stored,
)

__all__ = [
    "FORMATS", "ROWS_MARK", "SCHEMA_KEY", "SPARE", "WEIGHT", "Stored", "beside", "check_format", "is_coreset",
    "names_of_features", "parsed", "read_metadata", "read_stored", "rows_mark",
]  # fmt: skip

"""Files of the command line: tables, coresets with their metadata, pictures, checkpoints."""

from .assignment import check_assignment, write_assignment
from .checkpoint import Checkpoint
from .coresets import (
    FORMATS,
    CoresetFile,
    check_format,
    check_out,
    check_table,
    is_coreset,
    read_coreset,
    write_coreset,
)
from .data import DataSettings, ScaleSettings, as_read, header, read_table
from .pictures import check_picture, save_picture

__all__ = [
    "FORMATS", "Checkpoint", "CoresetFile", "DataSettings", "ScaleSettings", "as_read", "check_assignment",
    "check_format", "check_out", "check_picture", "check_table", "header", "is_coreset", "read_coreset", "read_table",
    "save_picture", "write_assignment", "write_coreset",
]  # fmt: skip

"""Files of the command line: tables, coresets with their metadata, pictures, checkpoints."""

from .assignment import check_assignment, write_assignment
from .checkpoint import Checkpoint
from .coresets import CoresetFile, check_out, check_table, read_coreset, write_coreset
from .data import as_read, check_measurable, header, metric_for, read_table, scaling_of, units_of
from .pictures import check_picture, save_picture

__all__ = [
    "Checkpoint", "CoresetFile", "as_read", "check_assignment", "check_measurable",
    "check_out", "check_picture", "check_table", "header", "metric_for", "read_coreset", "read_table",
    "save_picture", "scaling_of", "units_of", "write_assignment", "write_coreset",
]  # fmt: skip

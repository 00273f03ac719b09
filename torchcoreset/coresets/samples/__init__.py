"""The samples that a build holds in memory, in one process (`loaded`) or several (`ranked_rows`)."""

from .loaded import HELD, HELD_PER_POINT, LINE_HELD, LoadedSamples, hold, hold_part, loaded_rows, most_of_file
from .ranked_rows import WHY

__all__ = [
    "HELD",
    "HELD_PER_POINT",
    "LINE_HELD",
    "WHY",
    "LoadedSamples",
    "hold",
    "hold_part",
    "loaded_rows",
    "most_of_file",
]

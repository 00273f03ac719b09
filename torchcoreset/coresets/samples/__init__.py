"""The samples that a build loads into memory, in one process (`loaded`) or several (`ranked_rows`)."""

from .loaded import (
    DEFAULT_SAMPLES,
    LINE_SAMPLES,
    SAMPLES_PER_POINT,
    LoadedSamples,
    load,
    load_part,
    loaded_rows,
    most_of_file,
)
from .ranked_rows import WHY

__all__ = [
    "DEFAULT_SAMPLES", "LINE_SAMPLES", "SAMPLES_PER_POINT", "WHY", "LoadedSamples", "load", "load_part", "loaded_rows",
    "most_of_file",
]  # fmt: skip

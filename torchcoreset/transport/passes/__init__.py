"""Reductions over all samples: which point is nearest in c - v (`hard`), how the softmin shares mass (`soft`).

`engine` is the interface; `soft` and `cells` say what the two give back, and how any engine makes it of its reductions.
`dense` reduces by matrix products in blocks, those in `fused` in one loop: compiled with the package for CPUs, by
Triton for GPUs, or by KeOps. `truncated` are soft passes over the few points that matter to each sample, and `gram`
makes their curvature. `nearest` finds the two lowest of many numbers, and the places of small ones; `choose` makes
the engine that a problem asks for, and `rounding` bounds what the arithmetic may hide.
"""

from .cells import LaguerreCells
from .choose import KEOPS_DIMENSIONS, EngineChoice, EngineName, check_engine, make_engine, warn_of_dimensions
from .engine import Engine, Entries, chunk_elements, shuffled
from .fused import load_keops, running
from .gram import csr
from .nearest import about_least, true_places
from .rounding import RESOLUTION, SUMMED, minimum_error, of_sums, unresolved
from .soft import SmoothedCells, SoftEngine, exponential_

__all__ = [
    "KEOPS_DIMENSIONS", "RESOLUTION", "SUMMED", "Engine", "EngineChoice", "EngineName", "Entries", "LaguerreCells",
    "SmoothedCells", "SoftEngine", "about_least", "check_engine", "chunk_elements", "csr", "exponential_", "load_keops",
    "make_engine", "minimum_error", "of_sums", "running", "shuffled", "true_places", "unresolved",
    "warn_of_dimensions",
]  # fmt: skip

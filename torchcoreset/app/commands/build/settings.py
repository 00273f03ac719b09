"""The settings of `build`."""

from __future__ import annotations

from dataclasses import dataclass

from ....coresets import Algorithm, Allocation, Init
from ...choices import ChoiceSettings
from ...files import DataSettings, ScaleSettings
from ...settings import Writes, option


@dataclass(frozen=True, kw_only=True)
class BuildSettings(Writes, ChoiceSettings, ScaleSettings, DataSettings):
    """Settings of `build`."""

    size: int = option("number of points", metavar="N")
    p: float = option("power of the distance, at least 1", 2.0)
    out: str = option("file to write: .npz, .pt, .safetensors, .csv or .parquet", "coreset.npz", metavar="FILE")
    plot: str | None = option("picture to draw: .png, .pdf or .svg", None, metavar="FILE")
    assignment: str | None = option(
        "table to write: which point each row went to, by its number and --id: .csv or .parquet", None, metavar="FILE"
    )
    allocation: Allocation = option(
        "with --label: points of a class by its share of the rows, or as many for each", "proportional"
    )
    rows: bool = option("choose rows of the table as points; their numbers, and ids by --id, go into OUT", False)
    algorithm: Algorithm = option("how points move; auto takes fixed_point", "auto")
    init: Init | None = option("how points begin: annealed, random or kmeans++", None)
    restarts: int | None = option("number of starts, of which the best goes on", None, metavar="N")
    steps: int | None = option("most steps; 300, or 1000 of sgd, if not given", None, metavar="N")
    tolerance: float = option("relative change of the value that counts as none", 1e-3)
    samples: int | None = option("most rows to hold in memory, or with --label to build on", None, metavar="N")
    batch_size: int | None = option("rows of a step of sgd", None, metavar="N")
    hold_out: float = option("share of the rows left for `certify`", 0.0, metavar="SHARE")
    seed: int = option("of all random numbers", 0, metavar="N")
    resume: bool = option("go on from OUT.checkpoint, which an interrupted run has left", False)
    checkpoint_every: float = option("seconds between two checkpoints", 10.0, metavar="SECONDS")

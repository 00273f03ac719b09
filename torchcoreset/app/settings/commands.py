"""The settings of each command."""

from __future__ import annotations

from dataclasses import dataclass

from ...names import Algorithm, Allocation, Backend, BoundMethod, Divergence, Init, KernelName
from .fields import Common, Writes, argument, option
from .table import DataSettings, DistanceSettings

OUT = "file to write: .npz, .pt, .safetensors, .csv or .parquet"
SEED = "of all random numbers"
MOST_ROWS = "most rows for the interval"


@dataclass(frozen=True, kw_only=True)
class ChoiceSettings:
    """Weights of the points, and outliers."""

    point_weights: str = option("equal, free, or LOW:HIGH in equal shares, such as 0.5:2", "equal", metavar="WEIGHTS")
    trim: float = option("share of the rows, by weight, that may stay unmatched", 0.0, metavar="SHARE")


@dataclass(frozen=True, kw_only=True)
class DivergenceSettings:
    """What is minimised."""

    divergence: Divergence = option("the Wasserstein distance, or another divergence", "wasserstein")
    blur: float | None = option("of sinkhorn and mmd: a length, in the unit of the distance", None, metavar="LENGTH")
    relative_blur: float | None = option(
        "the same as a fraction of the scale of the rows, their median distance to their median", None, metavar="SHARE"
    )
    kernel: KernelName | None = option("of mmd", None)
    debias: bool | None = option(
        "of sinkhorn: whether terms of a set with itself are taken away", None, metavar="{yes,no}"
    )
    backend: Backend | None = option("of sinkhorn", None)


@dataclass(frozen=True, kw_only=True)
class BuildSettings(Writes, DivergenceSettings, ChoiceSettings, DistanceSettings, DataSettings):
    """Settings of `build`."""

    size: int = option("number of points", metavar="N", short="-n")
    p: float | None = option(
        "power of the distance, at least 1 (default: 2; 1 for energy, which takes 1 to 2)", None, metavar="P"
    )
    out: str = option(OUT, "coreset.npz", metavar="FILE")
    plot: str | None = option("picture to draw: .png, .pdf or .svg", None, metavar="FILE")
    assignment: str | None = option(
        "table to write: which point each row went to, by its number and --id: .csv or .parquet", None, metavar="FILE"
    )
    allocation: Allocation = option(
        "with --label: points of a class by its share of the rows, or as many for each", "proportional"
    )
    rows: bool = option("choose rows of the table as points; their numbers, and ids by --id, go into OUT", False)
    keep: str | list[int] | None = option(
        "with --rows: numbers of rows, counted from 0, that have to be among them: 3,8", None, metavar="ROWS"
    )
    exclude: str | list[int] | None = option("with --rows: numbers of rows that must not be", None, metavar="ROWS")
    algorithm: Algorithm = option("how points move; auto takes fixed_point", "auto")
    init: Init | None = option("how points begin (default: the best for the algorithm)", None)
    restarts: int | None = option("number of starts, of which the best goes on", None, metavar="N")
    steps: int | None = option("most steps (default: 300, or 1000 of sgd)", None, metavar="N")
    tolerance: float = option("relative change of the value that counts as none", 1e-3)
    samples: int | None = option("most rows to hold in memory, or with --label to build on", None, metavar="N")
    batch_size: int | None = option("rows of a step of sgd", None, metavar="N")
    hold_out: float = option("share of the rows left for `certify`", 0.0, metavar="SHARE")
    seed: int = option(SEED, 0, metavar="N")
    resume: bool = option("go on from OUT.checkpoint, which an interrupted run has left", False)
    checkpoint_every: float = option("seconds between two checkpoints", 10.0, metavar="SECONDS")


@dataclass(frozen=True, kw_only=True)
class CertifySettings(DataSettings):
    """Settings of `certify`."""

    coreset: str = argument("coreset file: .npz, .pt, .safetensors, .csv or .parquet")
    data: str = argument("table of fresh rows; of the build's own table the rows held out are taken")
    p: float | None = option("power of the distance (default: that of the build)", None)
    confidence: float = option("of the interval", 0.95)
    samples: int = option(MOST_ROWS, 100_000, metavar="N")
    bound: float | None = option("largest possible cost, for a confidence at every number of rows", None)
    trim: float | None = option(
        "share of the rows that may stay unmatched (default: that of the build)", None, metavar="SHARE"
    )
    at_most: float | None = option(
        "exit with 1 unless the distance is certified to be at most this", None, metavar="DISTANCE"
    )
    seed: int = option(SEED, 0, metavar="N")


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Writes, DataSettings):
    """Settings of `compare`."""

    data: str = argument("table that the coresets stand for")
    coresets: list[str] = argument("coreset files to compare (tc.compare_divergences compares divergences)", [])
    p: float | None = option("power of the distance (default: that of the first file, or 2)", None)
    samples: int = option("most rows to measure on", 100_000, metavar="N")
    plot: str | None = option("picture of them beside random rows", None, metavar="FILE")
    seed: int = option(SEED, 0, metavar="N")


@dataclass(frozen=True, kw_only=True)
class MergeSettings(Writes):
    """Settings of `merge`."""

    coresets: list[str] = argument("coreset files of the parts", [])
    masses: str | None = option(
        "how much each stands for, such as 0.7,0.3; 'rows' for the rows of its build (default: equal)", None,
        metavar="NUMBERS",
    )  # fmt: skip
    size: int | None = option("points to make of them (default: all are kept)", None, metavar="N", short="-n")
    out: str = option(OUT, "merged.npz", metavar="FILE")
    restarts: int | None = option("with --size: starts that are compared", None, metavar="N")
    tolerance: float = option("with --size: relative change of the value at which to stop", 1e-3)
    seed: int = option(SEED, 0, metavar="N")


@dataclass(frozen=True, kw_only=True)
class BoundSettings(DistanceSettings, DataSettings):
    """Settings of `bound`."""

    size: int = option("number of points", metavar="N", short="-n")
    p: float = option("power of the distance", 2.0)
    point_weights: str = option(
        "weights of the points: equal, free, or LOW:HIGH in equal shares, such as 0.5:2", "equal", metavar="WEIGHTS"
    )
    method: BoundMethod = option("semidefinite is the sharpest, pairs the fastest", "auto")
    distance: float | None = option("distance to compare with, such as `build` prints", None, metavar="W")
    seed: int = option(SEED, 0, metavar="N")


@dataclass(frozen=True, kw_only=True)
class PushSettings(Writes, DataSettings):
    """Settings of `push`."""

    coreset: str = argument("coreset file to map")
    network: str = option(
        "FILE.py:NAME or MODULE:NAME, a module or function of rows, or a program by torch.export.save (FILE.pt2) or "
        "torch.jit.save (FILE.pt); its code is run",
        metavar="WHERE",
    )
    state: str | None = option("with a module: .pt file with its state_dict", None, metavar="FILE")
    out: str = option(OUT, "image.npz", metavar="FILE")
    data: str = option("table of fresh rows: certifies the image on them", "", metavar="FILE")
    confidence: float = option("with --data: of the interval", 0.95)
    samples: int = option(f"with --data: {MOST_ROWS}", 100_000, metavar="N")
    seed: int = option(SEED, 0, metavar="N")


@dataclass(frozen=True, kw_only=True)
class SizeSettings(Writes, ChoiceSettings, DistanceSettings, DataSettings):
    """Settings of `size`."""

    epsilon: float = option("distance to reach, in the unit of the data, or of --scale or --cost", metavar="W")
    p: float = option("power of the distance", 2.0)
    confidence: float = option("with which the distance is at most epsilon", 0.95)
    samples: int = option("most rows of each certificate", 100_000, metavar="N")
    max_size: int = option("most points to try", 1000, metavar="N")
    max_builds: int = option("most coresets to build", 8, metavar="N")
    plot: str | None = option("picture of distance against size: .png, .pdf or .svg", None, metavar="FILE")
    seed: int = option(SEED, 0, metavar="N")


@dataclass(frozen=True, kw_only=True)
class InfoSettings(DataSettings):
    """Settings of `info`."""

    data: str = argument("coreset file or table; nothing shows the installation", "")
    size: int | None = option("of a table: what a build of this many points would take", None, metavar="N", short="-n")


@dataclass(frozen=True, kw_only=True)
class RunSettings(Writes):
    """Settings of `run`."""

    config: str = argument("YAML file: `command: build` and the settings of that command")
    resume: bool = option("of build: go on from the checkpoint of an interrupted run", False)


@dataclass(frozen=True, kw_only=True)
class CompletionSettings(Common):
    """Settings of `completion`."""

    shell: str = argument("bash, zsh or fish")

"""Settings of commands that read a table: which columns, how text is read, and by which distance."""

from __future__ import annotations

from dataclasses import dataclass

from ...names import CostName, DateUnit, WeightsAre
from .fields import Common, argument, option


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """How a table of text is read (found in its first lines if not given)."""

    separator: str | None = option("mark between columns, or tab", None, metavar="MARK")
    decimal: str | None = option("mark within numbers, . or ,", None, metavar="MARK")
    thousands: str | None = option("mark between groups of three digits", None, metavar="MARK")
    quote: str | None = option("mark around fields", None, metavar="MARK")
    encoding: str | None = option("utf-8, latin-1, ...", None, metavar="NAME")
    header: bool | None = option("whether the first line names the columns, yes or no", None, metavar="{yes,no}")


@dataclass(frozen=True, kw_only=True)
class DataSettings(TextSettings, Common):
    """What is read of the table."""

    data: str = argument(
        "table: .csv, .tsv, .parquet, .feather, .npy, .npz, .pt or .safetensors, a folder or 'pattern*' of them; or "
        "example:ring, example:digits"
    )
    columns: str | list[str | int] | None = option(
        "columns of the features, by name or number from 0: a,b,c (all without another role)", None, metavar="NAMES"
    )
    label: str | int | None = option("column of labels; they are not used as features", None, metavar="NAME")
    weights: str | int | None = option("column of row weights; they are not used as features", None, metavar="NAME")
    weights_are: WeightsAre | None = option(
        "what they mean: importance, or counts of rows alike (importance)", None, metavar="MEANING"
    )
    id: str | int | None = option("column that names the rows; it is not used as a feature", None, metavar="NAME")
    one_hot: str | None = option(
        "text columns to encode, and the distance of two categories (1): colour,size=0.5 or all",
        None,
        metavar="NAMES",
    )
    dates: DateUnit | None = option("unit in which dates become numbers since 1970", None)
    key: str | None = option("which array of an .npz, .pt or .safetensors file is the table", None, metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class DistanceSettings:
    """The distance between rows."""

    scale: str | None = option(
        "standard, robust, whiten, or numbers a,b,c, one for each column; points are put back into those of the data",
        None,
    )
    standardise: bool = option("the same as --scale standard", False)
    cost: CostName | None = option(
        "instead of the Euclidean distance: cosine, the chord between directions, or great-circle, in km between rows "
        "of latitude and longitude in degrees",
        None,
    )

"""The table that a command works on, by the library's own door to it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...archives import pyarrow
from ...sources import Dialect, Roles, Scaling, Source, Table, make_generator, names_of, table_of
from ...transport.costs import Cosine, GreatCircle, Metric
from ..outcome import note
from ..settings import Common, DataSettings, DistanceSettings, TextSettings, UsageError
from .examples import PREFIX, example_table

METRICS: dict[str, type[Metric]] = {"cosine": Cosine, "great-circle": GreatCircle}  # by the names of --cost
CHECKED = 1 << 24  # numbers, checked in a third of a second; rows of larger tables are checked when they are used


def dialect_of(settings: TextSettings) -> Dialect:
    """How text is to be read."""
    marks = {field.name: getattr(settings, field.name) for field in dataclasses.fields(Dialect)}
    try:
        return Dialect(**marks)
    except ValueError as error:
        raise UsageError(in_flags(str(error))) from error


def units_of(settings: DistanceSettings) -> Any:
    """Units of the columns as `Scaling.of` takes them; None for those of the data."""
    scale = "standard" if settings.standardise and settings.scale is None else settings.scale
    if settings.standardise and scale != "standard":
        raise UsageError(f"--standardise: given with --scale {scale}; expected one of the two.")
    if scale is None or scale.isalpha():
        return scale
    try:
        return [float(part) for part in scale.split(",")]
    except ValueError:
        raise UsageError(f"--scale: got {scale!r}; expected standard, robust, whiten, or numbers a,b,c.") from None


def scaling_of(settings: DistanceSettings, source: Source) -> Scaling | None:
    """The change of coordinates that the settings ask for, for rows of this source."""
    units = units_of(settings)
    try:
        return None if units is None else Scaling.of(source, units)
    except ValueError as error:
        raise UsageError(f"--{error}") from error


def metric_for(settings: DistanceSettings) -> Metric | None:
    """The distance that --cost names; None for the Euclidean one."""
    if settings.cost is None:
        return None
    if units_of(settings) is not None:
        flag = "--standardise" if settings.scale is None else "--scale"
        raise UsageError(f"--cost: given with {flag}; expected one of them, for {settings.cost} has units of its own.")
    return METRICS[settings.cost]()


def check_measurable(table: Table, metric: Metric | None, *, quiet: bool) -> None:
    """Raise for rows that the distance cannot measure; say which column it takes for what."""
    if metric is None:
        return
    if isinstance(metric, GreatCircle) and len(table.columns) == 2:
        latitude, longitude = table.columns
        note(f"note: {latitude!r} is the latitude and {longitude!r} the longitude, in degrees.", quiet=quiet)
    if table.rows * len(table.columns) > CHECKED:
        return
    try:
        metric.coordinates(table.source.materialize(None, make_generator(0))[0], "DATA")
    except ValueError as error:
        raise UsageError(str(error)) from error


# What the settings call the arguments of the library.
FLAGS = {"features": "--columns", "source": "DATA", "data": "DATA", "one_hot": "--one-hot"} | {
    name: f"--{name}"
    for name in ("label", "weights", "id", "dates", "key", *(mark.name for mark in dataclasses.fields(Dialect)))
}


def read_table(settings: DataSettings, categories: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Open the table that the settings name, and say what was taken for what; `categories` are known ones of text."""
    if settings.weights is None and settings.weights_are is not None:
        raise UsageError("--weights-are: given without --weights; expected it with the column that it speaks of.")
    data: Any = settings.data
    features: Any = settings.columns
    if isinstance(features, str):
        features = [part.strip() for part in features.split(",")]
    if settings.data.startswith(PREFIX):
        columns = example_table(settings.data.removeprefix(PREFIX))
        data = pyarrow("pyarrow", settings.data).table(columns)
        features = [name for name in columns if name != "label"] if features is None else features
    roles = Roles(
        features=features, label=settings.label, weights=settings.weights, id=settings.id,
        one_hot=_one_hot(settings.one_hot), dates=settings.dates, categories=categories,
    )  # fmt: skip
    try:
        table = table_of(data, roles, None, dialect_of(settings), settings.key, counts=settings.weights_are == "counts")
    except FileNotFoundError as error:
        raise UsageError(in_flags(str(error))) from error
    except ValueError as error:
        raise UsageError(in_flags(str(error))) from error
    table = dataclasses.replace(table, name=settings.data) if settings.data.startswith(PREFIX) else table
    note(f"note: {table.name}: {table.note}", quiet=settings.quiet)
    for found in table.findings:
        note(f"note: {in_flags(found)}.", quiet=settings.quiet)
    return table


def as_read(settings: DataSettings, table: Table) -> dict[str, Any]:
    """All that it takes to read the table again in the same way, by the names of the settings."""
    said = {field.name: getattr(settings, field.name) for field in dataclasses.fields(DataSettings)}
    resolved = {"columns": list(table.features), "label": table.label, "weights": table.weights, "id": table.id}
    common = {"data", *(field.name for field in dataclasses.fields(Common))}
    read = {name: value for name, value in (said | resolved).items() if value is not None and name not in common}
    return read | ({"categories": dict(table.categories)} if table.categories else {})


def header(settings: DataSettings) -> list[str] | None:
    """Names of the columns of a table that has names; else None."""
    if settings.data.startswith(PREFIX):
        return None
    try:
        return names_of(settings.data, dialect_of(settings))
    except (OSError, ValueError):  # `read_table` says it better
        return None


def in_flags(message: str) -> str:
    """What the library says of its arguments, in terms of the command line."""
    name, colon, rest = message.partition(": ")
    text = f"{FLAGS[name]}{colon}{rest}" if name in FLAGS else message
    text = re.sub(r"features=\[(.*?)\]", lambda found: f"--columns {_joined(found[1])}", text)
    text = re.sub(r"\bheader=False", "--header no", text)
    text = re.sub(rf"\b({'|'.join(FLAGS)})='(.*?)'", lambda found: f"{FLAGS[found[1]]} {_quoted(found[2])}", text)
    text = re.sub(rf"\b({'|'.join(FLAGS)})=", lambda found: f"{FLAGS[found[1]]} ", text)
    return re.sub(r" (of|to) `read_table`| `read_table` takes all of these\.", "", text)


def _joined(names: str) -> str:
    """Names as Python lists them, for a shell."""
    return _quoted(",".join(name.strip("'") for name in names.split(", ")))


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"[^\w.,:=+-]", text) else text


def _one_hot(text: str | None) -> Any:
    """`colour,size=0.5` or `all`, as the library takes it."""
    if text is None or text == "all":
        return text == "all"
    found = {}
    for part in text.split(","):
        name, equals, apart = part.strip().rpartition("=")
        if equals and not re.fullmatch(r"\d*\.?\d+(e[+-]?\d+)?", apart):
            raise UsageError(f"--one-hot: got {part!r}; expected NAME or NAME=DISTANCE, such as colour=0.5.")
        found[name if equals else apart] = float(apart) if equals else 1.0
    return found

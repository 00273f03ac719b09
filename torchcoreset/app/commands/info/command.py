"""What a coreset file holds, said without torch; tables and the installation need it, in modules of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...outcome import Outcome
from ...settings import InfoSettings
from ...stored import Stored, is_coreset, names_of_features, read_stored

# What is printed of a coreset's metadata, beside size, distance and columns.
SHOWN = (
    "divergence", "value", "data", "row_weights", "row_weights_are", "rows", "hold_out", "algorithm", "steps", "status",
    "seed", "distance_unit", "version",
)  # fmt: skip

DISTANCES = {  # that `Coreset.save` writes, in words
    "Scaled": "Euclidean, each column by its weight",
    "Mahalanobis": "by the Mahalanobis matrix of the file",
    "Cosine": "the chord between directions (cosine)",
    "GreatCircle": "along great circles of the globe",
    "Mixed": "of numbers, and a price for each category that differs",
}


def run(settings: InfoSettings) -> Outcome:
    """Look and say."""
    if not settings.data:
        from .installation import installation

        return installation()
    path = Path(settings.data)
    if path.is_file() and is_coreset(path):
        return _coreset(settings.data, _checked(settings.data, read_stored(settings.data)))
    from .table import table

    return table(settings)


def _distance(cost: dict[str, Any]) -> str:
    """The distance that a file names, in words."""
    if "unsaved" in cost:
        return f"{cost['unsaved']}, of which the file holds the name alone"
    words = DISTANCES.get(cost["metric"], cost["metric"])
    return f"{words}, in {cost['unit']}" if cost.get("unit") else words


def _checked(name: str, stored: Stored) -> Stored:
    """The same, if its points and weights are plain arrays of which nothing can be wrong; else as it is loaded."""
    points, weights, labels = stored.points, stored.weights, stored.labels
    scaling = stored.metadata.get("scaling")
    plain = isinstance(points, np.ndarray) and points.ndim == 2 and points.size > 0 and points.dtype.kind == "f"
    if plain and isinstance(weights, np.ndarray) and weights.shape == points.shape[:1] and weights.dtype.kind == "f":
        usual = np.isfinite(points).all() and np.isfinite(weights).all() and weights.min() >= 0 < weights.max()
        scaled = scaling is None or len(scaling.get("centre", ())) == points.shape[1]
        if usual and scaled and (labels is None or labels.shape == weights.shape):
            return stored
    from ...files import read_coreset  # which imports torch, and says what is wrong

    held = read_coreset(name)
    return Stored(held.points.numpy(force=True), held.weights.numpy(force=True), held.labels, held.metadata)


def _coreset(name: str, held: Stored) -> Outcome:
    size, dimension = held.points.shape
    columns = names_of_features(held.metadata, dimension)
    known = {key: value for key, value in held.metadata.items() if key not in ("columns", "scaling", "classes")}
    record = {"command": "info", "kind": "coreset", "file": name, **known, "size": size, "dimension": dimension}
    equal = bool((held.weights == held.weights[0]).all())
    lines = [
        f"{name}: coreset of {size} points in {dimension} {'column' if dimension == 1 else 'columns'}, weights "
        f"{'equal' if equal else 'unequal'}"
    ]
    low, high = held.metadata.get("bounds") or (None, None)
    if low is not None and high is not None:
        power = float(held.metadata.get("p") or 2)
        lines.append(f"W{power:g} to the rows of the build: {high:.6g}, at least {low:.6g}")
    if held.metadata.get("cost") is not None:
        lines.append(f"distance: {_distance(held.metadata['cost'])}")
    if held.labels is not None:
        record["points_of_class"] = counts(held.labels)
        lines.append(f"points of each class: {listed(record['points_of_class'])}")
    lines.append(f"columns: {_shortened(columns)}")
    lines += [f"{key.replace('_', ' ')}: {known[key]}" for key in SHOWN if known.get(key) is not None]
    return Outcome(record | {"columns": columns}, lines)


def counts(labels: Any) -> dict[str, int]:
    """How often each label occurs."""
    found, times = np.unique(labels, return_counts=True)
    return dict(zip(map(str, found.tolist()), times.tolist(), strict=True))


def listed(counted: dict[str, int]) -> str:
    """The same in one line."""
    return ", ".join(f"{label}: {count}" for label, count in counted.items())


def _shortened(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 12 else [*names[:10], f"... ({len(names)} in all)"])

"""Labelled rows held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...sources import Classes, Source, as_source, label_array, with_labels
from ...sources.files import is_key
from ..samples import loaded_rows


@dataclass(frozen=True)
class LabeledTable:
    """Rows and their classes."""

    source: Source  # of the features
    table: Tensor  # (rows, d)
    mass: Tensor | None  # (rows,) weights; None for equal ones
    numbers: Tensor | None  # (rows,) int64 of each row in the table that it comes from; None where rows have none
    classes: NDArray[Any]  # (k,) the different labels, sorted
    place: NDArray[np.int64]  # (rows,) of the label of each row among them


def read_labeled(
    X: Any,
    y: Any,
    sample_weights: Any,
    size: int,
    samples: int | None,
    features: int | str | Sequence[int | str] | None,
    flatten: bool,
) -> LabeledTable:
    """All rows of a table with labels y, of a dataset or of a loader; of what may be endless no more than `samples`."""
    generator = torch.Generator()
    if y is not None and not is_key(y):
        source = as_source(X, sample_weights, features=features, flatten=flatten)
        table, mass, numbers = source.numbered(None, generator)
        labels = label_array(y, "y")
        if len(labels) != len(table):
            raise ValueError(f"y: got shape {labels.shape} for {len(table)} rows; expected one label for each row.")
    else:
        codes = Classes()
        joint = with_labels(X, y, codes, sample_weights, features=features, flatten=flatten)
        known = joint.size is not None
        rows, mass, numbers = loaded_rows(joint, size, None if known else samples, generator)
        table, labels = codes.split(rows)
        source = as_source(table, mass)
    classes, place = np.unique(labels, return_inverse=True)
    return LabeledTable(source, table, mass, numbers, classes, place.reshape(-1))

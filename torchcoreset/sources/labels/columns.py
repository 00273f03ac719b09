"""Labels as columns of numbers after the features, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..rows import float_tensor


class Classes:
    """Classes in one column, as the codes 0, 1, ... of a list that grows: a class gets the next code when it is seen.

    Attributes:
        classes: (k,) numbers or text, those seen so far; the code of a class is its place.
    """

    width = 1

    def __init__(self, classes: Iterable[Any] = ()) -> None:
        self._codes: dict[Any, int] = {}
        self._dtype: np.dtype[Any] | None = None
        known = np.asarray(list(classes))
        if len(known):
            self.columns(known, "classes")

    @property
    def classes(self) -> NDArray[Any]:
        if self._dtype is None or self._dtype.kind == "U":
            return np.array(list(self._codes), dtype=str)
        return np.array(list(self._codes), dtype=self._dtype)

    def columns(self, values: Any, name: str) -> Tensor:
        """Codes (rows, 1), float32, of labels (rows,).

        Raises:
            ValueError: no labels, or text after numbers.
        """
        labels = label_array(values, name)
        if self._dtype is not None and (labels.dtype.kind == "U") != (self._dtype.kind == "U"):
            now, before = ("text", "numbers") if labels.dtype.kind == "U" else ("numbers", "text")
            raise ValueError(f"{name}: got labels that are {now}, after {before}; expected one kind. Convert them.")
        self._dtype = self._dtype or labels.dtype
        found, place = np.unique(labels, return_inverse=True)
        codes = [self._codes.setdefault(label, len(self._codes)) for label in found.tolist()]
        return torch.from_numpy(np.asarray(codes, dtype=np.float32)[place.reshape(-1)])[:, None]

    def split(self, rows: Any) -> tuple[Tensor, NDArray[Any]]:
        """Features (n, d), and labels (n,), of joint rows (n, d + 1)."""
        joint = float_tensor(rows, "rows")
        codes = joint[:, -1].round().long().cpu().numpy()
        classes = self.classes
        if codes.size and not (codes.min() >= 0 and codes.max() < len(classes)):
            raise ValueError(
                f"rows: got the code {codes.max() if codes.min() >= 0 else codes.min()} for {len(classes)} classes; "
                "expected rows of this source, or points that were built on it."
            )
        return joint[:, :-1], classes[codes]

    def into(self, other: Classes) -> Callable[[Tensor], Tensor]:
        """From joint rows with the codes of this list to those of another; classes that it lacks get its length."""

        def recoded(rows: Tensor) -> Tensor:
            table = [other._codes.get(label, len(other._codes)) for label in self._codes]
            codes = torch.tensor(table, dtype=rows.dtype, device=rows.device)[rows[:, -1].long()]
            return torch.cat((rows[:, :-1], codes[:, None]), 1)

        return recoded

    def record(self) -> dict[str, Any]:
        """For the metadata of a file, in JSON."""
        return {"classes": self.classes.tolist()}

    def __repr__(self) -> str:
        return f"Classes({', '.join(map(str, self._codes))})"


class Targets:
    """Numbers in columns of their own: the targets of a regression.

    Attributes:
        width: t, how many columns there are; 0 while none has been read.
        flat: whether targets come as (rows,), without columns.
    """

    def __init__(self, width: int = 0, *, flat: bool = False) -> None:
        self.width, self.flat = width, flat

    def columns(self, values: Any, name: str) -> Tensor:
        """Targets (rows, t), floating, of (rows,) or (rows, t).

        Raises:
            ValueError: another shape, or another width than that of the targets before.
        """
        targets = float_tensor(values, name)
        if targets.dim() not in (1, 2) or (self.width and self.width != (1 if targets.dim() == 1 else len(targets.T))):
            expected = f"(rows, {self.width}), as before" if self.width else "(rows,) or (rows, t)"
            raise ValueError(f"{name}: got targets of shape {tuple(targets.shape)}; expected {expected}.")
        if not self.width:
            self.width, self.flat = (1, True) if targets.dim() == 1 else (targets.shape[1], False)
        return targets.reshape(-1, self.width)

    def split(self, rows: Any) -> tuple[Tensor, Tensor]:
        """Features (n, d), and targets as they came, (n,) or (n, t), of joint rows (n, d + t)."""
        joint = float_tensor(rows, "rows")
        targets = joint[:, -self.width :]
        return joint[:, : -self.width], targets[:, 0] if self.flat else targets

    def record(self) -> dict[str, Any]:
        """For the metadata of a file, in JSON."""
        return {"targets": self.width, "flat": self.flat}

    def __repr__(self) -> str:
        return f"Targets({self.width or 'unknown'})"


Labels = Classes | Targets


def labels_from(record: Mapping[str, Any]) -> Labels:
    """What a record is of; KeyError or TypeError if it is none."""
    if "classes" in record:
        return Classes(record["classes"])
    return Targets(int(record["targets"]), flat=bool(record["flat"]))


def label_array(values: Any, name: str) -> NDArray[Any]:
    """Labels of classes (rows,) as an array of whole numbers, booleans or text.

    Raises:
        ValueError: anything else.
    """
    if isinstance(values, list) and any(isinstance(value, Tensor) for value in values):
        values = [value.item() if isinstance(value, Tensor) and value.numel() == 1 else value for value in values]
    labels = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if labels.dtype == object:
        kinds = {type(value) for value in labels.flat}
        if kinds != {str}:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"{name}: got labels of {names}; expected whole numbers, booleans or text, none missing.")
        labels = labels.astype(str)
    if labels.ndim != 1:
        raise ValueError(f"{name}: got labels of shape {labels.shape}; expected (rows,), one label for each row.")
    if labels.dtype.kind == "f" and not np.array_equal(labels, np.round(labels)):
        raise ValueError(f"{name}: got fractions or NaN; expected labels: whole numbers, booleans or text.")
    if labels.dtype.kind not in "iufbU":
        raise ValueError(f"{name}: got labels of dtype {labels.dtype}; expected whole numbers, booleans or text.")
    return labels

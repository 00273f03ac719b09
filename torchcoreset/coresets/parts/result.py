"""The result of `merge`."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ...sources import in_words
from ...tensors import described
from ...transport import Transport, as_cost
from ..coreset import Coreset
from ..history import BuildResult
from ..labeled import LabeledCoreset
from .bound import MergeBound


@dataclass(frozen=True, repr=False)
class MergeResult:
    """The result of `merge`: a coreset of the mixture of all parts, and its bound.

    Attributes:
        coreset: the merged points.
        union: the points of all parts, part after part, each with its weight times the share of its part.
        part_of: (N,) int64, the part of each point of the union.
        mass: sum of the given masses of all parts: the mass of this coreset when it is merged again.
        p: power of the cost.
        bound: upper bound of the distance between `coreset` and the data that the parts represent; None if a part has
            no bound.
        transport: the `Transport` from the points of the union to the merged points: `transport.assignment` has one
            entry for each point of the union. None if `coreset` is the union.
        labeled: the merged points with their labels; None if the parts have no labels.
        build: the `BuildResult` of the merged points; None if they are the union, or have labels.
    """

    coreset: Coreset
    union: Coreset
    part_of: Tensor
    mass: float
    p: float
    bound: MergeBound | None
    transport: Transport | None
    labeled: LabeledCoreset | None
    build: BuildResult | None

    @property
    def distance(self) -> float:
        """W_p between the merged points and the union (the p-th root), in the unit of the data, or of `scale`."""
        return 0.0 if self.transport is None else as_cost(self.p).root(self.transport.value)

    def __repr__(self) -> str:
        parts = int(self.part_of[-1]) + 1
        merged = f"{self.coreset.size} points of {parts} part{'' if parts == 1 else 's'}"
        if self.transport is None:
            found = f"no bound, p={self.p:g}"
        else:
            unit = "" if self.bound is not None else in_words(self.coreset.scaling)
            found = f"W_{self.p:g}={self.distance:.6g}{unit} to their {self.union.size}"
        if self.bound is None:
            return described(self, merged, found)
        least = f"{self.bound.lower:.6g} <= " if self.bound.lower > 0 else ""
        known = f"{least}W_{self.p:g} <= {self.bound.upper:.6g}{in_words(self.coreset.scaling)} to what these stand for"
        confidence = f"confidence={self.bound.confidence:g}"
        return described(self, merged, "" if self.transport is None else found, known, confidence)

"""The points of a coreset, as a table of weighted rows."""

from ...tensors import WeightedPoints
from ..layout import PLAIN, Layout
from .tensors import TensorSource


class PointsSource(TensorSource):
    """Weighted rows that already stand in for others.

    Args:
        held: what the coreset holds; its memory is shared.
        layout: as for a tensor.

    Attributes:
        built_on: fingerprints of the tables that the points were built on, which pass on to what is built of them.
    """

    def __init__(self, held: WeightedPoints, layout: Layout = PLAIN) -> None:
        super().__init__(held.points, held.weights, layout)
        self.built_on, self.units, self.metric, self.joint = held.built_on, held.scaling, held.cost, held.joint

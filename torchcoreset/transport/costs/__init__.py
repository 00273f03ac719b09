"""The cost of moving mass: a metric, and its p-th power.

`Metric` turns rows into coordinates, in which distances are Euclidean but for those of the globe (`arc`) and of a
user's function (`function`). `Cost` is the power, and the only one who knows p: `euclidean` is |y - x|^p.
"""

from .arc import ArcPower
from .choose import (
    as_cost,
    as_metric,
    check_euclidean,
    check_power,
    identity,
    in_coordinates,
    is_rowwise,
    measured,
    metric_of,
    same_metric,
    term_key,
)
from .cost import Cost, Number
from .euclidean import DISTANCE, EuclideanPower, squares_of
from .function import FunctionPower
from .globe import GreatCircle
from .learned import Embedded, Function
from .metric import OF_DATA, Cosine, Euclidean, Mahalanobis, Metric, Scaled
from .mixed import Mixed

__all__ = [
    "DISTANCE", "OF_DATA", "ArcPower", "Cosine", "Cost", "Embedded", "Euclidean", "EuclideanPower", "Function",
    "FunctionPower", "GreatCircle", "Mahalanobis", "Metric", "Mixed", "Number", "Scaled", "as_cost", "as_metric",
    "check_euclidean", "check_power", "identity", "in_coordinates", "is_rowwise", "measured", "metric_of",
    "same_metric", "squares_of", "term_key",
]  # fmt: skip

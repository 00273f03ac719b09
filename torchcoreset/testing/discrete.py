"""Small discrete problems solved by hand, and an exact solver for weighted points and samples on the line.

Conventions: cost |x - y|^p in full and W_p^p not rooted; gradients are those in the points, p=1 gradients
take the zero subgradient where a point and its sample coincide; weights may have any positive sum and stand
for their ratios.

Symbols:
    x, b, B  n points, their weights, and these cumulated in sorted order from 0 to 1
    y, a, A  m samples, likewise
    v        potential of the points
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .line import flatten_line

__all__ = ["DISCRETE_PROBLEMS", "E1", "DiscreteProblem", "LineTransport", "line_transport"]


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteProblem:
    """Points and samples with their exact transport cost and its gradient, by power p.

    Arguments (tensors are float64, and exact in float32 too unless a weight is a fraction):
        name: one word, for test ids.
        points: (n, d).
        samples: (m, d).
        point_weights: (n,), nonnegative, any positive sum.
        sample_weights: (m,), nonnegative, any positive sum.
        values: p to W_p^p.
        gradients: p to the gradient in the points, (n, d).
        source: where the problem comes from.

    >>> E1.values
    {1: 4.0, 2: 28.5}
    >>> E1.gradients[2].tolist()
    [[-0.5], [7.5]]
    """

    name: str
    points: Tensor = field(repr=False)
    samples: Tensor = field(repr=False)
    point_weights: Tensor = field(repr=False)
    sample_weights: Tensor = field(repr=False)
    values: Mapping[int, float]
    gradients: Mapping[int, Tensor] = field(repr=False)
    source: str


Rows = Sequence[float] | Sequence[Sequence[float]]


def _column(rows: Rows) -> Tensor:
    """A list of numbers as points on the line (n, 1); a list of rows as it is (n, d)."""
    tensor = torch.tensor(rows, dtype=torch.float64, device="cpu")
    return tensor.unsqueeze(-1) if tensor.ndim == 1 else tensor


def _problem(
    name: str,
    points: Rows,
    samples: Rows,
    values: tuple[float, float],
    gradients: tuple[Rows, Rows],
    source: str,
    *,
    point_weights: Sequence[float] | None = None,
    sample_weights: Sequence[float] | None = None,
) -> DiscreteProblem:
    """A problem from lists, with values and gradients for p=1 and p=2; missing weights are uniform."""
    n, m = len(points), len(samples)
    return DiscreteProblem(
        name=name,
        points=_column(points),
        samples=_column(samples),
        point_weights=torch.tensor(point_weights or [1 / n] * n, dtype=torch.float64, device="cpu"),
        sample_weights=torch.tensor(sample_weights or [1 / m] * m, dtype=torch.float64, device="cpu"),
        values={1: values[0], 2: values[1]},
        gradients={1: _column(gradients[0]), 2: _column(gradients[1])},
        source=source,
    )


# fmt: off
E1 = _problem(
    "e1", [0, 10], [0, 1, 2, 3], (4.0, 28.5), ([-0.25, 0.5], [-0.5, 7.5]),
    "by hand; nearest neighbours, as without a dual, cost 1.5 and 3.5 (k-means-constrained#8)",
)
"""The smallest problem that tells balanced transport from nearest neighbours."""

_SQUARE = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]
_CLOUD = [[0.5, -1.25], [2.0, 0.75], [-1.5, 0.25], [0.0, 3.0], [-2.75, -2.0], [1.25, 1.5]]
_NOWHERE = [[0.0, 0.0]] * 6

_DEGENERATE = (
    _problem("coincident_plane", [[0, 0], [3, 4]], [[3, 4], [0, 0]], (0.0, 0.0), (_NOWHERE[:2], _NOWHERE[:2]),
             "pytorch#37154: the p=1 gradient at distance zero is 0/0"),
    _problem("coincident_line", [0, 1], [0, 0, 1, 1], (0.0, 0.0), ([0, 0], [0, 0]),
             "pytorch#37237: the p=1 gradient at distance zero is 0/0"),
    _problem("permutation", _CLOUD, [_CLOUD[k] for k in (3, 0, 5, 1, 4, 2)], (0.0, 0.0), (_NOWHERE, _NOWHERE),
             "scikit-learn#10059: as many points as samples, shuffled"),
    _problem("one_value", [0, 1], [0, 0], (0.5, 0.5), ([0, 0.5], [0, 1]),
             "scikit-learn#23141: a batch that misses one of two values, so that points share one"),
)
_SCALE = (
    _problem("offset", [512695], [512804], (109.0, 11881.0), ([-1], [-218]),
             "pytorch#42479: |x|^2 - 2xy + |y|^2 cancels in float32"),
    _problem("offset_removed", [0], [109], (109.0, 11881.0), ([-1], [-218]),
             "the problem `offset` after a translation, which changes nothing"),
    _problem("outlier", [0, 1], [0, 0, 0, 1e8], (2.5e7, ((1e8 - 1) ** 2 + 1) / 4), ([0, 0], [0, -49_999_999]),
             "PythonOT/POT#229: one sample at 1e8"),
    _problem("high_dimension", [[0.0] * 784], [[1.0] * 784] * 16, (28.0, 784.0), ([[-1 / 28] * 784], [[-2.0] * 784]),
             "keops#57: as many coordinates as a small image"),
    _problem("half_overflow", [[0.0] * 784], [[300.0] * 784] * 4, (8400.0, 70_560_000.0),
             ([[-1 / 28] * 784], [[-600.0] * 784]), "geomloss#67: squared distances leave the range of float16"),
)
_SINGLE = (
    _problem("convention", [0], [3], (3.0, 9.0), ([-1], [-6]), "geomloss#29: full cost, no half and no root"),
    _problem("median", [0], [0, 0, 0, 100], (25.0, 2500.0), ([-0.25], [-50]),
             "scikit-learn#22709: the W1 optimum of one point, where the subgradients hold zero"),
    _problem("mean", [25], [0, 0, 0, 100], (37.5, 1875.0), ([0.5], [0]), "scikit-learn#22709: the W2 optimum"),
    _problem("off_centre", [50], [0, 0, 0, 100], (50.0, 2500.0), ([0.5], [50]), "scikit-learn#22709: neither"),
    _problem("square_centre", [[1, 1]], _SQUARE, (2**0.5, 2.0), ([[0, 0]], [[0, 0]]),
             "geom_median PR 1: mean and geometric median of a square's corners"),
    _problem("one_hot", [[0.5, 0.5]], [[1, 0], [0, 1]], (0.5**0.5, 0.5), ([[0, 0]], [[0, 0]]),
             "kmodes#141: the mean of one-hot rows"),
    _problem("short_batch", [0], [0] * 8 + [10] * 2, (2.0, 20.0), ([-0.2], [-4]),
             "pytorch#33413: in batches of 4, 4, 2 the unweighted mean of batch values would be 33.3"),
)
_WEIGHTED = (
    *(
        _problem(f"weights_{label}", [0], [0, 1], (0.75, 0.75), ([-0.75], [-1.5]),
                 "PythonOT/POT#12: weights that do not sum to one", sample_weights=weights)
        for label, weights in (("counts", [1, 3]), ("tenfold", [10, 30]), ("normalised", [0.25, 0.75]))
    ),
    _problem("unequal_points", [0, 10], [0, 1, 2, 3], (6.0, 48.5), ([0, 0.75], [0, 12]),
             "by hand: E1 with a quarter of the mass on the first point, whose cell is the sample 0 alone",
             point_weights=[0.25, 0.75]),
    _problem("split_sample", [4, 0], [1, 3], (4 / 3, 7 / 3), ([2 / 3, -1 / 3], [2, -2 / 3]),
             "by hand: unsorted points; masses 1 to 0: a third, 1 to 4: a sixth, 3 to 4: a half",
             point_weights=[2 / 3, 1 / 3]),
    _problem("unequal_both", [1, 5, 2], [6, 0, 3], (1.4, 2.8), ([0.5, -0.2, -0.1], [1, -0.4, -0.6]),
             "by hand: masses 0 to 1: 0.5, 0 to 2: 0.1, 3 to 2: 0.1, 6 to 2: 0.1, 6 to 5: 0.2",
             point_weights=[0.5, 0.2, 0.3], sample_weights=[0.3, 0.6, 0.1]),
)
# fmt: on

DISCRETE_PROBLEMS = (E1, *_DEGENERATE, *_SCALE, *_SINGLE, *_WEIGHTED)
"""All of them, for parametrised tests."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LineTransport:
    """Exact transport on the line.

    Arguments:
        value: W_p^p, not rooted, of the weights scaled to sum to one.
        potential: optimal v, (n,), in the order of the points, with sum_i b_i v_i = 0.
        plan: mass moved from sample k to point i, (m, n), in the order of both.
    """

    value: float
    potential: Tensor
    plan: Tensor


def line_transport(
    points: Tensor, samples: Tensor, p: float, point_weights: Tensor | None = None, sample_weights: Tensor | None = None
) -> LineTransport:
    """Exact W_p^p between weighted points and weighted samples on the line, by the monotone coupling.

    Sorted, sample k and point i share the mass |[A_{k-1}, A_k] intersected with [B_{i-1}, B_i]|, which is
    optimal for every p >= 1. Neighbouring points are indifferent at the sample y that holds level B_i, so
    v_{i+1} - v_i = |y - x_{i+1}|^p - |y - x_i|^p; where B_i falls between two samples every value between
    theirs is optimal, and the middle is taken.

    Arguments:
        points: (n, 1), in any order, ties allowed.
        samples: (m, 1), in any order, ties allowed.
        p: power of the cost, p >= 1.
        point_weights: (n,), nonnegative, any positive sum; None for uniform.
        sample_weights: (m,), nonnegative, any positive sum; None for uniform.

    Returns: value, potential and plan in float64, without a graph; memory grows as m n.
    Raises ValueError for points off the line, a power below 1, or weights that are no weights.
    Source: F. Santambrogio, Optimal Transport for Applied Mathematicians (2015), theorem 2.9 (p=1: the same
    coupling is one of many optimal ones).

    >>> line_transport(E1.points, E1.samples, p=2).value
    28.5
    >>> line_transport(E1.points, E1.samples, p=1).plan.T.tolist()
    [[0.25, 0.25, 0.0, 0.0], [0.0, 0.0, 0.25, 0.25]]
    """
    if not p >= 1:
        raise ValueError(f"p: got {p}; expected p >= 1, where the monotone coupling is optimal")
    x, point_order = flatten_line("points", points).sort()
    y, sample_order = flatten_line("samples", samples).sort()
    B = _levels("point_weights", point_weights, point_order)
    A = _levels("sample_weights", sample_weights, sample_order)

    mass = torch.minimum(A[1:, None], B[1:]) - torch.maximum(A[:-1, None], B[:-1])  # (m, n)
    mass = mass.clamp(min=0)
    cost = (y[:, None] - x).abs() ** p

    steps = torch.zeros(len(x) - 1, dtype=x.dtype, device=x.device)
    # equal levels differ by rounding, so look a little to both sides; no sample that light matters
    for side in (-1e-12, 1e-12):
        holder = torch.searchsorted(A[1:], B[1:-1] + side).clamp(max=len(y) - 1)
        steps += cost[holder].diff(dim=1).diagonal() / 2
    v = torch.zeros_like(x)
    v[1:] = steps.cumsum(0)
    v -= (B.diff() * v).sum()

    potential = torch.empty_like(v)
    potential[point_order] = v
    plan = torch.empty_like(mass)
    plan[sample_order[:, None], point_order] = mass
    return LineTransport(value=float((mass * cost).sum()), potential=potential, plan=plan)


def _levels(name: str, weights: Tensor | None, order: Tensor) -> Tensor:
    """The cumulated weights 0 .. 1 in the given order, (n + 1,)."""
    n = len(order)
    if weights is None:
        return torch.arange(n + 1, dtype=torch.float64, device=order.device) / n
    if weights.shape != (n,):
        raise ValueError(f"{name}: got shape {tuple(weights.shape)}; expected ({n},), one weight each")
    sums = weights.detach().to(torch.float64)[order].cumsum(0)
    if not (bool((weights >= 0).all()) and 0 < float(sums[-1]) < float("inf")):
        raise ValueError(f"{name}: got a negative, infinite or NaN weight, or zeros only; expected nonnegative weights")
    return torch.cat([sums.new_zeros(1), sums / sums[-1]])

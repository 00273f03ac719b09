"""Optimal transport for any matrix of costs, as a linear program, for problems of a few hundred pairs; and for equal
costs in closed form.

Symbols:
    c        costs of n points and m samples, (m, n)      a, b   weights of samples and points, sum 1
    pi       plan, (m, n)                                 s      share of the mass that stays unmatched
"""

import torch
from torch import Tensor

__all__ = ["bounded_value", "categories_value", "matrix_value"]


def matrix_value(costs: Tensor, point_weights: Tensor | None = None, sample_weights: Tensor | None = None) -> float:
    """min sum pi c over plans with row sums a and column sums b: optimal transport, whatever the costs are.

    Args:
        costs: (m, n) of samples and points, such as p-th powers of distances that you have computed yourself.
        point_weights, sample_weights: (n,) and (m,), non-negative, any positive sum; equal if None.

    Returns: the optimum, which is W_p^p where costs are p-th powers of a metric; HiGHS solves to about 1e-9.
    Raises ImportError without scipy, ValueError for weights of another shape or sign.

    >>> blocks = torch.tensor([[0.0, 3.0], [1.0, 2.0], [2.0, 1.0], [4.0, 0.0]])
    >>> matrix_value(blocks), matrix_value(blocks, torch.tensor([1.0, 3.0]))
    (0.5, 0.75)
    """
    b = _shares(point_weights, costs.shape[1], "point_weights")
    return bounded_value(costs, b, b, sample_weights)


def categories_value(point_shares: Tensor, sample_shares: Tensor, price: float = 1.0, p: float = 2) -> float:
    """W_p^p between two distributions of k categories: price^p times their total variation.

    Mass that both have in a category stays; the rest, half the sum of |difference of shares|, pays the price.

    Args:
        point_shares, sample_shares: (k,), non-negative, any positive sum.
        price: distance between two different categories.
        p: power, p >= 1.

    Source: Villani (2009), Optimal transport: old and new, theorem 6.15 for the discrete metric.

    >>> categories_value(torch.tensor([1, 1, 0]), torch.tensor([5, 2, 3]), price=2.0, p=1)
    0.6
    """
    first, second = (shares.double() / shares.double().sum() for shares in (point_shares, sample_shares))
    return float(price**p * (first - second).abs().sum() / 2)


def bounded_value(
    costs: Tensor, low: Tensor, high: Tensor, sample_weights: Tensor | None = None, trim: float = 0.0
) -> float:
    """min sum pi c over plans with low <= column sums <= high, of mass 1, and row sums of at most a / (1 - s).

    Args:
        costs: (m, n).
        low, high: (n,) bounds on the weights of the points; equal ones fix them.
        sample_weights: (m,), non-negative, any positive sum; equal if None.
        trim: share s, in [0, 1); without it row sums are a.

    Raises ImportError without scipy, ValueError if no plan keeps the bounds.

    >>> costs = torch.tensor([[0.0, 3.0], [1.0, 2.0], [2.0, 1.0], [4.0, 0.0]])
    >>> bounded_value(costs, torch.tensor([0.0, 0.75]), torch.ones(2))
    0.75
    """
    try:
        from scipy.optimize import linprog
        from scipy.sparse import eye, kron, vstack
    except ImportError as error:
        raise ImportError("Linear programs need scipy: pip install scipy.") from error
    m, n = costs.shape
    rows, columns = kron(eye(m), [[1.0] * n]), kron([[1.0] * m], eye(n))
    supply = (_shares(sample_weights, m, "sample_weights") / (1 - trim)).tolist()
    found = linprog(
        costs.double().flatten().numpy(),
        A_ub=vstack((rows, columns, -columns)),
        b_ub=[*supply, *high.tolist(), *(-low).tolist()],
        A_eq=[[1.0] * (m * n)],
        b_eq=[1.0],
        method="highs",
    )
    if not found.success:
        raise ValueError(f"low, high: {found.message}; expected bounds that some weights of sum 1 keep.")
    return float(found.fun)


def _shares(weights: Tensor | None, count: int, name: str) -> Tensor:
    """Weights (count,) as shares of their sum, float64; equal ones for None."""
    if weights is None:
        return torch.full((count,), 1 / count, dtype=torch.float64, device="cpu")
    if weights.shape != (count,) or not bool((weights >= 0).all()) or not float(weights.sum()) > 0:
        raise ValueError(f"{name}: got shape {tuple(weights.shape)}; expected ({count},), non-negative, not all zero")
    shares = weights.detach().double()
    return shares / shares.sum()

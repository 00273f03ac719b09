"""Optimal transport whose marginals are not fixed, as a linear program, for problems of a few hundred pairs.

Symbols:
    x, y     n points and m samples      a   weights of the samples, sum 1
    pi       plan, (m, n)                s   share of the mass that stays unmatched
"""

from torch import Tensor

from .matrix import bounded_value

__all__ = ["relaxed_value"]


def relaxed_value(
    points: Tensor,
    samples: Tensor,
    p: float,
    low: Tensor,
    high: Tensor,
    sample_weights: Tensor | None = None,
    trim: float = 0.0,
) -> float:
    """min sum pi |y - x|^p over plans with low <= column sums <= high, of mass 1, and row sums of at most a / (1 - s).

    Args:
        points, samples: (n, d) and (m, d).
        p: power.
        low, high: (n,) bounds on the weights of the points; equal ones fix them.
        sample_weights: (m,), non-negative, any positive sum; equal if None.
        trim: share s, in [0, 1).

    Raises:
        ImportError: scipy is not installed, whose HiGHS solves the program.
        ValueError: no plan keeps the bounds.

    >>> import torch
    >>> x, y = torch.tensor([[0.0], [10.0]]), torch.tensor([[0.0], [1.0], [2.0], [13.0]])
    >>> free = torch.zeros(2), torch.ones(2)
    >>> relaxed_value(x, y, 2, *free), round(relaxed_value(x, y, 2, *free, trim=0.25), 3)
    (3.5, 1.667)
    """
    costs = (samples.double()[:, None] - points.double()).square().sum(2).sqrt() ** p
    return bounded_value(costs, low, high, sample_weights, trim)

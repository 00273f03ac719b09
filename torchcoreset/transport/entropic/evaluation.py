"""The plan that a potential makes of entropic transport, from one pass over the samples: value, marginals, derivatives.

    x (n, d) points, b (n,)      y (m, d) samples, a (m,)      v (n,) potential      eta regularisation      c cost

    f_k = -eta log sum_i b_i exp((v_i - c_ki) / eta)      pi_ki = a_k b_i exp((f_k + v_i - c_ki) / eta)
    D(v) = sum_k a_k f_k + sum_i b_i v_i <= OT_eta        dD/dx_i = sum_k pi_ki grad_x c_ki

D is the semi-dual of OT_eta = min_pi sum pi c + eta KL(pi | a x b). The row sums of pi are a; its column sums are b
only at the maximum of D. D errs by the square of their distance from b and its derivatives by the distance itself,
whichever solver found v. All of this is float64: at eta far above the costs the exponents differ in their last digits
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..passes import chunk_elements
from ..problem import Problem
from ..result import Status

SPARE_ROWS = 16  # at least this many rows a block, however many points there are


@dataclass(frozen=True)
class Entropic:
    """A potential for OT_eta, and what it attains."""

    problem: Problem  # the problem in float64
    eta: float  # regularisation, in units of the cost
    potential: Tensor  # (n,) float64 v; where b_i = 0, what the optimality condition would make it
    transform: Tensor  # (m,) float64 f, the potential of the samples
    mass: Tensor  # (n,) float64 column sums of the plan
    value: float  # D(v), a lower bound of OT_eta
    marginal_error: float  # total variation distance between `mass` and b, in [0, 1]
    steps: int = 0  # passes over all samples
    status: Status = Status.CONVERGED  # why the solver stopped

    def position_gradients(self, in_points: bool, in_samples: bool) -> tuple[Tensor | None, Tensor | None]:
        """Derivatives of D in the points (n, d) and in the samples (m, d), float64; None where not asked for."""
        a, cost_of_plan = self.problem.a, self.problem.cost

        def weights(rows: slice, cost: Tensor) -> Tensor:
            plan = torch.softmax(self._exponent(cost), 1).mul_(a[rows, None])
            return plan.mul_(cost_of_plan.slope(cost))

        return displacement_sums(self.problem, weights, in_points, in_samples)

    def optimal_potential(self) -> Tensor:
        """(n,) the potential that would make the plan's column sums right: dD/db_i up to a constant."""
        used = self.mass > 0
        step = torch.where(used, self.problem.b / self.mass, torch.ones_like(self.mass)).log() * self.eta
        return torch.where(self.problem.b > 0, self.potential + step, self.potential)

    def _exponent(self, cost: Tensor) -> Tensor:
        return (self.potential + self.problem.b.log() * self.eta - cost).div_(self.eta)


def displacement_sums(
    problem: Problem, weights_of: Callable[[slice, Tensor], Tensor], in_points: bool, in_samples: bool
) -> tuple[Tensor | None, Tensor | None]:
    """sum_k w_ki (x_i - y_k), (n, d), and sum_i w_ki (y_k - x_i), (m, d), float64; None where not asked for.

    `weights_of` gives the weights w (rows, n) of some samples from which these are, and their costs (rows, n).
    """
    if not (in_points or in_samples):
        return None, None
    x, y = problem.x, problem.y
    total, towards = x.new_zeros(len(x), 1), torch.zeros_like(x)
    in_y = torch.empty_like(y) if in_samples else None
    for rows, cost in cost_blocks(problem):
        weights = weights_of(rows, cost)
        if in_points:
            total += weights.sum(0)[:, None]
            towards += weights.t() @ y[rows]
        if in_y is not None:
            in_y[rows] = y[rows] * weights.sum(1, keepdim=True) - weights @ x
    return x * total - towards if in_points else None, in_y


def evaluate(problem: Problem, v: Tensor, eta: float, *, steps: int = 0, status: Status = Status.CONVERGED) -> Entropic:
    """One pass over a problem in float64: the plan that a potential makes, with its value and its marginal error.

    A constant added to v (n,) changes nothing, and its entries where b_i = 0 are ignored, and replaced. `steps` passes
    came before this one, and the solver that found v stopped with `status`.
    """
    b, a = problem.b, problem.a
    unweighted = ~(b > 0)
    v = torch.where(unweighted, 0.0, v)
    v = v - b @ v
    plan = Entropic(problem, eta, v, torch.empty_like(a), torch.zeros_like(b), 0.0, 0.0, steps + 1, status)
    extended = torch.full_like(v, -torch.inf)
    for rows, cost in cost_blocks(problem):
        exponent = plan._exponent(cost)
        total = exponent.logsumexp(1, keepdim=True)
        plan.transform[rows] = total[:, 0] * -eta
        plan.mass.add_(a[rows] @ exponent.sub_(total).exp_())
        if bool(unweighted.any()):
            reach = (plan.transform[rows, None] - cost[:, unweighted]) / eta + a[rows, None].log()
            extended[unweighted] = torch.logaddexp(extended[unweighted], reach.logsumexp(0))
    value = float(a @ plan.transform)  # b @ v = 0
    error = min(1.0, float((plan.mass - b).abs().sum()) / 2)
    potential = torch.where(unweighted, -eta * extended, v)
    return replace(plan, potential=potential, value=value, marginal_error=error)


def cost_blocks(problem: Problem) -> Iterator[tuple[slice, Tensor]]:
    """Costs between all samples and all points in blocks of samples: the rows, and their costs (rows, n).

    From a matrix product, but where a square that cancels to rounding would cost so much that a small eta sees it.
    """
    x, y = problem.x, problem.y
    height = max(SPARE_ROWS, chunk_elements(x.device) // (2 * len(x)))
    block = problem.cost.pairwise_exact if problem.cost.amplifies_rounding else problem.cost.pairwise
    for start in range(0, len(y), height):
        rows = slice(start, start + height)
        yield rows, block(y[rows], x)

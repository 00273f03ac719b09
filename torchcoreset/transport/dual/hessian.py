"""The Newton direction: a linear system with the Hessian of the smoothed semi-dual.

    H (n, n) minus the Hessian, (diag - gram) / eta      g (n,) gradient      H^-1 g direction

H is a graph Laplacian in which two points are joined by the samples undecided between them. Kept in float64, with the
diagonal taken as the row sums of the off-diagonal part, it is positive semi-definite whatever the rounding. It is
factorised where its n x n numbers are at hand, and else solved by conjugate gradients.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from ..passes import SmoothedCells, csr

DAMPINGS = tuple(10.0**k for k in range(-4, 3))  # parts of the diagonal added in turn until the step is short
LEAST_DEGREE = 0.01  # part of a point's mass: least diagonal entry, for points that no sample is undecided about
RESIDUAL = 1e-2  # relative, at which conjugate gradients end: the Hessian of a subsample is no better
ITERATIONS = 200  # most of conjugate gradients
# Factor on the increase that a diagonal Hessian predicts, for mass that passes through other points. The true
# one is 0.7 to 2.1 times the diagonal one after points have moved by 0.3 to 10 % (measured).
PASSING = 3.0


class Curvature(ABC):
    """A Hessian with which linear systems can be solved."""

    eta: float

    def solve(self, g: Tensor, trust: float) -> Tensor:
        """Newton direction H^-1 g, (n,), with |d - median(d)| clipped to trust * eta, and centred."""
        direction = self.solution(g * self.eta)
        # Not about the mean: a nearly disconnected block of points has a huge d, which would shift all others.
        return _cut(direction - direction.median(), trust * self.eta)

    def ready(self) -> Curvature:
        """The same: others are made when they are first asked for."""
        return self

    def predicted_increase(self, g: Tensor) -> float:
        """An upper bound of the increase of the dual that the Newton direction predicts, if one is known without it."""
        return math.inf

    @abstractmethod
    def solution(self, g: Tensor, damping: float = 0.0) -> Tensor:
        """A solution of ((1 + damping) diag - gram) d = g, up to a constant."""


def _cut(direction: Tensor, length: float) -> Tensor:
    direction = direction.clamp(-length, length)
    return direction - direction.mean()


def curvature_of(soft: SmoothedCells, eta: float, b: Tensor) -> Curvature:
    """The curvature that a soft pass has gathered, for points of weights b (n,)."""
    least = LEAST_DEGREE * torch.maximum(b, soft.mass)
    return Factorised(soft.gram, eta, least) if soft.gram.layout == torch.strided else Sparse(soft.gram, eta, least)


class LazyHessian:
    """A curvature that is made when it is first asked for: where few samples are in wrong cells, none is needed.

    Until then there is a rough idea of its diagonal, `degree` (n,), the mass undecided about each point, and of its
    eta.
    """

    def __init__(self, make: Callable[[], Curvature], degree: Tensor, eta: float) -> None:
        self.ready = functools.cache(make)
        self._degree, self._eta = degree, eta

    def predicted_increase(self, g: Tensor) -> float:
        """By the diagonal alone, times PASSING."""
        return PASSING * self._eta * float((g.square() / self._degree).sum()) / 2


class LimitedMemory(Curvature):
    """A curvature corrected by the steps made with it (L-BFGS), for clusters between which a subsample has no sample.

    Source: Nocedal (1980), Updating quasi-Newton matrices with limited storage. Differs from it in that the matrix
    corrected is the Hessian of a subsample instead of a multiple of the identity.
    """

    def __init__(self, curvature: Curvature | LazyHessian) -> None:
        self._curvature = curvature
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []
        self.is_damped = False  # whether the last direction had to be

    def learn(self, step: Tensor, change: Tensor) -> None:
        """Take in a step (n,) of the potential and the change of mass (n,) that came with it."""
        product = self.eta * step @ change
        if bool(product > 0):  # never negative, for the semi-dual is concave
            self._steps.append((step, self.eta * change, product))

    def predicted_increase(self, g: Tensor) -> float:
        return self._curvature.predicted_increase(g)

    def solve(self, g: Tensor, trust: float) -> Tensor:
        """As of every curvature, but damped before anything is clipped.

        A nearly disconnected block of points has to move as one. Clipped, each of its points would move equally far,
        which can lower the dual however short the step. Source: Levenberg (1944), Marquardt (1963).
        """
        self.eta = self._curvature.ready().eta
        for damping in (0.0, *DAMPINGS):
            direction = self.solution(g * self.eta, damping)
            direction -= direction.median()
            self.is_damped = damping > 0
            if float(direction.abs().max()) <= trust * self.eta:
                break
        return _cut(direction, trust * self.eta)

    def solution(self, g: Tensor, damping: float = 0.0) -> Tensor:
        parts = []
        for step, change, product in reversed(self._steps):
            part = step @ g / product
            parts.append(part)
            g = g - part * change
        solution = self._curvature.ready().solution(g, damping)
        for (step, change, product), part in zip(self._steps, reversed(parts), strict=True):
            solution = solution + (part - change @ solution / product) * step
        return solution


class Factorised(Curvature):
    """A Cholesky factor, of a dense Gram matrix (n, n) with a diagonal of no less than `least` (n,)."""

    def __init__(self, gram: Tensor, eta: float, least: Tensor) -> None:
        self.eta = eta
        laplacian = -gram
        laplacian.fill_diagonal_(0)
        diagonal = torch.maximum(-laplacian.sum(1), least)
        mean = diagonal.mean()
        # Constants are the null space: mean / n on every entry makes them regular. The ridge starts where float64 still
        # factorises and grows until it does.
        laplacian += mean / len(laplacian)
        for exponent in range(-6, 2):
            laplacian.diagonal().copy_(diagonal + mean / len(laplacian) + 10.0**exponent * mean)
            self._factor, failed = torch.linalg.cholesky_ex(laplacian)
            if not bool(failed):
                break
        else:
            # What is not finite or far from symmetric, such as a state from elsewhere, has no factor at any ridge.
            diagonal = _positive(diagonal, least)
            laplacian = diagonal.diag()
            self._factor = laplacian.sqrt()
        self._regular, self._diagonal = laplacian, diagonal

    def solution(self, g: Tensor, damping: float = 0.0) -> Tensor:
        factor = self._factor
        if damping:
            factor, _ = torch.linalg.cholesky_ex(self._regular + (damping * self._diagonal).diag())
        return torch.cholesky_solve(g[:, None], factor)[:, 0]

    def inverse(self) -> Tensor:
        """The inverse, (n, n), for many solves with few points."""
        return torch.cholesky_inverse(self._factor)


def _positive(diagonal: Tensor, least: Tensor) -> Tensor:
    """A diagonal (n,) with its finite, positive numbers, and else the largest of those, which bounds the steps."""
    sound = torch.where(diagonal.isfinite(), diagonal, least)
    sound = torch.where(sound.isfinite() & (sound > 0), sound, 0.0)
    largest = sound.max()
    return torch.where(sound > 0, sound, largest if bool(largest > 0) else 1.0)


class Sparse(Curvature):
    """Conjugate gradients, preconditioned by the diagonal, which is no less than `least` (n,).

    The Gram matrix (n, n) is sparse CSR; its diagonal is of no use.
    """

    def __init__(self, gram: Tensor, eta: float, least: Tensor) -> None:
        self.eta = eta
        self._pairs = _product(gram)
        degree = self._pairs(torch.ones_like(least))
        self._diagonal = torch.maximum(degree, least)
        self._diagonal += 1e-6 * self._diagonal.mean()
        # Makes constants regular, as in `Factorised`: else a point that shares nothing would shift all others.
        self._shift = self._diagonal.mean() / len(least)

    def solution(self, g: Tensor, damping: float = 0.0) -> Tensor:
        """Source: Hestenes, Stiefel (1952)."""
        solution = torch.zeros_like(g)
        residual = g - g.mean()
        diagonal = self._diagonal * (1 + damping)
        direction = scaled = residual / diagonal
        size = residual @ scaled
        target = RESIDUAL**2 * size
        for _ in range(ITERATIONS):
            if not bool(size > target):
                break
            image = diagonal * direction + self._shift * direction.sum() - self._pairs(direction)
            step = size / (direction @ image)
            solution += step * direction
            residual = residual - step * image
            scaled = residual / diagonal
            size, before = residual @ scaled, size
            direction = scaled + (size / before) * direction
        return solution


def _product(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """The product of a sparse CSR matrix (n, n), without its diagonal, and a vector."""
    offsets, cols, weights = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    rows = torch.arange(len(matrix), dtype=cols.dtype, device=cols.device).repeat_interleave(offsets.diff())
    weights = weights.masked_fill(rows == cols, 0)
    if not (weights.is_cpu and torch.backends.mkl.is_available()):  # type: ignore[no-untyped-call]
        return lambda u: torch.zeros_like(u).index_add_(0, rows, weights * u[cols])
    # Measured: 8 ms for 9 million pairs, which take 24 ms with 64-bit indices and 100 ms with index_add_.
    apart = csr(offsets, cols, weights)
    return lambda u: apart @ u

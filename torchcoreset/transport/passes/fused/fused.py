"""Engines that never write c - v down: one kernel computes and reduces it.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

The curvature alone still needs the shares of the undecided samples, and takes them from the dense engine: its
work is a matrix product n x n over the samples, which no fused kernel would do better.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from ..dense import DenseEngine, undecided
from ..soft import SoftSums


class FusedEngine(DenseEngine):
    """What fused engines share: a subclass has `_two_nearest` and `_softmin`."""

    def _nearest(self, v: Tensor) -> Tensor:
        return self._two_nearest(v)[0]

    def _soft_sums(self, v: Tensor, eta: float) -> SoftSums:
        a, b = self.problem.a, self.problem.b
        v = v + b.log() * eta
        lowest, total, mass, find_gram = self._softmin_and_gram(v, eta)
        minimum = lowest - eta * total.double().log()
        largest_share = a @ total.double().reciprocal()
        return SoftSums(a @ minimum, largest_share, mass, find_gram)

    def _softmins(self, v: Tensor, eta: float) -> Tensor:
        lowest, total, _ = self._softmin(v + self.problem.b.log() * eta, eta)
        return lowest - eta * total.double().log()

    def _softmin_and_gram(self, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor, Callable[[], Tensor]]:
        """The numbers of `_softmin`, and what computes the Gram matrix."""
        lowest, total, mass = self._softmin(v, eta)
        return lowest, total, mass, lambda: self._gram(undecided(total), v, eta)

    @abstractmethod
    def _softmin(self, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        """Of each sample the lowest c - v, (m,) float64, and the sum of exp((lowest - (c - v)) / eta), (m,).

        Then of each point its mass, (n,) float64: the sum over samples of a times the exp above divided by its sum.
        """


@contextmanager
def explained(engine: str, remedy: Callable[[], str]) -> Iterator[None]:
    """Turn whatever a kernel fails with into one RuntimeError that names the engine and what to do."""
    try:
        yield
    except Exception as error:
        reason = str(error).strip().splitlines() or [""]
        raise RuntimeError(
            f"engine: {engine!r} failed to compile or run its kernels ({type(error).__name__}: {reason[-1][:300]}). "
            f"Use engine='dense', or {remedy()}"
        ) from error

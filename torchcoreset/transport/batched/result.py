"""The result of a batch of solves: the result of each pair, and all fields with a leading dimension B."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ...modes import solver_modes
from ...tensors import real_tensor
from ..result import Coupling, Status, Transport
from .problems import ProblemBatch


@dataclass(frozen=True, repr=False, eq=False)
class CouplingBatch:
    """The plans of a batch of pairs: a sequence of `Coupling`, one for each pair.

    Attributes:
        couplings: the plan of each pair, each of shape (m, n).
        shape: (B, m, n).
    """

    couplings: tuple[Coupling, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, m, n)."""
        return len(self.couplings), *self.couplings[0].shape

    def __len__(self) -> int:
        return len(self.couplings)

    def __getitem__(self, pair: int) -> Coupling:
        return self.couplings[pair]

    def __iter__(self) -> Iterator[Coupling]:
        return iter(self.couplings)

    def to_sparse(self) -> Tensor:
        """The plans as a coalesced sparse COO tensor of shape (B, m, n), float64."""
        count, m, n = self.shape
        pair, rows, cols, mass = self._entries()
        return torch.sparse_coo_tensor(
            torch.stack((pair, rows, cols)), mass, (count, m, n), device=mass.device, check_invariants=False
        ).coalesce()

    def block_diagonal(self) -> Coupling:
        """One plan between all samples (B m) and all points (B n), in the order of the pairs."""
        count, m, n = self.shape
        pair, rows, cols, mass = self._entries()
        return Coupling(rows + m * pair, cols + n * pair, mass, (count * m, count * n))

    def _entries(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pair, row, column and mass of all entries."""
        rows, cols, mass = (torch.cat([getattr(plan, name) for plan in self]) for name in ("rows", "cols", "mass"))
        sizes = torch.tensor([len(plan.rows) for plan in self], device=rows.device)
        pair = torch.arange(len(self), device=rows.device).repeat_interleave(sizes, output_size=len(rows))
        return pair, rows, cols, mass

    def __repr__(self) -> str:
        return f"CouplingBatch(shape={self.shape})"


@dataclass(frozen=True, repr=False, eq=False)
class TransportBatch:
    """Optimal transport of a batch of B pairs, of n points and m samples each.

    `result[i]` is the `Transport` of pair i, and iterating over the result yields the pairs. The attributes are those
    of `Transport` with a leading dimension B, computed at the first access.

    Attributes:
        pairs: the `Transport` of each pair.
        value, lower, gap: (B,) float64.
        potential: (B, n) float64, each row centred; pass it as `start` to the next solve with nearby points.
        transform: (B, m) float64.
        plan: the plans, as `CouplingBatch`.
        assignment: (B, m) int64.
        cell_mass: (B, n) float64.
        marginal_error: (B,) float64.
        steps: (B,) int64.
        status: a single status: `Status.CONVERGED` if every pair has converged, else that of the pair with the widest
            gap among those that have not. `result[i].status` is the status of pair i.
    """

    pairs: tuple[Transport, ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, pair: int) -> Transport:
        return self.pairs[pair]

    def __iter__(self) -> Iterator[Transport]:
        return iter(self.pairs)

    @cached_property
    def value(self) -> Tensor:
        """(B,) float64 cost of each plan."""
        return self._numbers("value")

    @cached_property
    def lower(self) -> Tensor:
        """(B,) float64 lower bound of each pair."""
        return self._numbers("lower")

    @cached_property
    def gap(self) -> Tensor:
        """(B,) float64 relative gap of each pair."""
        return self._numbers("gap")

    @cached_property
    def potential(self) -> Tensor:
        """(B, n) float64 dual potentials."""
        return self._stacked("potential")

    @cached_property
    def transform(self) -> Tensor:
        """(B, m) float64 c-transforms."""
        return self._stacked("transform")

    @cached_property
    def plan(self) -> CouplingBatch:
        """The plan of each pair."""
        return CouplingBatch(tuple(pair.plan for pair in self))

    @cached_property
    def assignment(self) -> Tensor:
        """(B, m) int64: the point of each sample, by the plans."""
        return self._stacked("assignment")

    @cached_property
    def cell_mass(self) -> Tensor:
        """(B, n) float64 mass of each Laguerre cell."""
        return self._stacked("cell_mass")

    @cached_property
    def marginal_error(self) -> Tensor:
        """(B,) float64 mass of each pair that the plan had to move out of the cell in which it lies."""
        return self._numbers("marginal_error")

    @cached_property
    def steps(self) -> Tensor:
        """(B,) int64 passes over the samples of each pair."""
        return self._numbers("steps", torch.int64)

    @property
    def status(self) -> Status:
        """The status of `worst`."""
        return self.worst.status

    @property
    def worst(self) -> Transport:
        """The pair with the widest gap, among those that have not converged if there are any."""
        pairs = [pair for pair in self if pair.status is not Status.CONVERGED] or self.pairs
        gaps = [pair.gap for pair in pairs]
        return pairs[gaps.index(max(gaps))]  # torch.compile, which traces the report of a loss, has no max with a key

    def _numbers(self, name: str, dtype: torch.dtype = torch.float64) -> Tensor:
        numbers, device = [getattr(pair, name) for pair in self], self.pairs[0].potential.device
        with solver_modes():  # what is kept may be asked for in inference mode, and used outside of it
            return torch.tensor(numbers, dtype=dtype, device=device)

    def _stacked(self, name: str) -> Tensor:
        with solver_modes():
            return torch.stack([getattr(pair, name) for pair in self])

    def __repr__(self) -> str:
        count, m, n = self.plan.shape
        mean, widest = sum(pair.value for pair in self) / count, max(pair.gap for pair in self)
        return (
            f"TransportBatch({count} pairs of {n} points and {m} samples, mean value={mean:.6g}, "
            f"widest gap={widest:.1e}, status={self.status.value})"
        )


def check_starts(start: Any, problems: ProblemBatch) -> Tensor:
    """The starting potentials (B, n), or ValueError before any pair is solved."""
    v = real_tensor(start, "start")
    shape = problems.b.shape
    finite = bool(torch.isfinite(v).all())
    if v.shape not in (shape, shape[1:]) or not finite:
        raise ValueError(
            f"start: got shape {tuple(v.shape)}{'' if finite else ' with NaN or inf'}; "
            f"expected {tuple(shape)} finite numbers, one for each point of each "
            "pair. Pass the potential of an earlier result with as many pairs and points, or None."
        )
    return v.expand(shape)

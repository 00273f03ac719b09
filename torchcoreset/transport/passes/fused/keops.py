"""The engine that lets KeOps compile c - v and its reductions into one loop, for CPUs and GPUs.

    x (n, d) points, y (m, d) samples      v (n,) potential      eta smoothing      c cost

Two formulas are compiled for each dimension, cost and dtype, at first use (3 to 30 s each on a CPU), and kept in
KeOps' cache folder. KeOps unrolls its code over d, so this is an engine for few dimensions.
Source: Charlier, Feydy, Glaunes, Collin, Durif (2021), Kernel operations on the GPU, with autodiff.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...problem import Problem
from ..soft import Meter
from .fused import FusedEngine, explained


class KeopsEngine(FusedEngine):
    """Reductions of lazy tensors.

    Raises:
        ImportError: pykeops is not installed.
        RuntimeError: KeOps cannot be set up, or at the first pass, cannot compile or run.
    """

    def __init__(self, problem: Problem, meter: Meter | None = None) -> None:
        super().__init__(problem, meter)
        self._keops = load_keops()

    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        lowest, cell = self._two_lowest(v)
        return cell[:, 0], lowest[:, 1] - lowest[:, 0]

    def _softmin(self, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        x, y, v = self.problem.x, self.problem.y, v.to(self.problem.x.dtype)
        lowest = self._two_lowest(v)[0][:, 0]
        total = self._sum_exp(y, lowest, x, v, torch.ones_like(v), eta)
        # Weights of the order of 1, not 1/m, keep float32 far from its smallest numbers.
        weight = (self.problem.a * len(y) / total).to(v.dtype)
        mass = self._sum_exp(x, v, y, lowest, weight, eta).double() / len(y)
        return lowest.double(), total, mass

    def _two_lowest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """The two lowest c - v of each sample and where they are, (m, 2)."""
        with running():
            reduced = self._cost(self.problem.y, self.problem.x) - self._keops.Vj(v.to(self.problem.x.dtype)[:, None])
            lowest, cell = reduced.Kmin_argKmin(2, dim=1)
        if len(v) == 1:  # KeOps fills up with what it began with
            lowest[:, 1] = torch.inf
        return lowest, cell

    def _sum_exp(
        self, rows: Tensor, row_term: Tensor, cols: Tensor, col_term: Tensor, weight: Tensor, eta: float
    ) -> Tensor:
        """Sum over columns of weight exp((row_term + col_term - c) / eta), (rows,): one formula for either side."""
        keops = self._keops
        rate = weight.new_tensor([1 / eta])
        with running():
            exponent = keops.Vi(row_term[:, None]) + keops.Vj(col_term[:, None]) - self._cost(rows, cols)
            lazy = (exponent * keops.Pm(rate)).exp() * keops.Vj(weight[:, None])
            total: Tensor = lazy.sum(dim=1, use_double_acc=True)[:, 0]
        return total

    def _cost(self, rows: Tensor, cols: Tensor) -> Any:
        return self.problem.cost.keops(self._keops.Vi(rows), self._keops.Vj(cols))


def load_keops() -> Any:
    """The module pykeops.torch, imported without a word: it reports on CUDA and compiles a part of itself."""
    if importlib.util.find_spec("pykeops") is None:
        raise ImportError(
            "engine: 'keops' needs pykeops, which is not installed. "
            "Use engine='dense', or pip install 'torchcoreset[keops]'."
        )
    with explained("keops", _remedy), contextlib.redirect_stdout(io.StringIO()):
        return importlib.import_module("pykeops.torch")


@contextlib.contextmanager
def running() -> Iterator[None]:
    """KeOps at work: silent while it compiles, and with one error that says what to do."""
    import keopscore
    import pykeops

    said = pykeops.verbose, keopscore.verbose
    pykeops.verbose = keopscore.verbose = False
    try:
        with explained("keops", _remedy):
            yield
    finally:
        pykeops.verbose, keopscore.verbose = said


def _remedy() -> str:
    """What to do about KeOps here."""
    folder = Path(os.environ.get("KEOPS_CACHE_FOLDER") or Path.home() / ".cache")
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())  # KeOps makes the rest
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        return f"set KEOPS_CACHE_FOLDER to a folder that can be written to: {folder} cannot."
    if shutil.which(os.environ.get("CXX") or "g++") is None:
        return "install a C++ compiler (g++), or name one in CXX: none was found."
    return "check the C++ compiler, and that KEOPS_CACHE_FOLDER names a folder that can be written to."

"""Engines that never write c - v down: `compiled` with the package for CPUs, `triton` for GPUs, and `keops`.

`fused` is what they share.
"""

from types import ModuleType

from .compiled import CompiledEngine, computes, is_built
from .keops import KeopsEngine, load_keops, running


def load_triton() -> ModuleType:
    """The module of Triton's engine, which imports the package triton."""
    from . import triton

    return triton


__all__ = ["CompiledEngine", "KeopsEngine", "computes", "is_built", "load_keops", "load_triton", "running"]

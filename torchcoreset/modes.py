"""The modes of torch that a solve must not inherit from its caller, and torch.compile, which must not trace it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def solver_modes() -> AbstractContextManager[None]:
    """No graph, tensors that may be kept and written to, and every product in the dtype of its factors.

    Inference tensors could not take part in a later backward pass. Autocast would look for the nearest points in half
    precision: what is summed over other cells is no lower bound.
    """
    # To enter and leave them takes longer than a small product, and within autograd most often nothing is to be left.
    is_plain = not (torch.is_grad_enabled() or torch.is_inference_mode_enabled() or _autocasts("cpu", "cuda"))
    return nullcontext() if is_plain else _entered()


@contextmanager
def _entered() -> Iterator[None]:
    with torch.inference_mode(False), torch.no_grad(), _no_autocast("cpu"), _no_autocast("cuda"):
        yield


def _autocasts(*devices: str) -> bool:
    return any(torch.is_autocast_enabled(device) for device in devices)


def _no_autocast(device: str) -> AbstractContextManager[object]:
    return torch.autocast(device, enabled=False) if _autocasts(device) else nullcontext()


def outside_compile(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, which a compiled caller leaves for and comes back from: one graph break.

    Traced, a solver falls into a hundred graphs, which take minutes to compile and are compiled again for other sizes.
    `torch.compiler.disable` around every call would import the compiler, a second, with the first eager one.
    """

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        return torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[no-any-return, no-untyped-call]

    return call

"""Keep torch.compile out of the solvers, whose loops depend on the data."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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

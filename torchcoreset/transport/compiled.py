"""Calls of the library compiled with the package, by ctypes, which needs no header of Python's.

Its sources lie beside what calls them: `flow/network_simplex.c`, `flow/all_pairs.c`, `passes/fused/passes.c`,
`passes/gram.c` and `costs/paired.c`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

LIBRARY = "torchcoreset.transport._compiled"
ADDRESS = ctypes.c_char * 0  # of a writable array: made in 0.2 us, where array.ctypes.data takes 1.7 (measured)
KINDS = {"n": ctypes.c_int64, "x": ctypes.c_double, "*": ctypes.c_void_p}
TYPES = {torch.float32: "float", torch.float64: "double"}  # as they are called in names of functions


@cache
def function(name: str, letters: str) -> Any:
    """A compiled function, whose calls let other threads run.

    `letters` are its arguments: "n" a whole number, "x" another number, "*" an array; then ">" and what it returns, if
    that is a number.
    """
    arguments, _, result = letters.partition(">")
    found = getattr(_library(), name)
    found.argtypes = [KINDS[letter] for letter in arguments]
    found.restype = KINDS[result] if result else None
    return found


def call(function: Any, *arguments: Any) -> Any:
    """Call a compiled function with numbers, and with the addresses of arrays, which live as long as the call.

    Arrays are contiguous, tensors too, and on the CPU; None is a null pointer.
    """
    return function(*(_address(argument) for argument in arguments))


def _address(argument: Any) -> Any:
    if argument is None or isinstance(argument, (int, float)):  # first: whether it is a tensor takes 0.1 us to ask
        return argument
    if isinstance(argument, np.ndarray):
        return ADDRESS.from_buffer(argument.data)
    return argument.data_ptr() if isinstance(argument, Tensor) else argument


@cache
def _library() -> ctypes.CDLL:
    found = find_spec(LIBRARY)
    if found is None or found.origin is None:
        raise ImportError(
            f"{LIBRARY} is not there: torchcoreset has to be built, which takes a C compiler and a few seconds. "
            "Install it from its folder: pip install ."
        )
    return ctypes.CDLL(found.origin)

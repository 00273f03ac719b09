"""Calls of libraries compiled with the package, by ctypes, which needs no header of Python's."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from torch import Tensor

ADDRESS = ctypes.c_char * 0  # of a writable array: made in 0.2 us, where array.ctypes.data takes 1.7 (measured)
KINDS = {"n": ctypes.c_int64, "x": ctypes.c_double, "*": ctypes.c_void_p}


def load(module: str, functions: Mapping[str, str]) -> ctypes.CDLL:
    """A compiled library, whose calls let other threads run.

    Args:
        module: its dotted name.
        functions: of each function its arguments, a letter each: "n" a whole number, "x" another number, "*" an array;
            then ">n" if it returns a whole number.

    Raises:
        ImportError: it has not been built.
    """
    found = find_spec(module)
    if found is None or found.origin is None:
        raise ImportError(
            f"{module} is not there: torchcoreset has to be built, which takes a C compiler and a few seconds. "
            "Install it from its folder: pip install ."
        )
    library = ctypes.CDLL(found.origin)
    for name, letters in functions.items():
        arguments, _, result = letters.partition(">")
        function = getattr(library, name)
        function.argtypes = [KINDS[letter] for letter in arguments]
        function.restype = KINDS[result] if result else None
    return library


def call(function: Any, *arguments: Any) -> Any:
    """Call a compiled function with numbers, and with the addresses of arrays, which live as long as the call.

    Arrays are contiguous, tensors too, and on the CPU; None is a null pointer.
    """
    return function(*(address(argument) for argument in arguments))


def address(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ADDRESS.from_buffer(argument.data)
    return argument.data_ptr() if isinstance(argument, Tensor) else argument

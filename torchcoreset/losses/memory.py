"""The one term of a divergence that no point changes: samples with themselves, m x m, remembered between calls."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from torch import Tensor


class CachedSelfTerm:
    """The value of the last samples, kept while the very same tensors come again, unchanged.

    Tensors are known by identity and by the version that torch counts up with each change in place; no copy is kept.
    Nothing is remembered of arrays, nor of inference tensors, which count no versions.
    """

    def __init__(self) -> None:
        self._tensors: tuple[Any, ...] = ()
        self._key: Hashable = None
        self._value = 0.0

    def value(self, samples: Any, weights: Any, key: Hashable, compute: Callable[[], float]) -> float:
        """The value that `compute` gave for these samples, weights and settings, or gives now."""
        tensors = [samples] if weights is None else [samples, weights]
        if not all(isinstance(tensor, Tensor) and not tensor.is_inference() for tensor in tensors):
            return compute()
        key = (key, *(tensor._version for tensor in tensors))
        same = len(self._tensors) == len(tensors) and all(
            known() is tensor for known, tensor in zip(self._tensors, tensors, strict=True)
        )
        if not (same and key == self._key):
            self._value = compute()
            self._tensors, self._key = tuple(weakref.ref(tensor) for tensor in tensors), key
        return self._value


Remembered = CachedSelfTerm  # the name in losses that were pickled by earlier versions

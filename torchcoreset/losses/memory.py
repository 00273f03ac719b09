"""Cache of the term of the samples with themselves, m x m, which does not depend on the points."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from torch import Tensor


class CachedSelfTerm:
    """The value for the last samples, reused while calls pass the same tensors, unchanged.

    Tensors are compared by identity and by their version counter, which every in-place change increments; no copy is
    kept. Values for arrays and for inference tensors, which have no version counter, are not cached.
    """

    def __init__(self) -> None:
        self._tensors: tuple[Any, ...] = ()
        self._key: Hashable = None
        self._value = 0.0

    def value(self, samples: Any, weights: Any, key: Hashable, compute: Callable[[], float]) -> float:
        """The cached value for these samples, weights and settings, or else that of `compute`, which is cached."""
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

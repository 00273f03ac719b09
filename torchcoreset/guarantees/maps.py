"""Evaluation of the user's function or network, which is left as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Generator, Tensor, nn

from ..sources import apply_network

Map = Callable[[Tensor], Tensor]


@contextmanager
def at_rest(network: Map) -> Iterator[None]:
    """A network in evaluation mode, so that no buffer changes; every module gets its own mode back."""
    modules = list(network.modules()) if isinstance(network, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        if isinstance(network, nn.Module):
            network.eval()
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def image_of(network: Map, rows: Tensor, name: str) -> Tensor:
    """The image (k, d') of rows (k, d), in batches and without a graph; one number a row becomes a column."""
    return apply_network(network, rows, Generator(), name=name, flatten=True).to(rows.device)


def values_of(f: Map, rows: Tensor) -> Tensor:
    """The numbers f(y) (k,), float64, of rows (k, d)."""
    values = image_of(f, rows, "f")
    if values.shape[1] != 1:
        raise ValueError(
            f"f: got {values.shape[1]} numbers for each row; expected one. Call once for each component: an "
            "interval for several at once needs a higher confidence in each."
        )
    return values[:, 0].double()

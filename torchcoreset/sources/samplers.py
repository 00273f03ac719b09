"""Endless sources: distributions and callables that give fresh samples."""

import abc
import math
from collections.abc import Callable, Iterator
from typing import Any

from torch import Generator, Tensor, nn
from torch.distributions import Distribution

from ..tensors import check_count
from .layout import PLAIN, Layout, rows_of
from .randomness import isolated
from .rows import check_dimension
from .source import Source


class EndlessSource(Source):
    """A source of independent samples that never runs out."""

    endless = True

    def __init__(self, layout: Layout = PLAIN) -> None:
        self._layout = layout

    @abc.abstractmethod
    def _sample(self, count: int) -> Any:
        """`count` samples in any form that a batch can have, from torch's global random numbers."""

    def draw(self, count: int, generator: Generator) -> Tensor:
        check_count(count, "count")
        with isolated(generator):
            batch = self._sample(count)
        rows = rows_of(batch, "samples", self._layout)
        if len(rows) != count:
            raise ValueError(
                f"source: asked for {count} samples and got shape {tuple(rows.shape)}; expected "
                f"({count}, d). A callable takes the number of samples and returns one a row."
            )
        self.dimension = check_dimension(rows, self.dimension, "samples")
        return rows.clone()  # it may be a view of the user's data

    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        check_count(batch_size, "batch_size")
        while True:
            yield self.draw(batch_size, generator), None

    def materialize(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        if limit is None:
            raise ValueError(f"limit: got None with {self!r}, which is endless; expected a number of samples.")
        check_count(limit, "limit")
        return self.draw(limit, generator), None


class DistributionSource(EndlessSource):
    """A torch distribution over numbers or vectors.

    Args:
        distribution: its batch and event shapes together are () or (d,); () is read as d = 1.
        layout: its `flatten` allows more dimensions; `features` has nothing to choose from.

    Raises:
        ValueError: samples would have more dimensions.
    """

    def __init__(self, distribution: Distribution, layout: Layout = PLAIN) -> None:
        super().__init__(layout)
        shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape)
        if len(shape) > 1 and not layout.flatten:
            raise ValueError(
                f"source: got a {type(distribution).__name__} with samples of shape {shape}; expected () or "
                f"(d,). Flatten them: `as_source(..., flatten=True)`."
            )
        self._distribution = distribution
        self.dimension = math.prod(shape)

    def _sample(self, count: int) -> Tensor:
        return self._distribution.sample((count,))

    def _parts(self) -> tuple[str, ...]:
        return (f"distribution={type(self._distribution).__name__}",)


class CallableSource(EndlessSource):
    """A function, or a network, that takes a number m and returns m samples.

    It runs without gradients, and its torch random numbers follow the generator of each call. NumPy's random
    numbers cannot be seeded from here: seed them in the callable. A network is used in the mode it is in;
    call `.eval()` first if it holds batch normalisation or dropout.

    Args:
        sampler: m -> (m, d), or (m,) for d = 1, in any form that a batch can have.
        layout: where in a batch the features are.

    Raises:
        ValueError: on drawing, not m rows, or rows that cannot be used.
    """

    def __init__(self, sampler: Callable[[int], Any], layout: Layout = PLAIN) -> None:
        super().__init__(layout)
        self._sampler = sampler

    def _sample(self, count: int) -> Any:
        if not isinstance(self._sampler, nn.Module):
            return self._sampler(count)
        try:
            return self._sampler(count)
        except TypeError as error:  # of a layer that was given a number where it wants a tensor
            raise TypeError(
                f"source: the {type(self._sampler).__name__} cannot be called with a number of samples ({error}). For "
                "what a network makes of samples, give Pushforward(source, network)."
            ) from error

    def _parts(self) -> tuple[str, ...]:
        return (f"sampler={getattr(self._sampler, '__name__', type(self._sampler).__name__)}",)

"""The image of a source under a network: sample, then map."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Generator, Tensor, nn
from torch.nn.parameter import is_lazy

from ..tensors import check_count
from .convert import as_source
from .layout import Layout, rows_of
from .randomness import isolated
from .rows import check_dimension
from .source import Source

BATCH_SIZE = 1024  # rows that go through a network at once: bounds the memory of its activations


class Pushforward(Source):
    """The distribution of f(Y) for samples Y of a source: f # mu.

    The network is not changed. It runs without gradients, in its current mode, and its buffers are restored after each
    call, so that batch normalisation in training mode does not update its statistics. Its random numbers, such as
    dropout's, follow the generator of each call. In training mode batch normalisation mixes the rows of a batch: call
    `.eval()` first if the samples should be independent.

    Size, weights, order, passes and limits are those of the source.

    Args:
        source: anything that `as_source` reads.
        network: f, from (rows, d) to (rows, d') or (rows,), a module or any callable; the first element counts if
            it returns a tuple. A module gets its input on the device and in the floating type of its first
            floating parameter. State that is not a buffer of a module cannot be restored.
        batch_size: most rows that go through the network at once.

    Attributes:
        source: what is mapped, as a `Source`.
        network: f.

    Raises:
        TypeError: `source` cannot be read, or `network` cannot be called.
        ValueError: `batch_size` is not a positive integer; on reading, f returns another number of rows or rows
            that cannot be used, or has uninitialised (lazy) parameters.

    Example:
        >>> import torch, torchcoreset as tc
        >>> generator = torch.nn.Linear(2, 5).requires_grad_(False)
        >>> images = tc.Pushforward(lambda m: torch.randn(m, 2), generator)
        >>> images.draw(3, torch.Generator().manual_seed(0)).shape
        torch.Size([3, 5])
        >>> tc.build_coreset(images, 10, samples=1000, steps=5).coreset.points.shape
        torch.Size([10, 5])
    """

    def __init__(self, source: Any, network: Callable[[Tensor], Any], *, batch_size: int = BATCH_SIZE) -> None:
        if not callable(network):
            raise TypeError(f"network: got {type(network).__name__}; expected a module or a function of (rows, d).")
        check_count(batch_size, "batch_size")
        self.source = as_source(source)
        self.network = network
        self.size, self.weighted = self.source.size, self.source.weighted
        self.weights_are, self.weightless, self.mass = self.source.weights_are, self.source.weightless, self.source.mass
        self.endless, self.on_disk, self.resampled = self.source.endless, self.source.on_disk, self.source.resampled
        self._batch_size = batch_size

    def over(self, source: Source) -> "Pushforward":
        """The same network over another source."""
        return Pushforward(source, self.network, batch_size=self._batch_size)

    def draw(self, count: int, generator: Generator) -> Tensor:
        return self._image(self.source.draw(count, generator), generator)

    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        for samples, weights in self.source.batches(batch_size, generator):
            yield self._weighted_image(samples, weights, generator)

    def materialize(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        samples, weights = self.source.materialize(limit, generator)
        return self._weighted_image(samples, weights, generator)

    def numbered(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None, Tensor | None]:
        samples, weights, numbers = self.source.numbered(limit, generator)
        return *self._weighted_image(samples, weights, generator), numbers

    def _weighted_image(
        self, samples: Tensor, weights: Tensor | None, generator: Generator
    ) -> tuple[Tensor, Tensor | None]:
        image = self._image(samples, generator)
        return image, None if weights is None else weights.to(image.device)

    def _image(self, samples: Tensor, generator: Generator) -> Tensor:
        image = apply_network(self.network, samples, generator, self._batch_size)
        self.dimension = check_dimension(image, self.dimension, "network output")
        return image

    def _parts(self) -> tuple[str, ...]:
        return f"source={self.source!r}", f"network={type(self.network).__name__}"


def apply_network(
    network: Callable[[Tensor], Any],
    rows: Tensor,
    generator: Generator,
    batch_size: int = BATCH_SIZE,
    what: str = "samples",
    *,
    name: str = "network",
    flatten: bool = False,
) -> Tensor:
    """f of every row, (rows, d'), in a new tensor; the network is left as it was.

    Args:
        network: f, as in `Pushforward`.
        rows: its input, (rows, d).
        generator: where its random numbers come from.
        batch_size: most rows that it is given at once.
        what: what error messages call the rows, in the plural.
        name: what they call f.
        flatten: make vectors of images and the like.

    Raises:
        TypeError: f cannot be called.
        ValueError: as for `Pushforward`.
    """
    if not callable(network):
        raise TypeError(f"{name}: got {network!r}; expected a function of rows (rows, d), such as a module.")
    image: Tensor | None = None
    layout = Layout(flatten=flatten)
    with isolated(generator), _left_alone(network):
        for start in range(0, len(rows), batch_size):
            batch = _as_input(rows[start : start + batch_size], network)
            part = rows_of(network(batch), f"{name} output", layout)
            if len(part) != len(batch):
                raise ValueError(
                    f"{name}: got {len(part)} rows for {len(batch)} {what}; expected one row for each "
                    f"{what[:-1]}. A network of single rows can be wrapped in torch.vmap."
                )
            if image is None:  # filled in place: pieces kept for torch.cat would need the memory twice
                image = part.new_empty(len(rows), part.shape[1])
            check_dimension(part, image.shape[1], f"{name} output")
            image[start : start + len(part)] = part
    assert image is not None  # there is at least one row
    return image


def _as_input(rows: Tensor, network: Any) -> Tensor:
    """The rows where the network is, in its floating type; unchanged for one that has no floating parameter."""
    if not isinstance(network, nn.Module):
        return rows
    first = next((parameter for parameter in network.parameters() if parameter.is_floating_point()), None)
    return rows if first is None else rows.to(first)


@contextmanager
def _left_alone(network: Any) -> Iterator[None]:
    """Give a module copies of its buffers to write to, and put the very tensors back, whatever happens within."""
    if not isinstance(network, nn.Module):
        yield
        return
    if any(is_lazy(tensor) for tensor in (*network.parameters(), *network.buffers())):
        raise ValueError(
            "network: its lazy parameters have no shape yet, and a first batch here would decide them; expected an "
            "initialised network. Run it once yourself."
        )
    kept = [(module, *item) for module in network.modules() for item in module.named_buffers(recurse=False)]
    copies = {buffer: buffer.clone() for _, _, buffer in kept}
    try:
        # The network writes to copies: a write to its own, even if undone, would spoil graphs that have saved them.
        for module, name, buffer in kept:
            setattr(module, name, copies[buffer])
        yield
    finally:
        for module, name, buffer in kept:
            setattr(module, name, buffer)

"""Distances that a user's code gives: between the features of a network, or by a function of two rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .cost import Cost
from .function import Distance, FunctionPower
from .metric import Metric

# What gives a row other features at another time, while it is in training mode.
TRAINING = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd)
BATCH = 1024  # rows that go through a network at once where no gradient is asked for


class Embedded(Metric):
    """|f(y) - f(x)| for the features f of a network.

    Points are rows of the data (`rows=True`), or move along the gradient through the network (algorithm="gradient"):
    features do not lead back to rows. A network is used as it is, in the mode it is in. In evaluation mode the features
    of a row do not depend on its batch; builds and certificates refuse dropout and batch normalisation in training
    mode.

    Args:
        network: f, from (k, d), or (k, *shape), to (k, e) or to anything that flattens to that.
        shape: of one row as the network takes it, such as (1, 28, 28); None for (d,).
        metric: the distance between features, `Euclidean()` if None; such as `Cosine()`.

    Raises:
        TypeError: no network, or a metric that is none of coordinates.
        ValueError: on reading, features that are no floating tensor with a row for each row.

    Gradient: of a loss, in rows and in the parameters of the network, by autograd through it. Builds leave parameters
    as they are.

    Example:
        >>> import torch, torchcoreset as tc
        >>> cost = tc.costs.Embedded(lambda rows: rows.sum(1, keepdim=True))
        >>> tc.wasserstein(torch.zeros(1, 3), torch.ones(1, 3), cost=cost).item()
        9.0
    """

    can_invert = False

    def __init__(
        self,
        network: Callable[[Tensor], Any],
        shape: Sequence[int] | None = None,
        metric: Metric | None = None,
    ) -> None:
        if not callable(network):
            raise TypeError(f"network: got {type(network).__name__}; expected a module or a function of rows.")
        if metric is not None and (not isinstance(metric, Metric) or not metric.is_euclidean):
            raise TypeError(
                f"metric: got {metric!r}; expected one of tc.costs whose distances are those of coordinates."
            )
        self.network = network
        self.shape = None if shape is None else tuple(int(length) for length in shape)
        self.metric = metric
        self.unit = "distances between features" if metric is None else f"{metric.unit}, of features"

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        flat = rows.flatten(0, -2)
        if flat.requires_grad or (torch.is_grad_enabled() and self._has_gradients()):
            features = self._features(flat, name)
        else:
            features = torch.cat([self._features(some, name) for some in torch.split(flat, BATCH)])
        features = features.view(*rows.shape[:-1], features.shape[-1])
        return features if self.metric is None else self.metric.coordinates(features, f"features of {name}")

    def shaped(self, shape: tuple[int, ...] | None) -> Embedded:
        """For rows that are vectors of what has this shape; as it is for vectors, or where a shape was given."""
        if self.shape is not None or shape is None or len(shape) < 2:
            return self
        return Embedded(self.network, shape, self.metric)

    def settings(self) -> tuple[object, ...]:
        """The network itself: another one of the same class gives other features."""
        return id(self.network), self.shape, self.metric

    def check_repeatable(self) -> None:
        modules = self.network.modules() if isinstance(self.network, nn.Module) else ()
        for module in modules:
            if module.training and isinstance(module, TRAINING):
                raise ValueError(
                    f"cost: the network has {type(module).__name__} in training mode, so that the features of a row "
                    "depend on its batch or on chance; expected evaluation mode. Call network.eval() first."
                )

    def _has_gradients(self) -> bool:
        network = self.network
        return not isinstance(network, nn.Module) or any(one.requires_grad for one in network.parameters())

    def _features(self, rows: Tensor, name: str) -> Tensor:
        given = rows
        if isinstance(self.network, nn.Module):
            first = next((one for one in self.network.parameters() if one.is_floating_point()), None)
            given = rows if first is None else rows.to(first)
        if self.shape is not None:
            if given[:1].numel() != torch.Size(self.shape).numel():
                raise ValueError(
                    f"{name}: got rows of {given.shape[1]} numbers for a network that takes {self.shape}; expected as "
                    "many."
                )
            given = given.view(len(given), *self.shape)
        found = self.network(given)
        if not isinstance(found, Tensor) or found.dim() < 1 or len(found) != len(rows) or not found.is_floating_point():
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(
                f"cost: the network gave {got} for {len(rows)} rows; expected features (k, e), one row for each."
            )
        return found.reshape(len(rows), -1).to(rows.dtype)

    def __repr__(self) -> str:
        return f"Embedded({type(self.network).__name__})"


class Unsaved(Metric):
    """A distance of which a file knows the name only."""

    can_invert = False

    def __init__(self, name: str) -> None:
        self.name = name

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        raise self._unknown()

    def power(self, p: float) -> Cost:
        raise self._unknown()

    def record(self) -> dict[str, Any]:
        return {"unsaved": self.name}

    def __repr__(self) -> str:
        return self.name

    def _unknown(self) -> ValueError:
        return ValueError(
            f"cost: the coreset was built for distances by {self.name}, which its file does not hold; expected it "
            "again. Pass cost=... with the network or function, or tc.costs.Euclidean() for the Euclidean distance."
        )


class Function(Metric):
    """A distance by a function of two tensors of rows, which need not be symmetric nor a metric.

    Costs are computed pair by pair in float64, several times slower than by matrix products, and held only in blocks.
    Gradients are those of autograd; where rows coincide and the root has none, zero. Bounds that need the triangle
    inequality are refused.

    Args:
        distance: f(y, x) of samples y (..., d) and points x (..., d), which broadcast: distances (...), >= 0. For
            gradients it has to be differentiable by torch.

    Raises:
        TypeError: what cannot be called.
        ValueError: on use, distances of another shape, negative or not finite; for gradients, distances without any.

    Example:
        >>> import torch, torchcoreset as tc
        >>> cost = tc.costs.Function(lambda y, x: (y - x).abs().sum(-1))  # city blocks
        >>> tc.wasserstein(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), p=1, cost=cost).item()
        7.0
    """

    can_invert = False

    def __init__(self, distance: Distance) -> None:
        if not callable(distance):
            raise TypeError(f"distance: got {type(distance).__name__}; expected a function of two tensors of rows.")
        self.distance = distance
        self.unit = "units of the function"

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        return rows

    def power(self, p: float) -> Cost:
        return FunctionPower(float(p), self.distance)

    def settings(self) -> tuple[object, ...]:
        """The function itself."""
        return (id(self.distance),)

    def __repr__(self) -> str:
        return f"Function({getattr(self.distance, '__name__', type(self.distance).__name__)})"

"""`Coreset`: weighted points, as a module whose points can be trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from ..archives import read_arrays, wide
from ..html import card, draw_points
from ..names import Init
from ..sources import BATCH_SIZE, Labels, Scaling, apply_network, as_source, fingerprint_of, labels_from, make_generator
from ..tensors import check_count, check_finite, normalised, real_tensor
from ..transport import as_table
from ..transport.costs import Metric, metric_of
from .files import write_arrays
from .start import check_size, start_points

if TYPE_CHECKING:
    import pandas

ROUNDED = 1 / 128  # deviation of the sum of weights from 1 that is taken for rounding to half precision


class Coreset(nn.Module):
    """n weighted points that represent a distribution.

    Args:
        points: (n, d), or (n,) for d = 1; copied. Floating points keep their dtype, integers become the default dtype.
        weights: (n,) non-negative, any positive sum; equal if None.
        learn_weights: make the weights trainable: they are the softmax of a parameter, so that any torch optimizer
            keeps them positive with sum 1. All given weights have to be positive.

    Attributes:
        points: (n, d) `nn.Parameter`.
        weights: (n,) with sum 1, in the dtype of the points: a buffer, or with learn_weights=True a tensor in the
            autograd graph, computed anew at each access.
        weight_logits: (n,) `nn.Parameter` whose softmax are the weights; only with learn_weights=True.
        built_on: fingerprint of the table or dataset that the points were built on, by which `certify` recognises the
            data of the build; None if there was none. For merged coresets the fingerprints of all, separated by blanks.
            Saved in files, but not in the `state_dict`.
        scaling: the units of the columns in which distances were measured, if they are not those of the data
            (`build_coreset(scale=...)`); the points are in the units of the data. Saved in files only, as `built_on`.
        cost: the distance for which the points were built, one of `tc.costs`; None for the Euclidean one. Saved in
            files only, as `built_on`.
        joint: for points that are joint rows of features and labels, built on a `joint_source`: `joint.split(points)`
            separates them. None for other points. Saved in files only, as `built_on`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, or invalid weights.

    Example:
        >>> import torch, torchcoreset as tc
        >>> coreset = tc.Coreset(torch.tensor([[0.0, 0.0], [2.0, 4.0]]))
        >>> coreset.expectation(lambda x: x.square()).tolist()
        [2.0, 8.0]

        Points and weights of a coreset, trained together:

        >>> coreset = tc.Coreset(torch.tensor([-1.0, 1.0]), learn_weights=True)
        >>> loss, optimizer = tc.CoresetLoss(), torch.optim.Adam(coreset.parameters(), lr=0.1)
        >>> for _ in range(100):
        ...     optimizer.zero_grad()
        ...     loss(coreset.points, torch.tensor([-1.0, 0.0, 0.0, 1.0, 5.0]), coreset.weights).backward()
        ...     optimizer.step()
        >>> [round(weight, 2) for weight in coreset.weights.tolist()]
        [0.8, 0.2]
    """

    weights: Tensor
    weight_logits: nn.Parameter
    built_on: str | None = None
    scaling: Scaling | None = None
    cost: Any = None  # a Metric; a class attribute of that type would be looked for among submodules
    joint: Labels | None = None

    def __init__(self, points: Any, weights: Any = None, *, learn_weights: bool = False) -> None:
        super().__init__()
        table = as_table(points, "points")
        check_finite(table, "points")
        self.points = nn.Parameter(table.clone())
        shares = normalised(weights, len(table), "weights", table.device)
        if not learn_weights:
            self.register_buffer("weights", shares.to(table.dtype))
            return
        if not bool((shares > 0).all()):
            raise ValueError(
                f"weights: got {int((shares == 0).sum())} of zero with learn_weights=True; expected positive ones: "
                "a softmax cannot move a weight of zero. Leave these points out, or give them a small weight."
            )
        self.weight_logits = nn.Parameter(shares.log().to(table.dtype))

    def __getattr__(self, name: str) -> Any:
        """Trainable weights are computed from their parameter."""
        if name == "weights" and "weight_logits" in self.__dict__.get("_parameters", ()):
            return self.weight_logits.softmax(0)
        return super().__getattr__(name)

    @classmethod
    def from_source(
        cls, source: Any, size: int, *, init: Init = "random", p: float = 2, seed: int | torch.Generator = 0
    ) -> Coreset:
        """A coreset with points drawn from a source and equal weights, as a start for training.

        Args:
            source: anything that `as_source` reads.
            size: number of points n; rows repeat if the source has fewer.
            init: "random" for a random subset, whose density follows that of the data; "kmeans++" for samples that are
                far from each other; "annealed" for points that deterministic annealing has moved near an optimum.
            p: power of the distance in k-means++ and annealing.
            seed: int or generator; the global random state of torch is not used.
        """
        check_size(size)
        read = as_source(source)
        coreset = cls(start_points(read, size, init, p, make_generator(seed)))
        coreset.built_on, coreset.scaling = fingerprint_of(read), read.units
        coreset.cost, coreset.joint = read.metric, read.joint
        return coreset

    @property
    def size(self) -> int:
        """Number of points n."""
        return len(self.points)

    def pushforward(
        self, network: Callable[[Tensor], Any], *, batch_size: int = BATCH_SIZE, seed: int | torch.Generator = 0
    ) -> Coreset:
        """The coreset of the image: the network applied to every point, with the same weights.

        As in `Pushforward`, the network runs without a graph, in the mode that it is in, and its buffers are restored.

        Args:
            network: function from (n, d) to (n, d') or (n,).
            batch_size: maximum number of points in one call of the network.
            seed: int or generator for the random numbers of the network, such as dropout; the global random state of
                torch is not used.

        Raises:
            ValueError: the network returns another number of rows, or rows that are not finite numbers.
        """
        check_count(batch_size, "batch_size")
        image = apply_network(network, self.points.detach(), make_generator(seed), batch_size, what="points")
        pushed = Coreset(image, self.weights.detach().to(image.device))
        pushed.weights.copy_(self.weights.detach())
        return pushed

    def expectation(self, f: Callable[[Tensor], Tensor]) -> Tensor:
        """sum_i w_i f(x_i), differentiable in points and weights; f maps (n, d) to (n, ...)."""
        values = f(self.points)
        if values.dim() == 0 or len(values) != self.size:
            raise ValueError(
                f"f: got values of shape {tuple(values.shape)} for {self.size} points; expected one for each point."
            )
        mean: Tensor = torch.tensordot(self.weights.to(values.dtype), values, dims=1)
        return mean

    def to_dataset(self) -> TensorDataset:
        """Points and weights as a `TensorDataset` of pairs (x_i, w_i); copies, without gradients."""
        return TensorDataset(self.points.detach().clone(), self.weights.detach().clone())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The points (n, d) as a copy: for `numpy.asarray(coreset)` and functions that take arrays.

        Raises:
            ValueError: `copy=False`.
        """
        if copy is False:
            raise ValueError("copy: got False; expected True or None: an array gets a copy of the parameter.")
        points, _ = self.to_numpy()
        return points if dtype is None else points.astype(dtype)

    def to_numpy(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Copies of points (n, d) and weights (n,) as arrays: for POT, or as X and sample_weight for scikit-learn.

        Half precision is returned as float32, without loss; float64 weights sum to 1 up to rounding.

        Example:
            >>> import torch, torchcoreset as tc
            >>> points, weights = tc.Coreset(torch.tensor([[0.0, 0.0], [2.0, 4.0]])).to_numpy()
            >>> points.shape, weights.tolist()
            ((2, 2), [0.5, 0.5])
        """
        points, weights = (wide(tensor.detach().cpu()).numpy().copy() for tensor in (self.points, self.weights))
        return points, weights

    def to_dataframe(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Points and weights as a pandas DataFrame: a column for each coordinate, and "weight".

        Args:
            columns: names of the d coordinates; x0, x1, ... if None.

        Raises:
            ImportError: pandas is not installed.
            ValueError: not d names, a repeated name, or a column named "weight".
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install pandas.") from error
        points, weights = self.to_numpy()
        width = points.shape[1]
        names = [f"x{k}" for k in range(width)] if columns is None else list(columns)
        if len(names) != width or len({*names, "weight"}) != width + 1:
            raise ValueError(f"columns: got {names}; expected {width} different names, none of them 'weight'.")
        return pandas.DataFrame(points, columns=names).assign(weight=weights)

    def save(self, path: str | Path) -> None:
        """Write points and weights to a .pt (torch), .npz (numpy) or .safetensors file, readable without pickle.

        The file is written atomically. For .safetensors: pip install 'torchcoreset[safetensors]'.
        """
        self._write(path, None)

    def _write(self, path: str | Path, labels: NDArray[Any] | None, more: Mapping[str, str] | None = None) -> None:
        text = dict(more or {}) if self.built_on is None else {**(more or {}), "built_on": self.built_on}
        if self.scaling is not None:
            text["scaling"] = json.dumps(self.scaling.to_record())
        if self.cost is not None:
            text["cost"] = json.dumps(self.cost.record())
        if self.joint is not None:
            text["joint"] = json.dumps(self.joint.record())
        write_arrays(path, {"points": self.points, "weights": self.weights.detach()}, text, labels)

    @classmethod
    def load(cls, path: str | Path) -> Coreset:
        """Read a file that `save` wrote; the coreset is on the CPU. Nothing in the file is executed.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged, contains pickled objects, or contains no coreset.
        """
        return cls._from_arrays(read_arrays(path), path)

    @classmethod
    def _from_arrays(cls, saved: Mapping[str, Any], path: str | Path) -> Coreset:
        """The coreset in the arrays of a file; `path` is its name in error messages."""
        missing = {"points", "weights"} - set(saved)
        if missing:
            raise ValueError(
                f"path: {path} holds no {' and no '.join(sorted(missing))}; expected a file by Coreset.save."
            )
        coreset = cls(saved["points"], saved["weights"])
        exact = real_tensor(saved["weights"], "path").to(coreset.weights)
        if abs(float(exact.double().sum()) - 1) < ROUNDED:
            coreset.weights.copy_(exact)  # normalising again would change their last digits
        fingerprint = saved.get("built_on")
        coreset.built_on = fingerprint if isinstance(fingerprint, str) else None
        coreset.scaling = _scaling_of(saved, coreset.points.shape[1], path)
        coreset.cost, coreset.joint = _cost_of(saved, path), _joint_of(saved, path)
        return coreset

    def extra_repr(self) -> str:
        """Shape, dtype and whether the weights are equal."""
        equal = bool((self.weights == self.weights[0]).all())
        shape = f"size={self.size}, dimension={self.points.shape[1]}, weights={'equal' if equal else 'unequal'}"
        scaled = shape if self.scaling is None else f"{shape}, scaling={self.scaling.how}"
        return scaled if self.cost is None else f"{scaled}, cost={self.cost!r}"

    def _repr_html_(self) -> str:
        """Shown in notebooks: numbers beside a picture of the points."""
        return card("Coreset", self._numbers(), draw_points(self.points, self.weights))

    def _numbers(self) -> dict[str, str]:
        """How many points there are, of how many columns, and the range of their weights."""
        low, high = (float(end) for end in torch.aminmax(self.weights.detach()))
        width = self.points.shape[1]
        numbers = {
            "points": f"{self.size} in {width} {'column' if width == 1 else 'columns'}",
            "weights": "equal" if low == high else f"{low:.3g} to {high:.3g}",
        }
        if self.scaling is not None:
            numbers["scaling"] = self.scaling.words
        return numbers if self.cost is None else {**numbers, "cost": repr(self.cost)}


def _cost_of(saved: Mapping[str, Any], path: str | Path) -> Metric | None:
    """The distance that is recorded in a file, or None."""
    try:
        return metric_of(json.loads(saved["cost"])) if "cost" in saved else None
    except (KeyError, AttributeError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"path: the cost in {path} makes no sense; expected a file by Coreset.save.") from error


def _joint_of(saved: Mapping[str, Any], path: str | Path) -> Labels | None:
    """What a file says of the last columns of its points."""
    try:
        return labels_from(json.loads(saved["joint"])) if "joint" in saved else None
    except (KeyError, AttributeError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"path: the labels in {path} make no sense; expected a file by Coreset.save.") from error


def _scaling_of(saved: Mapping[str, Any], dimension: int, path: str | Path) -> Scaling | None:
    """The units of distances in the texts of a file, or in the metadata that the command line writes."""
    try:
        record = (
            json.loads(saved["scaling"])
            if "scaling" in saved
            else json.loads(saved.get("metadata", "{}")).get("scaling")
        )
        return None if record is None else Scaling.from_record(record, dimension)
    except (KeyError, AttributeError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"path: the scaling in {path} makes no sense; expected a file by Coreset.save.") from error

"""`LabeledCoreset`: weighted points with labels, and their distance to labelled rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from ...archives import labels_of, read_arrays
from ...html import card, draw_points
from ...sources import Classes, Source, make_generator, of_sample_weights, with_labels
from ...tensors import described
from ...transport import Transport, as_cost, transport
from ...transport.costs import Mixed
from ..coreset import Coreset
from ..history import BuildResult

SHOWN = 12  # classes in a notebook
SHOWN_IN_TEXT = 50  # classes in the repr
SAME_MASS = 1e-6  # by which the weights of a class may miss its share of the rows: float32 rounds them


@dataclass(frozen=True, repr=False)
class LabeledCoreset:
    """Weighted points with labels.

    Attributes:
        coreset: points and weights; without a `price`, class after class.
        classes: (k,) the different labels, sorted, as numbers or text. With a `price` some may have no point.
        class_of: (n,) int64, the place of each point's label in `classes`.
        results: the `BuildResult` of each class, in the order of `classes`; with a `price` the one of all, whose points
            are joint rows; none of a coreset from a file.
        price: the distance of two points with different labels that are otherwise alike; None where each class was
            built by itself, and of a coreset from a file of an earlier version.
        shares: (k,) of each class in the mass of the rows that it was built on; None of a coreset from a file.
    """

    coreset: Coreset
    classes: NDArray[Any]
    class_of: Tensor
    results: tuple[BuildResult, ...]
    price: float | None = None
    shares: NDArray[np.float64] | None = None

    @property
    def points(self) -> Tensor:
        """(n, d), an `nn.Parameter`."""
        return self.coreset.points

    @property
    def weights(self) -> Tensor:
        """(n,), sum 1."""
        return self.coreset.weights

    @property
    def rows(self) -> Tensor | None:
        """(n,) int64, which row of X each point is; None unless rows were asked for, and of a coreset from a file."""
        taken = [result.rows for result in self.results if result.rows is not None]
        return torch.cat(taken) if taken else None

    @property
    def labels(self) -> NDArray[Any]:
        """(n,) the label of each point, of the dtype that the labels came in; scikit-learn takes them as they are."""
        labels: NDArray[Any] = self.classes[self.class_of.numpy()]
        return labels

    @property
    def distance(self) -> float:
        """W_p of points and labels together to the rows that it was built on, rooted.

        With a `price` it is that of sqrt(|x - x'|^2 + price^2 [y != y']). Without one no mass may change its class, so
        that W_p^p is the mean of those of the classes, by their shares.

        Raises:
            ValueError: a coreset from a file, or one whose classes have other weights than the rows, as by
                allocation="equal": without a price no plan moves the mass between classes.
        """
        if not self.results or (self.price is None and self.shares is None):
            raise ValueError(
                "distance: it is not known of a coreset from a file; expected the result of build_labeled_coreset. "
                "Measure it: transport(X, y, price=...)."
            )
        if self.price is not None:
            return self.results[0].distance
        assert self.shares is not None
        held: NDArray[np.float64] = np.zeros(len(self.classes))
        np.add.at(held, self.class_of.numpy(), self.weights.double().cpu().numpy())
        if not np.allclose(held, self.shares, rtol=0, atol=SAME_MASS):
            raise ValueError(
                f"distance: the classes weigh {_short(held)} and have {_short(self.shares)} of the rows; expected the "
                "same, for without a price no mass changes its class. The root of the mean of W_p^p of `results`, by "
                "the first of these, is the distance to rows weighted so. Or measure at a price: "
                "transport(X, y, price=...)."
            )
        values = [result.transport.value for result in self.results]
        return as_cost(self.results[0].p).root(float(self.shares @ np.array(values)))

    def to_joint(self, price: float | None = None) -> Coreset:
        """The joint rows (x, code of the label), with the distance between them as its `cost`.

        Args:
            price: of a wrong label, in the unit of the distance; None for that of the build.

        Returns:
            A coreset of points (n, d + 1), to certify on a `joint_source`; `joint.split` turns its points back.

        Raises:
            ValueError: no price is known.
        """
        price = self.price if price is None else price
        if price is None:
            raise ValueError(
                "price: got None for a coreset built of each class by itself; expected a positive number, the distance "
                "between two labels in the unit of the features."
            )
        codes = self.class_of.to(self.points)[:, None]
        joint = Coreset(torch.cat((self.points.detach(), codes), 1), self.weights)
        joint.weights.copy_(self.weights)  # normalising again would change their last digits
        joint.built_on, joint.cost, joint.joint = self.coreset.built_on, Mixed([-1], price), Classes(self.classes)
        return joint

    def transport(
        self,
        X: Any,
        y: Any = None,
        p: float | None = None,
        *,
        price: float | None = None,
        sample_weights: Any = None,
        trim: float = 0.0,
        tolerance: float = 1e-3,
        exact: bool = False,
    ) -> Transport:
        """Optimal transport of points and labels together to rows and theirs, by sqrt(|x - x'|^2 + price^2 [y != y']).

        Args:
            X, y: as in `build_labeled_coreset`, or a `joint_source` of classes; all rows are held. Labels that no point
                has pay the price.
            p: power of the distance; None for that of the build, and 2 of a coreset from a file.
            price: of a wrong label; None for that of the build.
            sample_weights, trim, tolerance, exact: as in `transport`.

        Raises:
            ValueError: no price is known, or unusable rows, named.

        Example:
            >>> import torch, torchcoreset as tc
            >>> X = torch.tensor([[0.0], [1.0], [8.0], [9.0]])
            >>> labeled = tc.build_labeled_coreset(X, [0, 0, 1, 1], 2)
            >>> labeled.transport(X, [0, 0, 1, 0], price=2.0).value  # 1/4 of each row, and one wrong label
            1.25
        """
        joint = self.to_joint(price)
        is_joint = isinstance(X, Source) and X.joint is not None and y is None and sample_weights is None
        with of_sample_weights():
            source = X if is_joint else with_labels(X, y, Classes(), sample_weights)
        rows, mass = source.materialize(None, make_generator(0))
        codes = source.joint
        if not isinstance(codes, Classes):
            raise ValueError(f"X: got rows with {codes!r}; expected classes, as the points have.")
        power = (self.results[0].p if self.results else 2) if p is None else p
        x, rows = joint.points.detach(), codes.into(Classes(self.classes))(rows).to(joint.points.device)
        found: Transport = transport(
            x, rows, power, joint.weights, mass, trim=trim, tolerance=tolerance, exact=exact, cost=joint.cost
        )
        return found

    def to_dataset(self) -> TensorDataset:
        """Points, places of their labels in `classes`, and weights, as a `TensorDataset` of detached copies."""
        return TensorDataset(self.points.detach().clone(), self.class_of.clone(), self.weights.clone())

    def save(self, path: str | Path) -> None:
        """Write points, weights and labels to a .pt, .npz or .safetensors file, as `Coreset.save` does.

        `Coreset.load` and the command line read the file too.
        """
        self.coreset._write(path, self.labels, {} if self.price is None else {"price": repr(self.price)})

    @classmethod
    def load(cls, path: str | Path) -> LabeledCoreset:
        """Read what `save` or `torchcoreset build --label` wrote, without `results`. Nothing in the file is executed.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged, or has no points, weights or labels.

        Example:
            >>> import tempfile, torch, torchcoreset as tc
            >>> labeled = tc.build_labeled_coreset(torch.rand(20, 2), ["a"] * 8 + ["b"] * 12, 5)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     labeled.save(f"{folder}/points.npz")
            ...     tc.LabeledCoreset.load(f"{folder}/points.npz")
            LabeledCoreset(5 points, a: 2, b: 3)
        """
        arrays = read_arrays(path)
        coreset, labels = Coreset._from_arrays(arrays, path), labels_of(arrays)
        if labels is None or labels.shape != (coreset.size,):
            what = "no labels" if labels is None else f"labels of shape {labels.shape} for {coreset.size} points"
            raise ValueError(f"path: {path} holds {what}; expected a file by LabeledCoreset.save, one label a point.")
        classes, place = np.unique(labels, return_inverse=True)
        return cls(coreset, classes, torch.from_numpy(place.astype(np.int64)), (), _price_of(arrays, path))

    def __repr__(self) -> str:
        counts = torch.bincount(self.class_of, minlength=len(self.classes)).tolist()
        shown = zip(self.classes[:SHOWN_IN_TEXT].tolist(), counts[:SHOWN_IN_TEXT], strict=True)
        parts = [f"{label}: {count}" for label, count in shown] + ["..."] * (len(counts) > SHOWN_IN_TEXT)
        price = "" if self.price is None else f"price={self.price:g}"
        return described(self, f"{len(self.class_of)} points", *parts, price)

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, points of each class, and the points."""
        counts = torch.bincount(self.class_of, minlength=len(self.classes)).tolist()
        classes = ", ".join(
            f"{label}: {count}" for label, count in zip(self.classes[:SHOWN].tolist(), counts[:SHOWN], strict=True)
        )
        numbers = {**self.coreset._numbers(), "classes": classes + ", ..." * (len(counts) > SHOWN)}
        return card("LabeledCoreset", numbers, draw_points(self.points, self.weights))


def _price_of(arrays: Mapping[str, Any], path: str | Path) -> float | None:
    """The price that a file says its points were built for."""
    try:
        price = float(arrays["price"]) if "price" in arrays else None
    except (TypeError, ValueError):
        price = math.nan
    if price is not None and not 0 < price < math.inf:
        raise ValueError(f"path: the price in {path} is no positive number; expected a file by LabeledCoreset.save.")
    return price


def _short(shares: NDArray[np.float64], most: int = 4) -> str:
    return ", ".join(f"{share:.3g}" for share in shares[:most]) + ", ..." * (len(shares) > most)

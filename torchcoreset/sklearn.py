"""A coreset as a scikit-learn estimator, `WassersteinCoreset`. Needs the extra `sklearn`.

It is imported on its own, so that `import torchcoreset` needs no scikit-learn.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils._param_validation import Interval, StrOptions
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "torchcoreset.sklearn needs scikit-learn 1.6 or newer: pip install 'torchcoreset[sklearn]'."
    ) from error

from .coresets import CellSizes, build_coreset
from .coresets.start import separated, start_points
from .losses import CoresetLoss
from .names import Init
from .sources import as_source
from .transport import DISTANCE, make_problem, transport
from .transport.passes import make_engine
from .transport.stream import StreamTransport

Floats = NDArray[np.float64]
ROWS = 1 << 14  # rows whose distances to all points are held at once
TIED = 64  # roundings of a cost within which two points are equally near


class WassersteinCoreset(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Points that represent the rows of X, with the interface of scikit-learn's `KMeans`.

    `fit` minimises the exact W_p^p between the rows and n points, with equal weights by default, so that each stands
    for an equal share of the (weighted) rows. `partial_fit` takes rows as batches of a stream instead. Fitted
    attributes belong to the parameters of their `fit`: a parameter that is set later applies from the next `fit` on.

    Args:
        n_points: number of points; if there are fewer rows, points coincide.
        p: power of the distance, p >= 1.
        weights: None for equal ones, "free", or bounds (low, high) in equal shares, as in `build_coreset`; of `fit`.
        trim: share of the rows, by weight, that `fit` leaves unmatched, in [0, 1).
        init: the start of `fit`: "annealed", "random" or "kmeans++".
        max_iter: most steps of `fit`.
        tol: `fit` has converged when the value changes by no more than this, relatively; as in `build_coreset`.
        learning_rate: of `partial_fit`; batch k moves points by learning_rate / sqrt(k) of the way to the means of
            their cells (p = 2), in (0, 1].
        random_state: int, `numpy.random.RandomState` or None, as everywhere in scikit-learn.

    Attributes:
        points_: (n_points, d) in the floating type of X. After `partial_fit` an average of the iterates.
        weights_: (n_points,) float64 weights of the points, sum 1.
        potential_: (n_points,) dual potential, which defines the cells.
        p_: power that points and potential were fitted with, used by `predict` and `score`.
        labels_: (rows,) the point of each row of X by the optimal plan, so that each has its share of the rows; -1 for
            rows that stay unmatched. After `partial_fit` the cells of the last batch, as `predict` gives them.
        value_: W_p^p to the rows given; of the last batch after `partial_fit`.
        lower_: its lower bound; None after `partial_fit`, since a batch gives no bound for the stream.
        n_iter_: steps, or batches, taken.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Example:
        >>> import numpy as np
        >>> from torchcoreset.sklearn import WassersteinCoreset
        >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
        >>> model = WassersteinCoreset(n_points=2, random_state=0).fit(X)
        >>> np.sort(model.points_[:, 0]).tolist(), model.value_
        ([0.5, 10.5], 0.25)
        >>> bool(model.predict([[0.2]])[0] == model.labels_[0])
        True

    Source: Claici, Genevay, Solomon (2020), Algorithm 2 for `fit`, and Algorithm 1 with a running potential for
        `partial_fit`.
    """

    # Of a stream, once it has begun: the loss that follows it, the points before they are averaged, batches so far.
    _loss: CoresetLoss
    _iterate: Tensor
    _batches: int

    _parameter_constraints = {  # noqa: RUF012  (scikit-learn's own form)
        "n_points": [Interval(Integral, 1, None, closed="left")],
        "p": [Interval(Real, 1, None, closed="left")],
        "weights": [StrOptions({"free"}), tuple, None],
        "trim": [Interval(Real, 0, 1, closed="left")],
        "init": [StrOptions({"annealed", "random", "kmeans++"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, 1, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_points: int = 10,
        *,
        p: float = 2,
        weights: str | tuple[float, float] | None = None,
        trim: float = 0.0,
        init: Init = "annealed",
        max_iter: int = 300,
        tol: float = 1e-3,
        learning_rate: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.n_points = n_points
        self.p = p
        self.weights = weights
        self.trim = trim
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> WassersteinCoreset:
        """Find the points for the rows of X, from the start.

        Args:
            X: (rows, d) numbers.
            y: ignored, as pipelines pass it.
            sample_weight: (rows,) non-negative weights; equal if None. Only shares matter here; an interval for fresh
                rows, `certify(model.points_, as_source(X, sample_weight))`, also asks what a weight means.
        """
        self._validate_params()
        X, mass = self._rows(X, sample_weight, reset=True)
        result = build_coreset(
            X,
            int(self.n_points),
            float(self.p),
            weights=self.weights,
            trim=float(self.trim),
            init=self.init,
            sample_weights=mass,
            steps=int(self.max_iter),
            tolerance=float(self.tol),
            seed=self._seed(),
            progress=False,
        )
        plan = result.transport
        self.__dict__.pop("_loss", None)  # a stream that was followed before
        self._keep(result.coreset.points.detach(), plan.weights, plan.potential, float(self.p))
        self.labels_: NDArray[np.int64] = plan.assignment.numpy()
        self.value_, self.n_iter_ = plan.value, len(result.history)
        self.lower_: float | None = plan.lower
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> WassersteinCoreset:
        """Update the points by one batch of a stream, at a running potential from earlier batches.

        The first batch gives the starting points: its rows, spread by k-means++, after which it is used like any other.
        A call after `fit` continues from its points. Steps are unbiased for the stream
        (`CoresetLoss(online=True)`) and shrink like 1 / sqrt(batches); `points_` averages them. `learning_rate` may
        change from call to call; `n_points`, `p` and the columns of X may not, and the other parameters are of `fit`.

        Args:
            X: (rows, d) numbers, at least one row; 20 or more a batch do best.
            y: ignored.
            sample_weight: (rows,) weights of the rows of this batch; equal if None.

        Raises:
            ValueError: unusable rows; or `n_points` or `p` is not what the points belong to; `weights` or `trim`, which
                are of `fit`.
        """
        self._validate_params()
        for name, given in (("weights", self.weights is not None), ("trim", self.trim > 0)):
            if given:
                raise ValueError(
                    f"{name}: got {getattr(self, name)!r} in partial_fit, whose points weigh the same and stand for "
                    "all rows; expected it in fit only. Set it back, or collect the rows and fit them."
                )
        first = not hasattr(self, "points_")
        if not first:
            self._check_unchanged()
        X, mass = self._rows(X, sample_weight, reset=first)
        if first:
            start = start_points(as_source(X, mass), int(self.n_points), "kmeans++", float(self.p), self._generator())
            average = separated(start, self._generator())
        else:
            average = torch.from_numpy(self.points_)
        power = float(self.p)
        if hasattr(self, "_loss"):
            loss, iterate, batches = self._loss, self._iterate, self._batches + 1
            sizes = getattr(self, "_sizes", None) or CellSizes(power)  # estimators pickled before had none
        else:
            loss, sizes, iterate, batches = CoresetLoss(power, online=True), CellSizes(power), average, 1
        points = torch.nn.Parameter(iterate.to(X, copy=True))
        with torch.inference_mode(False), torch.enable_grad():
            value = loss(points, X, None, mass)
            value.backward()  # type: ignore[no-untyped-call]
        last = loss.last
        assert points.grad is not None
        assert isinstance(last, StreamTransport)
        # The gradient carries the weight 1 / n of its point; for p = 2 half of it is the way to the mean of the cell.
        step = points.grad.double() * len(points) * sizes.step_factors(last, mass)
        iterate = (points.detach().double() - float(self.learning_rate) / batches**0.5 * step).to(X.dtype)
        share = min(1.0, 3 / (batches + 2))  # the first batch replaces the start, later ones weigh less
        self._loss, self._sizes, self._iterate, self._batches = loss, sizes, iterate, batches
        self._keep(average.double().lerp(iterate.double(), share).to(X.dtype), last.weights, last.potential, power)
        self.value_, self.lower_, self.n_iter_ = float(value.detach()), None, batches
        self.labels_ = self._cells(X)
        return self

    def _check_unchanged(self) -> None:
        """Raise ValueError if a parameter that the points belong to has been set to something else."""
        for name, now, known in (("n_points", self.n_points, len(self.points_)), ("p", self.p, self._power)):
            if now != known:
                raise ValueError(
                    f"{name}: got {now} for points that were found with {name}={known:g}; expected the same in every "
                    f"partial_fit. Set it back with set_params({name}={known:g}), call fit to begin anew on a table, "
                    "or take sklearn.base.clone of this estimator to begin a new stream."
                )

    def predict(self, X: Any, sample_weight: Any = None) -> NDArray[np.int64]:
        """The Laguerre cell of each row, (rows,): the point i with the smallest |y - x_i|^p - potential_i.

        A row on the boundary of several cells gets one of them, the same for all rows that are equal. For rows that
        repeat this is common, and cells then hold other numbers of rows than `labels_`, where a plan shares them out.

        Args:
            X: (rows, d).
            sample_weight: ignored.
        """
        check_is_fitted(self, "points_")
        rows, _ = self._rows(X, None, reset=False)
        return self._cells(rows)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int64]:
        """`fit`, then `labels_`, (rows,)."""
        return self.fit(X, y, sample_weight).labels_

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances from rows to points, |y - x_i|, (rows, n_points), in the unit of the data."""
        check_is_fitted(self, "points_")
        rows, _ = self._rows(X, None, reset=False)
        x = torch.from_numpy(self.points_).to(rows)
        # From differences: a square that cancels, as that of rows far from the origin, has no digits of a distance.
        found: NDArray[Any] = torch.cat([DISTANCE.pairwise_exact(part, x) for part in rows.split(ROWS)]).numpy()  # type: ignore[no-untyped-call]
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """-W_p^p between the points and the rows of X: more is better, and 0 is best.

        Args:
            X: (rows, d).
            y: ignored.
            sample_weight: (rows,) weights; equal if None.
        """
        check_is_fitted(self, "points_")
        rows, mass = self._rows(X, sample_weight, reset=False)
        points, weights = torch.from_numpy(self.points_).to(rows), getattr(self, "weights_", None)
        return -transport(points, rows, self._power, weights, mass, trim=getattr(self, "trim", 0.0)).value

    def _rows(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Tensor, Tensor | None]:
        """Checked rows as a tensor that shares nothing that will be written to, and their weights."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, accept_sparse=False)
        if sample_weight is None:
            return torch.from_numpy(np.array(X)), None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return torch.from_numpy(np.array(X)), torch.from_numpy(np.array(weights))

    def _cells(self, rows: Tensor) -> NDArray[np.int64]:
        problem = make_problem(torch.from_numpy(self.points_).to(rows), rows, self._power)
        potential = torch.from_numpy(self.potential_)
        cells = make_engine(problem, "auto").hard(potential)
        # On a boundary, products of other blocks of rows would round to another cell; differences do not.
        near = (cells.margin <= TIED * problem.rounding).nonzero()[:, 0]
        costs = problem.cost.pairwise_exact(problem.y[near].double(), problem.x.double())
        cells.cell[near] = (costs - potential).argmin(1)
        found: NDArray[np.int64] = cells.cell.numpy()
        return found

    def _keep(self, points: Tensor, weights: Tensor, potential: Tensor, p: float) -> None:
        self.points_: NDArray[Any] = points.numpy().copy()
        self.weights_: Floats = weights.detach().double().numpy().copy()
        self.potential_: Floats = potential.detach().double().numpy().copy()
        self.p_ = p

    @property
    def _power(self) -> float:
        """That of the points; estimators pickled before it was kept have that of their parameters."""
        return float(getattr(self, "p_", self.p))

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed())

    @property
    def _n_features_out(self) -> int:
        """For `get_feature_names_out`."""
        return len(self.points_)

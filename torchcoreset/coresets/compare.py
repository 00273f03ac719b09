"""Coresets by different divergences from the same start with the same steps, compared by exact transport."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from ..losses import CoresetLoss, check_blur
from ..names import Backend, Divergence
from ..sources import as_source, make_generator, once
from ..tensors import check_count, check_finite, described
from ..transport import DISTANCE, as_table, data_scale, transport
from .algorithms import gradient
from .start import check_size, separated, start_points

RELATIVE_BLURS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
RATE = 0.1  # of the first step, in scales of the data
SAME = 0.01  # distance, in scales of the data, up to which two points are counted as one
DEFAULT_SAMPLES = 20_000  # drawn of a source that has no size


@dataclass(frozen=True, repr=False)
class Comparison:
    """A coreset by one divergence, and the exact distance that it ends with.

    Attributes:
        name: of the divergence, as a table would print it.
        divergence: "wasserstein", "sinkhorn", "energy".
        p: power of the distance.
        blur: length, of "sinkhorn", else None.
        debias: whether the terms of each set with itself are subtracted.
        value: the divergence itself between the coreset and the samples it was fitted to, all terms included.
        w1: exact W_1 between the coreset and the held-out samples.
        w2: exact W_2^2 between the same, not rooted.
        distinct: number of points left when those within a hundredth of the data's scale are counted once.
        seconds: of the descent.
        points: (n, d) the coreset.
    """

    name: str
    divergence: Divergence
    p: float
    blur: float | None
    debias: bool
    value: float
    w1: float
    w2: float
    distinct: int
    seconds: float
    points: Tensor

    def __repr__(self) -> str:
        distinct = f"distinct={self.distinct} of {len(self.points)}"
        return described(self, f"{self.name}: value={self.value:.4g}", distinct, w1=".4g", w2=".4g", seconds=".2g")


def compare_divergences(
    source: Any,
    size: int,
    *,
    p: float = 2,
    blurs: Sequence[float] | None = None,
    backend: Backend = "newton",
    held_out: Any = None,
    samples: int | None = None,
    steps: int = 300,
    seed: int | Generator = 0,
) -> list[Comparison]:
    """Fit a coreset by each divergence from one start, and measure all by the exact distance to held-out samples.

    The divergences: exact W_1 and W_2, the energy distance, and for every blur the Sinkhorn divergence and the entropic
    cost OT_eta, which is the same without its two debiasing terms. Each is minimised by Adam with a falling rate.

    Args:
        source: anything that `as_source` reads. Weighted rows are divided with their weights, and no row is in both
            halves.
        size: number of points n.
        p: power of the Sinkhorn divergences, 1 or 2.
        blurs: lengths; None takes 0.01 to 10 times the scale of the data, the median distance to their median.
        backend: of the Sinkhorn divergences, "newton" or "geomloss".
        held_out: samples (m, d) to judge by; None sets half of the source's samples aside for it.
        samples: most samples to take from the source; None takes all rows, or 20000 where there is no end of them.
        steps: of each descent.
        seed: int or generator, for the start and the division into halves.

    Returns:
        One `Comparison` for each divergence: W_1, W_2, energy, then Sinkhorn and OT_eta from small blurs to large.

    Raises:
        ValueError: unusable arguments or samples; fewer than two samples a point are left to fit.

    Example:
        >>> import torch, torchcoreset as tc
        >>> y = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
        >>> rows = tc.compare_divergences(y, 4, blurs=[0.1, 10.0], steps=100)
        >>> [row.name for row in rows][:5]
        ['W1', 'W2^2', 'energy', 'Sinkhorn, blur 0.1', 'OT_eta, blur 0.1']
        >>> rows[-1].distinct
        1

    Source: Claici, Genevay, Solomon (2020), section 4.2, whose observation this measures.
    """
    check_size(size)
    check_count(steps, "steps")
    generator = make_generator(seed)
    fitted, judge = _divide(source, size, held_out, samples, generator)
    scale = data_scale(fitted.y, fitted.a)
    start = separated(start_points(as_source(fitted.y, fitted.a), size, "random", p, generator), generator)
    blurs = [scale * relative for relative in RELATIVE_BLURS] if blurs is None else _checked(blurs)
    losses: list[tuple[str, dict[str, Any]]] = [
        ("W1", {"p": 1}),
        ("W2^2", {"p": 2}),
        ("energy", {"divergence": "energy"}),
    ]
    for blur in blurs:
        options = {"divergence": "sinkhorn", "p": p, "blur": blur, "backend": backend}
        losses += [(f"Sinkhorn, blur {blur:.3g}", options), (f"OT_eta, blur {blur:.3g}", {**options, "debias": False})]
    # All losses are made before the first is used: an unusable option is told at once.
    made = [(name, CoresetLoss(**options), options) for name, options in losses]
    with warnings.catch_warnings():  # a blur beyond the data is part of the question
        warnings.filterwarnings("ignore", message="sinkhorn_divergence: a blur", category=UserWarning)
        return [_compare(name, loss, options, start, fitted, judge, scale, steps) for name, loss, options in made]


def count_distinct(points: Tensor, within: float) -> int:
    """Number of groups of points (n, d) that hang together by distances of at most `within`."""
    near = DISTANCE.pairwise_exact(points.double(), points.double()) <= within
    label = torch.arange(len(points), device=points.device)
    while True:  # the lowest index of a group spreads along its links
        lowest = torch.where(near, label, len(points)).amin(1)
        if torch.equal(lowest, label):
            return len(set(label.tolist()))
        label = lowest


def _checked(blurs: Any) -> list[float]:
    """A list of lengths, or an error."""
    if not isinstance(blurs, Iterable) or isinstance(blurs, str):
        raise TypeError(f"blurs: got {blurs!r}; expected a list of lengths, such as [0.1, 1.0].")
    lengths = list(blurs)
    for blur in lengths:
        if blur is None:
            raise ValueError("blurs: got None among them; expected lengths.")
        check_blur(blur)
    return lengths


@dataclass(frozen=True)
class _Samples:
    """Samples and their weights."""

    y: Tensor  # (m, d)
    a: Tensor | None  # (m,), or None for equal weights

    def part(self, rows: slice) -> _Samples:
        return _Samples(self.y[rows], None if self.a is None else self.a[rows])


def _divide(
    source: Any, size: int, held_out: Any, samples: int | None, generator: Generator
) -> tuple[_Samples, _Samples]:
    """Samples to fit and samples to judge by."""
    read = as_source(source)
    if read.units is not None:
        raise ValueError(
            f"source: got a coreset whose distances are in {read.units.words}; expected those of the data, in which "
            "divergences are compared here. Pass as_source(coreset.points, coreset.weights)."
        )
    if read.joint is not None:
        raise ValueError(
            f"source: got rows with labels for distances by {read.metric!r}; expected features alone, by whose "
            "Euclidean distance divergences are compared here."
        )
    limit = DEFAULT_SAMPLES if samples is None and read.size is None else samples
    rows = _Samples(*once(read, limit, generator))
    if held_out is None:
        half = len(rows.y) // 2
        fitted, judge = rows.part(slice(half)), rows.part(slice(half, None))
    else:
        fitted, judge = rows, _Samples(as_table(held_out, "held_out").to(rows.y.device), None)
        check_finite(judge.y, "held_out")
        if judge.y.shape[1] != fitted.y.shape[1]:
            raise ValueError(
                f"held_out: got rows of dimension {judge.y.shape[1]} for samples of dimension {fitted.y.shape[1]}; "
                "expected the same."
            )
    if len(fitted.y) < 2 * size:
        raise ValueError(
            f"source: {len(fitted.y)} samples are left to fit {size} points; expected at least {2 * size}. Take fewer "
            "points, or pass held_out so that none are set aside."
        )
    return fitted, judge


def _compare(
    name: str,
    loss: CoresetLoss,
    options: dict[str, Any],
    start: Tensor,
    samples: _Samples,
    judge: _Samples,
    scale: float,
    steps: int,
) -> Comparison:
    """A descent by Adam with a rate that falls to zero, and how its last points are judged."""

    def setup(points: Parameter, _: float) -> gradient.Optimization:
        return gradient.decaying_adam(points, RATE * scale, steps)

    began, state = time.perf_counter(), gradient.init(start)
    for _ in range(steps):
        state, _ = gradient.step(state, loss, samples.y, None, samples.a, setup)
    points, seconds = state.parameter.detach(), time.perf_counter() - began
    with torch.no_grad():
        value = float(loss.eval()(points, samples.y, None, samples.a))
    w1, w2 = (transport(points, judge.y, q, sample_weights=judge.a).value for q in (1, 2))
    return Comparison(
        name=name,
        divergence=loss.divergence,
        p=loss.p,
        blur=options.get("blur"),
        debias=options.get("debias", True),
        value=value,
        w1=w1,
        w2=w2,
        distinct=count_distinct(points, SAME * scale),
        seconds=seconds,
        points=points,
    )

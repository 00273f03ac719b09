"""Diagnosis of a finished coreset: `doctor` reports on its quality in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..coresets import BuildResult
from ..deterministic import mass_by_cell
from ..guarantees import Certificate
from ..modes import solver_modes
from ..sources import Classes, Scaling, as_source, make_generator
from ..tensors import check_count
from ..transport import Cost, Problem, Status, as_table, make_problem, solve
from ..transport.costs import measured
from ..transport.passes import LaguerreCells, make_engine

LEVELS = ("fine", "note", "warning")
OFF = 0.1  # relative error of a cell's mass; beyond it a note says so
SCALES = 10.0  # ratio of the standard deviations of two columns; beyond it a warning
TAILS = 0.5  # part of the cost in a tenth of the cells; beyond it a warning
ROUNDING = 0.1  # part of the value that rounding one cost takes; beyond it a warning, beyond a hundredth of it a note
COINCIDE = 1e-6  # spreads of the points; two points that are nearer coincide


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes:
        topic: "status", "cell masses", "empty cells", "duplicates", "tails", "precision", "scales" or "certificate".
        level: "fine", "note" or "warning".
        message: what was found and, unless the level is "fine", what to do.
    """

    topic: str
    level: str
    message: str


@dataclass(frozen=True, repr=False)
class Report:
    """All checks; `print` it.

    Attributes:
        findings: one for each topic, in order.
    """

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether there is no warning."""
        return all(finding.level != "warning" for finding in self.findings)

    def __getitem__(self, topic: str) -> Finding:
        for finding in self.findings:
            if finding.topic == topic:
                return finding
        raise KeyError(topic)

    def __repr__(self) -> str:
        marks = dict(zip(LEVELS, ("ok  ", "note", "WARN"), strict=True))
        return "\n".join(f"{marks[f.level]}  {f.topic}: {f.message}" for f in self.findings)


def doctor(
    result: Any,
    source: Any,
    p: float | None = None,
    *,
    certificate: Certificate | None = None,
    samples: int = 20_000,
    seed: int | torch.Generator = 0,
) -> Report:
    """Diagnose a coreset: status, cell masses, empty cells, duplicates, tails, precision, scales.

    Solves one transport between the points and samples of the source, in the units and by the distance that the points
    were built for.

    Args:
        result: a `BuildResult`, or a `Coreset`; the first also has a status to report on.
        source: the data that it stands for, anything that `as_source` reads.
        p: power of the cost; None for that of the result, or 2.
        certificate: from `certify`, to be included in the report.
        samples: most samples to use.
        seed: int or generator; which samples.

    Returns:
        `Report`: a finding for each topic.

    Raises:
        TypeError: `result` is not a coreset.
        ValueError: the samples do not fit the points.

    Example:
        >>> import torch, torchcoreset as tc
        >>> data = torch.rand(2000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1000.0])
        >>> report = tc.doctor(tc.build_coreset(data, 10), data)
        >>> report.healthy, report["scales"].level
        (False, 'warning')
        >>> print(report["duplicates"])
        Finding(topic='duplicates', level='fine', message='all 10 points are apart')
    """
    check_count(samples, "samples")
    built = result if isinstance(result, BuildResult) else None
    power = p if p is not None else built.p if built is not None else 2
    points, weights = _read(result)
    if certificate is not None and not isinstance(certificate, Certificate):
        raise TypeError(f"certificate: got {type(certificate).__name__}; expected a Certificate, from tc.certify.")
    read, joint = as_source(source), getattr(getattr(result, "coreset", result), "joint", None)
    rows, mass = read.materialize(samples, make_generator(seed))
    if isinstance(read.joint, Classes) and isinstance(joint, Classes):
        rows = read.joint.into(joint)(rows)
    with solver_modes():
        cost, points, rows = _measured(result, power, points, rows.to(points.device))
        problem = make_problem(points, rows, cost, weights, mass)
        found = solve(problem, tolerance=1e-3, exact=False, start=None, max_steps=100)
        cells = make_engine(problem, "auto").hard(found.potential)
    findings = [] if built is None else [_status(built)]
    findings += [
        _masses(cells, problem),
        _empty(problem),
        _duplicates(problem),
        _tails(cells, problem),
        _precision(problem, found.value),
    ]
    if getattr(getattr(result, "coreset", result), "cost", None) is None:  # coordinates of a distance have one unit
        findings.append(_scales(problem.y))
    if certificate is not None:
        findings.append(_certificate(certificate))
    return Report(tuple(findings))


def _read(result: Any) -> tuple[Tensor, Any]:
    """Points and weights of a coreset, or of what a build has returned."""
    held = getattr(result, "coreset", result)
    points, weights = getattr(held, "points", None), getattr(held, "weights", None)
    if points is None:
        raise TypeError(
            f"result: got {type(result).__name__}; expected a BuildResult or a Coreset. "
            "Put bare points into one: tc.Coreset(points)."
        )
    return as_table(points, "result"), weights


def _measured(result: Any, p: float, points: Tensor, rows: Tensor) -> tuple[float | Cost, Tensor, Tensor]:
    """Cost, points and rows in the units, or the coordinates, of the distance that the points are for."""
    held = getattr(result, "coreset", result)
    scaling: Scaling | None = getattr(held, "scaling", None)
    if scaling is not None:
        points, rows = scaling.apply(points), scaling.apply(rows)
    return measured(getattr(held, "cost", None), p, points, rows)


def _status(built: BuildResult) -> Finding:
    if built.status is Status.CONVERGED:
        return Finding("status", "fine", f"the value had stopped falling after {len(built.history)} steps")
    text = f"stopped ({built.status.value}) after {len(built.history)} steps while the value may still fall"
    return Finding("status", "warning", f"{text}. {built.status.remedy}")


def _masses(cells: LaguerreCells, problem: Problem) -> Finding:
    used = problem.b > 0
    noise = (1 / (len(problem.y) * problem.b[used])).sqrt()  # relative, of a count
    off = (cells.mass[used] / problem.b[used] - 1).abs()
    worst = float(off.max())
    if worst <= OFF or bool((off <= 4 * noise).all()):
        return Finding("cell masses", "fine", f"cells hold the weights of their points to within {worst:.1%}")
    return Finding(
        "cell masses",
        "note",
        f"a cell holds {worst:.0%} more or less than the weight of its point before the excess is moved: many samples "
        "coincide, or are fewer than the points can share. Nothing to do if the data are discrete.",
    )


def _empty(problem: Problem) -> Finding:
    """Points that are nearest to no sample: their mass comes from elsewhere."""
    zero = torch.zeros_like(problem.b)
    nearest = make_engine(problem, "auto").hard(zero).mass
    unweighted = int((problem.b == 0).sum())
    empty = int(((nearest == 0) & (problem.b > 0)).sum())
    if not empty and not unweighted:
        return Finding("empty cells", "fine", "every point is the nearest one to some samples")
    parts = [f"{empty} points are the nearest to no sample"] if empty else []
    parts += [f"{unweighted} points have weight 0"] if unweighted else []
    level = "warning" if empty else "note"
    return Finding(
        "empty cells", level, f"{' and '.join(parts)} of {len(problem.b)}. Build with fewer points or another seed."
    )


def _duplicates(problem: Problem) -> Finding:
    n, x = len(problem.x), problem.x.double()
    spread = float(x.std(0).norm()) if n > 1 else 1.0
    grid = (x / max(COINCIDE * spread, 1e-300)).round()
    apart = len(torch.unique(grid, dim=0))
    if apart == n:
        return Finding("duplicates", "fine", f"all {n} points are apart")
    return Finding(
        "duplicates",
        "warning",
        f"{n - apart} of {n} points coincide with another. The data have few distinct values, or the run has not "
        "separated them: fewer points say the same.",
    )


def _tails(cells: LaguerreCells, problem: Problem) -> Finding:
    cost = mass_by_cell(cells.cell, problem.a * cells.cost, len(problem.b))
    count = -(-len(cost) // 10)
    total = float(cost.sum())
    share = float(cost.topk(count).values.sum()) / total if total > 0 else 0.0
    text = f"the costliest {count} of {len(cost)} cells make {share:.0%} of the cost"
    if share <= TAILS or len(cost) < 10:
        return Finding("tails", "fine", text)
    return Finding(
        "tails",
        "warning",
        f"{text}: the tails decide. More points of equal weight help slowly; clip or transform the tails, or use p=1.",
    )


def _precision(problem: Problem, value: float) -> Finding:
    name = str(problem.x.dtype).removeprefix("torch.")
    part = problem.rounding / value if value > 0 else 0.0
    if part <= ROUNDING * 1e-2:
        return Finding("precision", "fine", f"{name} rounds one cost by {part:.0e} of the value")
    level = "warning" if part > ROUNDING else "note"
    remedy = "Pass float64 samples, or centre and scale the columns." if name != "float64" else "Centre the columns."
    return Finding("precision", level, f"{name} rounds one cost by {part:.0e} of the value. {remedy}")


def _scales(y: Tensor) -> Finding:
    deviation = y.double().std(0, correction=0)
    widest = float(deviation.max())
    moving = deviation[deviation > 0]
    constant = len(deviation) - len(moving)
    ratio = widest / float(moving.min()) if len(moving) else 1.0
    if ratio > SCALES:
        column = int(deviation.argmax())
        return Finding(
            "scales",
            "warning",
            f"column {column} spreads {ratio:.3g} times as wide as the narrowest, so it decides the distance. "
            "Standardise the columns unless their units are the same.",
        )
    if constant:
        return Finding("scales", "note", f"{constant} of {len(deviation)} columns are constant and add nothing")
    return Finding("scales", "fine", f"the widest column spreads {ratio:.2g} times as wide as the narrowest")


def _certificate(found: Certificate) -> Finding:
    text = (
        f"with confidence {found.confidence:g} the population is between {found.lower:.4g} and {found.upper:.4g} away "
        f"(W_{found.p:g}), from {found.samples} samples; {found.asymptotic}"
    )
    if found.relative_width > 0.2:
        return Finding("certificate", "note", f"{text}. The interval is wide: take more samples.")
    return Finding("certificate", "fine", text)

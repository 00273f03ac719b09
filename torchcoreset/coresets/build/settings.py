"""What may be asked of a build: each argument in its range, and with the others that it goes with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Generator

from ...errors import warn_user
from ...losses import Divergence, DivergenceSettings, make_settings
from ...names import Algorithm
from ...tensors import check_callables, check_count, check_name, is_real, real_tensor
from ...transport import as_table, check_trim, is_choice
from ...transport.ranks import fingerprint
from ..algorithms import OptimizerFactory
from ..rows import RowChoice
from .space import Space

DEFAULT_STEPS: dict[Algorithm, int] = {"auto": 300, "fixed_point": 300, "sgd": 1000, "gradient": 300}


def renamed_keep(keep: Any, checkpoint: Callable[..., None] | None) -> tuple[Any, Callable[..., None] | None]:
    """The arguments `keep` and `checkpoint`: a callable is of the second, which had the name of the first before."""
    if not callable(keep):
        return keep, checkpoint
    if checkpoint is not None:
        raise ValueError("keep: got a callable beside checkpoint; expected row numbers. Pass one callable, checkpoint.")
    message = (
        "keep: got a callable; that argument is called checkpoint now, and keep takes row numbers. Write checkpoint=."
    )
    warn_user(DeprecationWarning(message))
    return None, keep


def other_divergence(
    divergence: Divergence, options: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[DivergenceSettings[Any] | None, float]:
    """The settings of a divergence that is no exact transport, None for those of that; and the power of the transport.

    `options` are those of divergences, `others` arguments that only "wasserstein" takes, but for their defaults.

    Raises:
        ValueError: an option that the divergence would ignore, or that does not go with it.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if divergence == "sinkhorn":
        given.setdefault("backend", "newton")
    settings = make_settings(divergence, given)
    power = getattr(settings, "p", 2) if options["p"] is None else options["p"]
    if not isinstance(settings, DivergenceSettings) or divergence == "wasserstein":
        return None, power
    if callable(options["kernel"]):
        raise ValueError(
            f"kernel: got {options['kernel']!r}; expected 'gaussian' or 'laplace', whose steps are known. For another "
            "kernel minimise CoresetLoss(divergence='mmd', kernel=...)."
        )
    if is_choice(others["weights"]):
        raise ValueError(
            f"weights: got {others['weights']!r} with divergence={divergence!r}; expected fixed ones. Only "
            "'wasserstein' chooses them."
        )
    usual = {"algorithm": "auto", "engine": "auto", "trim": 0, "rows": False, "group": None}
    for name, expected in usual.items():
        if others[name] != expected:
            raise ValueError(
                f"{name}: got {others[name]!r} with divergence={divergence!r}; expected {expected!r}. It is for "
                "'wasserstein' only: leave it out."
            )
    return settings, power


def check_group(algorithm: str, weights: Any, sample_weights: Any, trim: float, scale: Any, kept: bool) -> None:
    """Raise ValueError for what does not go with several ranks."""
    if trim or is_choice(weights):
        name, given = ("trim", trim) if trim else ("weights", weights)
        raise ValueError(
            f"{name}: got {given!r} with a group; expected fixed weights and trim=0. Leave one of them out."
        )
    if scale is not None:
        raise ValueError("scale: given with a group; expected samples that all ranks have scaled alike.")
    if kept:
        raise ValueError("checkpoint, resume: given with a group, of whose run no record is kept. Leave them out.")
    if algorithm == "sgd":
        raise ValueError(
            "group: given with algorithm='sgd', whose batches are drawn by one process; expected 'fixed_point' or "
            "'gradient'. For a stream on several ranks minimise CoresetLoss(online=True, group=...)."
        )
    if isinstance(sample_weights, (str, int)):
        raise ValueError(
            f"sample_weights: got the column {sample_weights!r} with a group; expected numbers, whose scale all ranks "
            "share. Read the column and pass it."
        )


def alike(init: Any, weights: Any, seed: int | Generator, generator: Generator) -> dict[str, Any]:
    """What ranks have to have in common of tensors and generators, as numbers."""
    return {
        "init": init if init is None or isinstance(init, str) else fingerprint(as_table(init, "init")),
        "weights": None if weights is None else fingerprint(real_tensor(weights, "weights")),
        "seed": seed if is_real(seed) else fingerprint(generator.get_state()),
    }


def row_choice(rows: bool, keep: Any, exclude: Any, algorithm: str, group: Any) -> RowChoice | None:
    """What is asked of rows, None for free points; ValueError for what does not go with them."""
    choice = RowChoice.of(rows, keep, exclude)
    if choice is not None and algorithm == "sgd":
        raise ValueError(
            "rows: given with algorithm='sgd', which holds no rows; expected 'fixed_point' or 'gradient'. Choose one."
        )
    if choice is not None and group is not None:
        raise ValueError("rows: given with a group, whose ranks hold other rows; expected the rows of one process.")
    return choice


def check_settings(
    algorithm: Algorithm,
    steps: int | None,
    tolerance: float,
    samples: int | None,
    batch_size: int | None,
    rate: float,
    optimizer: OptimizerFactory | None,
    trim: float,
) -> int:
    """Raise ValueError for settings that are wrong or that the algorithm would ignore; returns the number of steps."""
    check_name(algorithm, "algorithm", DEFAULT_STEPS)
    check_callables(optimizer=optimizer)
    for name, count in (("steps", steps), ("samples", samples), ("batch_size", batch_size)):
        if count is not None:
            check_count(count, name)
    if not is_real(tolerance) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance: got {tolerance!r}; expected a number in [0, 1), such as 1e-3.")
    if not is_real(rate) or not 0 < rate < math.inf:
        raise ValueError(f"rate: got {rate!r}; expected a positive number; 1 moves by about the size of a cell.")
    if check_trim(trim) and algorithm == "sgd":
        raise ValueError(
            f"trim: got {trim!r} with algorithm='sgd', whose batches do not tell which samples are farthest; "
            "expected 'fixed_point' or 'gradient'."
        )
    for name, given, needs in (
        ("optimizer", optimizer is not None, "gradient"),
        ("batch_size", batch_size is not None, "sgd"),
        ("rate", rate != 1.0, "sgd"),
    ):
        if given and algorithm != needs:
            raise ValueError(
                f"{name}: given with algorithm={algorithm!r}; expected it only with algorithm={needs!r}. "
                "Choose that algorithm or leave it out."
            )
    return DEFAULT_STEPS[algorithm] if steps is None else int(steps)


def check_space(space: Space, algorithm: Algorithm, rows: bool, other: Any, group: Any) -> Algorithm:
    """The algorithm, where "auto" may mean another one; ValueError for what does not go with this distance."""
    metric = space.metric
    if metric is None:
        return algorithm
    if group is not None:
        raise ValueError(
            f"cost: got {metric!r} with a group; expected the Euclidean distance. Build on one process, or minimise "
            "CoresetLoss(cost=..., group=...)."
        )
    if other is not None and not (metric.is_linear and metric.is_euclidean):
        raise ValueError(
            f"cost: got {metric!r} with another divergence; expected Scaled or Mahalanobis, among whose coordinates "
            "points move freely. Minimise CoresetLoss(divergence=..., cost=...) instead."
        )
    if rows:
        if algorithm in ("auto", "fixed_point"):
            return algorithm
        raise ValueError(
            f"algorithm: got {algorithm!r} with cost={metric!r} and rows=True; expected 'auto': rows are found near "
            "points that a fixed point has moved."
        )
    if metric.can_invert:
        if metric.is_linear or algorithm in ("auto", "fixed_point"):
            return algorithm
        raise ValueError(
            f"algorithm: got {algorithm!r} with cost={metric!r}; expected 'fixed_point', whose steps stay where rows "
            "are. For an optimizer of your own minimise CoresetLoss(cost=...)."
        )
    if algorithm in ("auto", "gradient"):
        return "gradient"
    raise ValueError(
        f"algorithm: got {algorithm!r} with cost={metric!r}; expected 'gradient': no step leads from its cells back to "
        "rows. Or take rows=True, for points that are rows."
    )

"""The options of the divergences: name, type and range of each, declared once; and the base class of all settings.

The settings class of a divergence lists the options that it takes, with their defaults; their types, declared here,
check the values. `CoresetLoss` and the function of the divergence take the same options, which a test compares. The
length of a blur that is relative to the data is computed here too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from ..errors import warn_user
from ..modes import outside_compile
from ..names import KernelName
from ..tensors import check_count, check_flag, check_name, is_real
from ..transport import Problem, check_power, check_tolerance, check_trim, data_scale, diameter
from ..transport.costs import as_metric
from ..transport.ranks import check_group
from .kernels import KernelFunction
from .memory import CachedSelfTerm

Check = Callable[[Any], object]  # raises ValueError for a value that cannot be used
LEAST_BLUR = 1e-100  # a length; squares and inverses of smaller ones, and of their inverses, are not finite


@dataclass(frozen=True)
class Between:
    """Checks that a number lies in an interval."""

    name: str  # name of the option
    low: float  # end of the interval
    high: float
    ends: str  # "()", "[)", "(]" or "[]": which of them are allowed
    expected: str  # the interval in words

    def __call__(self, value: Any) -> None:
        inside = is_real(value) and (
            self.low < value < self.high
            or (value == self.low and self.ends[0] == "[")
            or (value == self.high and self.ends[1] == "]")
        )
        if not inside:
            raise ValueError(f"{self.name}: got {value!r}; expected {self.expected}.")


def check_kernel(kernel: Any) -> None:
    """Raise ValueError unless this is the name of a kernel, or a function."""
    if not callable(kernel) and kernel not in get_args(KernelName):
        names = ", ".join(map(repr, get_args(KernelName)))
        raise ValueError(f"kernel: got {kernel!r}; expected {names} or a function of two tensors.")


def check_one_blur(blur: float | None, relative_blur: float | None) -> None:
    """Raise ValueError if both are given."""
    if blur is not None and relative_blur is not None:
        raise ValueError(
            f"blur: got {blur!r} with relative_blur={relative_blur!r}; expected one of them. "
            "Give a length as blur, or a fraction of the data's scale as relative_blur."
        )


LENGTHS = (LEAST_BLUR, 1 / LEAST_BLUR, "()", f"a positive, finite number, {LEAST_BLUR} to {1 / LEAST_BLUR}")
check_blur = Between("blur", *LENGTHS)

CostChoice = Annotated[Any, as_metric]
CostPower = Annotated[float, check_power]
EnergyPower = Annotated[float, Between("p", 1, 2, "[]", "a number in [1, 2]. The energy distance has p = 1")]
Tolerance = Annotated[float, check_tolerance]
Trim = Annotated[float, check_trim]
Exact = Annotated[bool, partial(check_flag, name="exact")]
MaxSteps = Annotated[int, partial(check_count, name="max_steps")]
Group = Annotated[Any, check_group]
Blur = Annotated[float, check_blur]
RelativeBlur = Annotated[float, Between("relative_blur", *LENGTHS)]
Scaling = Annotated[float, Between("scaling", 0, 1, "()", "a number in (0, 1), such as 0.9")]
KernelChoice = Annotated[KernelName | KernelFunction, check_kernel]
FORGETTING = (
    "a number in [0, 1): the minimum weight of a batch, such as 0.01 to average over about a hundred. With 0 all "
    "batches count until a drift of the stream is detected"
)
Forgetting = Annotated[float, Between("forgetting", 0, 1, "[)", FORGETTING)]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options, each a field, checked by its type; None is allowed only where it is the default."""

    @outside_compile
    def __post_init__(self) -> None:
        for name, default, checks in _declared(type(self)):  # type: ignore[arg-type] # classes are hashable
            value = getattr(self, name)
            if value is not None or default is not None:
                for check in checks:
                    check(value)


@cache
def _declared(options: type[Any]) -> list[tuple[str, Any, list[Check]]]:
    """Name, default and checks of each option."""
    hints = get_type_hints(options, include_extras=True)
    return [(field.name, field.default, list(_checks(field.name, hints[field.name]))) for field in fields(options)]


def _checks(name: str, hint: Any) -> list[Check]:
    """The checks of a type: those in its annotation, and for a `Literal` that the name is a known one."""
    if get_origin(hint) is Annotated:
        return list(hint.__metadata__)
    if get_origin(hint) is Literal:
        return [partial(check_name, option=name, known=get_args(hint))]
    return [check for part in get_args(hint) for check in _checks(name, part)]  # of a type or None


def blur_length(problem: Problem, blur: float | None, relative_blur: float) -> float:
    """The blur as a length: `blur` if given, else a fraction of the samples' scale."""
    return float(blur) if blur is not None else relative_blur * data_scale(problem.y, problem.a)


def with_blur(settings: Settings, relative: float, samples: Tensor, sample_weights: Tensor | None) -> Settings:
    """The settings with the blur as a length: a fraction of the scale of these samples."""
    blur = relative * data_scale(samples, sample_weights)
    return replace(settings, blur=blur, relative_blur=None)  # type: ignore[call-arg] # of those that have one


def coincide(problem: Problem) -> bool:
    """Whether all samples coincide up to rounding: then only means can be compared."""
    used = problem.a > 0
    one = problem.y[used.to(torch.uint8).argmax()]
    apart = torch.cdist(problem.y, one[None], p=math.inf)[:, 0].where(used, 0.0)
    return float(apart.max()) <= 4 * torch.finfo(problem.y.dtype).eps * problem.largest


def extent(problem: Problem) -> float:
    """Diameter of points and samples; 0 if all samples coincide, in which case no blur is too large."""
    return 0.0 if coincide(problem) else diameter(problem)


def warn_if_beyond(blur: float, diameter: float, name: str) -> None:
    """Warn if the blur exceeds the diameter of the data, so that the divergence compares little more than means.

    A diameter of 0 means that all samples coincide; then there is no warning.
    """
    if 0 < diameter < blur:
        message = (
            f"{name}: a blur of {blur:.3g} exceeds the diameter of the data, {diameter:.3g}: little more than means is "
            "compared. Give blur in the unit of the data, or relative_blur as a fraction of their scale."
        )
        warn_user(UserWarning(message))


Measures = tuple[Any, Any, Any, Any]  # points, samples, weights of the points, weights of the samples
Result = TypeVar("Result")
Settings = TypeVar("Settings", bound="DivergenceSettings[Any]")


class DivergenceSettings(Options, ABC, Generic[Result]):
    """How a divergence is computed."""

    @abstractmethod
    def evaluate(
        self, measures: Measures, start: Tensor | None = None, memory: CachedSelfTerm | None = None
    ) -> tuple[Tensor, Result]:
        """The value with its gradients, and the result, whatever its status.

        Divergences with a solver start from `start` (n,); `memory` caches the term of the samples with themselves.
        """

    def curvature(self, measures: Measures, result: Result) -> Tensor:
        """(n,) second derivative in a point for a mass of 1, or an upper bound: the gradient divided by it is a step.

        `result` is that of `evaluate` at the same points.

        Raises:
            NotImplementedError: for the exact distance, whose builds move points by plans and do not need it.
        """
        raise NotImplementedError(f"{type(self).__name__} has none; expected those of another divergence.")

    def resolved(self: Settings, samples: Tensor, sample_weights: Tensor | None) -> Settings:
        """The settings with lengths instead of values relative to the scale of these samples."""
        return self

    def report(self, result: Result) -> None:
        """Warn or raise if the result did not reach the requested accuracy."""

    @outside_compile
    def value(self, measures: Measures, start: Tensor | None = None) -> Tensor:
        """The value with its gradients, after the result was checked by `report`."""
        value, result = self.evaluate(measures, start)
        self.report(result)
        return value

"""The loss as a module: a functional loss that remembers its potential from one call to the next."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..transport.result import Transport
from .discrepancy import Discrepancy, EnergySettings, MMDSettings
from .kernels import KernelFunction
from .memory import Remembered
from .sinkhorn import SinkhornSettings
from .uncompiled import uncompiled
from .wasserstein import WassersteinSettings

Settings = WassersteinSettings | SinkhornSettings | EnergySettings | MMDSettings

# What a coreset can minimise. The fields of the settings are the options that each of them takes.
DIVERGENCES: dict[str, type[Settings]] = {
    "wasserstein": WassersteinSettings,
    "sinkhorn": SinkhornSettings,
    "energy": EnergySettings,
    "mmd": MMDSettings,
}


class CoresetLoss(nn.Module):
    """A divergence between points and the samples of each call, for training loops.

    The same value as `wasserstein`, `sinkhorn_divergence`, `energy_distance` or `mmd`, all on the scale of W_p^p, and
    faster in a loop: each solve starts from the potential of the last one, which is kept in the buffer `potential`
    while training, and the term of the samples with themselves, which no point changes, is computed again only for
    other samples. In eval mode calls leave no trace in the state, and two equal calls give equal values.

    Every call compares with the samples it is given. On minibatches that is the distance to the minibatch, which
    is larger than the distance to the distribution and pulls the points inwards: 7 % excess W_2^2 at 2 samples a
    point, 0.01 % at 50. Use batches of at least 20 samples a point.

    In training code: autocast around it changes nothing inside; `torch.compile` leaves its graph for the solver;
    `torch.func.grad` works, in eval mode without a trace, while vmap, forward mode and second derivatives are refused;
    under DistributedDataParallel, put the points in the module that is wrapped: gradients are averaged over the ranks,
    each of which keeps a potential of its own. A checkpoint of points, `state_dict`, optimizer and the generator of the
    batches goes on bit for bit.

    Args:
        p: power of the Euclidean distance, p >= 1; 2 gives means of cells, 1 is robust to outliers. None for 2, and for
            1 with "energy". "mmd" has none.
        divergence: "wasserstein", "sinkhorn", "energy" or "mmd".
        tolerance: relative gap of each exact solve, in (0, 1), 1e-3 if None; or the marginal error that
            `sinkhorn_divergence` allows.
        exact: solve each "wasserstein" call in float64 to a gap of 1e-9.
        max_steps: bound on the passes over the samples in one call, 100 if None.
        engine: what reduces over the samples, "auto" if None; as in `transport` and `sinkhorn_divergence`.
        blur, relative_blur: for "sinkhorn" and "mmd": a length, or a fraction of the data's scale.
        debias, backend, scaling: for "sinkhorn", as in `sinkhorn_divergence`.
        kernel: for "mmd", as in `mmd`.
        constant: for all but "wasserstein": include the term of the samples with themselves.

    Attributes:
        divergence: its name.
        settings: all options of the divergence, with their defaults; each of them is an attribute as well.
        potential: (n,) float64 buffer, empty before the first call in training mode, and always for "energy" and "mmd".
        last: of the last call, a `Transport`, `SinkhornResult` or `Discrepancy`; None before it. Not part of the state,
            of copies or of pickles.

    Raises:
        ValueError: unusable settings or inputs, or an option that the divergence would ignore; points, potential and
            optimizer are as before the call.

    Gradient: see the function of the divergence.

    Example:
        >>> import torch, torchcoreset as tc
        >>> y = torch.tensor([0.0, 1.0, 2.0, 3.0])
        >>> x = torch.nn.Parameter(torch.tensor([0.0, 10.0]))
        >>> loss, optimizer = tc.CoresetLoss(p=2), torch.optim.SGD([x], lr=0.5)
        >>> for _ in range(20):
        ...     optimizer.zero_grad()
        ...     loss(x, y).backward()
        ...     optimizer.step()
        >>> x.tolist(), loss.last.status.value
        ([0.5, 2.5], 'converged')
    """

    potential: Tensor

    def __init__(
        self,
        p: float | None = None,
        *,
        divergence: str = "wasserstein",
        tolerance: float | None = None,
        exact: bool | None = None,
        max_steps: int | None = None,
        engine: str | None = None,
        blur: float | None = None,
        relative_blur: float | None = None,
        debias: bool | None = None,
        constant: bool | None = None,
        backend: str | None = None,
        scaling: float | None = None,
        kernel: str | KernelFunction | None = None,
    ) -> None:
        super().__init__()
        options = {
            "p": p, "tolerance": tolerance, "exact": exact, "max_steps": max_steps, "engine": engine, "blur": blur,
            "relative_blur": relative_blur, "debias": debias, "constant": constant, "backend": backend,
            "scaling": scaling, "kernel": kernel,
        }  # fmt: skip
        self.divergence = divergence
        self.settings = make_settings(divergence, {name: value for name, value in options.items() if value is not None})
        self.last: Transport | Any = None
        self._memory = Remembered()
        self.register_buffer("potential", torch.empty(0, dtype=torch.float64))

    @uncompiled
    def forward(
        self,
        points: Tensor,
        samples: Tensor,
        point_weights: Tensor | None = None,
        sample_weights: Tensor | None = None,
    ) -> Tensor:
        """The divergence between points (n, d) and samples (m, d); all else as in its function."""
        known = len(self.potential) == len(points) and bool(torch.isfinite(self.potential).all())
        value, result = self.settings.evaluate(
            points, samples, point_weights, sample_weights,
            start=self.potential if known else None, memory=self._memory,
        )  # fmt: skip
        self.last = result
        self.settings.report(result)  # type: ignore[arg-type] # the result is its own
        if self.training and not isinstance(result, Discrepancy):
            self.potential = result.potential
        return value

    def extra_repr(self) -> str:
        """Settings, and how the last call ended."""
        shown = [] if self.divergence == "wasserstein" else [f"divergence={self.divergence!r}"]
        for field in fields(self.settings):
            value = getattr(self.settings, field.name)
            if value is not None:
                shown.append(f"{field.name}={value!r}")
        return ", ".join(shown if self.last is None else [*shown, f"last={self.last!r}"])

    def __getattr__(self, name: str) -> Any:
        """Settings read like attributes: `loss.p`, `loss.tolerance`."""
        return getattr(self.settings, name) if self._is_setting(name) else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Settings are changed like attributes too, and checked again."""
        if self._is_setting(name):
            name, value = "settings", replace(self.settings, **{name: value})
        super().__setattr__(name, value)

    def _is_setting(self, name: str) -> bool:
        settings = self.__dict__.get("settings")
        return settings is not None and name in {field.name for field in fields(settings)}

    def __getstate__(self) -> dict[str, Any]:
        """The module without its last result and its memory, which know tensors as large as the samples.

        The potential is its own: a shallow copy, which shares parameters, would write to it.
        """
        return {**self.__dict__, "_buffers": dict(self._buffers), "last": None, "_memory": Remembered()}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Take a potential of any length: it is not known before the first call how many points there are."""
        saved = state_dict.get(prefix + "potential")
        if isinstance(saved, Tensor) and saved.dim() == 1:
            self.potential = self.potential.new_empty(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def make_settings(divergence: str, options: dict[str, Any]) -> Settings:
    """The settings of a divergence.

    Raises:
        ValueError: no divergence has this name, it would ignore an option, or an option is unusable.
    """
    if divergence not in DIVERGENCES:
        raise ValueError(f"divergence: got {divergence!r}; expected one of {', '.join(map(repr, DIVERGENCES))}.")
    chosen = DIVERGENCES[divergence]
    for name in options:
        if name not in {field.name for field in fields(chosen)}:
            takers = [other for other, settings in DIVERGENCES.items() if name in {f.name for f in fields(settings)}]
            raise ValueError(
                f"{name}: given with divergence={divergence!r}, which has no use for it; expected it only with "
                f"{' or '.join(map(repr, takers))}. Leave it out."
            )
    return chosen(**options)

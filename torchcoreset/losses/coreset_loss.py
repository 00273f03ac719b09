"""The loss as a module: a functional loss that remembers its potential from one call to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..transport.result import Transport
from ..transport.stream import MEMORY_DIMENSIONS, Memory
from .discrepancy import Discrepancy, EnergySettings, MMDSettings
from .kernels import KernelFunction
from .memory import Remembered
from .online import Held, OnlineSettings, report, stream_value
from .sinkhorn import SinkhornSettings
from .uncompiled import uncompiled
from .wasserstein import WassersteinSettings

Settings = WassersteinSettings | SinkhornSettings | EnergySettings | MMDSettings | OnlineSettings

# What a coreset can minimise. The fields of the settings are the options that each of them takes.
DIVERGENCES: dict[str, type[WassersteinSettings | SinkhornSettings | EnergySettings | MMDSettings]] = {
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

    Every call compares with the samples it is given. On minibatches that is the distance to the minibatch, which is on
    average larger than the distance to the distribution and pulls the points inwards: 7 % excess W_2^2 at 2 samples a
    point, 0.01 % at 50. Use batches of at least 20 samples a point, or `online=True`.

    With `online=True` the samples of each call are a batch of a stream, of any size. The value is the semi-dual of the
    batch at a running potential that the batches before it have shaped: an unbiased estimate of a lower bound of W_p^p
    between points and stream, which becomes W_p^p itself as the potential converges; its gradients are exact. Each call
    in training mode then counts as a new batch, whose part in the potential is as large as its number of samples
    (by Kish's rule if they are weighted). The first batch, and the first with another number of points, is measured at
    its own potential. Points may move in any way, by any optimizer: the potential moves with them. Samples of a batch
    should be independent, and batches in random order. n x n numbers are remembered, whatever the length of the stream.

    In training code: autocast around it changes nothing inside; `torch.compile` leaves its graph for the solver;
    `torch.func.grad` works, in eval mode without a trace, while vmap, forward mode and second derivatives are refused;
    under DistributedDataParallel, put the points in the module that is wrapped: gradients are averaged over the ranks,
    each of which keeps a potential of its own unless `group` joins them. A checkpoint of points, `state_dict`,
    optimizer and the generator of the batches goes on bit for bit.

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
        online: samples are batches of a stream; for "wasserstein", and without its tolerance, exact and max_steps.
        forgetting: for online=True, in [0, 1): least weight of a batch in what is remembered. 0, the default, remembers
            all batches until the stream is seen to move; 0.01 no more than about a hundred, for a stream that never
            stands still, at the price of a potential that keeps the noise of a hundred batches.

        group: for "wasserstein": None compares with the samples of this process, whether or not torch.distributed is in
            use, for to run one loss a rank is common. With "world" or a `torch.distributed.ProcessGroup` the samples of
            all its ranks are one set, or online one batch: every rank calls with equal points and its own samples, as
            many as it has, and gets the value of the union, what belongs to its own samples (`transform`, `plan`,
            gradient in samples), and the gradient of the union in the points. That is the same on every rank, so it
            needs no reduction, and averaging by DistributedDataParallel does not harm it. A generator of samples that
            is wrapped needs the sum over the ranks where DDP takes the mean: call backward on size * value. An error on
            one rank is an error on all; one that does not call is noticed after the timeout of the group.

    Attributes:
        divergence: its name.
        settings: all options of the divergence, with their defaults; each of them is an attribute as well.
        potential: (n,) float64 buffer, empty before the first call in training mode, and always for "energy" and "mmd";
            online, of the points that have weight. Buffers stay float64 when the module is moved to another type.
        online: whether a stream is followed; its state is in more buffers.
        last: of the last call, a `Transport`, `SinkhornResult` or `Discrepancy`, or online a `StreamTransport`; None
            before it. Not part of the state, of copies or of pickles.

    Raises:
        ValueError: unusable settings or inputs, or an option that the divergence would ignore; points, potential and
            optimizer are as before the call.

    Warns:
        ConvergenceWarning: the tolerance was not reached.
        DriftWarning: online, the distribution of the stream has moved; once for each time that it does.

    Gradient: see the function of the divergence. Online, in points, samples and both weights, that of the value at the
    running potential v: sum_k a_k grad c(y_k, x_i) over cell i, v_i, and the c-transform.

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

        A stream, in batches of 20 normal numbers:

        >>> generator = torch.Generator().manual_seed(0)
        >>> x = torch.nn.Parameter(torch.tensor([-2.0, 0.0, 1.0]))
        >>> loss, optimizer = tc.CoresetLoss(p=2, online=True), torch.optim.SGD([x], lr=0.05)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     loss(x, torch.randn(20, generator=generator)).backward()
        ...     optimizer.step()
        >>> loss.last.status.value, abs(loss.last.estimate - 0.207) < 4 * loss.last.standard_error
        ('tracking', True)

    Source of the running potential: Bercu, Bigot, Gadat, Siviero (2023), "A stochastic Gauss-Newton algorithm for
    regularized semi-discrete optimal transport", Information and Inference 12 (1); here with hard cells, the averaged
    Hessian in place of averaged squares of gradients, and a potential that moves with the points.
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
        online: bool = False,
        forgetting: float | None = None,
        group: Any = None,
    ) -> None:
        super().__init__()
        options = {
            "p": p, "tolerance": tolerance, "exact": exact, "max_steps": max_steps, "engine": engine, "blur": blur,
            "relative_blur": relative_blur, "debias": debias, "constant": constant, "backend": backend,
            "scaling": scaling, "kernel": kernel, "forgetting": forgetting,
            "group": group,
        }  # fmt: skip
        self.divergence = divergence
        self.online = online
        given = {name: value for name, value in options.items() if value is not None}
        self.settings = make_settings(divergence, given, online=online)
        self.last: Transport | Any = None
        self._memory = Remembered()
        self._held: Held | None = None
        for name, dimensions in self._buffer_dimensions().items():
            self.register_buffer(name, torch.empty((0,) * dimensions, dtype=torch.float64))

    @uncompiled
    def forward(
        self,
        points: Tensor,
        samples: Tensor,
        point_weights: Tensor | None = None,
        sample_weights: Tensor | None = None,
    ) -> Tensor:
        """The divergence between points (n, d) and samples (m, d); all else as in its function."""
        if isinstance(self.settings, OnlineSettings):
            return self._follow(self.settings, points, samples, point_weights, sample_weights)
        length = len(points) if hasattr(points, "__len__") else None  # what has none is refused below
        known = len(self.potential) == length and bool(torch.isfinite(self.potential).all())
        value, result = self.settings.evaluate(
            points, samples, point_weights, sample_weights,
            start=self.potential if known else None, memory=self._memory,
        )  # fmt: skip
        self.last = result
        self.settings.report(result)  # type: ignore[arg-type] # the result is its own
        if self.training and not isinstance(result, Discrepancy):
            self.potential = result.potential
        return value

    def _follow(self, settings: OnlineSettings, *inputs: Any) -> Tensor:
        """The value of a batch of a stream, which is remembered in training mode."""
        value, found = stream_value(settings, self._memory_of_stream(), *inputs)
        self.last = found.transport
        if self.training:
            self._held = Held(found.memory)
            self._buffers.update(self._held.tensors)  # 13 calls of setattr would take longer than the batch
            report(found)
        return value

    def _memory_of_stream(self) -> Memory | None:
        """What the buffers hold, read again if others have written there."""
        if self._held is None or not self._held.is_in(self._buffers):
            tensors = {name: getattr(self, name) for name in MEMORY_DIMENSIONS}
            self._held = Held(Memory.from_tensors(tensors)) if self.potential.numel() else None
        return None if self._held is None else self._held.memory

    def _buffer_dimensions(self) -> dict[str, int]:
        return MEMORY_DIMENSIONS if self.online else {"potential": 1}

    def extra_repr(self) -> str:
        """Settings, and how the last call ended."""
        shown = [] if self.divergence == "wasserstein" else [f"divergence={self.divergence!r}"]
        shown += ["online=True"] if self.online else []
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
        return settings is not None and name in settings.__dataclass_fields__

    def __getstate__(self) -> dict[str, Any]:
        """The module without its last result and its memory, which know tensors as large as the samples.

        The potential is its own: a shallow copy, which shares parameters, would write to it.
        """
        return {
            **self.__dict__,
            "_buffers": dict(self._buffers),
            "last": None,
            "_memory": Remembered(),
            "_held": None,
        }

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Take buffers of any length: it is not known before the first call how many points there are."""
        for name, dimensions in self._buffer_dimensions().items():
            saved = state_dict.get(prefix + name)
            if isinstance(saved, Tensor) and saved.dim() == dimensions:
                setattr(self, name, getattr(self, name).new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CoresetLoss:
        """Buffers follow the module to a device, and keep their float64."""
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in before.items():
            now = self._buffers[name]
            if tensor is not None and now is not None and now.dtype != tensor.dtype:
                self._buffers[name] = tensor.to(now.device)
        return self


def make_settings(divergence: str, options: dict[str, Any], *, online: bool = False) -> Settings:
    """The settings of a divergence, or of a stream.

    Raises:
        ValueError: no divergence has this name, it would ignore an option, or an option is unusable.
    """
    if divergence not in DIVERGENCES:
        raise ValueError(f"divergence: got {divergence!r}; expected one of {', '.join(map(repr, DIVERGENCES))}.")
    if not isinstance(online, bool):
        raise ValueError(f"online: got {online!r}; expected True or False.")
    if online or "forgetting" in options:
        return _online_settings(divergence, options, online)
    chosen = DIVERGENCES[divergence]
    for name in options:
        if name not in {field.name for field in fields(chosen)}:
            takers = [other for other, settings in DIVERGENCES.items() if name in {f.name for f in fields(settings)}]
            raise ValueError(
                f"{name}: given with divergence={divergence!r}, which has no use for it; expected it only with "
                f"{' or '.join(map(repr, takers))}. Leave it out."
            )
    return chosen(**options)


def _online_settings(divergence: str, options: dict[str, Any], online: bool) -> OnlineSettings:
    if not online:
        raise ValueError(
            "forgetting: given with online=False, which has no use for it. Set online=True or leave it out."
        )
    if divergence != "wasserstein":
        raise ValueError(
            f"online: got True with divergence={divergence!r}; expected it only with 'wasserstein', whose dual can "
            "be followed over batches. Leave one of them out."
        )
    for name in options:
        if name not in {field.name for field in fields(OnlineSettings)}:
            raise ValueError(
                f"{name}: given with online=True, which has no use for it: no batch is solved. Leave it out."
            )
    return OnlineSettings(**options)

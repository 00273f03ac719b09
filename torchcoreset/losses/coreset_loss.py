"""The loss as a module: a functional loss that remembers its potential from one call to the next.

What it remembers are tensors of its own, saved and loaded with the state, and no buffers: their sizes may change with
the points, and each process learns its own, while torch averages buffers (`AveragedModel`) and broadcasts them
(DistributedDataParallel).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from ..modes import outside_compile, solver_modes
from ..names import Backend, Divergence, KernelName
from ..tensors import check_name
from ..transport import Transport, TransportBatch
from ..transport.batched import BATCH, PAIR, shape_of
from ..transport.passes import EngineName
from ..transport.stream import MEMORY_DIMENSIONS, Memory, StreamTransport
from .discrepancy import Discrepancy, EnergySettings, MMDSettings
from .kernels import KernelFunction
from .memory import CachedSelfTerm
from .online import MemoryBuffers, OnlineSettings, report, stream_value
from .options import DivergenceSettings
from .sinkhorn import SinkhornResult, SinkhornSettings
from .wasserstein import WassersteinSettings

LossResult = Transport | SinkhornResult | Discrepancy | StreamTransport

# What a coreset can minimise. The fields of the settings are the options that each of them takes.
DIVERGENCES: dict[Divergence, type[DivergenceSettings[Any]]] = {
    "wasserstein": WassersteinSettings,
    "sinkhorn": SinkhornSettings,
    "energy": EnergySettings,
    "mmd": MMDSettings,
}


class CoresetLoss(nn.Module):
    """A divergence between points and the samples of each call, for training loops.

    The same value as `wasserstein`, `sinkhorn_divergence`, `energy_distance` or `mmd`, all on the scale of W_p^p, and
    faster in a loop: each solve starts from the potential of the last one, which is kept in `potential` while
    training, and the term of the samples with themselves, which no point changes, is computed again only for
    other samples. In eval mode calls leave no trace in the state, and two equal calls give equal values.

    With "wasserstein" a call also takes a batch of B pairs, points (B, n, d) and samples (B, m, d), of which one may be
    a single cloud that all pairs share. The values (B,) are one for each pair, reduced as your training needs it
    (`.mean()`), and so are the potentials that the next call starts from: keep pairs in their order.

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
        trim: for "wasserstein": share of the mass of the samples that stays unmatched, 0 if None; as in `wasserstein`.
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
        cost: the distance of which p is the power, one of `tc.costs`; None for the Euclidean one. `GreatCircle` and
            functions go with "wasserstein" only, without `online` and `group`. A network of `Embedded` is used as it
            is, learns if its parameters ask for gradients, and is no part of this module.

    Attributes:
        divergence: its name.
        settings: all options of the divergence, with their defaults; each of them is an attribute as well.
        potential: (n,) float64, (B, n) after a batch of pairs; empty before the first call in training mode, and always
            for "energy" and "mmd"; online, of the points that have weight. It is in the `state_dict`, follows the
            module to a device and stays float64 when that is moved to another type, but is no buffer: nobody averages
            or broadcasts it.
        online: whether a stream is followed; its state is in more such tensors.
        last: of the last call, a `Transport`, `SinkhornResult` or `Discrepancy`, a `TransportBatch` of a batch of
            pairs, or online a `StreamTransport`; None before it. Not part of the state, of copies or of pickles.

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
        divergence: Divergence = "wasserstein",
        trim: float | None = None,
        tolerance: float | None = None,
        exact: bool | None = None,
        max_steps: int | None = None,
        engine: EngineName | None = None,
        blur: float | None = None,
        relative_blur: float | None = None,
        debias: bool | None = None,
        constant: bool | None = None,
        backend: Backend | None = None,
        scaling: float | None = None,
        kernel: KernelName | KernelFunction | None = None,
        online: bool = False,
        forgetting: float | None = None,
        group: Any = None,
        cost: Any = None,
    ) -> None:
        super().__init__()
        options = {
            "p": p, "trim": trim, "tolerance": tolerance, "exact": exact, "max_steps": max_steps, "engine": engine,
            "blur": blur, "relative_blur": relative_blur, "debias": debias, "constant": constant, "backend": backend,
            "scaling": scaling, "kernel": kernel, "forgetting": forgetting, "group": group,
            "cost": cost,
        }  # fmt: skip
        self.divergence = divergence
        self.online = online
        given = {name: value for name, value in options.items() if value is not None}
        self.settings = make_settings(divergence, given, online=online)
        self.last: LossResult | TransportBatch | None = None
        self._memory = CachedSelfTerm()
        self._stream: MemoryBuffers | None = None
        for name, dimensions in self._state_dimensions().items():
            setattr(self, name, _nothing(dimensions))

    @outside_compile
    def forward(
        self,
        points: Tensor,
        samples: Tensor,
        point_weights: Tensor | Literal["free"] | tuple[float, float] | None = None,
        sample_weights: Tensor | None = None,
    ) -> Tensor:
        """The divergence between points (n, d) and samples (m, d), or of a batch; all else as in its function."""
        if isinstance(self.settings, OnlineSettings):
            return self._follow(self.settings, points, samples, point_weights, sample_weights)
        known = self.potential.shape == _shape_of_potential(points, samples) and bool(
            torch.isfinite(self.potential).all()
        )
        value, result = self.settings.evaluate(
            (points, samples, point_weights, sample_weights), self.potential if known else None, self._memory
        )
        self.last = result
        self.settings.report(result)
        if self.training and not isinstance(result, Discrepancy):
            with solver_modes():
                self.potential = result.potential.clone(memory_format=torch.contiguous_format)  # `last` keeps its own
        return value

    if TYPE_CHECKING:  # that of nn.Module takes and returns anything
        __call__ = forward

    def _follow(self, settings: OnlineSettings, points: Any, *inputs: Any) -> Tensor:
        """The value of a batch of a stream, which is remembered in training mode."""
        value, found = stream_value(settings, self._memory_of_stream(points), points, *inputs)
        self.last = found.transport
        if self.training:
            self._stream = MemoryBuffers(found.memory)
            self.__dict__.update(self._stream.tensors)  # 13 calls of setattr would take longer than the batch
            report(found)
        return value

    def _memory_of_stream(self, points: Any) -> Memory | None:
        """What is remembered, where the points are, and read again if others have written there."""
        if not self.potential.numel():
            return None
        device = points.device if isinstance(points, Tensor) else self.potential.device
        if self._stream is None or self.potential.device != device or not self._stream.is_in(self.__dict__):
            with solver_modes():
                tensors = {name: _usable(self.__dict__[name], device) for name in MEMORY_DIMENSIONS}
            self.__dict__.update(tensors)
            self._stream = MemoryBuffers(Memory.from_tensors(tensors))
        return self._stream.memory

    def _state_dimensions(self) -> dict[str, int]:
        """Number of dimensions of each tensor that is remembered, by name."""
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
        """The module without its last result and its memory, which know tensors as large as the samples."""
        return {**self.__dict__, "last": None, "_memory": CachedSelfTerm(), "_stream": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Modules that were pickled when their memory was in buffers, or had other names, are read too."""
        super().__setstate__({"_stream": None, **state})  # type: ignore[no-untyped-call]
        for name in self._state_dimensions():
            if name in self._buffers:
                self.__dict__[name] = self._buffers.pop(name)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self._state_dimensions():
            tensor = getattr(self, name)
            destination[prefix + name] = tensor if keep_vars else tensor.detach()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take tensors of any length: it is not known before the first call how many points there are."""
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        keys = {prefix + name: name for name in self._state_dimensions()}
        unexpected_keys[:] = [key for key in unexpected_keys if key not in keys]
        if strict:
            missing_keys += [key for key in keys if key not in state_dict]
        assign = local_metadata.get("assign_to_params_buffers", False)
        loaded = {}
        for key, name in keys.items():
            if key in state_dict:
                try:
                    loaded[name] = self._loaded(name, state_dict[key], assign)
                except (TypeError, ValueError, RuntimeError) as error:
                    error_msgs.append(f"{key}: {error}")
        if len(loaded) == sum(key in state_dict for key in keys):  # all or nothing
            self.__dict__.update(loaded)

    def _loaded(self, name: str, saved: Any, assign: bool) -> Tensor:
        """What to remember of a tensor from a state dict."""
        dimensions = self._state_dimensions()[name]
        if not isinstance(saved, Tensor):
            raise TypeError(f"got a {type(saved).__name__}; expected a tensor.")
        most = dimensions if self.online else dimensions + 1  # the potentials of a batch have one more
        if not dimensions <= saved.dim() <= most:
            kind = f"{dimensions}-dimensional tensor" + (
                ", or of a batch one with one dimension more" * (not self.online)
            )
            raise ValueError(f"size mismatch: got shape {tuple(saved.shape)}; expected a {kind}.")
        if saved.is_meta:
            raise ValueError("got a tensor on the meta device, which has no values. Load a state dict that has some.")
        device = getattr(self, name).device
        with solver_modes():
            kept = saved.detach().to(saved.device if assign or device.type == "meta" else device, torch.float64)
            return kept if assign else kept.clone(memory_format=torch.contiguous_format)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CoresetLoss:
        """What is remembered follows the module to a device, and keeps its float64."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, dimensions in self._state_dimensions().items():
            before = getattr(self, name)
            now = fn(before)
            if before.is_meta or now.is_meta:  # values are lost there, and `to_empty` brings none back
                before = now = _nothing(dimensions).to(now.device)
            self.__dict__[name] = now if now.dtype == before.dtype else before.to(now.device)
        return self


def _nothing(dimensions: int) -> Tensor:
    """What is remembered before the first call."""
    return torch.empty((0,) * dimensions, dtype=torch.float64)


def _shape_of_potential(points: Any, samples: Any) -> tuple[int, ...]:
    """(n,), or (B, n) of a batch, which either of the two may be."""
    of_points, of_samples = shape_of(points), shape_of(samples)
    if len(of_points) >= BATCH:
        return of_points[:-1]
    return (*of_samples[: len(of_samples) - PAIR], *of_points[:1])


def _usable(tensor: Tensor, device: torch.device) -> Tensor:
    """The same on a device, as a tensor that counts what is written to it, which inference tensors do not."""
    tensor = tensor.to(device)
    return tensor.clone() if tensor.is_inference() else tensor


def make_settings(
    divergence: Divergence, options: dict[str, Any], *, online: bool = False
) -> DivergenceSettings[Any] | OnlineSettings:
    """The settings of a divergence, or of a stream.

    Raises:
        ValueError: no divergence has this name, it would ignore an option, or an option is unusable.
    """
    check_name(divergence, "divergence", DIVERGENCES)
    if not isinstance(online, bool):
        raise ValueError(f"online: got {online!r}; expected True or False.")
    if "forgetting" in options and not online:
        raise ValueError(
            "forgetting: given with online=False, which has no use for it. Set online=True or leave it out."
        )
    if online and divergence != "wasserstein":
        raise ValueError(
            f"online: got True with divergence={divergence!r}; expected it only with 'wasserstein', whose dual can "
            "be followed over batches. Leave one of them out."
        )
    chosen = OnlineSettings if online else DIVERGENCES[divergence]
    for name in options:
        if name not in chosen.__dataclass_fields__:
            takers = [repr(other) for other, settings in DIVERGENCES.items() if name in settings.__dataclass_fields__]
            given = "online=True" if online else f"divergence={divergence!r}"
            why = ": no batch is solved" if online else f"; expected it only with {' or '.join(takers)}"
            raise ValueError(f"{name}: given with {given}, which has no use for it{why}. Leave it out.")
    return chosen(**options)

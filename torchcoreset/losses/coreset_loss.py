"""The loss as a module: a functional loss that keeps its potential from one call to the next.

The potential and the state of a stream are plain tensors that are saved and loaded with the `state_dict`. They are not
buffers, because their sizes change with the number of points and each process has its own values, whereas torch
averages buffers (`AveragedModel`) and broadcasts them (DistributedDataParallel).
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

    Returns the same value as `wasserstein`, `sinkhorn_divergence`, `energy_distance` or `mmd`, all on the scale of
    W_p^p, and is faster in a loop: in training mode each solve starts from the `potential` of the previous one, and the
    term of the samples with themselves, which does not depend on the points, is recomputed only when the samples
    change. In eval mode calls do not change the state, and two equal calls return equal values.

    With "wasserstein" a call also takes a batch of B pairs, points (B, n, d) and samples (B, m, d); either of the two
    may be a single cloud that all pairs share. The call returns one value for each pair, (B,); reduce them as your
    training needs it (`.mean()`). The next call starts from the potentials of these pairs, so keep the pairs in order.

    Every call compares the points with the samples it is given. On minibatches that is the distance to the minibatch,
    which is on average larger than the distance to the distribution and pulls the points inwards: 7 % excess W_2^2 with
    2 samples per point, 0.01 % with 50. Use batches of at least 20 samples per point, or `online=True`.

    With `online=True` the samples of each call are a batch of a stream, of any size. The value is the semi-dual of the
    batch at a running potential that was computed from the previous batches: an unbiased estimate of a lower bound of
    W_p^p between points and stream, which converges to W_p^p as the potential converges. Its gradients are exact. Each
    call in training mode counts as a new batch, whose weight in the potential is its number of samples (by Kish's
    effective sample size if they are weighted). The first batch, and the first after a change of the number of points,
    is evaluated at its own potential. Any optimizer may move the points: the potential is updated with them. Samples of
    a batch should be independent, and batches in random order. The state takes n x n numbers, whatever the length of
    the stream.

    In training code: autocast does not affect the solver; `torch.compile` breaks its graph at the call;
    `torch.func.grad` works (in eval mode without changing the state), while vmap, forward mode and second derivatives
    raise an error. Under DistributedDataParallel, make the points part of the wrapped module: gradients are averaged
    over the ranks, each of which keeps its own potential unless `group` joins them. Training that is resumed from a
    checkpoint of points, `state_dict`, optimizer and generator of the batches reproduces the uninterrupted run bit for
    bit.

    Args:
        p: power of the Euclidean distance, p >= 1; with 2 optimal points are the means of their cells, 1 is robust to
            outliers. None means 2, or 1 with "energy". Not for "mmd".
        divergence: "wasserstein", "sinkhorn", "energy" or "mmd".
        trim: for "wasserstein": share of the mass of the samples that stays unmatched, 0 if None; see `wasserstein`.
        tolerance: for "wasserstein": relative gap of each solve, in (0, 1), 1e-3 if None; for "sinkhorn": the marginal
            error, as in `sinkhorn_divergence`.
        exact: solve each "wasserstein" call in float64 to a gap of 1e-9.
        max_steps: maximum number of passes over the samples in one call, 100 if None.
        engine: implementation of the passes over the samples, "auto" if None; see `transport` and
            `sinkhorn_divergence`.
        blur, relative_blur: for "sinkhorn" and "mmd": a length, or a fraction of the data's scale.
        debias, backend, scaling: for "sinkhorn", as in `sinkhorn_divergence`.
        kernel: for "mmd", as in `mmd`.
        constant: for all but "wasserstein": include the term of the samples with themselves.
        online: samples are batches of a stream; only for "wasserstein", and not with tolerance, exact or max_steps.
        forgetting: for online=True, in [0, 1): the minimum weight of a batch in the running averages. With 0, the
            default, all batches count until a drift of the stream is detected; with 0.01 about the last hundred count,
            which suits a stream that drifts all the time, but leaves the noise of a hundred batches in the potential.
        group: for "wasserstein": None compares the points with the samples of this process only, also where
            torch.distributed is in use, since running one loss per rank is common. With "world" or a
            `torch.distributed.ProcessGroup` the samples of all its ranks form one set (online: one batch). Every rank
            calls with equal points and any number of its own samples, and gets the value of the union, the results for
            its own samples (`transform`, `plan`, gradient in samples), and the gradient of the union in the points. The
            latter is the same on every rank: it needs no reduction, and averaging by DistributedDataParallel leaves it
            unchanged. If DDP wraps a generator of samples, its gradient has to be summed over the ranks, but DDP
            averages it: call backward on size * value. An error on one rank is raised on all; a rank that does not call
            is detected after the timeout of the group.
        cost: the distance that is raised to the power p, one of `tc.costs`; None for the Euclidean one. `GreatCircle`
            and functions work only with "wasserstein", without `online` and `group`. The network of an `Embedded` is
            used as it is, gets gradients if its parameters require them, and is not a submodule of this module.

    Attributes:
        divergence: the name of the divergence.
        settings: all options of the divergence, with their defaults; each of them is an attribute of the module too.
        potential: (n,) float64, (B, n) after a batch of pairs; empty before the first call in training mode, and always
            for "energy" and "mmd"; online, only for the points that have weight. It is part of the `state_dict`, moves
            to a device with the module and stays float64 when the module is converted to another dtype. It is not a
            buffer, so it is neither averaged nor broadcast.
        online: whether the samples are batches of a stream, whose state is kept in further tensors like `potential`.
        last: the result of the last call: a `Transport`, `SinkhornResult` or `Discrepancy`, a `TransportBatch` for a
            batch of pairs, or online a `StreamTransport`; None before the first call. Not part of the `state_dict`, of
            copies or of pickles.

    Raises:
        ValueError: invalid settings or inputs, or an option that the divergence would ignore; points, potential and
            optimizer stay unchanged.

    Warns:
        ConvergenceWarning: the tolerance was not reached.
        DriftWarning: online, the distribution of the stream has changed; one warning for each change.

    Gradient: see the function of the divergence. Online, the gradient of the value at the running potential v: in
    point i the sum of a_k grad c(y_k, x_i) over its cell, in its weight v_i, in the weights of samples the c-transform.

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
    Hessian instead of averaged squares of gradients, and a potential that is updated as the points move.
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
        """The divergence between points (n, d) and samples (m, d), or a batch; see the function of the divergence."""
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
        """The value of a batch of a stream; in training mode the batch updates the state."""
        value, found = stream_value(settings, lambda: self._memory_of_stream(points), points, *inputs)
        kept = self.__dict__  # a module's attributes take longer to set: 15 of them as long as the batch
        kept["last"] = found.transport
        if self.training:
            kept["_stream"] = stream = MemoryBuffers(found.memory)
            kept.update(stream.tensors)
            report(found)
        return value

    def _memory_of_stream(self, points: Any) -> Memory | None:
        """The state of the stream on the device of the points, read again if its tensors were replaced or changed.

        Called in the modes of a solver.
        """
        if not self.potential.numel():
            return None
        given = isinstance(points, Tensor) and not points.is_meta  # those have no values, and will be refused
        device = points.device if given else self.potential.device
        if self._stream is None or self.potential.device != device or not self._stream.is_in(self.__dict__):
            tensors = {name: _usable(self.__dict__[name], device) for name in MEMORY_DIMENSIONS}
            self.__dict__.update(tensors)
            self._stream = MemoryBuffers(Memory.from_tensors(tensors))
        return self._stream.memory

    def _state_dimensions(self) -> dict[str, int]:
        """Number of dimensions of each tensor of the state, by name."""
        return MEMORY_DIMENSIONS if self.online else {"potential": 1}

    def extra_repr(self) -> str:
        """The settings, and the result of the last call."""
        shown = [] if self.divergence == "wasserstein" else [f"divergence={self.divergence!r}"]
        shown += ["online=True"] if self.online else []
        for field in fields(self.settings):
            value = getattr(self.settings, field.name)
            if value is not None:
                shown.append(f"{field.name}={value!r}")
        return ", ".join(shown if self.last is None else [*shown, f"last={self.last!r}"])

    def __getattr__(self, name: str) -> Any:
        """Settings can be read as attributes: `loss.p`, `loss.tolerance`."""
        return getattr(self.settings, name) if self._is_setting(name) else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Settings can be set as attributes, and are checked again."""
        if self._is_setting(name):
            name, value = "settings", replace(self.settings, **{name: value})
        super().__setattr__(name, value)

    def _is_setting(self, name: str) -> bool:
        settings = self.__dict__.get("settings")
        return settings is not None and name in settings.__dataclass_fields__

    def __getstate__(self) -> dict[str, Any]:
        """The module without its last result and its caches, which hold tensors as large as the samples."""
        return {**self.__dict__, "last": None, "_memory": CachedSelfTerm(), "_stream": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Reads modules of earlier versions too, which kept the state in buffers or under other names."""
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
        """Accept tensors of any length: the number of points is unknown before the first call."""
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
        """A tensor of a state dict as it is kept: float64, on the module's device."""
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
        """Move the state to the module's device; it stays float64."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, dimensions in self._state_dimensions().items():
            before = getattr(self, name)
            now = fn(before)
            if before.is_meta or now.is_meta:  # meta tensors have no values, and `to_empty` restores none
                before = now = _nothing(dimensions).to(now.device)
            self.__dict__[name] = now if now.dtype == before.dtype else before.to(now.device)
        return self


def _nothing(dimensions: int) -> Tensor:
    """The state before the first call: an empty tensor."""
    return torch.empty((0,) * dimensions, dtype=torch.float64)


def _shape_of_potential(points: Any, samples: Any) -> tuple[int, ...]:
    """(n,), or (B, n) if points or samples are a batch."""
    of_points, of_samples = shape_of(points), shape_of(samples)
    if len(of_points) >= BATCH:
        return of_points[:-1]
    return (*of_samples[: len(of_samples) - PAIR], *of_points[:1])


def _usable(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device, float64 and contiguous; of an inference tensor a clone, which has a version counter."""
    tensor = tensor.to(device, torch.float64).contiguous()
    return tensor.clone() if tensor.is_inference() else tensor


def make_settings(
    divergence: Divergence, options: dict[str, Any], *, online: bool = False
) -> DivergenceSettings[Any] | OnlineSettings:
    """The settings of a divergence, or of a stream.

    Raises:
        ValueError: unknown divergence, an option that it would ignore, or an invalid value of an option.
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

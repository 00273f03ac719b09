"""Value and gradient of an optimal transport cost, attached to the graph without differentiating the solver.

At the optimal plan pi and potential v, the envelope theorem (Danskin 1967) gives the derivatives of
W_p^p = min_pi max_v ... with both held fixed:

    d/dx_i = sum_k pi_ki grad_x c(y_k, x_i)        d/dy_k = sum_i pi_ki grad_y c(y_k, x_i)
    d/db_i = v_i                                     d/da_k = min_i (c_ki - v_i)

Weights are normalised, b = w / sum w, so the last two are projected: a constant added to v changes nothing.
Every loss here is attached in this way; the derivatives above are those of the exact loss.
Value and gradients in x and y belong to the feasible plan that the solver returns; they are exact when its gap is 0.
How a plan divides mass among equal samples is arbitrary: the sum of their gradients is shared in proportion to weight.
The envelope holds for first derivatives only: the plan moves with the points, which a second derivative would need.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..modes import outside_compile, solver_modes
from ..transport import Cost, Coupling, Problem, Transport, TransportBatch, repeats_of

Inputs = tuple[Tensor, Tensor, "Tensor | None", "Tensor | None"]  # points, samples and the weights of both
Needed = tuple[bool, bool, bool, bool]
Derivatives = tuple["Tensor | None", "Tensor | None", "Tensor | None", "Tensor | None"]


@dataclass(frozen=True)
class Solved:
    """The value, result and derivatives that a loss has computed for its inputs."""

    value: float | Tensor  # the loss; for a batch one value for each pair, (B,)
    result: Any  # returned to the caller with the value
    # From the inputs, and which of them need gradients, to the derivatives of the value: in points (n, d), in samples
    # (m, d), and in the normalised weights (n,) and (m,), the latter up to a constant; for a batch each with a leading
    # B. Called in the backward pass, outside of autograd.
    derivatives: Callable[[Inputs, Needed], Derivatives]
    # If other ranks hold samples too: the weighted mean of the last derivative over all samples, and the share of the
    # total weight that the samples of this rank have.
    union: tuple[float, float] | None = None


Solve = Callable[[Tensor, Tensor, "Tensor | None", "Tensor | None"], Solved]


@outside_compile
def attach(
    name: str,
    solve: Solve,
    points: Tensor,
    samples: Tensor,
    point_weights: Tensor | None,
    sample_weights: Tensor | None,
) -> tuple[Tensor, Any]:
    """Solve without a graph, and return the value with envelope gradients attached.

    `name` is the name of the loss, for messages; `solve` maps the four tensors to a `Solved`, and is called once,
    outside of autograd. The value is 0-d, or (B,) for a batch, float32 or float64 as the points are (half precision
    gives float32); the result of the solve is returned with it.
    """
    call = _Call(name, solve)
    value: Tensor = _Envelope.apply(points, samples, point_weights, sample_weights, call)  # type: ignore[no-untyped-call]
    assert call.solved is not None  # forward has run
    return value, call.solved.result


@dataclass
class _Call:
    """State of one call of a loss beside its tensors; the forward pass stores its result here."""

    name: str
    solve: Solve
    solved: Solved | None = None


class _Envelope(torch.autograd.Function):
    """The value; its backward pass calls `_EnvelopeGradient`, which raises an error when it is differentiated."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        points, *others, call = inputs
        with solver_modes():
            call.solved = solved = call.solve(points, *others)
        dtype = torch.float64 if points.dtype == torch.float64 else torch.float32
        found = solved.value
        largest = float(found.abs().max()) if isinstance(found, Tensor) else abs(found)
        if not largest <= torch.finfo(dtype).max:
            raise ValueError(
                f"points: the value of {call.name} is {largest:.3g}, which {dtype} cannot hold. "
                "Scale points and samples down, or pass float64 points."
            )
        if isinstance(found, Tensor):
            return found.to(dtype, copy=True)  # the result keeps its own
        value: Tensor = points.new_full((), found, dtype=dtype)
        return value

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.call = inputs
        ctx.save_for_backward(*(_saveable(tensor) for tensor in tensors))

    @staticmethod
    def backward(ctx: Any, grad_value: Tensor) -> tuple[Tensor | None, ...]:
        inputs = (grad_value, *ctx.saved_tensors, ctx.call, ctx.needs_input_grad[:4])
        if torch.is_grad_enabled():
            return (*_EnvelopeGradient.apply(*inputs), None)  # type: ignore[no-untyped-call]
        # Without grad mode no second derivative is possible, so the function that rejects it need not be recorded
        # (0.1 ms).
        return (*envelope_gradients(*inputs), None)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        raise RuntimeError(
            f"{ctx.call.name}: a forward-mode derivative was asked for; only backward ones exist. Use .backward() or "
            "torch.func.grad."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        raise _no_vmap(inputs[4].name)


# torch reads the signature at every call and computes it (25 us) unless it is set; *inputs is the fastest to bind.
setattr(_Envelope.forward, "__signature__", inspect.signature(_Envelope.forward))  # noqa: B010


def envelope_gradients(
    grad_value: Tensor,
    points: Tensor,
    samples: Tensor,
    point_weights: Tensor | None,
    sample_weights: Tensor | None,
    call: _Call,
    needed: Needed,
) -> tuple[Tensor | None, ...]:
    """The derivatives of the loss that are needed, times the incoming gradient, each in the dtype of its input."""
    assert call.solved is not None  # forward has run
    inputs = (points, samples, point_weights, sample_weights)
    with solver_modes():
        in_points, in_samples, *in_weights = call.solved.derivatives(inputs, needed)
    unions = (None, call.solved.union)
    grads = (
        in_points,
        in_samples,
        *(  # which few ask for: they take a tenth of a small online step (measured)
            weight_gradient(grad, weights, union) if wanted and grad is not None and weights is not None else None
            for grad, weights, union, wanted in zip(in_weights, inputs[2:], unions, needed[2:], strict=True)
        ),
    )
    return tuple(
        None if grad is None or like is None else (grad * _beside(grad_value, grad)).to(like)
        for grad, like in zip(grads, inputs, strict=True)
    )


def _beside(grad_value: Tensor, grad: Tensor) -> Tensor:
    """The incoming gradient, 0-d or (B,), reshaped to broadcast against the gradient of an input."""
    if grad_value.dim() == 0:
        return grad_value
    return grad_value.reshape(grad_value.shape + (1,) * (grad.dim() - grad_value.dim()))


class _EnvelopeGradient(torch.autograd.Function):
    """Envelope gradients times the incoming one. A second derivative would silently neglect the change of the plan."""

    forward = staticmethod(envelope_gradients)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor | None, ...]) -> None:
        ctx.name = inputs[5].name

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        raise RuntimeError(
            f"{ctx.name}: a second derivative was asked for; only first derivatives exist here, because the envelope "
            "theorem holds the plan fixed. Use a first-order optimizer or LBFGS, without create_graph=True."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        raise _no_vmap(inputs[5].name)


def _no_vmap(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name}: vmap was asked for, by torch.vmap or within jacrev, jacfwd or hessian; solves are not batched. Loop "
        "over the problems (or pass `wasserstein` all of them, with a leading batch dimension), and use "
        "torch.func.grad for the gradient; second derivatives do not exist."
    )


def position_gradients(
    points: Tensor, samples: Tensor, plan: Coupling, cost: Cost, in_points: bool, in_samples: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of sum pi c in the points (n, d) and in the samples (m, d), float64; None where not asked for."""
    if not (in_points or in_samples):
        return None, None
    grad_points = torch.zeros_like(points, dtype=torch.float64) if in_points else None
    grad_samples = torch.zeros_like(samples, dtype=torch.float64) if in_samples else None
    for rows, cols, mass in plan.blocks(points.shape[1]):
        y, x = samples[rows], points[cols]
        push, pull = (cost.paired_gradient(y, x), None) if grad_samples is None else cost.paired_gradients(y, x)
        if grad_points is not None:
            grad_points.index_add_(0, cols, push.mul_(mass[:, None]))
        if grad_samples is not None and pull is not None:
            grad_samples.index_add_(0, rows, pull.mul_(mass[:, None]))
    return grad_points, grad_samples


def solved_by_plan(
    problem: Problem, found: Transport, x: Tensor, y: Tensor, total: Callable[..., tuple[Tensor, ...]] | None = None
) -> Solved:
    """The derivatives of sum pi c at the plan that was found, its potential (n,) and its transform (m,).

    Where a problem lies on several ranks, over which `total` adds up sums, the gradient in the points is added up at
    once: a backward that waited for other ranks would hang whenever one of them has no use for it.
    """
    plan, cost, union, summed = found.plan, problem.cost, None, None
    if total is not None:
        part, _ = position_gradients(x, y, plan, cost, True, False)
        assert part is not None
        summed, mean = total(part, problem.a @ found.transform)
        union = (float(mean), float(problem.a.sum()))

    def derivatives(inputs: Inputs, needed: Needed) -> Derivatives:
        in_points, in_samples = position_gradients(*inputs[:2], plan, cost, needed[0] and summed is None, needed[1])
        if in_samples is not None and total is None:
            in_samples = even_among_equals(in_samples, inputs[1], inputs[3])
        return in_points if summed is None else summed, in_samples, found.potential, found.transform

    return Solved(found.value, found, derivatives, union)


def solved_by_plans(cost: Cost, found: TransportBatch) -> Solved:
    """The same of a batch of pairs, with a leading B."""

    def derivatives(inputs: Inputs, needed: Needed) -> Derivatives:
        x, y = inputs[:2]
        if not (needed[0] or needed[1]):
            return None, None, found.potential, found.transform
        in_points, in_samples = position_gradients(
            x.flatten(0, 1), y.flatten(0, 1), found.plan.block_diagonal(), cost, needed[0], needed[1]
        )
        if in_samples is not None:
            weights = [None] * len(y) if inputs[3] is None else inputs[3]
            parts = zip(in_samples.view(y.shape), y, weights, strict=True)
            in_samples = torch.stack([even_among_equals(*part) for part in parts])
        return (
            None if in_points is None else in_points.view(x.shape),
            in_samples,
            found.potential,
            found.transform,
        )

    return Solved(found.value, found, derivatives)


def even_among_equals(gradient: Tensor, samples: Tensor, weights: Tensor | None) -> Tensor:
    """The gradient in samples (m, d), shared by equal ones in proportion to their weights (m,), or equally for None.

    With few samples the gradient is returned unchanged.
    """
    repeats = repeats_of(samples if samples.dtype == torch.float64 else samples.float())
    return gradient if repeats is None else repeats.even(gradient, weights)


def weight_gradient(potential: Tensor, weights: Tensor, union: tuple[float, float] | None = None) -> Tensor:
    """Gradient in unnormalised weights w of a value whose gradient in w / sum w is the potential, float64; all (n,), or
    (B, n) of a batch.

    `union`, as in `Solved`, replaces the sums over the weights of other ranks.
    """
    w = weights.to(potential)  # weights may lie on another device than the points
    total = w.sum(-1, keepdim=True)
    if union is not None:
        mean, share = union
        return (potential - mean) * (share / total)
    mean_potential: Tensor = torch.linalg.vecdot(w / total, potential)[..., None]
    return (potential - mean_potential) / total


def _saveable(tensor: Tensor | None) -> Tensor | None:
    """Clones inference tensors, such as samples made under inference_mode, which autograd does not save."""
    return tensor.clone() if tensor is not None and tensor.is_inference() else tensor

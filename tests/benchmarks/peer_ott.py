"""OTT-JAX: the semi-discrete solver, Adam on minibatches of the semi-dual, compiled before the clock starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from .method import Method, Outcome, need_squares
from .peer_pot import nearest_cost
from .problems import Unavailable, Work


@dataclass(frozen=True)
class Adam:
    """Settings of the solver.

    Attributes:
        rate: first learning rate, over the mean squared distance to the nearest point; falls to 0 along a cosine.
        batch: samples a step.
        steps: number of steps.
    """

    rate: float
    batch: int
    steps: int


REPEATS = 16  # batches of which its marginal error is the mean: its default

# The cheapest settings of the grid in `python -m tests.benchmarks.tune` that reach the gap. The solver does not know
# when it is there; that we chose the number of steps knowing the optimum is a gift to it.
ADAM = {
    ("n=100 m=10k d=2", 1e-3): Adam(0.6, 512, 512),
    ("n=100 m=10k d=2", 1e-4): Adam(0.2, 2048, 1024),
    ("n=100 m=100k d=16", 1e-3): Adam(0.06, 512, 128),
    ("n=100 m=100k d=16", 1e-4): Adam(0.06, 2048, 256),
    ("n=500 m=20k d=16", 1e-3): Adam(0.06, 512, 512),
    ("n=500 m=20k d=16", 1e-4): Adam(0.06, 8192, 256),
}
# For work that was not tuned: what did well on the one like it.
DEFAULT_ADAM = {1e-3: Adam(0.6, 512, 512), 1e-4: Adam(0.2, 2048, 1024)}


def semidiscrete(gap: float) -> Callable[[Work], Callable[[], Outcome]]:
    """With the settings that reach this gap."""

    def prepare(work: Work) -> Callable[[], Outcome]:
        return with_settings(work, ADAM.get((work.name, gap), DEFAULT_ADAM[gap]))

    return prepare


def with_settings(work: Work, settings: Adam) -> Callable[[], Outcome]:
    """Compile for this work; hard minimum (epsilon = 0)."""
    import jax
    import optax
    from ott.geometry.semidiscrete_pointcloud import SemidiscretePointCloud
    from ott.problems.linear.semidiscrete_linear_problem import SemidiscreteLinearProblem
    from ott.solvers.linear.semidiscrete import SemidiscreteOutput, SemidiscreteSolver

    need_squares(work)
    batch = min(settings.batch, len(work.samples))
    rate = settings.rate * nearest_cost(work)
    solver = SemidiscreteSolver(
        num_iterations=settings.steps,
        batch_size=batch,
        optimizer=optax.adam(optax.cosine_decay_schedule(rate, settings.steps)),
        # One estimate of the error on a few samples, at the end: estimates cost as much as steps.
        error_eval_every=settings.steps,
        error_batch_size=2,
        error_num_repeats=1,
    )

    def problem(x: jax.Array, y: jax.Array) -> SemidiscreteLinearProblem:
        def draw(key: jax.Array, shape: tuple[int, ...], dtype: object) -> jax.Array:
            # Samples are in random order, so that a block is a fair batch, and cheaper than gathering rows. Blocks
            # go round the end: otherwise the samples there would count less, and the gap would stall at 1e-3.
            first = jax.random.randint(key, (), 0, len(y))
            return jax.lax.dynamic_slice_in_dim(circle, first, shape[0])

        circle = jax.numpy.concatenate((y, y[:batch]))

        return SemidiscreteLinearProblem(SemidiscretePointCloud(draw, x, epsilon=0.0))

    def solve(key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return solver(key, problem(x, y)).g

    inputs = jax.random.key(work.seed), jax.numpy.asarray(work.points.numpy()), jax.numpy.asarray(work.samples.numpy())
    if jax.default_backend() != "cpu":
        raise Unavailable(f"jax would run on {jax.default_backend()}, the others on the CPU")
    compiled = jax.jit(solve).lower(*inputs).compile()

    def run() -> Outcome:
        g = compiled(*inputs)

        def own() -> str:
            """Error of the masses, and both costs of its assignment of all samples, which need not be balanced."""
            key, x, y = inputs
            found = SemidiscreteOutput(g=g, prob=problem(x, y))
            error = float(found.marginal_chi2_error(key, num_iters=REPEATS, batch_size=batch))
            hard = found.sample(key, len(y), epsilon=0.0)
            return f"chi2 {error:.0e}, dual {float(hard.dual_cost):.6g}, primal {float(hard.primal_cost):.6g}"

        return Outcome(potential=torch.from_numpy(np.array(g)), note=str(settings), own=own)

    return run


METHODS = [
    Method(
        name=f"OTT semidiscrete, gap {gap:.0e}".replace("e-0", "e-"),
        task="transport",
        prepare=semidiscrete(gap),
        rival=f"ours, gap {gap:.0e}".replace("e-0", "e-"),
        threads_as_cores=True,  # jax does not read OMP_NUM_THREADS
    )
    for gap in (1e-3, 1e-4)
]

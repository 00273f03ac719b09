"""Which part of a solve comes first, and which takes over."""

import pytest
import torch

import torchcoreset as tc
from tests.benchmarks.problems import separated
from tests.data import normal, seeded
from tests.transport.solving.problems import SETTINGS
from torchcoreset.coresets.start.bisection import leaf_means, leaves
from torchcoreset.transport.passes import make_engine
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solving import limits, run, wrong_mass
from torchcoreset.transport.solving.limits import is_small, prefers_flow
from torchcoreset.transport.solving.state import SolveState


def test_between_clusters_a_flow_takes_over_from_newton() -> None:
    x, y = separated(20, 40_000, 8, distance=20)(0)
    b = torch.rand(20, generator=torch.Generator().manual_seed(0)) + 0.5
    start = tc.transport(x, y, 2, b).potential
    x = x + 0.1 * normal(20, 8, seed=1).to(x)
    begun = SolveState(make_problem(x, y, 2, b), SETTINGS)
    assert not is_small(begun, start)
    assert prefers_flow(begun)
    found, exact = tc.transport(x, y, 2, b, start=start), tc.transport(x, y, 2, b, exact=True)
    assert found.value == pytest.approx(exact.value, rel=1e-3)
    assert found.steps <= 4, "Newton's corrections alone are more"


@pytest.mark.parametrize(("pairs", "wrong", "approaches"), [
    (1 << 20, 0.1, False), (1 << 20, 0.3, True), (1 << 17, 0.1, True),
])  # fmt: skip
def test_a_start_with_much_mass_in_wrong_cells_takes_a_flow_up_to_some_size(
    pairs: int, wrong: float, approaches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FEW_PAIRS": pairs, "FEWEST_PAIRS": 0, "SHORT_FLOW_PAIRS": 0}.items():
        monkeypatch.setattr(limits, name, value)
    monkeypatch.setattr(wrong_mass, "FAILED_ERROR", wrong)
    y = separated(20, 10_000, 8)(0)[1]
    index, sizes = leaves(y, 20, seeded())
    x = leaf_means(y[index], sizes)
    zero = torch.zeros(20, dtype=torch.float64)
    assert 0.1 < float((make_engine(make_problem(x, y), "auto").hard(zero).mass - 0.05).abs().sum()) / 2 < 0.3
    approached, ascend = [], run.ascend
    monkeypatch.setattr(run, "ascend", lambda *args, **by: approached.append(True) or ascend(*args, **by))
    assert tc.transport(x, y, start=zero).gap <= 1e-3
    assert bool(approached) == approaches

"""What cells hold: mass goes out cheapest first, is split, comes in, and the arcs follow, in either store."""

import numpy as np
import pytest

from torchcoreset.transport.flow.arcs import Floats
from torchcoreset.transport.flow.dense_arcs import DenseArcs
from torchcoreset.transport.flow.list_arcs import ArcLists, ListArcs
from torchcoreset.transport.flow.min_cost_flow import FlowNetwork

COST = np.array([[0.0, 3.0, 5.0], [0.0, 1.0, 9.0], [1.0, 1.5, 2.0]])
LISTS = ArcLists(np.arange(0, 10, 3), np.tile(np.arange(3), 3), COST.ravel())


@pytest.fixture(params=["dense", "lists"])
def network(request: pytest.FixtureRequest) -> FlowNetwork:
    """Cell 0 with samples 0 and 1, cell 1 with sample 2."""
    cell, mass, v = np.array([0, 0, 1]), np.array([0.25, 0.5, 0.25]), np.zeros(3)
    arcs = DenseArcs(COST, cell, mass, v, 0.0) if request.param == "dense" else ListArcs(LISTS, cell, mass, v, 0.0)
    return FlowNetwork(arcs, np.zeros(3), v)


def send(network: FlowNetwork, amount: float, limit: float) -> tuple[float, float]:
    """Send mass from cell 0 to 1; what that costs, and how much has gone."""
    network.arcs.admit(network.v, limit)
    network.arcs.layer(np.array([0, 1, 1]))
    before, tail = network.budget, network.arcs.tail(1)
    sent = network.send_over(0, 1, amount) if tail == 0 else 0.0
    return before - network.budget, sent


def held(network: FlowNetwork, i: int) -> dict[int, float]:
    """Samples of a cell and their masses there."""
    arcs = network.arcs
    rows = np.flatnonzero((arcs.cell == i) & (arcs.mass > 0))
    assert len(np.unique(arcs.sample[rows])) == len(rows)
    return dict(zip(arcs.sample[rows].tolist(), arcs.mass[rows].tolist(), strict=True))


def assert_arcs(network: FlowNetwork, matrix: list[list[float]]) -> None:
    """Least prices of leaving each cell for each other."""
    if isinstance(network.arcs, DenseArcs):
        network.arcs.admit(network.v, 0.0)
        np.testing.assert_array_equal(network.arcs.arc, matrix)


def test_the_cheapest_go_first_and_the_last_is_split(network: FlowNetwork) -> None:
    assert_arcs(network, [[np.inf, 1, 5], [-0.5, np.inf, 0.5], [np.inf] * 3])
    assert send(network, 0.6, 4.0) == pytest.approx((0.5 * 1 + 0.1 * 3, 0.6))
    assert held(network, 0) == pytest.approx({0: 0.15})
    assert held(network, 1) == pytest.approx({2: 0.25, 1: 0.5, 0: 0.1})
    assert_arcs(network, [[np.inf, 3, 5], [-3, np.inf, 0.5], [np.inf] * 3])


def test_nobody_pays_more_than_the_limit(network: FlowNetwork) -> None:
    assert send(network, 0.6, 2.0) == (0.5, 0.5)
    assert send(network, 0.6, 2.0) == (0.0, 0.0)


def test_what_rounding_would_leave_goes_too(network: FlowNetwork) -> None:
    send(network, 0.5 - 1e-16, 2.0)
    assert held(network, 0) == {0: 0.25}


def test_parts_of_a_sample_meet_again(network: FlowNetwork) -> None:
    for _ in range(2):
        send(network, 0.2, 2.0)
    assert held(network, 1) == pytest.approx({2: 0.25, 1: 0.4})


def test_what_violates_slackness_leaves_for_the_nearest_cell(network: FlowNetwork) -> None:
    def restored(*v: float) -> Floats:
        network.v, network.excess = np.array(v), np.zeros(3)
        network.restore_slackness()
        return network.excess

    for moved in (0.5, 0.0):
        assert restored(0.0, 2.0, 0.0).tolist() == [-moved, moved, 0.0]
        assert held(network, 0) == {0: 0.25}
        assert_arcs(network, [[np.inf, 3, 5], [-1, np.inf, 0.5], [np.inf] * 3])
    assert restored(0.0, -2.0, 0.0).tolist() == [0.75, -0.75, 0.0]
    assert held(network, 1) == {}
    assert_arcs(network, [[np.inf, 0.5, 1], [np.inf] * 3, [np.inf] * 3])

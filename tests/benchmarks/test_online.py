"""The table of the potentials of a stream is printed, and ours is the best of them."""

import math

import pytest

from tests.benchmarks import online

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_the_table(capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("ot")
    rows = online.main(["--quick", "--batches", "150"])
    printed = capsys.readouterr().out.splitlines()
    head, columns, *lines = [line for line in printed if "KeOps" not in line]
    assert "batches of 20" in head
    assert columns.split() == ["task", "p", "potential", "batches", "excess", "seconds"]
    assert len(lines) == len(rows) == 2 * sum(len(ways) for _, ways in online.TASKS.values())
    assert all(math.isfinite(row.excess) and row.excess > -1e-6 and row.seconds > 0 for row in rows)
    for task in online.TASKS:
        (ours,) = [row.excess for row in rows if row.task == task and row.p == 2 and row.way == "online"]
        assert ours < 0.1


def test_the_cost_of_a_step(capsys: pytest.CaptureFixture) -> None:
    (cost,) = online.main(["--cost", "--quick"])
    assert (cost.n, cost.m, cost.d) == online.SIZES[0]
    assert cost.ratio == cost.step / (2 * cost.hard + cost.solve) > 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["n", "m"]
    assert line.split()[-1] == f"{cost.ratio:.2f}"

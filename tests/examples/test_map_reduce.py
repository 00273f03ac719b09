"""Map and reduce over parts: the same result wherever the work is done, within its bound of all rows."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

import torchcoreset as tc

PARTS, ROWS, SIZE = 10, 10_000, 10
SMALL = 4, 2000, 10  # for other processes, which begin alike whatever they are given


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[2] / "examples")
        yield importlib.import_module("map_reduce")


@pytest.fixture(scope="module")
def merged(example):
    """The result in this process."""
    return example.on_serial(PARTS, ROWS, SIZE)


@pytest.fixture(scope="module")
def small(example):
    """The same of fewer rows."""
    return example.on_serial(*SMALL)


@pytest.mark.slow
def test_the_bound_holds_for_all_rows(example, merged):
    rows = torch.cat([example.rows_of(part, ROWS) for part in range(PARTS)])
    assert merged.mass == len(rows) == 100_000
    assert merged.coreset.size == SIZE
    plan = tc.transport(merged, rows)
    assert merged.bound.lower <= plan.value**0.5
    assert plan.lower**0.5 <= merged.bound.upper
    direct = tc.build_coreset(rows, SIZE, samples=20_000, tolerance=1e-2, restarts=1)
    assert plan.value**0.5 < 1.1 * tc.transport(direct, rows).value ** 0.5
    assert merged.bound.upper < 1.3 * plan.value**0.5
    assert [part.merged.parts[0].of for part in merged.bound.parts] == ["rows"] * PARTS


@pytest.mark.slow
def test_on_dask(example, small):
    pytest.importorskip("dask", reason="needs dask: pip install 'torchcoreset[tables]'")
    assert torch.equal(example.on_dask(*SMALL, scheduler="synchronous").coreset.points, small.coreset.points)


@pytest.mark.slow
def test_on_the_processes_of_dask(example, small):
    pytest.importorskip("dask", reason="needs dask: pip install 'torchcoreset[tables]'")
    other = example.on_dask(*SMALL)
    assert other.bound.upper == pytest.approx(small.bound.upper, rel=1e-6)


@pytest.mark.slow
def test_on_ray(example, small):
    ray = pytest.importorskip("ray", reason="needs ray")
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        assert example.on_ray(*SMALL).bound.upper == pytest.approx(small.bound.upper, rel=1e-6)
    finally:
        ray.shutdown()


def test_what_it_prints(example, capsys):
    merged = example.main(["--parts", "3", "--rows", "500", "--size", "5", "--check", "1000"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1,500 rows in 3 parts, ")
    assert lines[1:3] == [repr(merged), repr(merged.bound)]
    assert [line.split(":")[0] for line in lines[3:]] == ["merged", "direct"]

"""Map and reduce over parts: the same result wherever the work is done, within its bound of all rows."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

import torchcoreset as tc

PARTS, ROWS, SIZE = 10, 10_000, 20


@pytest.fixture(scope="module")
def on_the_path():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[2] / "examples")
        yield


@pytest.fixture(scope="module")
def found(on_the_path):
    """The example, its result in this process, and all rows."""
    example = importlib.import_module("map_reduce")
    rows = torch.cat([example.rows_of(part, ROWS) for part in range(PARTS)])
    return example, example.on_serial(PARTS, ROWS, SIZE), rows


def test_the_bound_holds_for_all_rows(found):
    _, merged, rows = found
    assert merged.mass == len(rows) == 100_000
    assert merged.coreset.size == SIZE
    plan = tc.transport(merged, rows)
    assert merged.bound.lower <= plan.value**0.5
    assert plan.lower**0.5 <= merged.bound.upper
    direct = tc.build_coreset(rows, SIZE, samples=20_000, tolerance=1e-2, restarts=1)
    assert plan.value**0.5 < 1.1 * tc.transport(direct, rows).value ** 0.5
    assert merged.bound.upper < 2.5 * plan.value**0.5
    assert [part.merged.parts[0].of for part in merged.bound.parts] == ["given"] * PARTS


def test_on_dask(found):
    pytest.importorskip("dask", reason="needs dask: pip install 'torchcoreset[tables]'")
    example, merged, _ = found
    assert torch.equal(
        example.on_dask(PARTS, ROWS, SIZE, scheduler="synchronous").coreset.points, merged.coreset.points
    )


@pytest.mark.slow
def test_on_the_processes_of_dask(found):
    pytest.importorskip("dask", reason="needs dask: pip install 'torchcoreset[tables]'")
    example, merged, _ = found
    other = example.on_dask(PARTS, ROWS, SIZE)
    assert other.bound.upper == pytest.approx(merged.bound.upper, rel=1e-6)


@pytest.mark.slow
def test_on_ray(found):
    ray = pytest.importorskip("ray", reason="needs ray")
    example, merged, _ = found
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        assert example.on_ray(PARTS, ROWS, SIZE).bound.upper == pytest.approx(merged.bound.upper, rel=1e-6)
    finally:
        ray.shutdown()


def test_what_it_prints(found, capsys):
    merged = found[0].main(["--parts", "3", "--rows", "500", "--size", "5", "--check", "1000"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1,500 rows in 3 parts, ")
    assert lines[1:3] == [repr(merged), repr(merged.bound)]
    assert [line.split(":")[0] for line in lines[3:]] == ["merged", "direct"]

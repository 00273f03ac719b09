"""A build that is interrupted at any step goes on from its last record as if nothing had happened."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import pytest
import torch

import torchcoreset as tc

pytestmark = pytest.mark.usefixtures("two_starts")
SLOW = pytest.mark.slow
ROWS = torch.randn(3000, 2, generator=torch.Generator().manual_seed(0))


class Interrupted(Exception):
    pass


def through_a_file(record: Any) -> Any:
    file = io.BytesIO()
    torch.save(record, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def interrupted(at: int, source: Any, size: int, **options: Any) -> dict[str, Any]:
    """The record of a build that ends by an error after so many steps, as it comes back from a file."""
    records: list[dict[str, Any]] = []

    def keep(record: dict[str, Any]) -> None:
        records.append(record)
        if len(records) > at:
            raise Interrupted

    with pytest.raises(Interrupted):
        tc.build_coreset(source, size, checkpoint=keep, **options)
    return through_a_file(records[-1])


BUILDS: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "fixed_point": (ROWS, 20, {"tolerance": 1e-4}),
    "p=1": (ROWS, 9, {"p": 1, "tolerance": 1e-4}),
    "a part first": (torch.randn(25_000, 2, generator=torch.Generator().manual_seed(1)), 5, {"restarts": 2}),
    "fresh samples": (torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 30, {"restarts": 1}),
    "sgd": (ROWS, 20, {"algorithm": "sgd", "steps": 40}),
    "sgd, p=1": (ROWS, 20, {"algorithm": "sgd", "steps": 40, "p": 1, "batch_size": 50}),
    "gradient": (ROWS, 8, {"algorithm": "gradient", "steps": 40}),
    "rows": (ROWS[:1000], 20, {"rows": True, "tolerance": 1e-4, "keep": [3, 8]}),
    "equal points": (ROWS[torch.arange(150) % 5], 10, {"weights": "free", "steps": 12}),  # which a start parts by noise
    "a generator": (ROWS, 6, {"seed": 3, "init": "kmeans++"}),
}


@pytest.fixture(autouse=True)
def few_samples_of_a_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than 1,000 for each of 30 points, so that a build ends on fresh ones; enough to begin on a part of them."""
    monkeypatch.setattr("torchcoreset.coresets.samples.loaded.DEFAULT_SAMPLES", 25_000)


@functools.cache
def whole_run(build: str) -> tc.BuildResult:
    source, size, options = BUILDS[build]
    return tc.build_coreset(source, size, **options)


@pytest.mark.parametrize("at", [0, 7, -3])
@pytest.mark.parametrize(
    "build", [pytest.param(name, marks=SLOW) if name == "fresh samples" else name for name in BUILDS]
)
def test_it_ends_where_the_whole_run_ends(build: str, at: int) -> None:
    (source, size, options), whole = BUILDS[build], whole_run(build)
    steps = len(whole.history)
    record = interrupted(at % steps, source, size, **options)
    found = tc.build_coreset(source, size, resume=record, **options)
    assert found.status is whole.status
    assert found.history[-1].step + 1 == steps
    if build == "gradient":  # its loss begins with another potential
        torch.testing.assert_close(found.coreset.points, whole.coreset.points, rtol=1e-2, atol=1e-2)
    else:
        assert torch.equal(found.coreset.points, whole.coreset.points)


def test_the_points_of_a_record_are_the_result_so_far() -> None:
    for algorithm in ("fixed_point", "gradient", "sgd"):
        record = interrupted(6, ROWS, 5, algorithm=algorithm)
        stopped = tc.build_coreset(ROWS, 5, algorithm=algorithm, steps=6, resume=record)
        assert torch.equal(stopped.coreset.points, record["points"])
        assert stopped.status is tc.Status.MAX_STEPS


def test_an_optimizer_goes_on_with_its_moments() -> None:
    options: dict[str, Any] = {
        "algorithm": "gradient",
        "optimizer": lambda x: torch.optim.Adam(x, lr=0.05),
        "steps": 30,
    }
    record = interrupted(12, ROWS[:100], 3, **options)
    assert record["state"]["rates"][0]["state"][0]["step"] == 12
    whole = tc.build_coreset(ROWS[:100], 3, **options)
    found = tc.build_coreset(ROWS[:100], 3, resume=record, **options)
    torch.testing.assert_close(found.coreset.points, whole.coreset.points, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("change", [{"size": 6}, {"p": 1}, {"algorithm": "sgd"}])
def test_another_run_refuses_the_record(change: dict[str, Any]) -> None:
    record = interrupted(2, ROWS, 5)
    with pytest.raises(ValueError, match=rf"^resume: got a record of a run with {next(iter(change))}="):
        tc.build_coreset(ROWS, **{"size": 5, **change}, resume=record)


def test_classes_go_on_too() -> None:
    labels = ["b" if row > 0 else "a" for row in ROWS[:, 0].tolist()]
    kept: dict[Any, dict[str, Any]] = {}

    def keep(label: str, record: dict[str, Any]) -> None:
        kept[label] = record
        if label == "b" and len(record["history"]) == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        tc.build_labeled_coreset(ROWS, labels, 12, checkpoint=keep)
    assert set(kept) == {"a", "b"}
    found = tc.build_labeled_coreset(ROWS, labels, 12, resume=through_a_file(kept))
    assert torch.equal(found.points, tc.build_labeled_coreset(ROWS, labels, 12).points)


def test_the_bar_of_a_resumed_run_starts_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm", reason="needs tqdm: pip install 'torchcoreset[progress]'")
    record = interrupted(2, ROWS, 5, restarts=1)
    capsys.readouterr()
    tc.build_coreset(ROWS, 5, restarts=1, resume=record, progress=True, steps=3)
    assert " 3/3 " in capsys.readouterr().err


@pytest.mark.parametrize("given", [{"checkpoint": print}, {"resume": {}}])
def test_no_record_of_a_group(given: dict[str, Any], tmp_path: Path) -> None:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match=r"^checkpoint, resume: given with a group"):
            tc.build_coreset(ROWS, 5, group="world", **given)
    finally:
        distributed.destroy_process_group()

"""The script for a GPU stops cleanly where there is none, and reports whatever becomes of its parts."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.benchmarks import on_gpu
from tests.benchmarks.methods import ALL, methods_for
from tests.benchmarks.plans import TINY, Programme, Section
from tests.gpu import time_engines

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_without_a_gpu_it_says_what_it_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(on_gpu, "limited", lambda *_: pytest.fail("was run"))
    on_gpu.main(["--out", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "tests/gpu/test_engines.py" in said
    assert "tests.gpu.time_engines" in said
    assert "flash-sinkhorn" in said
    assert said.endswith("Nothing is run: torch sees no CUDA device.\n")
    assert not (tmp_path / "out").exists()


def test_what_the_times_of_engines_vary_is_there() -> None:
    engine = find_spec(time_engines.TRITON)
    assert engine is not None
    assert engine.origin is not None
    source = Path(engine.origin).read_text("utf-8")
    assert all(f"\n{constant} = " in source for constant, _ in time_engines.CONSTANTS.values())


def test_it_ends_in_under_eight_minutes() -> None:
    assert on_gpu.TESTS_LIMIT + on_gpu.ENGINES_LIMIT + 60 * on_gpu.ON_GPU.minutes < 8 * 60 - 15  # s to start and write


def test_every_method_of_the_gpu_is_there_and_none_of_them_runs_elsewhere() -> None:
    plans = [plan for section in on_gpu.ON_GPU.sections for plan in section.plans.values()]
    assert all(len(methods_for(plan)) == len(plan.methods) for plan in plans)
    assert all(plan.device == "cuda" for plan in plans)
    alone = {method.name for method in ALL if method.device == "cuda"}
    assert alone
    assert not alone & {method.name for plan in TINY.values() for method in methods_for(plan)}


def test_its_report_is_whole_whatever_becomes_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (name, plan), *_ = TINY.items()
    section = Section(title="Tiny", about="Little.", plans={name: plan}, compared=("ours, exact", "POT emd2"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    monkeypatch.setattr(on_gpu, "ON_GPU", Programme(sections=[section], minutes=0))
    monkeypatch.setattr(on_gpu, "tests", lambda: [sys.executable, "-c", "print('1 failed'); raise SystemExit(1)"])
    slow = "import time; print('a line', flush=True); time.sleep(60)"
    monkeypatch.setattr(on_gpu, "engines", lambda: [sys.executable, "-c", slow])
    monkeypatch.setattr(on_gpu, "ENGINES_LIMIT", 1)
    on_gpu.main(["--out", str(tmp_path)])
    measured = json.loads((tmp_path / "gpu.json").read_text())
    assert measured["tests"]["status"] == "1"
    assert measured["engines"]["lines"] == ["a line"]
    assert {row["status"] for row in measured["transports"]} == {"not run"}
    said = capsys.readouterr().out
    assert "tests: status 1" in said
    assert "engines: status ended after 1 s" in said

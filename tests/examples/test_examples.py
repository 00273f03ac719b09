"""The examples run, in their small forms, and show what they say they show."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))

pytest.importorskip("matplotlib")


def load(name: str) -> ModuleType:
    if name == "sinkhorn_vs_exact":
        pytest.importorskip("yaml")
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested() -> None:
    assert EXAMPLES == ["kernel_herding", "sinkhorn_vs_exact"]


def test_sinkhorn_vs_exact(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rows = load("sinkhorn_vs_exact").main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "sinkhorn_vs_exact.png").stat().st_size > 10_000
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.startswith(row.name) for line in lines) for row in rows)
    biased, debiased = ([row for row in rows if row.blur and row.debias is debias] for debias in (False, True))
    assert biased[-1].distinct < 16
    assert biased[-1].w2 > 5 * debiased[-1].w2
    assert all(row.distinct == 16 for row in debiased)


def test_sinkhorn_vs_exact_reads_a_config(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    config = tmp_path / "mine.yaml"
    config.write_text(
        "{data: digits, size: 5, p: 1, backend: newton, relative_blurs: [0.1], steps: 3, seed: 1}\n", "utf-8"
    )
    rows = load("sinkhorn_vs_exact").main(["--config", str(config), "--out", str(tmp_path)])
    assert rows[-1].points.shape == (5, 64)
    assert rows[-1].p == 1


def test_kernel_herding(tmp_path: Path) -> None:
    found = load("kernel_herding").main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "kernel_herding.png").stat().st_size > 10_000
    assert all(points.shape == (8, 2) and points.isfinite().all() for points in found.values())


def test_herding_takes_the_mode_first_and_then_what_is_missing() -> None:
    y = torch.cat((torch.zeros(60, 1), torch.full((40, 1), 10.0)))
    assert load("kernel_herding").herd(y, 5, blur=1.0).flatten().tolist() == [0, 10, 0, 10, 0]

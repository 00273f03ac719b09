"""The examples run, in their small forms, and show what they say they show."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(__file__).resolve().parents[2]

NEEDS = {
    "distributed_stream": [],
    "kernel_herding": ["matplotlib", "yaml"],
    "lightning_coreset": ["lightning"],
    "sinkhorn_vs_exact": ["matplotlib", "yaml"],
    "training_loop": [],
}


def load(name: str) -> ModuleType:
    for package in NEEDS[name]:
        pytest.importorskip(package)
    return importlib.import_module(name)


@pytest.mark.slow
def test_sinkhorn_vs_exact(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rows = load("sinkhorn_vs_exact").main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "sinkhorn_vs_exact.png").stat().st_size > 10_000
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.startswith(row.name) for line in lines) for row in rows)
    biased, debiased = ([row for row in rows if row.blur and row.debias is debias] for debias in (False, True))
    assert biased[-1].distinct < 16
    assert biased[-1].w2 > 5 * debiased[-1].w2
    assert all(row.distinct == 16 for row in debiased)


@pytest.mark.slow
def test_sinkhorn_vs_exact_reads_a_config(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    config = tmp_path / "mine.yaml"
    config.write_text(
        "{data: digits, size: 5, p: 1, backend: newton, relative_blurs: [0.1], steps: 3, seed: 1}\n", "utf-8"
    )
    rows = load("sinkhorn_vs_exact").main(["--config", str(config), "--out", str(tmp_path)])
    assert rows[-1].points.shape == (5, 64)
    assert rows[-1].p == 1


@pytest.mark.slow
@pytest.mark.distributed
def test_distributed_stream() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(ROOT / "examples" / "distributed_stream.py"), "--steps", "100", "--samples", "5000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command + script, capture_output=True, text=True, check=False, timeout=120, env=environment, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "2 ranks" in done.stdout
    assert "status=tracking" in done.stdout
    upper = float(re.search(r"<= ([0-9.]+)", done.stdout)[1])
    assert upper < 0.45, done.stdout  # random points are at 1.5


@pytest.mark.slow
def test_kernel_herding(tmp_path: Path) -> None:
    found = load("kernel_herding").main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "kernel_herding.png").stat().st_size > 10_000
    assert all(points.shape == (8, 2) and points.isfinite().all() for points in found.values())


def test_herding_takes_the_mode_first_and_then_what_is_missing() -> None:
    y = torch.cat((torch.zeros(60, 1), torch.full((40, 1), 10.0)))
    assert load("kernel_herding").herd(y, 5, blur=1.0).flatten().tolist() == [0, 10, 0, 10, 0]


SMALL = ["--size", "5", "--batch", "100", "--steps", "30"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("options", [[], ["--amp", "--accumulate", "2"], ["--compile", "--p", "1"]], ids=str)
def test_training_loop_goes_on_as_if_it_had_not_been_stopped(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    main = load("training_loop").main
    if "--compile" in options:
        torch.compiler.reset()
    whole = main([*SMALL, *options, "--out", str(tmp_path / "whole")])
    parts = [main([*SMALL, *options, "--stop-after", "12", "--out", str(tmp_path / "parts")]) for _ in range(3)]
    assert [part.step for part in parts] == [12, 24, 30]
    assert torch.equal(parts[-1].coreset.points, whole.coreset.points)
    assert torch.equal(parts[-1].average.module.points, whole.average.module.points)
    assert torch.equal(parts[-1].loss.potential, whole.loss.potential)
    lines = capsys.readouterr().out.splitlines()
    assert "going on after step 24" in lines
    assert lines[-1] == lines[0]
    first, last = (float(line.split("=")[1].split()[0]) for line in (lines[1], lines[-1]))
    assert last < first


def test_training_loop_logs_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    load("training_loop").main([*SMALL, "--tensorboard", "--out", str(tmp_path)])
    assert [path for path in tmp_path.iterdir() if "tfevents" in path.name]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Lightning warns of what it would do on larger machines
def test_lightning_coreset(capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = load("lightning_coreset").main(["--epochs", "5", "--rows", "2000"])
    assert "loss.potential" in module.state_dict()
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("W_2^2"))
    before, after = float(line.split(": ")[1].split()[0]), float(line.split("before, ")[1].split()[0])
    assert after < 0.8 * before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_lightning_checkpoint_goes_on_bit_for_bit(tmp_path: Path) -> None:
    lit = load("lightning_coreset")
    import lightning

    data = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(data), batch_size=100)

    def fit(epochs: int, resume: Path | None = None) -> tuple[lightning.Trainer, torch.nn.Module]:
        module = lit.LitCoreset(data[:5])
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
            enable_model_summary=False, enable_progress_bar=False, default_root_dir=tmp_path,
        )  # fmt: skip
        module.configure_optimizers = lambda: torch.optim.Adam(module.parameters(), lr=0.05)
        trainer.fit(module, loader, ckpt_path=resume, weights_only=True)
        return trainer, module

    _, whole = fit(4)
    trainer, _ = fit(2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    _, resumed = fit(4, tmp_path / "half.ckpt")
    assert torch.equal(resumed.coreset.points, whole.coreset.points)
    assert torch.equal(resumed.loss.potential, whole.loss.potential)


def test_the_example_of_several_processes_names_torchrun(monkeypatch, capsys) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit):
        load("distributed_stream").main([])
    assert "start it with torchrun: torchrun --standalone" in capsys.readouterr().err

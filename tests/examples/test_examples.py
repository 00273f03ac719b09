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
    found = load("sinkhorn_vs_exact").main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "sinkhorn_vs_exact.svg").stat().st_size > 10_000
    text = capsys.readouterr().out
    assert all(f"| {name}" in text for name in ("exact", "energy", "Sinkhorn, 0.1", "Sinkhorn, 0.5", "OT_eta, 3"))
    held = {(row["method"], row["blur"], row["start"]): row for row in found}
    for start in ("same start", "own best start"):
        assert held["OT_eta", 3, start]["distinct"] == 1
        assert held["OT_eta", 3, start]["judged"] > 8  # all mass at the centre of a ring of radius 3
        assert held["Sinkhorn", 0.1, start]["distinct"] == 8
        assert held["Sinkhorn", 0.1, start]["own"] == pytest.approx(held["exact", 0, start]["own"], rel=0.02)
    assert held["exact", 0, "own best start"]["ratio"] == 1
    assert held["exact, many samples", 0, "own best start"]["judged"] < held["exact", 0, "own best start"]["judged"]


def test_sinkhorn_vs_exact_of_a_table_builds_on_some_rows_and_judges_by_the_others() -> None:
    yaml = pytest.importorskip("yaml")
    pytest.importorskip("sklearn")
    sinkhorn = load("sinkhorn_vs_exact")
    held = yaml.safe_load((ROOT / "configs" / "sinkhorn_vs_exact.yaml").read_text("utf-8"))
    del held["small"]
    task = sinkhorn.Task(sinkhorn.Settings(**held), "digits", "exact", 1, 0, (900, "same start", 0.0))
    built, judges = sinkhorn.samples(task)
    assert (len(built), len(judges)) == (900, 897)
    row = sinkhorn.run(task)  # one point is the mean, whatever it starts from
    variance = built.var(0, correction=0).sum().item()
    assert row["own"] == pytest.approx(variance, rel=1e-4)
    assert row["judged"] == pytest.approx((judges - built.mean(0)).square().sum(1).mean().item(), rel=1e-4)


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


def test_time_to_equal_quality_is_when_the_own_value_first_is_near_that_of_the_exact_coreset() -> None:
    sinkhorn = load("sinkhorn_vs_exact")
    about = {"data": "a", "seed": 0, "blur": 0.0, "start": "own best start"}
    rows = [
        {**about, "method": "exact", "own": 1.0, "judged": 2.0, "path": [(0.1, 1.5), (0.2, 1.0)]},
        {**about, "method": "energy", "own": 1.1, "judged": 1.0, "path": [(0.1, 1.5), (0.2, 1.1)]},
    ]
    exact, energy = sinkhorn.relative(rows)
    assert (exact["to_quality"], exact["ratio"], energy["ratio"]) == (0.2, 1, 0.5)
    counted = [sinkhorn.counted([exact, energy], row) for row in (exact, energy)]
    assert counted == [{"nearer": 0, "timed": 1, "reached": 1}, {"nearer": 1, "timed": 1, "reached": 0}]
    assert sinkhorn.reached({**energy, **counted[1]}) == "never"
    assert sinkhorn.reached({**exact, **counted[0]}) == "0.2 (1 of 1)"


def test_the_mixtures_have_the_moments_that_they_are_said_to_have() -> None:
    sinkhorn = load("sinkhorn_vs_exact")
    generator = torch.Generator().manual_seed(0)
    ring, unequal = (mixture.draw(100_000, generator) for mixture in (sinkhorn.RING, sinkhorn.UNEQUAL))
    assert ring.square().sum(1).mean().item() == pytest.approx(9 + 2 * 0.09, rel=0.01)
    mean = [0.3 * 2 - 0.1 * 3 + 0.05, 0.15 * 2.5 - 0.1 - 0.15]
    assert unequal.mean(0).tolist() == pytest.approx(mean, abs=0.02)
    judges = sinkhorn.population("unequal", 1000, 0)
    assert len(judges) == 1000
    assert judges[400:700].mean(0).tolist() == pytest.approx([2, 0], abs=0.05)  # 300 of the second one, exactly
    assert sinkhorn.distinct(torch.tensor([[0.0], [0.05], [0.1], [1.0]]), 0.06) == 2


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

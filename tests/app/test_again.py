"""A build that was stopped, killed or had ended before: what --resume does, and what a full disk costs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.processes import COMMAND, Started

pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[cli]'")

from torchcoreset.app import main
from torchcoreset.app.files import Checkpoint

ROWS = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
BUILD = "build rows.npy --size 6 --restarts 2 --checkpoint-every 0 --quiet"
OUT, CHECKPOINT = Path("coreset.npz"), Path("coreset.npz.checkpoint")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS.numpy())
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def stopped_after(steps: int, line: str, monkeypatch: pytest.MonkeyPatch, error: Any = KeyboardInterrupt) -> int:
    """The exit code of a command that is stopped in a step."""
    with monkeypatch.context() as patch:
        keep = Checkpoint.keep

        def stop(self: Checkpoint, label: Any, record: dict[str, Any]) -> None:
            keep(self, label, record)
            if self.steps(label) >= steps:
                raise error

        patch.setattr(Checkpoint, "keep", stop)
        return main(line.split())


def test_a_finished_run_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(BUILD.split()) == 0
    before, stamp = OUT.read_bytes(), OUT.stat().st_mtime_ns
    for more in ("", " --steps 1", " --tolerance 0.5", " --force"):
        capsys.readouterr()
        assert main((BUILD + " --resume" + more).split()) == 0
        assert capsys.readouterr().out.startswith("already complete: coreset.npz (")
    assert (OUT.read_bytes(), OUT.stat().st_mtime_ns) == (before, stamp)
    assert not CHECKPOINT.exists()


def test_a_finished_run_that_was_killed_before_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Between the coreset and the picture: the first is kept, the second is drawn."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'torchcoreset[plot]'")
    assert main(BUILD.split()) == 0
    before = OUT.read_bytes()
    assert main([*BUILD.split(), "--resume", "--plot", "p.png"]) == 0
    assert "written  p.png" in capsys.readouterr().out
    assert OUT.read_bytes() == before
    assert names(tmp_path) == {"rows.npy", "coreset.npz", "p.png"}


@pytest.mark.parametrize("change", ["--seed 1", "--size 7", "--algorithm sgd", "--init random", "--hold-out 0.5"])
def test_a_file_of_another_run_is_not_replaced(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(BUILD.split()) == 0
    before = OUT.read_bytes()
    assert main((f"{BUILD} --resume {change}").split()) == 2
    assert "coreset.npz is not of this run" in capsys.readouterr().err
    assert OUT.read_bytes() == before
    OUT.write_text("mine")
    assert main((BUILD + " --resume").split()) == 2
    assert OUT.read_text() == "mine"


def test_an_interrupted_run_goes_on_to_the_same_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([*BUILD.split(), "--out", "whole.npz"]) == 0
    assert stopped_after(3, BUILD, monkeypatch) == 130
    assert tc.Coreset.load(OUT).size == 6
    assert main([*BUILD.split(), "--resume"]) == 0
    assert torch.equal(tc.Coreset.load(OUT).points, tc.Coreset.load("whole.npz").points)
    assert not CHECKPOINT.exists()


def test_a_new_run_does_not_replace_what_an_interrupted_one_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stopped_after(3, BUILD, monkeypatch) == 130
    before = OUT.read_bytes(), CHECKPOINT.read_bytes()
    assert main(BUILD.split()) == 2
    said = capsys.readouterr().err
    assert "--resume to go on" in said
    assert "--force to begin anew" in said
    CHECKPOINT.rename("elsewhere")
    assert main([*BUILD.split(), "--resume"]) == 2
    assert "whose checkpoint coreset.npz.checkpoint is gone" in capsys.readouterr().err
    Path("elsewhere").rename(CHECKPOINT)
    assert (OUT.read_bytes(), CHECKPOINT.read_bytes()) == before
    assert main([*BUILD.split(), "--force"]) == 0


def test_a_forced_run_that_is_stopped_leaves_the_file_that_was_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(BUILD.split()) == 0
    before = OUT.read_bytes()
    assert stopped_after(2, BUILD + " --force --steps 3", monkeypatch) == 130
    assert "is left as it was" in capsys.readouterr().out
    assert OUT.read_bytes() == before
    assert main([*BUILD.split(), "--resume"]) == 0
    assert "already complete" in capsys.readouterr().out
    assert CHECKPOINT.exists(), "it is of a run begun after the file was written"
    assert main([*BUILD.split(), "--resume", "--force"]) == 0
    assert not CHECKPOINT.exists()


def test_a_picture_that_was_there_is_not_replaced_by_a_resumed_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'torchcoreset[plot]'")
    Path("p.png").write_text("mine")
    assert stopped_after(2, BUILD, monkeypatch) == 130
    assert main([*BUILD.split(), "--resume", "--plot", "p.png"]) == 2
    assert "--plot: 'p.png' exists" in capsys.readouterr().err
    assert Path("p.png").read_text() == "mine"
    assert main([*BUILD.split(), "--resume", "--plot", "q.png"]) == 0


def test_a_kill_between_a_table_and_what_stands_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    line = BUILD + " --out coreset.csv"
    with monkeypatch.context() as patch:
        full_disk(patch, ".csv")  # the last of both to be written
        assert main(line.split()) == 2
    assert Path("coreset.csv.json").exists()
    assert main([*line.split(), "--resume"]) == 0
    assert main(["info", "coreset.csv"]) == 0


def test_an_interruption_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[bool] = []

    def stop(*_: Any, **__: Any) -> None:
        seen.append(CHECKPOINT.exists())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tc, "build_coreset", stop)
        assert main(BUILD.split()) == 130
    assert seen == [True], "the checkpoint is there before the start is drawn"
    assert "nothing was written" in capsys.readouterr().out
    assert names(tmp_path) == {"rows.npy"}
    assert stopped_after(0, BUILD, monkeypatch) == 130  # the start is drawn
    assert names(tmp_path) == {"rows.npy", CHECKPOINT.name}
    with monkeypatch.context() as patch:
        patch.setattr("torchcoreset.coresets.start.restarts.start_points", stop)
        assert main([*BUILD.split(), "--resume"]) == 0, "the start is not drawn again"


def test_an_error_leaves_no_empty_checkpoint(tmp_path: Path) -> None:
    assert main([*BUILD.split(), "--p", "0.5"]) == 2
    assert names(tmp_path) == {"rows.npy"}


@pytest.mark.parametrize("algorithm", ["fixed_point", "sgd"])
def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path, algorithm: str) -> None:
    np.save("rows.npy", torch.randn(1500, 2, generator=torch.Generator().manual_seed(0)).numpy())
    line = f"build rows.npy --size 40 --checkpoint-every 0 --quiet --algorithm {algorithm} --steps 12 --tolerance 0"
    assert main([*line.split(), "--out", "whole.npz"]) in (0, 1)
    for steps in (2, 8):
        process = Started(WITH_PAUSES, str(steps), *line.split(), "--resume")
        while "paused" not in process.said():
            assert process.status is None, process.said("err")
            time.sleep(0.02)
        process.kill()
        assert not OUT.exists()
    assert main([*line.split(), "--resume"]) in (0, 1)
    assert torch.equal(tc.Coreset.load(OUT).points, tc.Coreset.load("whole.npz").points)
    assert names(tmp_path) == {"rows.npy", "whole.npz", "coreset.npz"}


WITH_PAUSES = """
import runpy, sys, time
from torchcoreset.app.files import Checkpoint
keep, steps = Checkpoint.keep, int(sys.argv.pop(1))
def paused(self, label, record):
    keep(self, label, record)
    if self.steps(label) >= steps:
        self.path.with_name(f".{self.path.name}.01234567{self.path.suffix}").write_text("half")
        print("paused", flush=True)
        time.sleep(60)
Checkpoint.keep = paused
runpy.run_module("torchcoreset", run_name="__main__")
"""


def full_disk(monkeypatch: pytest.MonkeyPatch, *suffixes: str) -> None:
    """No room for files with these suffixes."""
    rename = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target).suffix in suffixes:
            raise OSError(28, os.strerror(28))
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)


def test_a_full_disk_costs_the_checkpoint_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full_disk(monkeypatch, ".checkpoint")
    assert main(BUILD.split()) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "warning: the checkpoint coreset.npz.checkpoint cannot be written (No space left on device)" in said
    assert names(tmp_path) == {"rows.npy", "coreset.npz"}


def test_a_full_disk_at_the_end_keeps_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        full_disk(patch, ".npz")
        assert main(BUILD.split()) == 2
    said = capsys.readouterr().err
    assert "--out: coreset.npz cannot be written (No space left on device)" in said
    assert "pass --resume" in said
    assert names(tmp_path) == {"rows.npy", CHECKPOINT.name}
    with monkeypatch.context() as patch:
        patch.setattr("torchcoreset.coresets.algorithms.fixed_point.step", lambda *_: 1 / 0)  # none is made again
        assert main([*BUILD.split(), "--resume"]) == 0
    assert names(tmp_path) == {"rows.npy", "coreset.npz"}


def test_no_room_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    full_disk(monkeypatch, ".npz", ".checkpoint")
    assert main(BUILD.split()) == 2
    assert "Make room." in capsys.readouterr().err
    assert names(tmp_path) == {"rows.npy"}


def test_a_configuration_resumes_and_forces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("job.yaml").write_text("command: build\ndata: rows.npy\nsize: 6\ncheckpoint_every: 0\nquiet: true\n")
    assert stopped_after(3, "run job.yaml", monkeypatch) == 130
    assert main(["run", "job.yaml"]) == 2
    assert main(["run", "job.yaml", "--resume"]) == 0
    assert main(["run", "job.yaml", "--resume"]) == 0
    assert "already complete" in capsys.readouterr().out
    assert main(["run", "job.yaml"]) == 2
    assert main(["run", "job.yaml", "--force"]) == 0


def test_a_run_with_classes_goes_on_to_the_same_end(monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez("rows.npz", X=ROWS.numpy(), y=(ROWS[:, 0] > 0).numpy().astype(int))
    line = "build rows.npz --size 5 --label y --restarts 2 --checkpoint-every 0 --quiet"
    assert main([*line.split(), "--out", "whole.npz"]) == 0
    assert stopped_after(2, line, monkeypatch) == 130
    assert main([*line.split(), "--resume"]) == 0
    assert torch.equal(tc.Coreset.load(OUT).points, tc.Coreset.load("whole.npz").points)


def test_the_command_runs() -> None:
    assert Started(COMMAND, *BUILD.split()).wait() == 0

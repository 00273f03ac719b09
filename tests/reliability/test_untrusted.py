"""Files from anywhere: whatever they hold, reading them runs nothing of it."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchcoreset as tc


class Trap:
    """An object that, unpickled as pickle does it, makes the folder `executed`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("executed",))


def object_array(path: Path) -> None:
    np.save(path, np.array([Trap()], dtype=object), allow_pickle=True)


def object_arrays(path: Path) -> None:
    trap = np.array([Trap()], dtype=object)
    np.savez(path, points=trap, weights=np.ones(1), state=trap, X=trap)


def torch_objects(path: Path) -> None:
    torch.save({"points": Trap(), "weights": torch.ones(1)}, path)


def legacy_torch(path: Path) -> None:
    torch.save({"points": Trap()}, path, _use_new_zipfile_serialization=False)


def bare_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Trap()))


def pickle_in_a_zip(path: Path) -> None:
    held = io.BytesIO()
    np.save(held, np.array([Trap()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("points.npy", "weights.npy", "data.npy", "state.npy"):
            archive.writestr(name, held.getvalue())
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
        archive.writestr("archive/version", "3")


WRITERS = [object_array, object_arrays, torch_objects, legacy_torch, bare_pickle, pickle_in_a_zip]
LIBRARY: dict[str, Callable[[Path], Any]] = {
    ".npz": tc.Coreset.load,
    ".pt": tc.Coreset.load,
    ".safetensors": tc.Coreset.load,
    ".npy": tc.as_source,
    ".parquet": tc.as_source,
    ".csv": lambda path: tc.as_source(path).draw(1, torch.Generator()),
}
COMMANDS = (
    "build bad.npz --size 2", "build bad.npy --size 2", "build bad.pt --size 2", "build bad.parquet --size 2",
    "build bad.csv --size 2", "certify bad.npz good.npy", "certify bad.pt good.npy", "certify bad.parquet good.npy",
    "certify bad.csv good.npy", "certify good.npz bad.npz", "compare good.npy bad.npz", "info bad.npz", "info bad.pt",
    "info bad.npy", "size bad.npz --epsilon 1", "push bad.pt --network torch:relu",
    "push good.npz --network torch.nn:Identity --state bad.pt", "build good.npy --size 2 --out bad --resume",
    "run bad.yaml",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("suffix", LIBRARY)
@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.filterwarnings("ignore")  # torch warns of legacy files
def test_the_library_refuses_a_trap(folder: Path, write: Callable[[Path], None], suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[files]'")
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors: pip install 'torchcoreset[safetensors]'")
    _write(write, folder / f"bad{suffix}")
    with pytest.raises((ValueError, TypeError)):
        LIBRARY[suffix](folder / f"bad{suffix}")
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.filterwarnings("ignore")
def test_the_command_line_refuses_a_trap(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, write: Callable[[Path], None]
) -> None:
    pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[cli]'")
    from torchcoreset.app import main

    rows = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    np.save("good.npy", rows.numpy())
    tc.Coreset(rows[:3]).save("good.npz")
    for suffix in (".npz", ".npy", ".pt", ".csv", ".parquet", ".npz.checkpoint"):
        _write(write, folder / f"bad{suffix}")
    (folder / "bad.yaml").write_text("command: build\ndata: !!python/object/apply:os.mkdir [executed]\nsize: 2\n")
    assert main(line.replace("--out bad ", "--out bad.npz ").split()) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (folder / "executed").exists()


def test_the_trap_works(folder: Path) -> None:
    bare_pickle(folder / "bad.pt")
    pickle.loads((folder / "bad.pt").read_bytes())
    assert (folder / "executed").is_dir()


def _write(write: Callable[[Path], None], path: Path) -> None:
    """Whatever the suffix: numpy adds its own to a name, so it is given a file."""
    beside = path.with_name("trap.npy" if write is object_array else "trap.npz")
    write(beside)
    beside.replace(path)

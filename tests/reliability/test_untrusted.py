"""Files from anywhere: whatever they hold, reading them runs nothing of it."""

from __future__ import annotations

import io
import json
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
    said = capsys.readouterr().err.splitlines()
    assert next(line for line in said if not line.startswith("note: good.npy: ")).startswith("error: ")
    assert not (folder / "executed").exists()


ODD = "\x1b[31mred\x9b2J\u202e"  # escape codes, and a sign that turns the order of letters
METADATA = (
    "[" * 100_000, '{"a":' * 100_000, '{"a": [[[[[[[[[[1]]]]]]]]]]}', "[]", "1", "{", '{"p": "x"}', '{"p": NaN}',
    '{"seed": 1e999}', '{"seed": 1180591620717411303424}', '{"bounds": ["x", 2]}', '{"bounds": [1]}',
    '{"columns": "ab"}',
    '{"scaling": {"mean": 1}}', '{"scaling": {"mean": [1], "deviation": [1]}}', '{"size": "x"}', '{"row_weights": {}}',
    '{"key": [1]}', '{"label": [1]}', '{"data": 7}',
)  # fmt: skip


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str]]:
    """What a command ends with and says; it may not be a fault of torchcoreset, nor reach a terminal raw."""
    pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[cli]'")
    from torchcoreset.app import main

    def run(line: str) -> tuple[int, str]:
        code = main(line.split())
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert "fault of torchcoreset" not in said
        assert all(one.isprintable() or one == "\n" for one in said)
        return code, said

    return run


def coreset_with(metadata: str, path: str = "c.npz", **more: Any) -> None:
    points = np.arange(6.0).reshape(3, 2)
    np.savez(path, points=points, weights=np.full(3, 1 / 3), metadata=np.array(metadata), **more)


@pytest.mark.parametrize("metadata", METADATA, ids=range(len(METADATA)))
def test_metadata_that_makes_no_sense_is_refused(
    folder: Path, command: Callable[[str], tuple[int, str]], metadata: str
) -> None:
    coreset_with(metadata)
    np.save("t.npy", np.random.default_rng(0).normal(size=(60, 2)))
    (folder / "c.csv").write_text("x,y\n1,2\n")
    (folder / "c.csv.json").write_text(metadata)
    for line in ("info c.npz", "certify c.npz t.npy", "compare t.npy c.npz", "push c.npz --network torch.nn:Identity"):
        code, said = command(line)
        assert code == 2, said
        assert "c.npz: its metadata" in said
    assert command("info c.csv")[0] in (0, 2)  # what is not ours beside a table is passed over


def test_metadata_may_lack_anything(folder: Path, command: Callable[[str], tuple[int, str]]) -> None:
    np.save("t.npy", np.random.default_rng(0).normal(size=(60, 2)))
    for metadata in ("{}", '{"distance": 1}', '{"bounds": [null, null], "distance": null}', '{"data": "t.npy"}'):
        coreset_with(metadata)
        assert command("info c.npz")[0] == command("compare t.npy c.npz")[0] == 0


def test_escape_codes_reach_no_terminal(folder: Path, command: Callable[[str], tuple[int, str]]) -> None:
    names = {"data": ODD, "status": ODD, "version": [ODD], "columns": [ODD, "b"], ODD: ODD}
    coreset_with(json.dumps({"format": 1, **names}), labels=np.array([ODD, "b", "b"]))
    rows = np.random.default_rng(0).normal(size=(120, 2))
    (folder / f"t{ODD}.csv").write_text(f"{ODD},b,kind\n" + "".join(f"{a},{b},{ODD}\n" for a, b in rows))
    quick = "--size 2 --restarts 1 --tolerance 0.1 --force"
    for line, expected in (
        ("info c.npz", 0), ("info c.npz --json", 0), (f"info t{ODD}.csv --label kind", 0), (f"info none{ODD}.csv", 2),
        (f"build t{ODD}.csv {quick} --label kind --out {ODD}.csv", 0), (f"build t{ODD}.csv {quick}", 2),
        (f"build t{ODD}.csv {quick} --columns b --hold-out 0.5", 0), (f"certify coreset.npz t{ODD}.csv --json", 0),
        (f"build t{ODD}.csv {quick} --columns {ODD[:-1]}", 2), (f"build t{ODD}.csv {quick} --{ODD}", 2), (ODD, 2),
        (f"compare t{ODD}.csv coreset.npz", 0), (f"run {ODD}.yaml", 2),
    ):  # fmt: skip
        code, said = command(line)
        assert code == expected, said
    assert "\\x1b[31mred" in command("info c.npz")[1]
    assert json.loads(command("info c.npz --json")[1])["data"] == ODD


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 50_000, "is nested more than 8 deep"),
        ("a: &x [1]\nb: *x\n", "repeats a part by an alias (*x)"),
        ("a: &a [x]\n" + "".join(f"{k}: &{k} [*{j}, *{j}]\n" for j, k in ("ab", "bc", "cd", "de", "ef")), "alias"),
        ("{" * 50_000, "is nested more than 8 deep"),
        (f'command: "{ODD}"\n'.replace("\x1b", "\\x1b").replace("\x9b", "\\x9b"), "names the command"),
    ],
)  # fmt: skip
def test_a_configuration_that_unfolds_is_refused(
    folder: Path, command: Callable[[str], tuple[int, str]], text: str, said: str
) -> None:
    (folder / "job.yaml").write_text(text, "utf-8")
    code, found = command("run job.yaml")
    assert code == 2
    assert said in found
    assert len(found) < 500


def test_the_trap_works(folder: Path) -> None:
    bare_pickle(folder / "bad.pt")
    pickle.loads((folder / "bad.pt").read_bytes())
    assert (folder / "executed").is_dir()


def _write(write: Callable[[Path], None], path: Path) -> None:
    """Whatever the suffix: numpy adds its own to a name, so it is given a file."""
    beside = path.with_name("trap.npy" if write is object_array else "trap.npz")
    write(beside)
    beside.replace(path)

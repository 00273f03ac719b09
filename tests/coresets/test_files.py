"""Files of arrays: only what is asked for is read, nothing absurd is made room for, nothing is left by a kill."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.processes import Started
from torchcoreset.archives import load_npz, load_tensors, names_in_npz
from torchcoreset.coresets import replacing

POINTS = np.arange(6.0).reshape(3, 2)


def with_header(shape: tuple[int, ...], dtype: str, body: bytes) -> bytes:
    """An array in the format of NumPy whose header says what it likes."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue() + body


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def plain(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_arrays_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    broken = plain(np.zeros(1000))[:-8]  # reading it raises
    path = archive(tmp_path / "c.npz", points=plain(POINTS), weights=plain(np.ones(3)), other=broken)
    assert tc.Coreset.load(path).points.tolist() == POINTS.tolist()
    assert set(load_npz(path, ["points"])) == {"points"}
    assert names_in_npz(path) == ["points", "weights", "other"]
    with pytest.raises(ValueError, match="'other' is said to be"):
        load_npz(path)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((10**12,), "<f8"), ((10**6, 10**6), "<f4"), ((10**18,), "|V0"), ((3, 10**9), "<U0"), ((1,), "<U400000000")],
)
def test_a_header_that_promises_more_than_there_is(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    path = archive(tmp_path / "c.npz", points=with_header(shape, dtype, b"12345678"), weights=plain(np.ones(3)))
    with pytest.raises(ValueError, match=r"^path: .* is not a .npz file of plain arrays \('points' is said to be"):
        tc.Coreset.load(path)


def test_a_header_in_brackets_without_end(tmp_path: Path) -> None:
    text = b"(" * 9000
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    with pytest.raises(ValueError, match=r"is not a .npz file of plain arrays"):
        tc.Coreset.load(archive(tmp_path / "c.npz", points=member, weights=plain(np.ones(3))))


def test_a_tensor_of_which_a_part_is_stored(tmp_path: Path) -> None:
    wide = torch.zeros(1).expand(10**6, 10**6)
    torch.save({"points": wide, "weights": torch.ones(3)}, tmp_path / "c.pt")
    with pytest.raises(ValueError, match=r"^path: .* is not a .pt file"):
        tc.Coreset.load(tmp_path / "c.pt")
    torch.save(wide, tmp_path / "t.pt")
    with pytest.raises(ValueError, match="of which only a part is stored"):
        load_tensors(tmp_path / "t.pt")
    small = torch.zeros(1).expand(4, 2)  # as anybody may have saved it
    torch.save(small, tmp_path / "t.pt")
    assert torch.equal(load_tensors(tmp_path / "t.pt"), small)


@pytest.mark.skipif(sys.platform == "win32", reason="needs ru_maxrss")
def test_a_large_tensor_beside_the_points_takes_no_memory(tmp_path: Path) -> None:
    size = 1 << 26
    torch.save({"points": torch.ones(3, 2), "weights": torch.ones(3), "other": torch.zeros(size)}, tmp_path / "c.pt")
    code = (
        "import resource, sys, torchcoreset as tc\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = used(); tc.Coreset.load(sys.argv[1]); print(used() - before)"
    )
    assert int(Started(code, str(tmp_path / "c.pt")).end()) * 1024 < size


def test_labels_nested_without_end(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.torch", reason="needs safetensors").save_file
    arrays = {"points": torch.ones(3, 2), "weights": torch.ones(3)}
    for labels in ("[" * 200_000, "x"):
        save_file(arrays, tmp_path / "c.safetensors", metadata={"labels": labels})
        with pytest.raises(ValueError, match=r"^path: the labels of the file are not a list in JSON"):
            tc.LabeledCoreset.load(tmp_path / "c.safetensors")
    save_file(arrays, tmp_path / "c.safetensors", metadata={"labels": json.dumps(["a", "b", "a"])})
    assert tc.LabeledCoreset.load(tmp_path / "c.safetensors").labels.tolist() == ["a", "b", "a"]


WRITES = """
import sys, time
from pathlib import Path
from torchcoreset.coresets import replacing
with replacing(Path(sys.argv[1])) as beside:
    beside.write_text("half")
    print("here", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks of files")
def test_what_a_killed_writer_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    path, started = tmp_path / "c[1].txt", []
    for _ in range(2):
        started.append(Started(WRITES, str(path)))
        while not started[-1].said():
            assert started[-1].status is None, started[-1].said("err")
    neighbour = tmp_path / ".c[1].txt.notes.txt"
    neighbour.write_text("mine")
    started[0].kill()
    with replacing(path) as beside:
        beside.write_text("whole")
    left = set(tmp_path.iterdir())
    assert len(left) == 3, "the file, the neighbour and that of the writer who lives"
    assert {path, neighbour} < left
    started[1].kill()
    with replacing(path) as beside:
        beside.write_text("whole again")
    assert set(tmp_path.iterdir()) == {path, neighbour}
    assert path.read_text() == "whole again"


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, target = tmp_path / "c.npz", tmp_path / "far" / "c.npz"
    link.symlink_to(target)
    tc.Coreset(POINTS).save(link)
    assert link.is_symlink()
    assert tc.Coreset.load(target).size == 3


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_a_full_disk_is_an_os_error_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors: pip install 'torchcoreset[safetensors]'")
    path = tmp_path / f"c{suffix}"
    tc.Coreset(POINTS).save(path)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        tc.Coreset(POINTS + 1).save(path)
    assert list(tmp_path.iterdir()) == [path]
    assert tc.Coreset.load(path).points.tolist() == POINTS.tolist()

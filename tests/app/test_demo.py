"""The demo: what it prints, what it writes, and what it says when the file is wrong."""

import numpy as np
import pytest
from PIL import Image

import torchcoreset as tc
from torchcoreset.app.demo import main

pytestmark = pytest.mark.usefixtures("two_starts")


@pytest.mark.slow
def test_the_digits(tmp_path, capsys):
    assert main(["--size", "12", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1,797 handwritten digits" in printed
    assert "random subset" in printed
    assert "yourfile.csv" in printed
    coreset = tc.Coreset.load(tmp_path / "coreset.npz")
    assert coreset.points.shape == (12, 64)
    picture = np.asarray(Image.open(tmp_path / "coreset.png").convert("RGB"))
    assert min(picture.shape[:2]) > 500
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100


@pytest.mark.slow
def test_the_coreset_is_the_closer_one(tmp_path, capsys):
    main(["--size", "12", "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    coreset, subset = (next(line for line in lines if line.startswith(name)) for name in ("coreset ", "random subset"))
    assert float(coreset.split()[2]) < 0.9 * float(subset.split("5)")[1].split()[1])
    # With its shares as weights k-means comes nearer than equal weights can; without them it does not.
    centres, shares = (next(line for line in lines if line.startswith(f"KMeans, {name}")) for name in ("its", "shares"))
    assert float(shares.split()[-3]) < float(coreset.split()[2]) < float(centres.split()[-3])


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "p"), [("csv", "2"), ("npy", "1"), ("npz", "2")])
def test_a_file_of_ones_own(tmp_path, capsys, suffix, p):
    data = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    path = tmp_path / f"data.{suffix}"
    if suffix == "csv":
        np.savetxt(path, data, delimiter=",", header="left,right", comments="")
    elif suffix == "npy":
        np.save(path, data)
    else:
        np.savez(path, X=data)
    assert main([str(path), "--size", "5", "--p", p, "--out", str(tmp_path)]) == 0
    assert "200 rows of 2 columns" in capsys.readouterr().out
    assert tc.Coreset.load(tmp_path / "coreset.npz").points.shape == (5, 2)
    assert (tmp_path / "coreset.png").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.txt", "1", "expected one of .csv"),
        ("missing.csv", None, "missing.csv"),
        ("nan.csv", "1,2\nnan,3\n", "NaN"),
        ("text.csv", "a,b\n1,Oslo\n", "`torchcoreset build` chooses"),
    ],
)
def test_wrong_files_give_one_line(tmp_path, capsys, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert main([str(path), "--size", "1", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_an_archive_without_x(tmp_path, capsys):
    np.savez(tmp_path / "data.npz", one=np.zeros(3), other=np.zeros(3))
    assert main([str(tmp_path / "data.npz"), "--out", str(tmp_path)]) == 2
    assert "holds the arrays one, other" in capsys.readouterr().err


def test_semicolons(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("\ufeffleft;right\n" + "1;2\n3;4\n" * 10, encoding="utf-8")
    assert main([str(path), "--size", "2", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "20 rows of 2 columns" in said
    assert "The coreset is on the rows of the data." in said


@pytest.mark.slow
def test_as_many_points_as_rows(tmp_path, capsys):
    """The coreset lies on the rows, at a distance of 0 that nothing is a multiple of."""
    np.savetxt(tmp_path / "data.csv", np.random.default_rng(0).normal(size=(10, 2)), delimiter=",")
    assert main([str(tmp_path / "data.csv"), "--size", "10", "--out", str(tmp_path)]) == 0
    assert "on the rows of the data" in capsys.readouterr().out

"""The command line: every command on real files, what it says when it is asked wrongly, and what a kill leaves."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.processes import COMMAND, Started

pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[cli]'")

from torchcoreset.app import main

pytestmark = pytest.mark.usefixtures("two_starts")

ROOT = Path(__file__).parents[2]
ROWS = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 100.0, 1.0]
KIND = np.where(ROWS[:, 0] > 0, "up", "down")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the same table in every format, to work in."""
    pandas = pytest.importorskip("pandas", reason="needs pandas to write the tables")
    frame = pandas.DataFrame(ROWS, columns=["a", "b", "c"])
    frame["w"] = np.arange(len(ROWS)) + 1.0
    frame["kind"] = KIND
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", ROWS)
    np.savez(tmp_path / "t.npz", X=ROWS, y=(KIND == "up").astype(int), w=frame["w"])
    torch.save({"data": torch.from_numpy(ROWS)}, tmp_path / "t.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(capsys, line: str) -> tuple[int, dict]:
    """Exit code and JSON of a command."""
    capsys.readouterr()
    code = main([*line.split(), "--json", "--quiet"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("data", ["t.csv --columns a,b,c", "t.parquet --columns a,b,c", "t.npy", "t.npz", "t.pt"])
def test_every_format_gives_the_same_points(folder, capsys, data):
    code, said = ask(capsys, f"build {data} --size 4 --restarts 1")
    assert code == 0
    assert said["bounds"][0] <= said["distance"] == said["bounds"][1]
    expected = tc.build_coreset(torch.from_numpy(ROWS), 4, restarts=1).coreset
    torch.testing.assert_close(tc.Coreset.load("coreset.npz").points, expected.points)


def test_bound_is_that_of_the_library(folder, capsys):
    line = "bound t.csv --size 6 --columns a,b,c --scale standard"
    code, said = ask(capsys, f"{line} --distance 2.5")
    expected = tc.optimality_bound(torch.from_numpy(ROWS), 6, scale="standard")
    assert (code, said["method"], said["samples"]) == (0, "semidefinite", 300)
    assert said["distance"] == pytest.approx(expected.distance)
    assert said["within"] == pytest.approx(expected.within(2.5))
    assert main(line.split()) == 0
    assert "no 6 points (equal weights) are nearer" in capsys.readouterr().out
    assert ask(capsys, f"{line} --point-weights 0.5,2")[1]["lower"] < said["lower"]
    for more, message in (
        ("--point-weights 2,3", "--point-weights: got '2,3'; expected equal"),
        ("--distance 0.1", "--distance: got a distance of 0.1, and no 6 points"),
    ):
        assert main([*line.split(), *more.split()]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".PT", ".safetensors", ".csv", ".parquet"])
def test_every_output_reads_back(folder, capsys, suffix):
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors: pip install 'torchcoreset[safetensors]'")
    for out in (f"o{suffix}", "reference.npz"):
        line = f"build t.csv --size 5 --label kind --weights w --restarts 1 --tolerance 0.1 --out {out}"
        assert main(line.split()) == 0
    from torchcoreset.app.files.coresets import read_coreset

    held, reference = read_coreset(f"o{suffix}"), read_coreset("reference.npz")
    assert torch.equal(held.points, reference.points)
    assert torch.equal(held.weights, reference.weights)
    assert held.labels.tolist() == reference.labels.tolist()
    assert held.metadata == reference.metadata
    assert held.metadata["size"] == 5
    assert held.metadata["version"]
    code, said = ask(capsys, f"info o{suffix}")
    assert (code, said["kind"]) == (0, "coreset")
    assert sum(said["points_of_class"].values()) == 5


def test_standardised_columns_are_put_back(folder, capsys):
    code, said = ask(capsys, "build t.csv --columns a,b,c --size 6 --standardise --out s.npz")
    assert code == 0
    assert said["distance"] < 2  # in deviations; the second column alone would cost far more
    spread = tc.Coreset.load("s.npz").points.detach().std(0)
    assert spread[1] > 20 * spread[0]
    scaled = (ROWS - ROWS.mean(0)) / ROWS.std(0)
    points = (tc.Coreset.load("s.npz").points.detach().numpy() - ROWS.mean(0)) / ROWS.std(0)
    plan = tc.transport(torch.from_numpy(points), torch.from_numpy(scaled))
    assert plan.value**0.5 == pytest.approx(said["distance"], rel=1e-3)


def test_held_out_rows_certify(folder, capsys):
    ask(capsys, "build t.npy --size 3 --hold-out 0.5 --standardise")
    code, said = ask(capsys, "certify coreset.npz t.npy")
    assert code == 0
    assert said["samples"] + said["potential_samples"] == 150
    assert 0 <= said["lower"] < said["upper"]
    assert ask(capsys, "certify coreset.npz t.npy --at-most 0.01")[0] == 1


def test_the_rows_of_the_build_are_warned_of(folder, capsys):
    ask(capsys, "build t.npy --size 3")
    assert main(["certify", "coreset.npz", "t.npy"]) == 0
    assert "warning: t.npy built this coreset" in capsys.readouterr().err


def test_compare_puts_random_rows_behind(folder, capsys):
    ask(capsys, "build t.npy --size 5")
    code, said = ask(capsys, "compare t.npy coreset.npz")
    ours, random = said["coresets"]
    assert code == 0
    assert ours["distance"] < random["distance"]


def test_push_through_a_network(folder, capsys):
    (folder / "net.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(3, 2)\n"
    )
    network = torch.nn.Linear(3, 2)
    torch.save(network.state_dict(), "state.pt")
    ask(capsys, "build t.npy --size 4 --hold-out 0.5")
    command = "push coreset.npz --network net.py:Net --state state.pt --data t.npy --out image.npz"
    code, said = ask(capsys, command)
    assert code == 0
    assert said["certificate"]["lower"] <= said["certificate"]["upper"]
    expected = network(tc.Coreset.load("coreset.npz").points.float())
    torch.testing.assert_close(tc.Coreset.load("image.npz").points.float(), expected, check_dtype=False)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_push_through_a_program(folder, capsys):
    network = torch.nn.Linear(3, 2)
    torch.jit.trace(network, torch.zeros(1, 3)).save("net.pt")
    tc.Coreset(ROWS[:4]).save("c.npz")  # float64
    assert ask(capsys, "push c.npz --network net.pt --data t.npy --out image.npz")[0] == 0
    expected = network(torch.from_numpy(ROWS[:4]).float())
    torch.testing.assert_close(tc.Coreset.load("image.npz").points, expected)


@pytest.mark.slow  # torch.export takes a second to import
def test_push_through_an_exported_program(folder, capsys):
    network, example = torch.nn.Linear(3, 2), (torch.zeros(5, 3),)
    rows = ({0: torch.export.Dim("rows")},)
    torch.export.save(torch.export.export(network, example, dynamic_shapes=rows), "net.pt2")
    torch.export.save(torch.export.export(network, example), "fixed.pt2")
    tc.Coreset(ROWS[:4]).save("c.npz")
    assert ask(capsys, "push c.npz --network net.pt2 --out image.npz")[0] == 0
    expected = network(torch.from_numpy(ROWS[:4]).float())
    torch.testing.assert_close(tc.Coreset.load("image.npz").points, expected)
    assert main(["push", "c.npz", "--network", "fixed.pt2", "--out", "image2.npz"]) == 2
    assert "takes 5 rows at a time; expected any number" in capsys.readouterr().err


def test_random_rows_stand_beside_the_result(folder, capsys):
    """Of the same number, on the same samples, by the same measure."""
    line = "build t.npy -n 5 --standardise --samples 200 --trim 0.1 --point-weights free --restarts 1"
    code, said = ask(capsys, line)
    assert code == 0
    job = tc.build_coreset(
        torch.from_numpy(ROWS), 5, scale="standard", samples=200, trim=0.1, weights="free", restarts=1
    )
    scaled = job.coreset.scaling.apply(torch.from_numpy(ROWS))[job.row_numbers]
    found = [
        tc.transport(
            tc.Coreset.from_source(scaled, 5, seed=seed).points.detach(), scaled, 2, "free", trim=0.1, tolerance=1e-2
        ).value
        ** 0.5
        for seed in range(3)
    ]
    assert said["random_rows"]["distance"] == pytest.approx(np.mean(found))
    assert said["random_rows"]["ratio"] == pytest.approx(np.mean(found) / said["distance"])
    assert main([*line.split(), "--force"]) == 0
    shown = capsys.readouterr().out
    assert f"5 random rows: {np.mean(found):.6g}, {said['random_rows']['ratio']:.3g} times as far" in shown
    assert "in standard deviations of the columns" in shown


@pytest.mark.parametrize(("options", "power"), [("energy", 1), ("mmd --kernel laplace --blur 2", 2)])
def test_other_divergences(folder, capsys, options, power):
    code, said = ask(
        capsys, f"build t.npy -n 4 --columns 0,2 --samples 60 --init random --steps 20 --divergence {options}"
    )
    name, *more = options.replace("--", "").split()
    more = {"kernel": more[1], "blur": float(more[3])} if more else {}
    rows, settings = torch.from_numpy(ROWS[:, [0, 2]]), {"samples": 60, "init": "random", "steps": 20}
    expected = tc.build_coreset(rows, 4, divergence=name, **more, **settings)
    torch.testing.assert_close(tc.Coreset.load("coreset.npz").points, expected.coreset.points)
    assert (said["divergence"], said["p"], code) == (name, power, 0 if said["status"] == "converged" else 1)
    assert said["value"] == pytest.approx(expected.discrepancy.value)
    assert said["random_rows"]["ratio"] > 1
    assert ask(capsys, "info coreset.npz")[1]["divergence"] == name


@pytest.mark.parametrize("labels", ["", " --label kind", " --label kind --hold-out 0.5"])
def test_rows_that_have_to_be_taken(folder, capsys, labels):
    line = f"build t.csv -n 6 --columns a,c --rows --restarts 1 --force{labels}"
    chosen = ask(capsys, line)[1]["row_numbers"]
    kept = next(row for row in ask(capsys, f"{line} --exclude {chosen[0]}")[1]["row_numbers"] if row not in chosen)
    again = ask(capsys, f"{line} --keep {kept},{chosen[1]} --exclude {chosen[0]}")[1]["row_numbers"]
    assert {kept, chosen[1]} <= {*again}
    assert chosen[0] not in again
    if "hold" in labels:
        held_out = next(row for row in range(300) if row not in tc.hold_out(torch.from_numpy(ROWS), 0.5)[0].row_numbers)
        assert main([*line.split(), "--keep", str(held_out)]) == 2
        assert f"--keep: got row {held_out}, which is held out" in capsys.readouterr().err


@pytest.mark.slow
def test_size(folder, capsys):
    code, said = ask(capsys, "size t.npy --epsilon 1.6 --standardise --max-builds 2 --plot size.png")
    assert (code, said["size"] is None) in ((0, False), (1, True))
    assert Path("size.png").exists()
    assert ask(capsys, "size t.npy --epsilon 1e-3 --standardise --max-builds 1")[0] == 1


def test_steps_that_run_out_end_with_1_and_leave_the_points(folder, capsys):
    assert ask(capsys, "build t.npy --size 20 --steps 2 --out short.npz")[0] == 1
    assert tc.Coreset.load("short.npz").size == 20


def test_sgd_takes_the_steps_that_it_is_given(folder, capsys):
    assert main(["build", "t.npy", "--size", "4", "--algorithm", "sgd", "--steps", "5", "--quiet"]) == 0
    assert "ran out" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", " --label label", " --standardise", " --columns x"])
def test_pictures(folder, options):
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    line = f"build example:ring --size 8 --restarts 1 --tolerance 0.01 --quiet --plot p.png{options}"
    assert main(line.split()) == 0
    picture = np.asarray(image.open("p.png").convert("RGB"))
    assert min(picture.shape[:2]) > 300
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("biuld", "did you mean 'build'?"),
        ("build", "DATA, --size must be given"),
        ("build t.npy --size ten", "--size: got 'ten'; expected a whole number."),
        ("build t.npy --siz 3", "did you mean '--size'?"),
        ("build t.npy --size 0", "--size: got 0"),
        ("build t.npy --size 3 --p 0.5", "--p: got 0.5"),
        ("build t.npy --size 3 extra", "'extra' is one argument too many"),
        ("build t.npy --size 3 --algorithm sdg", "expected one of auto, fixed_point, sgd, gradient"),
        ("build t.npy --size 3 --samples x", "--samples: got 'x'; expected a whole number."),
        ("build t.npy --size 3 --standardise=yes", "--standardise takes no value"),
        ("build t.npy --size 3 --out o.txt", "--out: got 'o.txt'"),
        ("build t.npy --size 3 --plot o.txt", "--plot: got 'o.txt'"),
        ("build t.npy --size 3 --batch-size 5", "--batch-size: given with"),
        ("build t.npy --size 3 --allocation equal", "--allocation: given where nothing uses it"),
        ("build t.npy --size 3 --columns 0,7", "--columns: '7' is not a column of t.npy"),
        ("build t.npy --size 3 --checkpoint-every -1", "--checkpoint-every: got -1"),
        ("build none.npy --size 3", "there is no file 'none.npy'"),
        ("build t.csv --size 3", "--columns: t.csv has columns that are not numbers: 'kind' (text)"),
        ("build t.csv --size 3 --label knid", "did you mean 'kind'?"),
        ("build t.npz --size 3 --key z", "--key: 'z' is not an array of t.npz"),
        ("build example:rong --size 3", "did you mean 'ring'?"),
        ("build evil.npy --size 3", "is not a NPY file of numbers"),
        ("build evil.pt --size 3", "is not a .pt file of plain arrays"),
        ("build t.npy --size 3 --out o.nzp", "did you mean '.npz'?"),
        ("build t.npy --size 3 --plot o.pgn", "did you mean '.png'?"),
        ("build t.npy --size 3 -q", "unknown option '-q'"),
        ("build t.npy --size 3 --algorithm sdg", "did you mean 'sgd'?"),
        ("build t.pny --size 3", "did you mean '.npy'?"),
        ("build tt.npy --size 3", "did you mean 't.npy'?"),
        ("build t.csv --size 3 --columns a,b --id knid", "did you mean 'kind'?"),
        ("build t.npy --size 3 --divergence mmd --p 2", "--p: given with --divergence mmd, which has no use for it"),
        ("build t.npy --size 3 --blur 1", "--blur: given with --divergence wasserstein, which has no use for it"),
        ("build t.csv --size 3 --label kind --blur 1", "--blur: given with --label, whose builds minimise wasserstein"),
        ("build t.npy --size 3 --keep 1", "--keep: given without rows; expected row numbers with --rows. Add it."),
        ("build t.npy --size 3 --rows --keep 1,x", "--keep: got '1,x'; expected numbers of rows"),
        ("build t.npy --size 3 --rows --keep 300", "--keep: got row 300; expected numbers of the source's rows, 0 to"),
        ("info evil.npz", "DATA: evil.npz is not a .npz file of plain arrays"),
        ("certify soem.npz t.npy", "did you mean 'some.npz'?"),
        ("certify evil.npz t.npy", "is not a .npz file of plain arrays"),
        ("certify t.npz t.npy", "holds no points"),
        ("compare t.npy", "got no coreset files; name some"),
        ("push some.npz --network math:nothing", "math has no module or function called 'nothing'"),
        ("push some.npz --network math", "expected FILE.py:NAME or MODULE:NAME"),
        ("push some.npz --network torch.nn:Identity --state evil.pt", "evil.pt is not a .pt file of plain tensors"),
        ("push some.npz --network torch.nn:Linear(3,2)", "torch.nn has no module or function"),
        ("push some.npz --network torch:det", "--network: it fails on the 3 columns"),
        ("push some.npz --network torch.nn:Identity --label 0", "given without --data"),
        ("push some.npz --network torch.nn:Identitty", "did you mean 'Identity'?"),
        ("push some.npz --network evil.pt", "evil.pt is not a program by torch.jit.save"),
        ("push some.npz --network evil.pt2", "there is no file 'evil.pt2'; did you mean 'evil.pt'?"),
        ("push some.npz --network some.pt --state evil.pt", "--state: given with a saved program"),
        ("completion zhs", "did you mean 'zsh'?"),
        ("run none.yaml", "there is no file 'none.yaml'"),
    ],
)
def test_wrong_usage_is_one_line_and_2(folder, capsys, line, said):
    trap = np.array([_Trap()], dtype=object)
    np.save("evil.npy", trap, allow_pickle=True)
    np.savez("evil.npz", points=trap)
    torch.save({"points": _Trap()}, "evil.pt")
    tc.Coreset(ROWS[:4]).save("some.npz")
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    said = [line for line in captured.err.splitlines() if not line.startswith("note: t.")]  # what was read
    assert said[0].startswith("error: ")
    assert len(said) == 1
    assert not (folder / "executed").exists()


class _Trap:
    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("command: build\ndata: t.npy\nsize: 3\ntolerence: 0.1", "unknown key 'tolerence'; did you mean 'tolerance'?"),
        ("command: biuld\ndata: t.npy", "did you mean 'build'?"),
        ("command: build\ndata: t.npy", "the key 'size' is missing: number of points"),
        ("command: build\ndata: t.npy\nsize: many", "size: got 'many'; expected a whole number"),
        ("command: build\ndata: t.npy\nsize: 3\nstandardise: maybe", "expected true or false"),
        ("data: t.npy", "has no key 'command'"),
        ("- 1", "holds no settings"),
        ("a: [", "is not valid YAML"),
        ("command: !!python/object/apply:pathlib.Path.touch [executed]", "is not valid YAML"),
    ],
)
def test_a_wrong_configuration(folder, capsys, text, said):
    Path("c.yaml").write_text(text)
    assert main(["run", "c.yaml"]) == 2
    captured = capsys.readouterr().err
    assert said in captured
    assert captured.count("\n") == 1
    assert not Path("executed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["build_ring.yaml", "build_digits_labeled.yaml"])
def test_the_shipped_configurations_run(tmp_path, monkeypatch, name):
    pytest.importorskip("sklearn", reason="needs scikit-learn for example:digits")
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(ROOT / "configs" / name), "--quiet"]) == 0
    assert len(list(tmp_path.iterdir())) == 2  # points and picture, or points and what is known of them


def test_a_configuration_says_what_the_command_line_says(folder, capsys):
    Path("c.yaml").write_text("command: build\ndata: t.npy\nsize: 3\ntolerance: 1e-2\nhold-out: 0.5\ncolumns: [0, 2]\n")
    assert ask(capsys, "run c.yaml")[0] == 0
    first = tc.Coreset.load("coreset.npz").points
    ask(capsys, "build t.npy --size 3 --tolerance 1e-2 --hold-out 0.5 --columns 0,2 --force")
    assert torch.equal(first, tc.Coreset.load("coreset.npz").points)


LONG = (
    "build t.npy --size 40 --steps 100000 --tolerance 0 --checkpoint-every 0 --restarts 1 --algorithm gradient --quiet"
)


def steps_kept() -> int:
    """Steps in the checkpoint of this folder; 0 if there is none."""
    for path in Path().glob("[!.]*.checkpoint"):  # one that begins with a dot is being written
        records = torch.load(path, weights_only=True)["classes"].values()
        return sum(record["history"][-1][0] + 1 for record in records if record["history"])
    return 0


def start(line: str) -> Started:
    """The command in a process of its own, once its checkpoint holds a step."""
    process = Started(COMMAND, *line.split())
    for _ in range(6000):
        if steps_kept():
            return process
        assert process.status is None, process.said("err")
        time.sleep(0.05)
    process.kill()
    raise AssertionError("no checkpoint in five minutes")


@pytest.mark.slow
@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="SIGINT is ignored here, as in a shell's background jobs"
)
def test_ctrl_c_leaves_the_best_points(folder, capsys):
    process = start(LONG)
    process.interrupt()
    assert process.wait(timeout=60) == 130
    assert "best points so far are in coreset.npz" in process.said()
    points = tc.Coreset.load("coreset.npz").points
    assert points.shape == (40, 3)
    assert ask(capsys, "info coreset.npz")[1]["status"] == "interrupted"
    assert main([*LONG.replace("100000", "3").split(), "--resume"]) == 1
    assert not list(Path().glob("*.checkpoint"))
    data = torch.from_numpy(ROWS)
    after = tc.transport(tc.Coreset.load("coreset.npz").points.detach(), data).value
    assert after <= tc.transport(points.detach(), data).value * (1 + 1e-2)


@pytest.mark.slow
def test_a_kill_leaves_a_checkpoint_that_resumes(folder, capsys):
    process = start(LONG)
    time.sleep(0.3)
    process.kill()
    assert not Path("coreset.npz").exists()
    assert main([*LONG.replace("40", "41").split(), "--resume"]) == 2
    assert "of a run with size=40, and this one has 41" in capsys.readouterr().err
    assert main([*LONG.replace("100000", "2").split(), "--resume"]) == 1
    assert tc.Coreset.load("coreset.npz").size == 40


@pytest.mark.slow
def test_a_labelled_run_on_a_part_of_the_rows(folder, capsys):
    code, said = ask(capsys, "build t.csv --columns a,c --label kind --size 6 --samples 100")
    assert code == 0
    assert said["rows"] == len(ROWS)
    rows = torch.from_numpy(ROWS[:, [0, 2]])
    expected = tc.build_labeled_coreset(rows, KIND, 6, samples=100)
    held = tc.LabeledCoreset.load("coreset.npz")
    torch.testing.assert_close(held.points, expected.points)
    assert held.labels.tolist() == expected.labels.tolist()
    plan = tc.transport(held.points.detach(), rows.to(held.points), 2, held.weights)
    assert said["distance"] == pytest.approx(plan.value**0.5, rel=1e-3)
    line = "build t.csv --columns a,c --label kind --size 6 --force --samples"
    assert main([*line.split(), "1"]) != 0
    assert "--samples: got 1 for 2 classes" in capsys.readouterr().err


def test_a_labelled_run_resumes_and_is_interrupted(folder, capsys, monkeypatch):
    from torchcoreset.app.files import Checkpoint

    line = "build t.csv --label kind --size 9 --restarts 1 --checkpoint-every 0 --quiet"
    keep = Checkpoint.keep

    def interrupt(self, label, record):
        keep(self, label, record)
        if self.steps(label) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "keep", interrupt)
    assert main(line.split()) == 130
    assert "random rows" in capsys.readouterr().out
    assert tc.Coreset.load("coreset.npz").size == 9
    with np.load("coreset.npz", allow_pickle=False) as file:
        assert set(file["labels"]) == {"up", "down"}
    monkeypatch.setattr(Checkpoint, "keep", keep)
    assert main([*line.split(), "--resume"]) == 0
    assert ask(capsys, "info coreset.npz")[1]["status"] == "converged"


def test_a_damaged_checkpoint_is_no_start(folder, capsys):
    Path("coreset.npz.checkpoint").write_bytes(b"PK nonsense")
    assert main(["build", "t.npy", "--size", "3", "--resume"]) == 2
    assert "is not a checkpoint" in capsys.readouterr().err


def test_help_version_and_installation(capsys):
    assert main([]) == 0
    assert main(["--version"]) == 0
    assert "certify" in capsys.readouterr().out
    assert ask(capsys, "info")[1]["kind"] == "installation"
    with pytest.raises(SystemExit) as end:
        main(["build", "--help"])
    assert end.value.code == 0


def test_info_of_a_table(folder, capsys):
    code, said = ask(capsys, "info t.csv --label kind --size 5")
    assert code == 0
    assert said["rows"] == 300
    assert sum(said["rows_of_class"].values()) == 300
    assert said["preflight"]["memory"] > 0


def test_without_jsonargparse(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jsonargparse", None)
    for name in [name for name in sys.modules if name.startswith("torchcoreset.app.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["info"]) == 2
    assert "pip install 'torchcoreset[cli]'" in capsys.readouterr().err


def test_help_is_for_people(capsys):
    with pytest.raises(SystemExit):
        main(["build", "--help"])
    said = capsys.readouterr().out
    for word in ("null", "Literal", "Optional", "--columns+", "default: False"):
        assert word not in said
    assert "number of points (required)" in said
    assert "power of the distance, at least 1 (default: 2; 1 for energy" in " ".join(said.split())


def test_semicolons_and_decimal_commas(folder, capsys):
    lines = ["a;kind", *(f"{row:.3f};{kind}".replace(".", ",") for row, kind in zip(ROWS[:, 0], KIND, strict=True))]
    Path("s.csv").write_text("\n".join(lines) + "\n")
    code, said = ask(capsys, "build s.csv --size 4 --label kind")
    assert code == 0
    assert set(said["classes"]) == {"up", "down"}


def test_columns_of_text_only(folder, capsys):
    Path("s.csv").write_text("a:b\n1:2\n")
    assert main(["build", "s.csv", "--size", "2"]) == 2
    assert "If the columns are separated otherwise, pass --separator" in capsys.readouterr().err
    assert main(["build", "t.csv", "--size", "2", "--columns", "kind"]) == 2
    said = capsys.readouterr().err
    assert "such as --columns a,b,c,w. Is 'kind' a label, an id or a category?" in said
    assert "pass --label kind, --id kind or --one-hot kind." in said


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_called_weight(folder, capsys, suffix):
    pandas = pytest.importorskip("pandas", reason="needs pandas to write the table")
    pandas.DataFrame(ROWS[:, :2], columns=["weight", "b"]).to_csv("w.csv", index=False)
    assert ask(capsys, f"build w.csv --size 4 --out c{suffix}")[0] == 0
    Path("c.csv.json").unlink(missing_ok=True)  # the names must say it without what stands beside the table
    code, said = ask(capsys, f"info c{suffix}") if suffix == ".parquet" else (0, {"columns": ["weight", "b"]})
    assert (code, said["columns"]) == (0, ["weight", "b"])
    assert ask(capsys, f"compare w.csv c{suffix}")[1]["coresets"][0]["size"] == 4
    pandas.DataFrame(ROWS[:, :2], columns=["weight", "point_weight"]).to_csv("w.csv", index=False)
    assert main(f"build w.csv --size 4 --out d{suffix}".split()) == 2
    assert "are called 'weight' and 'point_weight'" in capsys.readouterr().err
    assert not list(folder.glob("d*"))


@pytest.mark.parametrize("flag", ["--out", "--plot"])
@pytest.mark.parametrize(("place", "said"), [("t.npy/x", "nothing can be written to the folder"), ("d", "is a folder")])
def test_places_that_cannot_be_written_are_found_first(folder, capsys, flag, place, said):
    suffix = ".npz" if flag == "--out" else ".png"
    (folder / f"d{suffix}").mkdir()
    assert main(["build", "t.npy", "--size", "3", flag, place + suffix]) == 2
    captured = capsys.readouterr()
    assert f"error: {flag}: " in captured.err
    assert said in captured.err
    assert not (folder / "coreset.npz").exists()


def test_uneven_columns_are_said(folder, capsys):
    assert main(["build", "t.npy", "--size", "3", "--steps", "1"]) == 1
    assert "column 'x1' spreads 102 times as wide as 'x2'" in capsys.readouterr().err
    for option in ("--standardise", "--columns=0,2", "--quiet"):
        assert main(["build", "t.npy", "--size", "3", "--steps", "1", "--force", option]) == 1
    assert "spreads" not in capsys.readouterr().err


def test_pictures_of_standardised_columns_show_both(folder):
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    assert main(["build", "t.npy", "--size", "8", "--standardise", "--quiet", "--plot", "p.png"]) == 0
    grey = np.asarray(image.open("p.png").convert("L"))
    inked = (grey < 230).any(axis=1).nonzero()[0]  # in raw units all rows lie on one line
    middle = inked[(inked > 0.1 * len(grey)) & (inked < 0.9 * len(grey))]
    assert len(middle) > 0.4 * len(grey)


def test_compare_draws(folder, capsys):
    tc.Coreset(ROWS[:4]).save("c.npz")
    assert main(["compare", "t.npy", "c.npz", "--plot", "beside.png"]) == 0
    assert (folder / "beside.png").stat().st_size > 1000
    assert "written  beside.png" in capsys.readouterr().out


def test_push_takes_the_columns_of_the_build(folder, capsys):
    assert ask(capsys, "build t.csv --size 4 --columns a,c --out c.npz")[0] == 0
    assert ask(capsys, "push c.npz --network torch.nn:Identity --data t.csv")[0] == 0


def test_a_table_is_no_coreset(folder, capsys):
    assert main(["certify", "t.csv", "t.npy"]) == 2
    said = capsys.readouterr().err
    assert "expected a coreset, as `torchcoreset build` writes it" in said
    assert "np." not in said

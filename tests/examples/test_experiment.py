"""What the experiments share."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

yaml = pytest.importorskip("yaml")


@dataclass(frozen=True)
class Settings:
    runs: int
    size: int


def read(tmp_path: Path, text: str, *arguments: str) -> Settings:
    import experiment

    config = tmp_path / "mine.yaml"
    config.write_text(text, "utf-8")
    out = tmp_path / "out"
    return experiment.read(Settings, "mine", "What it is.", ["--config", str(config), "--out", str(out), *arguments])[0]


def test_small_replaces_what_it_names(tmp_path: Path) -> None:
    text = "runs: 20\nsize: 7\nsmall: {runs: 2}"
    assert read(tmp_path, text) == Settings(20, 7)
    assert read(tmp_path, text, "--small") == Settings(2, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs: 1\nsizes: 3", "unknown key 'sizes'; did you mean 'size'"),
        ("runs: 1\nsize: 3\nsmall: {qqq: 1}", "unknown key 'qqq'; expected some of runs, size"),
        ("runs: 1", "the key 'size' is missing"),
    ],
)
def test_a_wrong_key_is_an_error_that_says_what_was_meant(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        read(tmp_path, text)


def test_files(tmp_path: Path) -> None:
    import experiment

    rows = [{"method": m, "size": 5, "seed": s, "cost": c} for m, s, c in (("a", 0, 1.0), ("a", 1, 3.0), ("b", 0, 2.0))]
    experiment.write("mine", rows, Settings(2, 5), tmp_path)
    with (tmp_path / "mine.csv").open() as file:
        assert [float(row["cost"]) for row in csv.DictReader(file)] == [1, 3, 2]
    held = json.loads((tmp_path / "mine.json").read_text("utf-8"))
    assert held["rows"] == rows
    assert held["settings"] == {"runs": 2, "size": 5}


def test_datasets(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import public_data

    monkeypatch.setenv("TORCHCORESET_DATA", str(data_dir))
    X, y = public_data.load("pendigits")
    assert X.shape == (10_992, 16)
    assert np.bincount(y)[:2].tolist() == [1143, 1143]
    scaled = public_data.standardise(np.column_stack((X, np.ones(len(X), np.float32))))
    assert np.abs(scaled.astype(np.float64).mean(0)).max() < 1e-6
    assert scaled.astype(np.float64).std(0).tolist() == pytest.approx([1] * 16 + [0], abs=1e-6)


def test_a_data_set_that_is_nowhere_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import public_data

    monkeypatch.setenv("TORCHCORESET_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="set TORCHCORESET_DATA"):
        public_data.load("cod_rna_all")


def double(task: tuple[int, str]) -> int:
    return 2 * task[0]


def test_what_was_done_before_a_stop_is_not_done_again(tmp_path: Path) -> None:
    import experiment

    pytest.importorskip("tqdm")

    def fail(task: tuple[int, str]) -> int:
        if task[0] == 3:
            raise KeyboardInterrupt
        return double(task)

    tasks = [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(KeyboardInterrupt):
        experiment.each(fail, tasks, 1, tmp_path / "kept.jsonl")
    done = []
    assert experiment.each(lambda task: done.append(task) or double(task), tasks, 1, tmp_path / "kept.jsonl") == [
        2,
        4,
        6,
    ]
    assert done == [(3, "c")]


@pytest.mark.slow
def test_several_processes_give_results_in_order(tmp_path: Path) -> None:
    import experiment

    pytest.importorskip("tqdm")
    assert experiment.each(abs, [-3, 2, -1], 2, tmp_path / "kept.jsonl") == [3, 2, 1]


def test_methods_may_have_fewer_runs_and_go_without_a_package(capsys: pytest.CaptureFixture[str]) -> None:
    import experiment

    @dataclass
    class Shared:
        data: list[str]
        sizes: list[int]
        runs: int
        runs_of: dict[str, int]

    tasks = experiment.tasks(Shared(["a"], [5, 10], 3, {"slow": 1}), ["fast", "slow"])
    assert [(task.size, task.seed) for task in tasks if task.method == "slow"] == [(10, 0), (5, 0)]
    assert len(tasks) == 8

    class Missing:
        @staticmethod
        def missing() -> str:
            return "thinning is left out: pip install it"

    methods = ["fast", "thinning", "thinning, rows"]
    assert experiment.installed(methods, {"thinning": Missing, "other": Missing}) == ["fast"]
    assert capsys.readouterr().out == "thinning is left out: pip install it\n"
    assert experiment.installed(methods[:1], {"thinning": Missing}) == ["fast"]

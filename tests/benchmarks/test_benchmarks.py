"""The benchmarks run: every installed method on tiny work, the report, and what is said of one that is missing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from tests.benchmarks import growth, methods, report, scale_up
from tests.benchmarks.__main__ import run_work
from tests.benchmarks.apart import run_apart, run_here
from tests.benchmarks.measure import measure
from tests.benchmarks.method import Method, Outcome
from tests.benchmarks.methods import ALL, methods_for
from tests.benchmarks.problems import FULL, PLANS, QUICK, TINY, Unavailable, make_work, standardised, stored
from tests.benchmarks.record import Record
from tests.benchmarks.truth import optimum, semi_dual

# Peers warn about their own dependencies, and stop early on tiny work; that is theirs to mend.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TRANSPORT, CORESET = TINY
# True gaps that each method must reach on the tiny transport: ours what it promises, peers something sensible.
GAPS = {"ours, gap 1e-3": 1e-3, "ours, gap 1e-4": 1e-4, "ours, exact": 1e-9, "ours, warm, gap 1e-3": 1e-3,
        "POT emd2": 1e-9}  # fmt: skip
ROUGH = 0.2


@pytest.mark.parametrize("method", [method for method in ALL if method.task == "transport"], ids=lambda m: m.name)
def test_a_transport_method_on_tiny_work(method: Method) -> None:
    work = make_work(TRANSPORT)
    best, _ = optimum(work.points, work.samples)
    record = run_here(TRANSPORT, method.name, 0, best)
    if record.status == "not installed":
        pytest.skip(f"{record.reason}; `make bench` installs the peers")
    assert (record.status, record.reason) == ("ok", "")
    assert all(math.isfinite(number) and number > 0 for number in (record.seconds, record.hard_pass, record.value))
    assert -1e-9 <= record.gap <= GAPS.get(method.name, ROUGH)


@pytest.mark.parametrize("method", [method for method in ALL if method.task == "coreset"], ids=lambda m: m.name)
def test_a_coreset_method_on_tiny_work(method: Method) -> None:
    record = run_here(CORESET, method.name, 0, math.nan)
    if record.status in {"not installed", "unavailable"}:
        pytest.skip(f"{record.reason}; `make bench` installs the peers")
    assert (record.status, record.reason) == ("ok", "")
    work = make_work(CORESET)
    assert 0 < record.value < optimum(work.points, work.samples)[0]


def test_the_loss_method(monkeypatch: pytest.MonkeyPatch) -> None:
    work = make_work(TRANSPORT)
    (method,) = [method for method in ALL if method.task == "loss"]
    found = measure(work, method, repeats=1)
    assert found.outcome.value == pytest.approx(optimum(work.points, work.samples)[0], rel=1e-3)


def test_a_process_apart_gives_the_record() -> None:
    work = make_work(TRANSPORT)
    best, _ = optimum(work.points, work.samples)
    record = run_apart(TRANSPORT, "ours, gap 1e-3", 0, best, patience=120)
    assert (record.status, record.reason) == ("ok", "")
    assert record.gap <= 1e-3


def test_a_process_apart_is_given_up() -> None:
    record = run_apart(TRANSPORT, "ours, gap 1e-3", 0, 1.0, patience=0.01)
    assert record.status == "timed out"
    assert "given up" in record.reason


def test_what_goes_wrong_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise ImportError("No module named 'peer'")

    def too_large(_: object) -> None:
        raise Unavailable("too large")

    def broken(_: object) -> None:
        raise ZeroDivisionError("oh")

    fakes = [
        Method(name=prepare.__name__, task="transport", prepare=prepare) for prepare in (missing, too_large, broken)
    ]
    monkeypatch.setattr(methods, "ALL", fakes)
    records = [run_here(TRANSPORT, fake.name, 0, 1.0) for fake in fakes]
    assert [record.status for record in records] == ["not installed", "unavailable", "failed"]
    text = report.table(records)
    assert "not installed" in text
    assert "ZeroDivisionError: oh" in text


def test_memory_is_that_of_the_run() -> None:
    work = make_work(TRANSPORT)
    block = 64 * 2**20

    def run() -> Outcome:
        return Outcome(value=float(torch.ones(block // 4).sum()))

    found = measure(work, Method(name="allocates", task="transport", prepare=lambda _: run), repeats=1)
    if found.peak is None:
        pytest.skip("the peak of memory is reset through /proc/self/clear_refs, which this system lacks")
    assert 0.9 * block < found.peak < 2 * block


def test_the_semi_dual_does_not_care_for_a_constant() -> None:
    work = make_work(TRANSPORT)
    v = torch.randn(len(work.points), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert semi_dual(work.points, work.samples, v) == pytest.approx(
        semi_dual(work.points, work.samples, v + 3), rel=1e-12
    )


def test_the_report_is_whole_where_data_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHCORESET_DATA", str(tmp_path / "nowhere"))
    missing = [record for name in FULL if "cod-rna" in name for record in run_work(name, 1, print)]
    assert missing
    assert {record.status for record in missing} == {"unavailable"}
    assert "no data: " in report.table(missing)
    report.write_json(tmp_path / "a.json", missing, {"cores": 2}, [])
    assert "TORCHCORESET_DATA" in (tmp_path / "a.json").read_text()


def test_the_table_has_all_columns_and_ratios_and_medians(tmp_path: Path) -> None:
    def record(method: str, seconds: float, value: float, seed: int) -> Record:
        return Record(
            work=CORESET, method=method, seed=seed, seconds=seconds, runs=[seconds], hard_pass=0.5,
            peak=2**20, value=value, note="a | b",
        )  # fmt: skip

    records = [record("ours", 1.0 + seed, 10.0 + seed, seed) for seed in range(3)]
    records += [record("k-means-constrained", 40.0, 11.0, 0)]
    lines = report.table(records).splitlines()
    header, _, ours, theirs = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert header == list(report.COLUMNS)
    assert ours[:8] == [CORESET, "ours", "11", "2", "", "1.0e-01", "4", "1"]
    assert theirs[3:6] == ["40", "20", "1.0e-01"]
    report.write_json(tmp_path / "a.json", records, {"cores": 2}, [])
    stored_back = json.loads((tmp_path / "a.json").read_text())
    assert [row["ratio"] for row in stored_back["summary"]] == [None, 20.0]
    assert len(stored_back["records"]) == 4


def test_growth_is_measured_and_drawn(tmp_path: Path) -> None:
    sweep = growth.Sweep(vary="m", n=5, d=2, sizes=(50, 100))
    entries = growth.measure_growth([sweep], lambda _: None)
    assert len(entries) == 2 * (len(growth.METHODS) + 1)
    assert all(math.isfinite(entry["seconds"]) for entry in entries)
    pytest.importorskip("matplotlib")
    growth.draw_growth(entries, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000


def test_every_rival_is_a_method_of_ours_and_every_work_has_methods() -> None:
    ours = {(method.task, method.name) for method in ALL if method.name.startswith("ours")}
    assert all((method.task, method.rival) in ours for method in ALL if method.rival)
    assert all(methods_for(PLANS[name].task, name) for name in {*TINY, *QUICK, *FULL})


def test_missing_data_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHCORESET_DATA", str(tmp_path))
    with pytest.raises(Unavailable, match=r"nowhere\.npz is missing; set TORCHCORESET_DATA"):
        stored("nowhere.npz")()


def test_standardised_columns() -> None:
    table = standardised(torch.tensor([[1.0, 5.0, 0.0], [3.0, 5.0, 4.0]]))
    assert table.tolist() == [[-1.0, -1.0], [1.0, 1.0]]


def test_work_is_made_again_from_its_name() -> None:
    first, again = make_work(TRANSPORT), make_work(TRANSPORT)
    assert torch.equal(first.points, again.points)
    assert torch.equal(first.samples, again.samples)


def test_scaling_up_draws_every_sample_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(scale_up, "BATCH", 500)
    monkeypatch.setattr(scale_up, "POINTS", 10)
    monkeypatch.setattr(scale_up, "JUDGES", 2000)
    assert sum(map(len, scale_up.stream(1500))) == 1500
    measured = scale_up.main(["--samples", "1500", "3000"])
    assert [(scale.samples, scale.way) for scale in measured] == [(m, w) for w in scale_up.WAYS for m in (1500, 3000)]
    assert all(0 < scale.value < 16 and scale.seconds > 0 for scale in measured)
    assert len(capsys.readouterr().out.splitlines()) == 7

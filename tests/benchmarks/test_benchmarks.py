"""The benchmarks run: every installed method on tiny work, the reports, and what is said of one that is missing."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import torchcoreset as tc
from tests.benchmarks import __main__ as command
from tests.benchmarks import apart, growth, methods, page, peer_geomloss, report, scale_up
from tests.benchmarks.apart import run_apart, run_here
from tests.benchmarks.loops import each_pair, training
from tests.benchmarks.measure import measure
from tests.benchmarks.method import Method, Outcome, need_costs, need_squares
from tests.benchmarks.methods import ALL, methods_for
from tests.benchmarks.plans import FULL, PLANS, QUICK, TINY, Programme, Section, Sweep, make_work
from tests.benchmarks.problems import CORESETS, TRIMMED, Unavailable, components, separated, standardised, stored
from tests.benchmarks.record import Record
from tests.benchmarks.truth import optimum, semi_dual

# Peers warn about their own dependencies, and stop early on tiny work; that is theirs to mend.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TRANSPORT, LOSS, CLOUDS, CORESET, *CHOSEN, PARTIAL = TINY
# True gaps that each method must reach on the tiny transport: ours what it promises, peers something sensible.
GAPS = {"ours, gap 1e-3": 1e-3, "ours, gap 1e-4": 1e-4, "ours, exact": 1e-9, "ours, warm, gap 1e-3": 1e-3,
        "POT emd2": 1e-9, "POT emd2, warm": 1e-9, "POT emd2_lazy": 1e-9}  # fmt: skip
ROUGH = 0.2


def methods_of(task: str) -> list[Method]:
    """Of these, what runs on a CPU."""
    return [method for method in ALL if method.task == task and method.device == "any"]


def run_or_skip(work: str, method: Method) -> Record:
    record = run_here(work, method.name, 0)
    if record.status in {"not installed", "unavailable"}:
        pytest.skip(f"{record.reason}; `make bench` installs the peers")
    assert (record.status, record.reason) == ("ok", "")
    assert all(math.isfinite(number) and number > 0 for number in (record.seconds, record.processor, record.hard_pass))
    return record


@pytest.mark.parametrize("method", methods_of("transport"), ids=lambda m: m.name)
def test_a_transport_method_on_tiny_work(method: Method) -> None:
    work = make_work(TRANSPORT)
    best, _ = optimum(work.points, work.samples)
    record = run_or_skip(TRANSPORT, method)
    assert -1e-9 <= (best - record.lower) / best <= GAPS.get(method.name, ROUGH)


@pytest.mark.parametrize("method", methods_of("coreset"), ids=lambda m: m.name)
def test_a_coreset_method_on_tiny_work(method: Method) -> None:
    record = run_or_skip(CORESET, method)
    work = make_work(CORESET)
    # The centres of k-means are not made for cells of equal weights.
    assert 0 < record.value < (math.inf if method.name == "KMeans" else optimum(work.points, work.samples)[0])


@pytest.mark.parametrize(
    ("work", "method"),
    [(work, method) for work in CHOSEN for method in methods_of(PLANS[work].task)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_coreset_of_chosen_weights_on_tiny_work(work: str, method: Method) -> None:
    record, made = run_or_skip(work, method), make_work(work)
    assert 0 < record.value < optimum(made.points, made.samples, weights=CORESETS[made.task])[0]


@pytest.mark.parametrize("method", methods_of("partial transport"), ids=lambda m: m.name)
def test_a_partial_transport_on_tiny_work(method: Method) -> None:
    work = make_work(PARTIAL)
    best = tc.transport(work.points.double(), work.samples.double(), trim=TRIMMED, exact=True).value
    assert run_or_skip(PARTIAL, method).value == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("method", methods_of("loss"), ids=lambda m: m.name)
def test_a_loss_method_on_tiny_work(method: Method) -> None:
    record = run_or_skip(LOSS, method)
    work = make_work(LOSS)
    x = torch.nn.Parameter(work.points.clone())
    optimizer = torch.optim.Adam([x], lr=0.01)
    for _ in range(work.steps):
        optimizer.zero_grad()
        cost = torch.cdist(work.samples, x) ** 2
        plan = cost.new_zeros(cost.shape).scatter_(1, exact_cells(x.detach(), work.samples)[:, None], 1 / len(cost))
        value = (plan * cost).sum()
        value.backward()
        optimizer.step()
    assert record.value == pytest.approx(float(value), rel=1e-3)


def exact_cells(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The point of each sample in an optimal plan, where m is a multiple of n."""
    scipy = pytest.importorskip("scipy.optimize")
    copies = torch.arange(len(x)).repeat_interleave(len(y) // len(x))
    _, chosen = scipy.linear_sum_assignment(torch.cdist(y, x[copies]).square().numpy())
    return copies[chosen]


@pytest.mark.parametrize("method", methods_of("clouds"), ids=lambda m: m.name)
def test_a_method_for_clouds_on_tiny_work(method: Method) -> None:
    record = run_or_skip(CLOUDS, method)
    work = make_work(CLOUDS)
    values = [optimum(*pair)[0] for pair in zip(work.points, work.samples, strict=True)]
    assert record.value == pytest.approx(sum(values) / len(values), rel=1e-3)


@pytest.mark.parametrize("name", ["ours, exact", "POT emd2"])
def test_other_powers_are_judged_by_their_own_costs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANS, TRANSPORT, replace(PLANS[TRANSPORT], p=3))
    record = run_or_skip(TRANSPORT, methods.find_method("transport", name))
    work = make_work(TRANSPORT)
    assert record.value == pytest.approx(optimum(work.points, work.samples, 3)[0], rel=1e-9)
    assert record.lower == pytest.approx(record.value, rel=1e-9)


def test_times_of_steps_are_those_of_one() -> None:
    (ours,) = [method for method in methods_of("loss") if method.name == "ours, CoresetLoss"]
    work = make_work(LOSS)
    one, many = (min(measure(replace(work, steps=steps), ours).seconds) for steps in (1, 40))
    assert many < 10 * one


def test_losses_are_made_anew_for_each_run() -> None:
    made: list[str] = []

    def loss_of(work: object) -> object:
        made.append("loss")
        return lambda x: x.square().sum()

    run = training(loss_of)(make_work(LOSS))
    assert run().value == run().value
    assert len(made) == 3  # one to see whether it can be made at all


def test_gradients_of_clouds_are_computed() -> None:
    seen: list[bool] = []

    def distance(x: torch.Tensor, y: torch.Tensor, p: float) -> torch.Tensor:
        seen.append(x.requires_grad)
        return (x.mean(0) - y.mean(0)).square().sum()

    each_pair(distance)(make_work(CLOUDS))()
    assert seen == [True] * 3


def test_a_process_apart_gives_the_record() -> None:
    work = make_work(TRANSPORT)
    best, _ = optimum(work.points, work.samples)
    record = run_apart(TRANSPORT, "ours, gap 1e-3", 0, patience=120)
    assert (record.status, record.reason) == ("ok", "")
    assert (best - record.lower) / best <= 1e-3


def test_a_process_apart_is_given_up() -> None:
    record = run_apart(TRANSPORT, "ours, gap 1e-3", 0, patience=0.01)
    assert record.status == "timed out"
    assert "given up" in record.reason


def test_a_process_apart_that_is_killed_or_does_not_start_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_run_there", _die)
    record = run_apart(TRANSPORT, "ours, gap 1e-3", 0, patience=60)
    assert (record.status, record.reason) == ("failed", "killed by signal 9")
    record = run_apart(TRANSPORT, "no such method", 0, patience=60)
    assert record.status == "failed"


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_times_are_kept_where_judging_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(apart, "judge", endless)
    with pytest.raises(KeyboardInterrupt):
        run_here(TRANSPORT, "ours, gap 1e-3", 0, tmp_path)
    record = Record(**json.loads((tmp_path / "record.json").read_text()))
    assert record.status == "ok"
    assert record.seconds > 0
    assert apart.LOST in record.note


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
    records = [run_here(TRANSPORT, fake.name, 0) for fake in fakes]
    assert [record.status for record in records] == ["not installed", "unavailable", "failed"]
    text = report.table(records)
    assert "not installed" in text
    assert "ZeroDivisionError: oh" in text


def test_what_a_peer_cannot_do_is_said() -> None:
    work = make_work(TRANSPORT)
    need_squares(work)
    need_costs(work, 50_000)
    with pytest.raises(Unavailable, match="for p = 2 only"):
        need_squares(replace(work, p=3))
    with pytest.raises(Unavailable, match=r"5e\+04 elements, and 1e\+04 are tried"):
        need_costs(work, 10_000)


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


MACHINE = {"processor": "P", "cores": 2, "threads": 1, "load at start": 0.1, "date": "2026-01-01T00:00", "commit": "c",
           "python": "3.11", "versions": {"torch": "2", "POT": "not installed"}}  # fmt: skip


def test_every_report_is_whole_whatever_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of `make bench`, where no data are there, no peer is installed, and what is left fails or is given up."""

    def stand_in(work: str, method: str, seed: int, patience: float) -> Record:
        if not method.startswith("ours"):
            return Record(work=work, method=method, status="not installed", reason="No module named 'peer'")
        status, reason = {
            "transport": ("timed out", "given up | after 60 s"),
            "loss": ("failed", "ZeroDivisionError: oh"),
            "clouds": ("failed", "killed by signal 9"),
        }.get(PLANS[work].task, ("unavailable", "no data: nowhere"))
        seconds = 60.0 if status == "timed out" else None
        return Record(work=work, method=method, seed=seed, status=status, reason=reason, seconds=seconds)

    monkeypatch.setattr(command, "run_apart", stand_in)
    command.main(["--out", str(tmp_path)])
    stored_back = json.loads((tmp_path / "full.json").read_text())
    works = {name for section in FULL.sections for name in section.plans} | {*FULL.growth()}
    assert {record["work"] for record in stored_back["records"]} == works
    text = (tmp_path / "full.md").read_text()
    assert all(f"### {section.title}" in text for section in FULL.sections)
    assert all(name in text for section in FULL.sections for name in section.plans)
    assert "ZeroDivisionError: oh" in text
    assert "given up / after 60 s" in text
    assert "not installed in all rows: No module named 'peer'" in text
    assert "over 60 s" in text
    assert "written to" in capsys.readouterr().out


def test_missing_data_are_records_of_every_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCORESET_DATA", str(tmp_path / "nowhere"))
    for name in [name for name in PLANS if "cod-rna" in name or "MNIST" in name]:
        missing = [run_here(name, method.name, 0) for method in methods_for(PLANS[name]) if method.name != "KMeans"]
        assert {record.status for record in missing} == {"unavailable"}
        assert "no data: " in report.table(missing)
        report.write_json(tmp_path / "a.json", missing, {"cores": 2})
        assert "TORCHCORESET_DATA" in (tmp_path / "a.json").read_text()


def test_what_there_is_no_time_for_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_apart", lambda *_: pytest.fail("was run"))
    records = command.run_work(TRANSPORT, replace(QUICK, minutes=2), lambda: -1.0, lambda _: None)
    assert {record.status for record in records} == {"not run"}
    assert "the run's 2 minutes were used up" in report.table(records)


def test_the_table_has_all_columns_and_ratios_and_medians(tmp_path: Path) -> None:
    def record(method: str, seconds: float, value: float, seed: int) -> Record:
        return Record(
            work=CORESET, method=method, seed=seed, seconds=seconds, processor=seconds, runs=[seconds], hard_pass=0.5,
            peak=2**20, value=value, note="a | b",
        )  # fmt: skip

    records = [record("ours", 1.0 + seed, 10.0 + seed, seed) for seed in range(3)]
    records += [record("k-means-constrained", 40.0, 11.0, 0)]
    lines = report.table(records).splitlines()
    header, _, ours, theirs = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert header == list(report.COLUMNS)
    assert ours[:9] == [CORESET, "ours", "11", "2", "2", "", "1.0e-01", "4", "1"]
    assert theirs[3:7] == ["40", "40", "20", "1.0e-01"]
    report.write_json(tmp_path / "a.json", records, {"cores": 2})
    stored_back = json.loads((tmp_path / "a.json").read_text())
    assert [row["ratio"] for row in stored_back["summary"]] == [None, 20.0]
    assert len(stored_back["records"]) == 4
    assert report.read_json(tmp_path / "a.json") == (records, {"cores": 2})


def test_gaps_are_taken_from_the_narrowest_bracket() -> None:
    def record(method: str, value: float | None, lower: float | None) -> Record:
        return Record(work=TRANSPORT, method=method, seconds=1.0, processor=1.0, value=value, lower=lower)

    records = [
        record("ours, gap 1e-3", 2.001, 1.99), record("ours, exact", 2.0, 2.0 - 1e-9), record("POT emd2", 2.0, None),
        record("geomloss sinkhorn", None, 1.5),
    ]  # fmt: skip
    value, width = report.best_known(records)
    assert (value, width) == (2.0, pytest.approx(5e-10))
    assert [row.gap for row in report.summarised(records)] == [
        pytest.approx(0.005), pytest.approx(5e-10), None, pytest.approx(0.25)
    ]  # fmt: skip
    assert report.best_known([records[3]]) is None


def test_the_page_says_times_worth_and_ratio() -> None:
    section = Section(
        title="Tiny", about="Little.", plans=TINY | {"left out": TINY[LOSS]}, compared=("ours", "POT emd2")
    )
    shared = {"seconds": 0.02, "processor": 0.03, "hard_pass": 0.01}
    records = [
        Record(work=TRANSPORT, method="ours, exact", value=2.0, lower=2.0 - 1e-6, **shared),
        Record(work=LOSS, method="ours, CoresetLoss", value=1.0, **shared),
        Record(work=CORESET, method="ours", value=1.0, seconds=2.0, processor=3.0),
        Record(work=CORESET, method="KMeans", value=1.5, seconds=1.0, processor=1.0),
    ]
    text = page.render(Programme(sections=[section], minutes=1), records, MACHINE, "a.png")
    assert "P, 2 cores, threads of each method: 1" in text
    assert "torch 2." in text
    assert "POT not" not in text
    assert "20 / 30 ms (5e-07)" in text
    assert "20 / 30 ms (3 passes)" in text
    assert "1 / 1 s (+50.00%)" in text
    assert "](a.png)" in text
    assert "left out" not in text


def test_the_page_and_the_long_table_say_what_methods_say_of_their_errors() -> None:
    shared = {"work": TRANSPORT, "seconds": 0.02, "processor": 0.03, "value": 2.0, "lower": 2.0}
    records = [
        Record(method="ours, exact", own="gap 1e-16", **shared),
        Record(method="POT solve_semidiscrete", **shared),
    ]
    section = Section(title="Tiny", about="Little.", plans=TINY, compared=("ours, exact", "POT emd2"))
    text = page.render(Programme(sections=[section], minutes=1), records, MACHINE)
    folded = text.partition("<details")[2].partition("</details>")[0]
    assert "gap 1e-16" in folded
    assert "solve_semidiscrete" not in folded  # it says nothing
    assert "of itself: gap 1e-16" in report.table(records)
    assert "<details" not in page.render(Programme(sections=[section], minutes=1), records[1:], MACHINE)


def test_the_marginal_error_of_a_sinkhorn_plan_by_hand() -> None:
    work = make_work(TRANSPORT)
    blur, zero = 1e4, torch.zeros(len(work.points))  # so wide that the plan of potentials 0 is the product
    g = torch.zeros(len(work.samples))
    assert peer_geomloss.marginal_error(work, zero, g, blur) == pytest.approx(0, abs=1e-6)
    twice = zero.clone()
    twice[0] = math.log(2) * blur**2
    assert peer_geomloss.marginal_error(work, twice, g, blur) == pytest.approx(0.5 / len(zero), rel=1e-3)


def test_tables_are_put_between_the_marks_of_a_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.put_into(path, "new\n")
    page.put_into(path, "newer\n")
    assert path.read_text() == f"before\n{page.BEGIN}\n\nnewer\n\n{page.END}\nafter\n"
    path.write_text("no marks")
    with pytest.raises(ValueError, match="expected the marks"):
        page.put_into(path, "new")


def test_the_page_of_the_documentation_has_the_marks() -> None:
    text = (page.ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1


def test_growth_is_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = Sweep(cloud="normal", vary="m", n=5, d=2, sizes=(50, 100))
    for name, plan in sweep.plans().items():
        monkeypatch.setitem(PLANS, name, plan)
    records = [run_here(name, method.name, 0) for name, plan in sweep.plans().items() for method in methods_for(plan)]
    assert len(records) == 4
    assert all(record.status == "ok" and math.isfinite(record.processor) for record in records)
    pytest.importorskip("matplotlib")
    assert growth.draw_growth([sweep], records, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000
    failed = [replace(record, status="failed", processor=None) for record in records]
    assert not growth.draw_growth([sweep], failed, tmp_path / "nothing.png")
    other = Sweep(cloud="normal", vary="n", m=50, d=3, sizes=(2, 4))
    assert growth.draw_growth([sweep, other], [*failed[1:], records[0]], tmp_path / "one.png")


def test_every_rival_is_a_method_of_ours_and_every_work_has_methods() -> None:
    ours = {(method.task, method.name) for method in ALL if method.name.startswith("ours")}
    assert all((method.task, method.rival) in ours for method in ALL if method.rival)
    assert all(methods_for(plan) for plan in PLANS.values())
    names = {(method.task, method.name) for method in ALL}
    assert all((plan.task, name) in names for plan in PLANS.values() for name in plan.methods)
    for section in [*FULL.sections, *QUICK.sections]:
        tasks = {plan.task for plan in section.plans.values()}
        assert {(task, name) for task in tasks for name in section.compared} <= names


def test_no_name_stands_for_two_pieces_of_work() -> None:
    names = [name for section in FULL.sections for name in section.plans]
    assert len({*names, *FULL.growth()}) == len(names) + len(FULL.growth())


def test_clusters_have_unequal_masses_and_are_separated() -> None:
    points, samples = separated(50, 5000, 16)(0)
    assert (points.shape, samples.shape) == ((50, 16), (5000, 16))
    near = torch.cdist(samples[:1000], samples[:1000]).lt(9).double().sum(1)  # samples of one's own cluster
    assert near.max() > 3 * near.min()
    again, others = separated(50, 5000, 16)(1)
    assert torch.equal(others, samples)
    assert not torch.equal(again, points)


def test_components_keep_the_largest_variances() -> None:
    table = torch.tensor([[3.0, 0.1, 0.0], [-3.0, 0.1, 0.0], [0.0, -0.2, 1.0], [0.0, 0.0, -1.0]])
    kept = components(lambda: table, 2)()
    assert kept.var(0, unbiased=False) == pytest.approx([4.5, 0.5], rel=0.05)


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

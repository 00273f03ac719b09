"""Labels and targets in the cost: distances against POT and a linear program, gradients, certificates, sources."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import torchcoreset as tc
from tests.data import CLOUDS, Rows, Stream, cloud, normal, seeded
from torchcoreset.costs import Mixed, Scaled

pytestmark = pytest.mark.usefixtures("two_starts")

X = 2 * torch.rand(240, 2, generator=seeded(), dtype=torch.float64) - 1
LABELS = np.array(["b", "a", "c"])[((X[:, 0] > 0).int() + 2 * (X[:, 1] > 0.6).int()).clamp(max=2).numpy()]
CODES = torch.from_numpy(np.unique(LABELS, return_inverse=True)[1])
TARGETS = torch.stack((X.sum(1), X[:, 0].square()), 1)


def joint_costs(x: Tensor, labels: NDArray[Any], y: Tensor, others: NDArray[Any], price: float, p: float) -> Any:
    """(m, n) from the definition."""
    square = (y.double()[:, None] - x.double()[None]).square().sum(-1).numpy()
    return (square + price**2 * (others[:, None] != labels[None])) ** (p / 2)


def linear_program(a: NDArray[Any], b: NDArray[Any], costs: NDArray[Any]) -> float:
    """W_p^p as a linear program, by SciPy."""
    m, n = costs.shape
    sums = np.vstack((np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))))
    return float(linprog(costs.ravel(), A_eq=sums[:-1], b_eq=np.r_[a, b][:-1]).fun)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", [*CLOUDS, "constant", "one row"])
def test_distance_of_points_and_labels(kind: str, p: float) -> None:
    ot = pytest.importorskip("ot", reason="needs POT")
    y = {"constant": torch.zeros(40, 2).double(), "one row": torch.ones(1, 2).double()}.get(kind)
    y = cloud(kind, 60) if y is None else y
    labels = np.array(["a", "b"])[np.arange(len(y)) ** 2 % 3 % 2]
    weights = torch.rand(len(y), generator=seeded(1), dtype=torch.float64) * (10.0 ** -(torch.arange(len(y)) % 9))
    weights[2:4] = 0
    price = float(y.std()) if len(y) > 1 else 1.0
    labeled = tc.build_labeled_coreset(
        y, labels, 4, p=p, price=price or 2.0, sample_weights=weights, restarts=1, steps=20, tolerance=0.1
    )
    costs = joint_costs(labeled.points.detach(), labeled.labels, y, labels, price or 2.0, p)
    a, b = (weights / weights.sum()).numpy(), labeled.weights.double().numpy()
    true = ot.emd2(a, b / b.sum(), costs)
    found = labeled.transport(y, labels, sample_weights=weights, exact=True)
    assert found.value == pytest.approx(true, rel=1e-8, abs=1e-12)
    assert found.lower <= true * (1 + 1e-8) + 1e-12
    assert labeled.distance**p == pytest.approx(true, rel=0.11, abs=1e-12)


def test_the_same_by_a_linear_program() -> None:
    labeled = tc.build_labeled_coreset(X[:30], LABELS[:30], 4, price=1.5)
    costs = joint_costs(labeled.points.detach(), labeled.labels, X[:30], LABELS[:30], 1.5, 2)
    true = linear_program(np.full(30, 1 / 30), np.full(4, 1 / 4), costs)
    assert labeled.transport(X[:30], LABELS[:30], exact=True).value == pytest.approx(true, rel=1e-9)


def test_points_have_the_commonest_label_and_the_mean_of_their_cells() -> None:
    labeled = tc.build_labeled_coreset(X, LABELS, 8, price=0.7, tolerance=1e-4, restarts=1)
    plan = labeled.results[0].transport.plan
    mass = torch.zeros(len(X), 8, dtype=torch.float64)
    mass[plan.rows, plan.cols] = plan.mass
    for i in range(8):
        held = [float(mass[label == LABELS, i].sum()) for label in labeled.classes]
        assert labeled.classes[int(np.argmax(held))] == labeled.labels[i]
    torch.testing.assert_close(labeled.points.detach(), 8 * mass.T @ X, atol=0.02, rtol=0)


def test_a_higher_price_makes_labels_agree() -> None:
    def wrong(price: float) -> float:
        labeled = tc.build_labeled_coreset(X, LABELS, 10, price=price, restarts=1)
        plan = labeled.results[0].transport.plan
        return float(plan.mass[torch.from_numpy(LABELS[plan.rows.numpy()] != labeled.labels[plan.cols.numpy()])].sum())

    assert wrong(20.0) < 0.1 < wrong(0.01)


@pytest.mark.parametrize("p", [1, 2])
def test_classes_built_one_by_one_have_one_distance(p: float) -> None:
    weights = torch.rand(len(X), generator=seeded(2), dtype=torch.float64) + 0.1
    labeled = tc.build_labeled_coreset(X, LABELS, 12, p=p, sample_weights=weights, restarts=1)
    far = labeled.transport(X, LABELS, price=1e3, sample_weights=weights)
    assert labeled.distance**p == pytest.approx(far.value, rel=1e-2)
    cheap = labeled.transport(X, LABELS, price=0.05, sample_weights=weights)
    assert cheap.value < far.value


def test_equal_classes_are_another_distribution() -> None:
    labeled = tc.build_labeled_coreset(X, LABELS, 12, allocation="equal", restarts=1)
    with pytest.raises(ValueError, match=r"^distance: the classes weigh 0\.333.* and have .* of the rows"):
        _ = labeled.distance
    assert labeled.transport(X, LABELS, price=1.0).value > 0
    balanced = tc.build_labeled_coreset(X[:20], [0, 1] * 10, 4, allocation="equal")
    assert balanced.distance > 0


def test_labels_that_no_point_has_pay_the_price() -> None:
    labeled = tc.build_labeled_coreset(torch.zeros(4, 1), [0] * 4, 2)
    assert labeled.transport(torch.zeros(4, 1), [7, 0, 0, 9], price=3.0).value == pytest.approx(4.5)
    with pytest.raises(ValueError, match=r"^price: got None for a coreset built of each class by itself"):
        labeled.transport(torch.zeros(4, 1), [0] * 4)


def test_rows_keep_their_own_labels() -> None:
    labeled = tc.build_labeled_coreset(X, LABELS, 6, price=1.0, rows=True, exclude=[3])
    rows = labeled.rows
    assert rows is not None
    assert labeled.labels.tolist() == LABELS[rows.numpy()].tolist()
    assert torch.equal(labeled.points.detach(), X[rows])


def test_free_weights_and_trim_go_with_a_price() -> None:
    labeled = tc.build_labeled_coreset(X, LABELS, 6, price=1.0, weights="free", trim=0.1)
    assert float(labeled.weights.double().sum()) == pytest.approx(1)
    assert labeled.weights.unique().numel() > 1
    kept = labeled.transport(X, LABELS, trim=0.1)
    assert labeled.distance**2 == pytest.approx(kept.value, rel=1e-2)


@pytest.mark.parametrize(("width", "weight"), [(1, 3.0), (2, [3.0, 0.5])])
def test_targets_are_numbers(width: int, weight: Any) -> None:
    ot = pytest.importorskip("ot", reason="needs POT")
    targets = TARGETS[:, 0] if width == 1 else TARGETS
    result = tc.build_coreset(tc.joint_source(X, targets, target_weight=weight), 5, restarts=1)
    assert result.coreset.joint is not None
    x, found = result.coreset.joint.split(result.points)
    assert found.shape == (5,) if width == 1 else (5, 2)
    apart = (targets[:, None] - found[None]) * torch.tensor(weight)
    apart = apart[..., None] if width == 1 else apart
    costs = (X[:, None] - x[None]).square().sum(-1) + apart.square().sum(-1)
    true = ot.emd2(np.full(len(X), 1 / len(X)), np.full(5, 1 / 5), costs.numpy())
    assert result.transport.value == pytest.approx(true, rel=2e-3)
    fresh = 2 * torch.rand(2000, 2, generator=seeded(8), dtype=torch.float64) - 1
    numbers = torch.stack((fresh.sum(1), fresh[:, 0].square()), 1)[:, 0 if width == 1 else slice(None)]
    found = tc.certify(result, tc.joint_source(fresh, numbers, target_weight=weight))
    assert found.lower < 1.1 * result.distance
    assert found.upper > 0.9 * result.distance


@pytest.mark.parametrize("cost", [Mixed([-1], 1.5), Scaled([1.0, 1.0, 2.0])])
@pytest.mark.parametrize("p", [1, 2])
def test_gradients_in_points(cost: Any, p: float) -> None:
    rows = torch.cat((X, CODES[:, None].double()), 1)[:60]
    points = torch.cat((normal(4, 2, seed=3), torch.tensor([[0.0], [1.0], [2.0], [0.0]]).double()), 1)

    def value(features: Tensor) -> Tensor:
        return tc.wasserstein(torch.cat((features, points[:, 2:]), 1), rows, p=p, cost=cost, tolerance=1e-9)

    features = points[:, :2].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(features), features)
    step = 1e-5
    for i, k in ((0, 0), (2, 1), (3, 0)):
        moved = torch.zeros(4, 2, dtype=torch.float64)
        moved[i, k] = step
        with torch.no_grad():
            slope = (value(features + moved) - value(features - moved)) / (2 * step)
        assert float(gradient[i, k]) == pytest.approx(float(slope), rel=1e-3, abs=1e-5)


def test_a_certificate_covers_the_distance_to_the_population() -> None:
    """The population is a large table, whose distance is computed; fresh rows are drawn from it."""
    generator = seeded(5)
    rows = torch.rand(20_000, 2, generator=generator, dtype=torch.float64)
    labels = (rows[:, 0] + torch.rand(20_000, generator=generator) > 1).int()
    labeled = tc.build_labeled_coreset(rows[:500], labels[:500], 8, price=0.5, restarts=1)
    true = labeled.transport(rows, labels).value ** 0.5
    held = 0
    for part in range(20):
        own = slice(1000 + 900 * part, 1900 + 900 * part)
        found = tc.certify(labeled, tc.joint_source(rows[own], labels[own], price=0.5), confidence=0.9, seed=part)
        held += found.lower <= true <= found.upper
        assert found.unit == "units of the numbers"
    assert held >= 16  # of 20 by 0.9, fewer with a probability of 4 %


def batches(labels: Any) -> list[Any]:
    return [(X[k : k + 40].float(), labels[k : k + 40]) for k in range(0, 240, 40)]


FORMS: dict[str, Any] = {
    "dataset of tensors": lambda: (TensorDataset(X.float(), CODES), None),
    "dataset of pairs": lambda: (Rows([(x.numpy(), label) for x, label in zip(X.float(), LABELS, strict=True)]), None),
    "dataset of dicts": lambda: (
        Rows([{"image": x, "kind": k} for x, k in zip(X.float(), CODES, strict=True)]), "kind"
    ),
    "loader": lambda: (DataLoader(TensorDataset(X.float(), CODES), batch_size=50), None),
    "loader of text": lambda: (
        DataLoader(Rows([(x, str(label)) for x, label in zip(X.float(), LABELS, strict=True)]), batch_size=50), None
    ),
    "loader of dicts": lambda: (
        DataLoader(Rows([{"x": x, "label": k} for x, k in zip(X.float(), CODES, strict=True)]), batch_size=50), None
    ),
    "iterable dataset": lambda: (Stream([(x, k) for x, k in zip(X.float(), CODES, strict=True)]), None),
    "iterator": lambda: (iter(batches(LABELS.tolist())), None),
    "labels first": lambda: (iter([(labels, x) for x, labels in batches(CODES)]), 0),
    "list of batches": lambda: (batches(CODES), None),
    "table": lambda: (X.float(), LABELS),
    "numpy": lambda: (X.float().numpy(), CODES.numpy()),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("price", [None, 1.0])
def test_labels_from_any_source(form: str, price: float | None) -> None:
    if form == "labels first":
        source, place = FORMS[form]()
        read = tc.joint_source(source, place, price=1.0, features=1)
        rows, _ = read.materialize(None, seeded())
        assert torch.equal(read.joint.split(rows)[0], X.float())
        return
    data, y = FORMS[form]()
    labeled = tc.build_labeled_coreset(data, y, 6, price=price, restarts=1, steps=3)
    labels = CODES if labeled.classes.dtype.kind == "i" else LABELS
    whole = tc.build_labeled_coreset(X.float(), labels, 6, price=price, restarts=1, steps=3)
    assert labeled.classes.tolist() == whole.classes.tolist()
    measured = labeled.transport(X, labels, price=1.0).value
    assert measured == pytest.approx(whole.transport(X, labels, price=1.0).value, rel=0.3 if price else 1e-3)


@pytest.mark.parametrize("form", ["dataset of dicts", "loader of text", "iterable dataset", "iterator", "numpy"])
def test_certificates_take_labels_of_any_source(form: str) -> None:
    data, y = FORMS[form]()
    text = form in ("loader of text", "iterator")
    labeled = tc.build_labeled_coreset(X[:50], (LABELS if text else CODES)[:50], 3, price=1.0, restarts=1, steps=5)
    found = tc.certify(labeled, tc.joint_source(data, y, price=1.0), samples=10_000)
    true = labeled.transport(X, LABELS if text else CODES).value ** 0.5
    assert found.lower <= 1.2 * true
    assert 0.8 * true <= found.upper


def test_sizes_bounds_and_reports_take_the_distance_of_the_source() -> None:
    y = torch.cat((X, X, X + 0.01)) + 0.01 * normal(720, 2)
    labels = 7 * CODES.repeat(3)  # codes that are far apart as numbers
    source = tc.joint_source(y, labels, price=0.2)
    assert tc.optimality_bound(source, 6).distance <= tc.build_coreset(source, 6, restarts=1).distance
    assert tc.size_for(0.6, source, samples=400).coreset.cost.prices == (0.2,)
    part, fresh = tc.hold_out(source, 0.5)
    assert tc.doctor(tc.build_coreset(part, 4, restarts=1), fresh)["duplicates"].level == "fine"


@pytest.mark.parametrize("price", [None, 1.0])
def test_images_are_flattened(price: float | None) -> None:
    images = TensorDataset(X.float().reshape(-1, 1, 2, 1), CODES)
    for data in (Rows([images[k] for k in range(len(images))]), DataLoader(images, batch_size=60)):
        labeled = tc.build_labeled_coreset(data, None, 6, price=price, flatten=True, restarts=1, steps=2)
        assert labeled.points.shape == (6, 2)
        whole = tc.joint_source(data, price=1.0, flatten=True)
        expected = labeled.transport(X.float(), CODES, price=2.0).value
        assert labeled.transport(whole, price=2.0).value == pytest.approx(expected)
        with pytest.raises(ValueError, match="flatten=True"):
            tc.build_labeled_coreset(data, None, 6, price=price)


def test_a_callable_gives_samples_with_labels() -> None:
    def draw(count: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 2)
        return x, (x[:, 0] > 0).int()

    source = tc.joint_source(draw, price=2.0)
    result = tc.build_coreset(source, 6, samples=2000)
    assert result.coreset.joint.split(result.points)[1].tolist().count(1) == 3
    assert tc.certify(result, source, samples=5000).upper < 2


def test_codes_of_another_order_are_those_of_the_points() -> None:
    labeled = tc.build_labeled_coreset(X, LABELS, 6, price=2.0)
    forwards = tc.certify(labeled, tc.joint_source(batches(LABELS.tolist()), price=2.0))
    last = [(X[LABELS == "c"][:1], ["c"])]  # codes of a loader are given as classes are seen
    backwards = tc.certify(labeled, tc.joint_source(last + batches(LABELS.tolist()), price=2.0))
    assert forwards.upper < 1
    assert backwards.upper < 1


def test_a_table_in_a_file(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    text = "\n".join(f"{x},{label},{y}" for (x, y), label in zip(X.tolist(), LABELS, strict=True))
    (tmp_path / "data.csv").write_text("u,kind,v\n" + text + "\n")
    source = tc.joint_source(str(tmp_path / "data.csv"), "kind", price=1.0)
    build, fresh = tc.hold_out(source, 0.5)
    result = tc.build_coreset(build, 5)
    assert set(result.coreset.joint.split(result.points)[1]) <= {"a", "b", "c"}
    assert tc.certify(result, fresh).upper > 0
    with pytest.warns(UserWarning, match="built"):
        tc.certify(result, build)
    table = tc.read_table(str(tmp_path / "data.csv"), label="kind")
    labeled = tc.build_labeled_coreset(table, None, 5, price=1.0)
    again = tc.build_labeled_coreset(str(tmp_path / "data.csv"), "kind", 5, price=1.0)
    assert torch.equal(labeled.points, again.points)
    assert labeled.results[0].row_numbers is not None


def test_counts_are_rows() -> None:
    counts = torch.arange(len(X)) % 3
    source = tc.joint_source(X, CODES, price=1.0, weights=counts, weights_are="counts")
    assert source.size == int(counts.sum())
    repeated = X.repeat_interleave(counts, 0), CODES.repeat_interleave(counts)
    labeled = tc.build_labeled_coreset(X, CODES, 5, price=1.0, sample_weights=counts)
    expected = labeled.transport(*repeated).value ** 0.5
    assert tc.transport(
        labeled.to_joint().points, source.materialize(None, seeded())[0], cost=Mixed([-1], 1.0),
        sample_weights=source.materialize(None, seeded())[1],
    ).value ** 0.5 == pytest.approx(expected, rel=1e-3)  # fmt: skip


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_files_keep_the_price_and_the_classes(tmp_path: Any, suffix: str) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors")
    labeled = tc.build_labeled_coreset(X, LABELS, 5, price=1.5, restarts=1, steps=5)
    labeled.save(tmp_path / f"c{suffix}")
    again = tc.LabeledCoreset.load(tmp_path / f"c{suffix}")
    assert again.price == 1.5
    assert again.transport(X, LABELS).value == pytest.approx(labeled.transport(X, LABELS).value)
    for source in (tc.joint_source(X, LABELS, price=1.5), tc.joint_source(X, TARGETS, target_weight=2.0)):
        coreset = tc.build_coreset(source, 5, restarts=1, steps=5).coreset
        coreset.save(tmp_path / f"d{suffix}")
        read = tc.Coreset.load(tmp_path / f"d{suffix}")
        for ours, theirs in zip(coreset.joint.split(coreset.points), read.joint.split(read.points), strict=True):
            assert ours.tolist() == theirs.tolist()
        assert repr(read.cost) == repr(source.metric)


def test_merging_knows_the_distance_of_the_features() -> None:
    parts = [tc.build_labeled_coreset(X[k::2], LABELS[k::2], 5, price=1.0, restarts=1) for k in (0, 1)]
    merged = tc.merge(parts)
    assert merged.labeled is not None
    assert merged.bound is not None
    assert tc.transport(merged.coreset, X).value ** 0.5 <= merged.bound.upper * (1 + 1e-3)


JOINT = tc.joint_source(X, CODES, price=1.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tc.joint_source(X, CODES), "price, target_weight: got None and None"),
        (lambda: tc.joint_source(X, CODES, price=1, target_weight=1), "price, target_weight: got 1 and 1"),
        (lambda: tc.joint_source(X, CODES, price=-1.0), "price: got -1.0; expected a positive number"),
        (lambda: tc.joint_source(X, TARGETS, target_weight=-1), "target_weight: got -1 with 2 columns of targets"),
        (lambda: tc.compare_divergences(JOINT, 3), "source: got rows with labels for distances by Mixed"),
        (lambda: tc.build_labeled_coreset(X, CODES, 3, price=1, sample_weights=[1]), "sample_weights: got shape (1,)"),
        (lambda: tc.joint_source(X, CODES[:5], price=1.0), "y: got 5 labels for 240 rows"),
        (lambda: tc.joint_source(X, TARGETS, target_weight=[1, 2, 3]), "target_weight: got [1, 2, 3]"),
        (lambda: tc.joint_source(X, price=1.0), "samples: got a Tensor without labels"),
        (lambda: tc.joint_source([X], price=1.0), "samples, batch 0: got a Tensor without labels"),
        (lambda: tc.joint_source(iter(batches(CODES)), CODES, price=1.0), "y: given with StreamSource"),
        (lambda: tc.joint_source([{"x": X, "k": CODES}], price=1.0), "samples, batch 0: got a dict with the keys"),
        (lambda: tc.joint_source([(CODES, X)], 0, price=1.0), "features: got None with y=0"),
        (lambda: tc.joint_source([(X, CODES)], 2, price=1.0), "samples, batch 0: got a tuple of 2 and y=2"),
        (lambda: tc.joint_source([(X, CODES), (X, LABELS)], price=1.0), "samples, batch 1: got labels that are text"),
        (lambda: tc.joint_source([(X, CODES[:5])], price=1.0), "samples, batch 0: got 5 labels for 240 rows"),
        (lambda: tc.joint_source([(X, X)], price=1.0), "samples, batch 0: got labels of shape (240, 2)"),
        (lambda: tc.joint_source(JOINT, CODES, price=1.0), "source: got rows for distances in other units, or with"),
        (lambda: tc.build_coreset(JOINT, 3, scale="standard"), "scale: given with labels"),
        (lambda: tc.build_labeled_coreset(X, CODES, 3, "equal", price=1.0), "allocation: got 'equal' with a price"),
        (lambda: tc.build_labeled_coreset(X, CODES, 3, price=1.0, scale="standard"), "scale: given with a price"),
        (lambda: tc.build_labeled_coreset(X, CODES, 3, price=1.0, init={0: X}), "init: got a dict with a price"),
        (lambda: tc.build_labeled_coreset(X, None, 3), "samples: got a Tensor without labels"),
        (lambda: tc.certify(X[:3], JOINT), "source: got Classes(0, 1, 2) for points without labels"),
        (lambda: tc.certify(tc.build_coreset(JOINT, 3), X), "source: got rows without labels for Classes(0, 1, 2)"),
    ],
)  # fmt: skip
def test_errors_say_what_came(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        call()


def test_a_real_table(data_dir: Any) -> None:
    ot = pytest.importorskip("ot", reason="needs POT")
    with np.load(data_dir / "htru2.npz") as held:
        rows, labels = torch.from_numpy(held["X"]).double(), held["y"]
    rows = ((rows - rows.mean(0)) / rows.std(0))[::9]
    labels = labels[::9]
    build, fresh = slice(0, 1000), slice(1000, 1988)
    labeled = tc.build_labeled_coreset(rows[build], labels[build], 20, price=2.0)
    costs = joint_costs(labeled.points.detach(), labeled.labels, rows[build], labels[build], 2.0, 2)
    assert labeled.distance**2 == pytest.approx(ot.emd2([], [], costs), rel=2e-3)
    assert set(labeled.labels.tolist()) == {0, 1}
    found = tc.certify(labeled, tc.joint_source(rows[fresh], labels[fresh], price=2.0))
    assert found.lower < labeled.distance * 1.2
    assert found.upper > labeled.distance * 0.9

"""Coresets of parts become one, within the bound that follows from theirs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal, seeded, seeds
from torchcoreset.coresets.parts.bound import bound_of, mean_length
from torchcoreset.testing import line_transport
from torchcoreset.transport import as_cost

pytestmark = pytest.mark.usefixtures("two_starts")

QUICK = {"restarts": 1, "tolerance": 1e-2, "steps": 8}
SIZES = (100, 150, 50)  # rows of the parts of a cloud
MASSES = (0.2, 0.5, 0.3)


def distance(coreset, rows, p, weights=None, point_weights=None):
    """W_p from below and above."""
    points = coreset.points.detach() if point_weights is not None else coreset
    found = tc.transport(points, rows, p, point_weights, weights, tolerance=1e-6)
    return max(found.lower, 0.0) ** (1 / p), found.value ** (1 / p)


def mixture(sizes=SIZES, masses=MASSES, weights=None):
    """Weights of all rows, whose parts have these masses."""
    own = [torch.ones(size).double() for size in sizes] if weights is None else weights
    return torch.cat([mass * one / one.sum() for mass, one in zip(masses, own, strict=True)])


def holds(bound, coreset, rows, weights, p):
    """Whether the interval of the bound is met, up to the gap of the transport that asks."""
    low, high = distance(coreset, rows, p, weights)
    return bound.lower <= high * (1 + 1e-9) and low <= bound.upper * (1 + 1e-9)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    "kind", ["constant", *(pytest.param(kind, marks=pytest.mark.slow) if kind == "wide" else kind for kind in CLOUDS)]
)
def test_the_bound_holds_on_data_of_every_kind(kind, p):
    rows = torch.full((300, 2), 7.0).double() if kind == "constant" else cloud(kind)
    weights = [torch.rand(size, generator=seeded(size)).double() for size in SIZES]
    weights[0][:20], weights[0][20:30] = 0, 1e-9
    parts = [
        tc.build_coreset(part, 6, p=p, sample_weights=mass, **QUICK)
        for part, mass in zip(rows.split(SIZES), weights, strict=True)
    ]
    a = mixture(weights=weights)
    union = tc.merge(parts, MASSES)
    merged = tc.merge(parts, MASSES, 5, **QUICK)
    for result in (union, merged):
        assert holds(result.bound, result.coreset, rows, a, p)
        assert (result.p, result.bound.confidence, [part.of for part in result.bound.parts]) == (p, 1, ["samples"] * 3)
    assert union.bound.upper**p == pytest.approx(
        sum(mass * part.transport.value for mass, part in zip(MASSES, parts, strict=True)), rel=1e-6, abs=1e-300
    )
    e, w, bias = union.bound.upper, merged.distance, union.bound.bias
    assert bias <= e * (1 + 1e-9)
    together = (e**2 + w**2 + 2 * bias * w) ** 0.5 if p == 2 else e + w
    assert merged.bound.upper == pytest.approx(together, rel=1e-6)


@pytest.mark.parametrize("seed", seeds(40, quick=8))
def test_the_bound_holds_in_random_draws(seed):
    """Any points, weights, masses and bounds: the least that is true of each part, and nothing optimised."""
    generator = seeded(seed)

    def whole(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    p, d, k, dtype = whole(1, 4), whole(1, 4), whole(1, 5), (torch.float32, torch.float64)[whole(0, 2)]
    offset, spread = (0.0, 1e6)[whole(0, 2)], (0.0, 1.0, 100.0)[whole(0, 3)]
    parts, rows, weights = [], [], []
    for _ in range(k):
        centre = offset + spread * normal(1, d, generator=generator)
        y = (centre + normal(whole(1, 30), d, generator=generator)).to(dtype)
        own = torch.rand(len(y), generator=generator).double() ** 8
        points = (centre + normal(whole(1, 6), d, generator=generator)).to(dtype)
        coreset = tc.Coreset(points, torch.rand(len(points), generator=generator).double() + 0.01)
        parts.append((coreset, distance(coreset, y, p, own)[1]))
        rows.append(y)
        weights.append(own)
    masses = torch.rand(k, generator=generator).double()
    masses[1:2] = 0  # where there are several
    a = mixture([len(y) for y in rows], (masses / masses.sum()).tolist(), weights)
    for result in (tc.merge(parts, masses, p=p), tc.merge(parts, masses, 3, p=p, **QUICK)):
        assert holds(result.bound, result.coreset, torch.cat(rows), a, p)
        assert result.mass == pytest.approx(float(masses.sum()))
        assert result.bound.p == p


@pytest.mark.parametrize("p", [1, 2, 3])
def test_parts_far_apart_leave_the_bound_no_slack(p):
    rows = [normal(60, 2, seed=k) + 1000 * k for k in range(3)]
    parts = [tc.build_coreset(part, 5, p=p, **QUICK) for part in rows]
    result = tc.merge(parts, MASSES)
    exact = tc.transport(result, torch.cat(rows), p, sample_weights=mixture([60] * 3), tolerance=1e-6).value
    assert result.bound.upper**p == pytest.approx(exact, rel=2e-3)  # the distances of the builds are within 1e-3
    nearer = [
        (part.coreset, tc.transport(part, y, p, tolerance=1e-6).value ** (1 / p))
        for part, y in zip(parts, rows, strict=True)
    ]
    assert tc.merge(nearer, MASSES, p=p).bound.upper ** p == pytest.approx(exact, rel=3e-6)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_on_the_line_by_the_monotone_coupling(p):
    """Truths that our solver has no part in."""
    rows = [normal(50, 1, seed=k) * (k + 1) + k for k in range(3)]
    points = [normal(4, 1, seed=10 + k) for k in range(3)]
    parts = [(tc.Coreset(x), line_transport(x, y, p).value ** (1 / p)) for x, y in zip(points, rows, strict=True)]
    for result in (tc.merge(parts, MASSES, p=p), tc.merge(parts, MASSES, 3, p=p, **QUICK)):
        coreset = result.coreset
        exact = line_transport(coreset.points.detach(), torch.cat(rows), p, coreset.weights, mixture([50] * 3)).value
        assert result.bound.lower <= exact ** (1 / p) <= result.bound.upper


def test_the_lower_bound_is_that_of_the_triangle():
    """A single point for what was a good coreset of two clusters."""
    rows = torch.cat([0.01 * normal(200, 2), 0.01 * normal(200, 2, seed=1) + 10])
    parts = [tc.build_coreset(part, 8, **QUICK) for part in rows.split(200)]
    result = tc.merge(parts, size=1, **QUICK)
    low, high = distance(result, rows, 2)
    assert 0.99 * low < result.bound.lower <= high
    assert result.bound.lower == pytest.approx(result.bound.merging_least - result.bound.mixture)
    assert low <= result.bound.upper < 1.01 * high


def test_squares_add_up_where_points_are_means():
    """The coupling through the points of the parts costs what the bound says, and no more."""
    rows = normal(300, 2)
    parts = [tc.build_coreset(part, 10, restarts=1) for part in rows.split(100)]
    result = tc.merge(parts, size=5, restarts=1)
    x, z = result.union.points.detach(), result.coreset.points.detach()
    means = torch.zeros_like(x)
    cost = 0.0
    for k, (part, y) in enumerate(zip(parts, rows.split(100), strict=True)):
        dense = part.transport.plan.to_sparse().to_dense() / 3  # (100, 10)
        means[10 * k : 10 * k + 10] = (dense / dense.sum(0)).T @ y
        second = result.transport.plan.to_sparse().to_dense()[10 * k : 10 * k + 10]
        chain = dense @ (second / second.sum(1, keepdim=True))  # (100, 5), rows and z independent given x
        cost += float((chain * torch.cdist(y, z).square()).sum())
    assert float((means - x).square().sum(1).mean()) ** 0.5 == pytest.approx(result.bound.mixture_bias, abs=1e-12)
    assert distance(result, rows, 2)[0] <= cost**0.5 <= result.bound.upper * (1 + 1e-9)
    assert result.bound.upper < 1.02 * cost**0.5
    assert result.bound.upper < 0.8 * (result.bound.mixture + result.bound.merging)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_rows_that_come_with_a_coreset_are_measured(p):
    rows = cloud("clusters")
    coresets = [tc.build_coreset(part, 6, p=p, **QUICK).coreset for part in rows.split(SIZES)]
    result = tc.merge(list(zip(coresets, rows.split(SIZES), strict=True)), MASSES, 4, p=p, **QUICK)
    assert [part.of for part in result.bound.parts] == ["rows"] * 3
    assert holds(result.bound, result.coreset, rows, mixture(), p)
    as_numbers = [(one, distance(one, y, p)[1]) for one, y in zip(coresets, rows.split(SIZES), strict=True)]
    other = tc.merge(as_numbers, MASSES, 4, p=p, **QUICK)
    assert other.bound.upper == pytest.approx(other.bound.mixture + other.bound.merging)
    if p == 2:
        assert result.bound.upper < 0.95 * other.bound.upper
    weights = torch.rand(100, generator=seeded()).double()
    weighted = tc.merge([(coresets[0], tc.as_source(rows[:100], weights))], p=p)
    assert weighted.bound.upper == pytest.approx(distance(coresets[0], rows[:100], p, weights)[1], rel=1e-3)
    scaled = tc.build_coreset(rows, 5, p=p, scale=[1.0, 2.0, 3.0], **QUICK)
    assert tc.merge([(scaled.coreset, rows.numpy())], p=p).bound.upper == pytest.approx(scaled.distance, rel=1e-2)


def test_points_weights_and_where_they_come_from():
    first, second = tc.Coreset([[0.0], [1.0]], [0.25, 0.75]), tc.Coreset([[5.0]])
    result = tc.merge([first, second], masses=[3, 1])
    assert result.coreset.points.flatten().tolist() == [0, 1, 5]
    assert result.coreset.weights.tolist() == pytest.approx([3 / 16, 9 / 16, 1 / 4])
    assert result.part_of.tolist() == [0, 0, 1]
    assert (result.mass, result.p, result.bound, result.transport, result.distance) == (4, 2, None, None, 0)
    assert tc.merge([first, second]).coreset.weights.tolist() == pytest.approx([0.125, 0.375, 0.5])
    small = tc.merge([first, second], masses=[3, 1], size=2, restarts=1)
    assert small.transport.assignment.tolist() in ([0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0])
    assert small.coreset.size == 2
    assert tc.merge([second], size=3, restarts=1).coreset.points.tolist() == [[5.0]] * 3
    nothing = tc.merge([(first, 0.5), second], masses=[1, 0])
    assert nothing.coreset.weights.tolist() == [0.25, 0.75, 0]
    assert nothing.bound.upper == 0.5  # a part without mass needs no bound


def test_settings_reach_the_build():
    first, second = (tc.Coreset(normal(30, 2, seed=k)) for k in range(2))
    result = tc.merge([first, second], size=2, weights=[0.9, 0.1], init=first.points[:2].detach(), steps=3, tolerance=0)
    assert result.coreset.weights.tolist() == pytest.approx([0.9, 0.1])
    assert len(result.build.history) == 3
    twice = [tc.merge([first, second], size=4, seed=5, **QUICK).coreset.points for _ in range(2)]
    assert torch.equal(*twice)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_rounded_weights_are_in_the_bound(dtype):
    """Two points far apart, whose masses the dtype cannot hold: what is rounded away has a long way to go."""
    parts = [(tc.Coreset(torch.tensor([[x]], dtype=dtype)), 0.0) for x in (0.0, 1000.0)]
    result = tc.merge(parts, masses=[3, 7])
    exact = tc.transport(result, torch.tensor([[0.0], [1000.0]]), sample_weights=[3, 7], exact=True).value ** 0.5
    assert result.coreset.weights.dtype == dtype
    assert exact * (1 - 1e-8) <= result.bound.upper <= 1.01 * exact + 1e-9
    assert (result.bound.rounding > 0) == (dtype != torch.float64)
    small = tc.merge([*parts, *parts], masses=[3, 7, 3, 7], size=2, weights=[3, 7], restarts=1)
    assert small.bound.upper == pytest.approx(small.distance)


def test_the_distance_of_a_build_counts_rounded_weights():
    """Points on 3 and 7 rows that lie 1000 apart would be at distance 0, had they not weights in float32."""
    rows = torch.tensor([0.0] * 3 + [1000.0] * 7)
    part = tc.build_coreset(rows, 2, weights=torch.tensor([0.3, 0.7]).double(), init=torch.tensor([0.0, 1000.0]))
    exact = tc.transport(part, rows, exact=True).value ** 0.5
    assert exact > 0.1
    assert exact * (1 - 1e-7) <= tc.merge([part]).bound.upper < 1.01 * exact


def test_equal_weights_are_not_rounded():
    parts = [(tc.Coreset(normal(7, 2, seed=k).float()), 0.1) for k in range(3)]
    assert tc.merge(parts).bound.rounding == 0
    assert tc.merge(parts).bound.upper == pytest.approx(0.1)


def test_merging_goes_on_and_its_order_does_not_matter():
    rows = [normal(80, 2, seed=k) + 3 * k for k in range(4)]
    parts, masses = [tc.build_coreset(part, 6, **QUICK) for part in rows], [4.0, 3.0, 2.0, 1.0]
    flat = tc.merge(parts, masses)
    pairs = [tc.merge(parts[k : k + 2], masses[k : k + 2]) for k in (0, 2)]
    tree = tc.merge(pairs, [pair.mass for pair in pairs])
    chain = parts[0]
    mass = masses[0]
    for part, more in zip(parts[1:], masses[1:], strict=True):
        chain = tc.merge([chain, part], [mass, more])
        mass = chain.mass
    for other in (tree, chain):
        assert other.bound.upper == pytest.approx(flat.bound.upper, rel=1e-12)
        assert torch.allclose(other.coreset.weights, flat.coreset.weights, rtol=1e-12)
        assert torch.equal(other.coreset.points, flat.coreset.points)
    assert [part.of for part in tree.bound.parts] == ["merged", "merged"]
    assert [part.upper for part in tree.bound.parts[0].merged.parts] == [part.distance for part in parts[:2]]
    smaller = [tc.merge(parts[k : k + 2], masses[k : k + 2], 6, **QUICK) for k in (0, 2)]
    reduced = tc.merge(smaller, [one.mass for one in smaller], 6, **QUICK)
    assert holds(reduced.bound, reduced.coreset, torch.cat(rows), mixture([80] * 4, [0.4, 0.3, 0.2, 0.1]), 2)
    assert tc.build_coreset(reduced, 2, **QUICK).coreset.built_on == reduced.coreset.built_on  # it is a source too
    e, w = mean_length([0.7, 0.3], [one.bound.upper for one in smaller], as_cost(2)), reduced.distance
    bias = mean_length([0.7, 0.3], [one.bound.bias for one in smaller], as_cost(2))
    assert (reduced.bound.mixture, reduced.bound.mixture_bias) == pytest.approx((e, bias))
    assert reduced.bound.upper == pytest.approx((e**2 + w**2 + 2 * bias * w) ** 0.5)


def test_certificates_are_carried():
    def day(k):
        return lambda m: torch.randn(m, 2) + 2 * k

    def both(m):
        return torch.randn(m, 2) + 2 * (torch.rand(m, 1) < 0.4)

    parts = [tc.build_coreset(normal(500, 2, seed=k).float() + 2 * k, 8, **QUICK) for k in range(2)]
    found = [tc.certify(part, day(k), samples=4000, confidence=0.99) for k, part in enumerate(parts)]
    result = tc.merge(list(zip(parts, found, strict=True)), masses=[0.6, 0.4], size=8, **QUICK)
    assert result.bound.confidence == pytest.approx(0.98)
    assert [(part.of, part.upper) for part in result.bound.parts] == [("population", one.upper) for one in found]
    whole = tc.certify(result, both, samples=20_000)
    assert whole.lower <= result.bound.upper
    assert result.bound.lower <= whole.upper
    again = tc.merge([(result.coreset, result.bound), parts[0]], masses=[1, 1])  # a build is certain of its samples
    assert again.bound.confidence == pytest.approx(0.98)
    assert [part.of for part in again.bound.parts] == ["merged", "samples"]


def test_too_many_certificates_say_what_to_ask_for():
    part = tc.Coreset(normal(8, 1))
    found = tc.certify(part, normal(500, 1, seed=1), samples=300, confidence=0.5)
    with pytest.warns(UserWarning, match=r"coresets: 2 of them .* confidence 0. Certify each .* such as 0.975"):
        assert tc.merge([(part, found)] * 2).bound.confidence == 0


def within_classes(merged: tc.MergeResult, union: tc.MergeResult) -> float:
    """Sum over the classes of their mass times the squared distance between the points of both."""
    total = 0.0
    for label in set(union.labeled.labels.tolist()):
        ours, theirs = (torch.from_numpy(found.labeled.labels == label) for found in (merged, union))
        b, a = merged.labeled.weights[ours], union.labeled.weights[theirs]
        x, y = merged.labeled.points.detach()[ours], union.labeled.points.detach()[theirs]
        total += float(a.sum()) * tc.transport(x, y, 2, b, a).value
    return total


def test_labels_stay():
    rows, labels = normal(300, 2), np.array(["a", "b", "c"])[np.arange(300) % 3]
    first = tc.build_labeled_coreset(rows[:200], labels[:200], 9, **QUICK)
    second = tc.build_labeled_coreset(rows[200:], np.where(labels[200:] == "c", "b", labels[200:]), 4, **QUICK)
    union = tc.merge([first, second], masses=[200, 100])
    assert union.labeled.labels.tolist() == [*first.labels, *second.labels]
    assert union.coreset is union.labeled.coreset
    small = tc.merge([first, second], masses=[200, 100], size=6, **QUICK)
    assert sorted(set(small.labeled.labels.tolist())) == ["a", "b", "c"]
    share = small.labeled.weights[torch.from_numpy(small.labeled.labels == "c")].sum()
    assert float(share) == pytest.approx(200 / 300 * 66 / 200, rel=1e-6)
    for result in (union, small):
        assert holds(result.bound, result.coreset, rows, torch.ones(300), 2)
    free = tc.merge([first, second], masses=[200, 100], size=6, weights="free", **QUICK)
    assert holds(free.bound, free.coreset, rows, torch.ones(300), 2)
    assert within_classes(free, union) < within_classes(small, union)  # what is minimised; `distance` may cross them
    again = tc.merge([small, first], size=6, **QUICK)
    assert again.labeled.coreset.size == 6
    assert again.bound.parts[0].merged is small.bound
    numbers = tc.build_labeled_coreset(rows, np.arange(300) % 3, 6, **QUICK)
    with pytest.raises(ValueError, match=r"coresets\[1\]: got labels that are numbers, and text in coresets\[0\]"):
        tc.merge([first, numbers])
    with pytest.raises(ValueError, match=r"coresets\[1\]: coresets\[0\] has labels, and coresets\[1\] has none"):
        tc.merge([first, second.coreset])
    with pytest.raises(ValueError, match=r"weights: got one for each point; expected None, 'free' or bounds"):
        tc.merge([first, second], size=6, weights=[1.0] * 6)
    with pytest.raises(ValueError, match=r"init: got points with labelled coresets"):
        tc.merge([first, second], size=6, init=rows[:6])
    with pytest.raises(ValueError, match=r"seed: got a generator with labelled coresets"):
        tc.merge([first, second], size=6, seed=seeded())
    assert tc.merge([first, second.coreset.__class__(second.points.detach())][:1]).labeled is not None


@pytest.mark.parametrize("labeled", [False, True])
def test_units_go_on(labeled):
    rows = normal(200, 2) * torch.tensor([1.0, 1000.0])
    scale = [1.0, 1000.0]
    if labeled:
        parts = [tc.build_labeled_coreset(part, [0, 1] * 50, 6, scale=scale, **QUICK) for part in rows.split(100)]
    else:
        parts = [tc.build_coreset(part, 6, scale=scale, **QUICK) for part in rows.split(100)]
    for size in (None, 4):
        result = tc.merge(parts, size=size, **({} if size is None else QUICK))
        scaling = result.coreset.scaling
        assert scaling.unit.tolist() == scale
        points = scaling.apply(result.coreset.points.detach())
        assert holds(result.bound, tc.Coreset(points, result.coreset.weights), scaling.apply(rows), torch.ones(200), 2)
        assert "the units given" in repr(result)
        assert "the units given" in repr(result.bound)
    certified = [(part.coreset, tc.certify(part.coreset, normal(2000, 2, seed=3) * rows.std(0))) for part in parts]
    assert tc.merge(certified).bound.confidence == pytest.approx(0.9)


def test_units_of_their_own_are_refused():
    rows = normal(200, 2)
    parts = [tc.build_coreset(part, 4, scale="standard", **QUICK) for part in rows.split(100)]
    with pytest.raises(
        ValueError, match=r"coresets\[1\]: got distances in standard .* of other rows.* scale=first.scal"
    ):
        tc.merge(parts)
    with pytest.raises(ValueError, match=r"coresets\[1\]: got distances in the units of the data, and in standard"):
        tc.merge([parts[0], tc.Coreset(rows[:4])])
    alike = tc.build_coreset(rows[100:], 4, scale=parts[0].coreset.scaling, **QUICK)
    assert tc.merge([parts[0], alike]).bound.upper < 1
    plain = tc.certify(parts[0].coreset.points.detach(), rows[100:])
    with pytest.raises(
        ValueError, match=r"coresets\[0\]: got a bound in the unit of the data for a coreset whose dist"
    ):
        tc.merge([(parts[0], plain)])


def test_what_built_the_parts_is_known():
    days = [normal(100, 2, seed=k) for k in range(3)]
    result = tc.merge([tc.build_coreset(day, 40, **QUICK) for day in days[:2]], size=40, **QUICK)
    assert len(result.coreset.built_on.split()) == 2
    for day in days[:2]:
        with pytest.warns(UserWarning, match="these rows built the coreset"):
            tc.certify(result, day)
    tc.certify(result, days[2])


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_files_and_pickles(tmp_path, suffix):
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors")
    parts = [tc.build_coreset(normal(100, 2, seed=k), 5, **QUICK) for k in range(2)]
    result = tc.merge(parts, size=4, **QUICK)
    result.coreset.save(tmp_path / f"c{suffix}")
    loaded = tc.Coreset.load(tmp_path / f"c{suffix}")
    assert torch.equal(loaded.points, result.coreset.points)
    assert torch.equal(loaded.weights, result.coreset.weights)
    assert loaded.built_on == result.coreset.built_on
    copy = pickle.loads(pickle.dumps(result))
    assert repr(copy) == repr(result)
    assert copy.bound == result.bound
    assert tc.merge([(loaded, copy.bound)]).bound.upper == pytest.approx(result.bound.upper)


def test_each_says_what_it_is_in_one_line():
    parts = [(tc.Coreset([[0.0], [2.0]]), 0.1), (tc.Coreset([[10.0]]), 0.2)]
    assert repr(tc.merge(parts)) == (
        "MergeResult(3 points of 2 parts, W_2 <= 0.158114 to what these stand for, confidence=1)"
    )
    assert repr(tc.merge(parts).bound) == "MergeBound(W_2 <= 0.158114, 2 parts 0.1581, confidence=1)"
    assert repr(tc.merge([tc.Coreset([[0.0]])])) == "MergeResult(1 points of 1 part, no bound, p=2)"
    small = tc.merge(parts, size=2, restarts=1)
    assert repr(small) == (
        "MergeResult(2 points of 2 parts, W_2=0.707107 to their 3, 0.548993 <= W_2 <= 0.865221 to what these stand "
        "for, confidence=1)"
    )
    assert repr(small.bound) == (
        "MergeBound(0.548993 <= W_2 <= 0.865221, 2 parts 0.1581, merging 0.7071, confidence=1)"
    )


PLAIN = tc.Coreset(normal(4, 2))


@pytest.mark.parametrize(
    ("coresets", "settings", "message"),
    [
        (PLAIN, {}, r"coresets: got a Coreset; expected a list of them"),
        (3, {}, r"coresets: got int; expected a list of a Coreset"),
        ([], {}, r"coresets: got none; expected at least one"),
        ([PLAIN, normal(4, 2)], {}, r"coresets\[1\]: got Tensor; expected a Coreset, a LabeledCoreset"),
        ([PLAIN, tc.Coreset(normal(4, 3))], {}, r"coresets\[1\]: got points of dimension 3, and 2 in coresets\[0\]"),
        (
            [PLAIN, tc.Coreset(normal(4, 2).float())],
            {},
            r"coresets\[1\]: got points of dtype torch.float32, and torch.fl",
        ),
        ([(PLAIN, -1.0)], {}, r"coresets\[0\]: got the bound -1.0; expected a distance"),
        ([(PLAIN, "far")], {}, r"coresets\[0\]: got a str as its bound; expected a Certificate"),
        ([PLAIN], {"masses": [1, 2]}, r"masses: got shape \(2,\) for 1 coresets; expected one mass for each"),
        ([PLAIN, PLAIN], {"masses": [1, -2]}, r"masses: 1 of 2 weights are negative"),
        ([PLAIN], {"masses": [0]}, r"masses: all 1 weights are zero"),
        ([PLAIN], {"size": 0}, r"size: got 0"),
        ([PLAIN], {"p": 0.5}, r"p: got 0.5"),
        ([PLAIN], {"init": "random", "seed": 3}, r"init, seed: given without `size`"),
    ],
)
def test_what_cannot_be_merged(coresets, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tc.merge(coresets, **settings)


def test_powers_have_to_agree():
    rows = normal(100, 2)
    first, second = (tc.build_coreset(rows, 4, p=p, **QUICK) for p in (1, 2))
    assert tc.merge([first, first.coreset]).p == 1
    assert tc.merge([(PLAIN, 0.1)], p=3).bound.p == 3
    with pytest.raises(
        ValueError, match=r"coresets\[1\]: its distance is of p=2, and coresets\[0\] is of p=1; expected"
    ):
        tc.merge([first, second])
    with pytest.raises(ValueError, match=r"coresets\[0\]: its distance is of p=1, and p=2 was asked for"):
        tc.merge([first], p=2)
    found = tc.certify(first, normal(100, 2, seed=1), p=2)
    with pytest.raises(ValueError, match=r"coresets\[0\]: built with p=1, and its bound is of p=2"):
        tc.merge([(first, found)])
    with pytest.raises(ValueError, match=r"coresets\[0\]: 3 points with weight, and a certificate of 4; expected that"):
        tc.merge([(tc.Coreset(rows[:3]), found)])


@pytest.mark.parametrize("weights", ["free", (0.5, 2.0)])
def test_parts_of_chosen_weights(weights):
    rows = cloud("clusters").float()
    parts = [tc.build_coreset(part, 5, weights=weights, **QUICK) for part in rows.split(SIZES)]
    for size in (None, 6):
        result = tc.merge(parts, MASSES, size, **({} if size is None else {"weights": weights, **QUICK}))
        assert holds(result.bound, result.coreset, rows, mixture(), 2)


def test_a_trimmed_distance_is_no_bound():
    rows = normal(100, 2)
    part = tc.build_coreset(rows, 4, trim=0.05, **QUICK)
    with pytest.raises(
        ValueError, match=r"coresets\[0\]: got a distance with trim=0.05, .* Pass the `.coreset`, which has no"
    ):
        tc.merge([part])
    labeled = tc.build_labeled_coreset(rows, [0, 1] * 50, 4, trim=0.05, **QUICK)
    found = tc.certify(part, normal(3000, 2, seed=1), trim=0.05)
    for item in (labeled, (part.coreset, found)):
        with pytest.raises(ValueError, match=r"coresets\[0\]: got a distance with trim=0.05"):
            tc.merge([item])
    assert tc.merge([part.coreset]).bound is None


def test_weights_that_are_learnt():
    learnt = tc.Coreset(normal(4, 2), [1.0, 2.0, 3.0, 4.0], learn_weights=True)
    result = tc.merge([(learnt, 0.1), (tc.Coreset(normal(2, 2)), 0.2)], masses=[1, 0])
    assert result.coreset.weights.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0, 0])
    assert not result.coreset.weights.requires_grad


def test_lengths_of_any_size_have_a_mean():
    cost = as_cost(3)
    for unit in (1e-200, 1.0, 1e200):
        assert mean_length([0.5, 0.5], [unit, 2 * unit], cost) == pytest.approx(unit * 4.5 ** (1 / 3))
    assert mean_length([1.0], [0.0], cost) == 0
    assert bound_of([], cost, (0.5, 1.0)).upper == 1


def test_real_tables(data_dir):
    """Days of a table: quarters of HTRU2, in its own order."""
    rows = torch.from_numpy(np.load(data_dir / "htru2.npz")["X"])[:6000]
    scale = rows.double().std(0)
    parts = [tc.build_coreset(part, 10, scale=scale, **QUICK) for part in rows.split(1500)]
    result = tc.merge(parts, size=10, **QUICK)
    scaling = result.coreset.scaling
    points = scaling.apply(result.coreset.points.detach())
    low, high = distance(tc.Coreset(points), scaling.apply(rows), 2)
    assert result.bound.lower <= high
    assert low <= result.bound.upper < 2.5 * high

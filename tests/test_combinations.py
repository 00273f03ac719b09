"""The page docs/reference/combinations.md against the library: each cell of its tables is tried on a few rows.

"yes" has to work; "no" has to be refused by an error that begins with the name of an argument. Rows and columns of the
page are looked up by their text in the tables of calls below, so that neither can have what the other lacks.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import torchcoreset as tc

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "combinations.md"
NAMED = re.compile(r"^[a-z_]+(\[\d\])?(, [a-z_]+)*: ")  # the argument that a refusal begins with

pytestmark = pytest.mark.usefixtures("two_starts")
torch.manual_seed(0)
Y = torch.cat((torch.randn(80, 1), torch.randint(1, 4, (80, 1)).float()), 1)  # a number, and a category
X = Y[:4] + torch.tensor([0.1, 0.0])
A = torch.rand(80) + 0.1
NETWORK = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh()).requires_grad_(False)

DISTANCES: dict[str, Any] = {
    "Euclidean": None,
    "`Scaled`, `Mahalanobis`": tc.costs.Mahalanobis([[2.0, 0.5], [0.5, 1.0]]),
    "`Cosine`": tc.costs.Cosine(),
    "`Mixed`": tc.costs.Mixed([1], 2.0),
    "`GreatCircle`": tc.costs.GreatCircle(),
    "`Embedded`": tc.costs.Embedded(NETWORK),
    "function": lambda y, x: (y - x).abs().sum(-1),
}


class Stream:
    """Independent rows without end."""

    def __call__(self, count: int) -> torch.Tensor:
        return Y[torch.randint(len(Y), (count,))] + torch.tensor([0.01, 0.0]) * torch.randn(count, 1)


def build(cost: Any = None, source: Any = Y, **options: Any) -> tc.BuildResult:
    options = {"steps": 2, "restarts": 1, "progress": False, "cost": cost, **options}
    if options.get("algorithm") == "sgd" or isinstance(options.get("init"), torch.Tensor):
        options["restarts"] = None
    return tc.build_coreset(source, 4, **{name: value for name, value in options.items() if value is not None})


def loss(cost: Any = None, points: Any = X, samples: Any = Y, **options: Any) -> None:
    points = points.clone().requires_grad_()
    value = tc.CoresetLoss(cost=cost, **options)(points, samples)
    value.sum().backward()
    assert points.grad is not None
    assert bool(points.grad.isfinite().all())


def sinkhorn(cost: Any = None, **options: Any) -> None:
    loss(cost, divergence="sinkhorn", backend="newton", blur=0.5, **options)


def autocast(cost: Any = None, **options: Any) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss(cost, **options)


def compiled(cost: Any = None, **options: Any) -> None:
    torch.compile(lambda x: tc.wasserstein(2 * x, Y, cost=cost, **options), backend="eager")(X / 2)


def in_group(call: Callable[..., Any], cost: Any = None, **options: Any) -> None:
    """A call on one rank of a group."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        call(cost, group="world", **options)
    finally:
        dist.destroy_process_group()


def transport(cost: Any = None, **options: Any) -> None:
    tc.transport(X, Y, cost=cost, **options)


def certified(cost: Any = None, **options: Any) -> None:
    tc.certify(X, Stream(), 2, samples=100, cost=cost, **options)


def fused(cost: Any = None) -> None:
    """Whether KeOps may be asked; compiling takes too long to try what may."""
    from torchcoreset.transport.passes.choose import _check_cost

    _check_cost("keops", tc.costs.Euclidean().power(2) if cost is None else as_power(cost))


def as_power(cost: Any) -> Any:
    metric = cost if isinstance(cost, tc.costs.Metric) else tc.costs.Function(cost)
    return metric.power(2)


def from_file(cost: Any, folder: Path) -> None:
    """Points that were saved, and measured again by the distance that the file holds."""
    coreset = tc.Coreset(X)
    coreset.cost = cost if cost is None or isinstance(cost, tc.costs.Metric) else tc.costs.Function(cost)
    coreset.save(folder / "points.npz")
    tc.certify(tc.Coreset.load(folder / "points.npz"), Stream(), 2, samples=100)


def merged(cost: Any) -> None:
    part = build(cost, algorithm=None, rows=True if cost is not None and not is_invertible(cost) else None)
    tc.merge([part, part])


def is_invertible(cost: Any) -> bool:
    return isinstance(cost, tc.costs.Metric) and cost.can_invert


BATCH = torch.stack((Y, Y))
USES: dict[str, Callable[[Any, Path], Any]] = {
    "`transport`": lambda c, _: transport(c),
    "weights left to the plan": lambda c, _: transport(c, point_weights="free"),
    "`trim`": lambda c, _: transport(c, trim=0.1),
    "exact": lambda c, _: transport(c, exact=True),
    "weighted rows": lambda c, _: transport(c, sample_weights=A),
    "`wasserstein`, `CoresetLoss`": lambda c, _: loss(c),
    "batches": lambda c, _: loss(c, points=torch.stack((X, X)), samples=BATCH),
    "autocast": lambda c, _: autocast(c),
    "`torch.compile`": lambda c, _: compiled(c),
    '`divergence="sinkhorn"`': lambda c, _: sinkhorn(c),
    '`divergence="energy"`': lambda c, _: loss(c, divergence="energy"),
    '`divergence="mmd"`': lambda c, _: loss(c, divergence="mmd"),
    "`online=True`": lambda c, _: loss(c, online=True),
    "`group`": lambda c, _: in_group(loss, c),
    '`engine="keops"`, `"triton"`': lambda c, _: fused(c),
    "build": lambda c, _: build(c),
    'build, `"fixed_point"`': lambda c, _: build(c, algorithm="fixed_point"),
    'build, `"gradient"`': lambda c, _: build(c, algorithm="gradient"),
    'build, `"sgd"`': lambda c, _: build(c, algorithm="sgd"),
    'build, `divergence="energy"`': lambda c, _: build(c, divergence="energy"),
    "build, `rows=True`": lambda c, _: build(c, rows=True),
    'build, `weights="free"`': lambda c, _: build(c, weights="free"),
    "build, `trim`": lambda c, _: build(c, trim=0.1),
    "build, endless source": lambda c, _: build(c, source=Stream(), samples=200),
    "build, `scale`": lambda c, _: build(c, scale="standard"),
    "build, `group`": lambda c, _: in_group(build, c),
    "`certify`": lambda c, _: certified(c),
    "`certify`, `trim`": lambda c, _: certified(c, trim=0.1),
    "`certify`, `group`": lambda c, _: in_group(certified, c),
    "`size_for`": lambda c, _: tc.size_for(1e9, Stream(), samples=100, max_builds=1, max_size=4, cost=c),
    "`optimality_bound`": lambda c, _: tc.optimality_bound(Y, 4, cost=c),
    "files": from_file,
    "`merge`": lambda c, _: merged(c),
}


def tables() -> Iterator[tuple[str, str, str, str]]:
    """(table, row, column, cell) of the page."""
    title, header = "", []
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            title, header = line[3:], []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not header:
                header = cells[1:]
            elif set(line) - set("|-: "):
                yield from ((title, cells[0], column, cell) for column, cell in zip(header, cells[1:], strict=True))


CELLS = list(tables())
DISTANCE_CELLS = [(row, column, cell) for title, row, column, cell in CELLS if title == "Distances"]
OPTION_CELLS = [(title, row, column, cell) for title, row, column, cell in CELLS if title != "Distances"]


def check(call: Callable[[], Any], cell: str) -> None:
    """That the call works or is refused, as the cell says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two steps of a build do not converge
        if cell == "yes":
            call()
            return
        assert cell == "no"
        with pytest.raises((ValueError, TypeError)) as refusal:
            call()
    assert NAMED.match(str(refusal.value)), f"the refusal names no argument: {refusal.value}"


def test_the_page_has_all_distances_and_uses() -> None:
    assert {row for row, _, _ in DISTANCE_CELLS} == USES.keys()
    assert {column for _, column, _ in DISTANCE_CELLS} == DISTANCES.keys()


@pytest.mark.parametrize("use", USES)
def test_distances(use: str, tmp_path: Path) -> None:
    for row, column, cell in DISTANCE_CELLS:
        if row == use:
            try:
                check(lambda column=column: USES[use](DISTANCES[column], tmp_path), cell)
            except BaseException as error:
                error.add_note(f"{row} with {column}: the page says {cell}")
                raise


LOSSES: dict[str, dict[str, Any]] = {
    "exact": {},
    "sinkhorn": {"divergence": "sinkhorn", "backend": "newton", "blur": 0.5},
    "energy": {"divergence": "energy"},
    "mmd": {"divergence": "mmd"},
    "online": {"online": True},
}
LOSS_OPTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "batches": lambda o: loss(None, points=torch.stack((X, X)), samples=BATCH, **o),
    "weights as tensors": lambda o: tc.CoresetLoss(**o)(X, Y, torch.ones(4), A),
    "weights left to the plan": lambda o: tc.CoresetLoss(**o)(X, Y, "free"),
    "`trim`": lambda o: loss(None, trim=0.1, **o),
    "`exact`": lambda o: loss(None, exact=True, **o),
    "`group`": lambda o: in_group(loss, None, **o),
    "autocast": lambda o: autocast(None, **o),
    "half precision": lambda o: loss(None, points=X.bfloat16(), samples=Y.bfloat16(), **o),
    "`state_dict`": lambda o: tc.CoresetLoss(**o).load_state_dict(tc.CoresetLoss(**o).state_dict()),
}
BUILDS: dict[str, dict[str, Any]] = {
    "fixed point": {},
    "gradient": {"algorithm": "gradient"},
    "sgd": {"algorithm": "sgd"},
    "energy": {"divergence": "energy"},
    "rows": {"rows": True},
}
BUILD_OPTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    '`weights="free"`': lambda o: build(weights="free", **o),
    "`weights=(low, high)`": lambda o: build(weights=(0.5, 2.0), **o),
    "fixed weights": lambda o: build(weights=[1.0, 1.0, 1.0, 2.0], **o),
    "`trim`": lambda o: build(trim=0.1, **o),
    "`sample_weights`": lambda o: build(sample_weights=A, **o),
    "`scale`": lambda o: build(scale="standard", **o),
    "distribution, callable": lambda o: build(source=Stream(), samples=200, **o),
    "labels in the cost": lambda o: build(source=tc.joint_source(Y, (Y[:, 1] > 2).long(), price=2.0), **o),
    "iterator of batches": lambda o: build(source=iter([Y] * 400), **o),
    "file": lambda o: build(source=o.pop("_file"), **o),
    "given `init`": lambda o: build(init=X, **o),
    "`checkpoint`, `resume`": lambda o: resumed(o),  # noqa: PLW0108 # defined below
    "`group`": lambda o: in_group(build, None, **o),
    '`engine="dense"`': lambda o: build(engine="dense", **o),
}


def resumed(options: dict[str, Any]) -> None:
    records: list[dict[str, Any]] = []
    build(checkpoint=records.append, **options)
    build(resume=records[-1], **{**options, "steps": 3, "restarts": None})


def test_the_page_has_all_options() -> None:
    rows = {(title, row) for title, row, _, _ in OPTION_CELLS}
    expected = {("Losses", row) for row in LOSS_OPTIONS} | {("Builds", row) for row in BUILD_OPTIONS}
    assert rows == expected
    assert {column for title, _, column, _ in OPTION_CELLS if title == "Losses"} == LOSSES.keys()
    assert {column for title, _, column, _ in OPTION_CELLS if title == "Builds"} == BUILDS.keys()


@pytest.mark.parametrize(("title", "row", "column", "cell"), OPTION_CELLS)
def test_options(title: str, row: str, column: str, cell: str, tmp_path: Path) -> None:
    if title == "Losses":
        check(lambda: LOSS_OPTIONS[row](dict(LOSSES[column])), cell)
        return
    options = dict(BUILDS[column])
    if row == "file":
        (tmp_path / "rows.csv").write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in Y.tolist()))
        options["_file"] = tmp_path / "rows.csv"
    check(lambda: BUILD_OPTIONS[row](options), cell)

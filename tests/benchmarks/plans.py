"""The table of work and methods: what `make bench` runs, in this order.

A section is a table of the page. To add a row, add a plan; to add a peer, a `Method` (see `method.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import Tensor

from .problems import (
    Maker,
    Work,
    cauchy,
    coincident,
    components,
    digits,
    far,
    line,
    normal,
    pairs,
    scales,
    separated,
    started,
    stored,
    table,
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to make a piece of work, who does it, and how much patience it deserves.

    Attributes:
        make: from a seed to points and samples.
        task, p, steps: as in `Work`.
        methods: their names; all that there are for the task if empty.
        seeds: number of runs, each from its own start (coresets only); the table shows medians.
        patience: seconds after which one run is given up, its judgement included.
        device: where points and samples lie.
    """

    make: Maker
    task: str
    p: float = 2
    steps: int = 1
    methods: tuple[str, ...] = ()
    seeds: int = 1
    patience: float = 60
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Section:
    """One table of the page.

    Attributes:
        title: its heading.
        about: what the work is, in a sentence or two.
        plans: the rows, by name.
        compared: a method of ours and the peer against whose processor time it is set in the last column.
    """

    title: str
    about: str
    plans: dict[str, Plan]
    compared: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One size varied, the others held: a line of the growth plots.

    Attributes:
        cloud: "normal" or "clusters".
        vary: "n", "m" or "d".
        sizes: its values.
        n, m, d: held sizes.
    """

    cloud: str
    vary: str
    sizes: tuple[int, ...]
    n: int = 100
    m: int = 20_000
    d: int = 8

    def dimensions(self, size: int) -> dict[str, int]:
        """All three sizes where the varied one is this."""
        return {"n": self.n, "m": self.m, "d": self.d, self.vary: size}

    def name(self, size: int) -> str:
        """The name of the work; sweeps that cross share it, and it is measured once."""
        sizes = " ".join(f"{letter}={count}" for letter, count in self.dimensions(size).items())
        return f"{self.cloud}, {sizes}"

    def plans(self) -> dict[str, Plan]:
        """The work of every size."""
        maker: Callable[..., Maker] = {"normal": normal, "clusters": separated}[self.cloud]
        return {
            self.name(size): Plan(
                make=maker(**self.dimensions(size)), task="transport", methods=GROWTH_METHODS, patience=40
            )
            for size in self.sizes
        }


MNIST = stored("mnist_t10k.npz")  # 10,000 images of 28 x 28 pixels, 0 to 255
GROWTH_METHODS = ("ours, gap 1e-3", "ours, exact")
# Samplers of a large m have nothing to gain where there are few samples a point.
EXACTLY = (
    *("ours, gap 1e-3", "ours, exact", "ours, warm, gap 1e-3"),
    *("POT emd2", "POT emd2, warm", "POT emd2_lazy", "geomloss sinkhorn"),
)
WHOLE = ("ours, one start", "KMeans")  # of coresets

SMOOTH = Section(
    title="Smooth clouds",
    about="N(0, I) samples and points, and a mixture of 8 overlapping normal distributions.",
    plans={
        "n=100 m=10k d=2": Plan(make=normal(100, 10_000, 2), task="transport"),
        "n=50 m=50k d=2": Plan(make=normal(50, 50_000, 2), task="transport"),
        "n=500 m=20k d=16": Plan(make=normal(500, 20_000, 16), task="transport"),
        "n=100 m=100k d=16": Plan(make=normal(100, 100_000, 16), task="transport"),
        "n=100 m=100k d=16, 8 clusters": Plan(make=normal(100, 100_000, 16, clusters=8), task="transport"),
    },
    compared=("ours, exact", "POT emd2"),
)
UNEVEN = Section(
    title="Clusters and heavy tails",
    about="20 separated clusters of unequal mass (centres 5 N(0, I), spreads U(.3, 1.3)) with points drawn from their "
    "rows; rows of Cauchy numbers; normal rows times powers of ten from 1e-4 to 1e4; four clusters 1,000 apart, and 1 "
    "wide; rows on a line in 16 dimensions; points of which many are equal, or nearly. p = 2 unless it is named. These "
    "are the hardest kinds known.",
    plans={
        "20 clusters, n=100 m=20k d=16": Plan(make=separated(100, 20_000, 16), task="transport"),
        "20 clusters, n=100 m=50k d=16": Plan(make=separated(100, 50_000, 16), task="transport"),
        "Cauchy, n=100 m=20k d=2": Plan(make=cauchy(100, 20_000, 2), task="transport"),
        "Cauchy, p=3, n=300 m=1,700 d=2": Plan(make=cauchy(300, 1700, 2), task="transport", p=3, methods=EXACTLY),
        "scales, n=362 m=602 d=2": Plan(make=scales(362, 602, 2), task="transport", methods=EXACTLY),
        "far clusters, n=219 m=922 d=2": Plan(make=far(219, 922, 2), task="transport", methods=EXACTLY),
        "a line, n=379 m=2,287 d=16": Plan(make=line(379, 2287, 16), task="transport", methods=EXACTLY),
        "30 places, n=300 m=10k d=2": Plan(make=coincident(300, 10_000, 2, 30), task="transport", methods=EXACTLY),
        "30 places 1e-12 wide, n=300 m=10k d=2": Plan(
            make=coincident(300, 10_000, 2, 30, 1e-12), task="transport", methods=EXACTLY
        ),
    },
    compared=("ours, exact", "POT emd2"),
)
FEW = Section(
    title="Few samples a point",
    about="N(0, I) samples and points, from 50 samples a point to three points a sample, and rows of images as points.",
    plans={
        "n=100 m=5,000 d=2": Plan(make=normal(100, 5000, 2), task="transport", methods=EXACTLY),
        "n=1,000 m=10k d=2": Plan(make=normal(1000, 10_000, 2), task="transport", methods=EXACTLY),
        "n=400 m=400 d=2": Plan(make=normal(400, 400, 2), task="transport", methods=EXACTLY),
        "n=400 m=133 d=2": Plan(make=normal(400, 133, 2), task="transport", methods=EXACTLY),
        "MNIST, n=1,000 m=10k d=784": Plan(
            make=table(MNIST, 1000, standardise=False), task="transport", methods=EXACTLY
        ),
    },
    compared=("ours, exact", "POT emd2"),
)
STEPS = Section(
    title="Training steps",
    about="One step of a loop: value, gradient in the points, Adam with a rate of 0.01. Means over the first steps, of "
    "which a `CoresetLoss` starts all but one from its last potential. The last row is a single step from nothing.",
    plans={
        "n=10 m=100 d=2": Plan(make=normal(10, 100, 2), task="loss", steps=50),
        "n=50 m=200 d=2": Plan(make=normal(50, 200, 2), task="loss", steps=50),
        "n=500 m=5,000 d=16": Plan(make=normal(500, 5000, 16), task="loss", steps=10),
        "n=10k m=1M d=8": Plan(
            make=normal(10_000, 1_000_000, 8, clusters=8), task="loss", methods=("ours, CoresetLoss",), patience=120
        ),
    },
    compared=("ours, CoresetLoss", "POT emd2"),
)
CLOUDS = Section(
    title="Batches of clouds",
    about="Pairs of normal clouds: values and gradients of all pairs, as a loss over a minibatch of point clouds.",
    plans={
        "64 pairs, n=100 m=200 d=3": Plan(make=pairs(64, 100, 200, 3), task="clouds"),
        "256 pairs, n=20 m=50 d=3": Plan(make=pairs(256, 20, 50, 3), task="clouds"),
        "256 pairs, n=10 m=30 d=3": Plan(make=pairs(256, 10, 30, 3), task="clouds"),
    },
    compared=("ours, one call", "POT emd2, a loop"),
)
QUALITY = Section(
    title="Coresets of equal weights",
    about="8,000 standardised rows of Pendigits, medians of 5 starts. The peers balance the cells, too.",
    plans={
        "pendigits 8k n=100": Plan(
            make=table(stored("pendigits.npz"), 100, rows=8000), task="coreset", seeds=5, patience=120
        )
    },
    compared=("ours", "POT free_support_barycenter"),
)


def beside_kmeans(
    name: str, maker: Callable[[int], Maker], sizes: Iterable[int] = (10, 100, 1000), patience: float = 90
) -> dict[str, Plan]:
    """Whole coresets of several sizes."""
    return {
        f"{name}, n={size:,}": Plan(make=maker(size), task="coreset", methods=WHOLE, patience=patience)
        for size in sizes
    }


def rows_of(load: Callable[[], Tensor], **settings: bool) -> Callable[[int], Maker]:
    """A table of the given number of points."""
    return lambda size: table(load, size, **settings)


KMEANS = Section(
    title="Coresets beside k-means",
    about="`build_coreset(restarts=1)` and scikit-learn's `KMeans(n_init=1)`, both from their own starts to their own "
    "default tolerances. k-means minimises the distance to the nearest centre, with weights as they come, and proves "
    "nothing; here its centres are judged with equal weights, which is what a coreset is for. Tables are standardised, "
    "the images not.",
    plans={
        **beside_kmeans("digits (1,797 rows, d=64)", rows_of(digits), (10, 100)),
        **beside_kmeans("Pendigits (10,992, d=16)", rows_of(stored("pendigits.npz"))),
        **beside_kmeans("N(0, I) (10k, d=2)", lambda size: started(normal(1, 10_000, 2), size), (1000,)),
        **beside_kmeans("N(0, I) (50k, d=16)", lambda size: started(normal(1, 50_000, 16), size)),
        **beside_kmeans("20 clusters (20k, d=16)", lambda size: separated(size, 20_000, 16)),
        **beside_kmeans(
            "clusters 4 times as far (20k, d=8)", lambda size: separated(size, 20_000, 8, distance=20), (100,)
        ),
        **beside_kmeans("MNIST (10k, 32 components)", rows_of(components(MNIST, 32), standardise=False)),
        **beside_kmeans("MNIST (10k, d=784)", rows_of(MNIST, standardise=False)),
        **beside_kmeans("cod-rna (331k, d=8)", rows_of(stored("cod_rna.npz", "cod_rna_test.npz")), patience=180),
    },
    compared=("ours, one start", "KMeans"),
)


def coresets(task: str, sets: dict[str, Maker], seeds: int = 3) -> dict[str, Plan]:
    """Coresets of a task, medians of some starts."""
    return {f"{name}, {task}": Plan(make=make, task=task, seeds=seeds, patience=60) for name, make in sets.items()}


PENDIGITS = stored("pendigits.npz")
CHOSEN = Section(
    title="Free weights, beside k-means",
    about='`build_coreset(weights="free")` finds points and weights together, as k-means does; all are judged by the '
    "mean squared distance to the nearest point. Medians of 3 starts.",
    plans=coresets(
        "free coreset",
        {
            "digits, n=50": table(digits, 50),
            "Pendigits, n=100": table(PENDIGITS, 100),
            "20 clusters (20k, d=16), n=100": separated(100, 20_000, 16),
            "Cauchy (20k, d=2), n=100": cauchy(100, 20_000, 2),
            "MNIST (10k, d=784), n=100": table(MNIST, 100, standardise=False),
        },
    ),
    compared=("ours, one start", "KMeans"),
)
BOUNDED = Section(
    title="Bounded weights, beside k-means-constrained",
    about="Each weight between half and twice an equal share; all are judged by the exact transport whose weights keep "
    "these bounds. Medians of 3 starts.",
    plans=coresets(
        "bounded coreset",
        {
            "digits, n=50": table(digits, 50),
            "Pendigits (8,000 rows), n=100": table(PENDIGITS, 100, rows=8000),
            "20 clusters (10k, d=16), n=50": separated(50, 10_000, 16),
        },
    ),
    compared=("ours, one start", "k-means-constrained"),
)
TRIM = Section(
    title="Transport without the farthest samples",
    about="The farthest twentieth of the samples stays unmatched, and points of equal weight share the rest: exact "
    "partial transport.",
    plans={
        f"{name}, partial": Plan(make=make, task="partial transport")
        for name, make in {
            "N(0, I), n=50 m=2,000 d=2": normal(50, 2000, 2),
            "Cauchy, n=100 m=10k d=2": cauchy(100, 10_000, 2),
            "20 clusters, n=100 m=20k d=16": separated(100, 20_000, 16),
        }.items()
    },
    compared=("ours", "POT partial_wasserstein"),
)
SECTIONS = [SMOOTH, UNEVEN, FEW, TRIM, STEPS, CLOUDS, QUALITY, CHOSEN, BOUNDED, KMEANS]

FULL_GROWTH = [
    Sweep(cloud="normal", vary="n", sizes=(10, 30, 100, 300, 1000, 3000)),
    Sweep(cloud="normal", vary="m", sizes=(2_000, 10_000, 50_000, 200_000, 1_000_000)),
    Sweep(cloud="normal", vary="d", sizes=(2, 8, 32, 128)),
    Sweep(cloud="clusters", vary="n", sizes=(10, 30, 100, 300, 1000)),
    Sweep(cloud="clusters", vary="m", sizes=(2_000, 10_000, 50_000, 200_000)),
    Sweep(cloud="clusters", vary="d", sizes=(2, 8, 32, 128)),
]
QUICK_GROWTH = [
    Sweep(cloud="normal", vary="n", m=5000, sizes=(10, 30, 100)),
    Sweep(cloud="normal", vary="m", n=30, sizes=(1000, 4000, 16_000)),
    Sweep(cloud="normal", vary="d", n=30, m=5000, sizes=(2, 8, 32)),
]


@dataclass(frozen=True, kw_only=True)
class Programme:
    """What one command runs.

    Attributes:
        sections: the tables, in order.
        sweeps: the lines of the growth plots, measured before the last section, which takes longest.
        seeds: at most so many starts.
        minutes: after which what is left is recorded as not run.
    """

    sections: list[Section]
    sweeps: list[Sweep] = field(default_factory=list)
    seeds: int = 5
    minutes: float

    def growth(self) -> dict[str, Plan]:
        """The work of all sweeps."""
        return {name: plan for sweep in self.sweeps for name, plan in sweep.plans().items()}


SMALL = Section(
    title="Small work",
    about="A coreset of the digits that scikit-learn brings along.",
    plans={"digits n=50": Plan(make=table(digits, 50), task="coreset")},
    compared=("ours, one start", "KMeans"),
)
FULL = Programme(sections=SECTIONS, sweeps=FULL_GROWTH, minutes=29)
QUICK = Programme(
    sections=[
        *(
            Section(title=of.title, about=of.about, plans={name: of.plans[name]}, compared=of.compared)
            for of, name in [
                (SMOOTH, "n=100 m=10k d=2"),
                (FEW, "n=400 m=133 d=2"),
                (STEPS, "n=10 m=100 d=2"),
                (CLOUDS, "64 pairs, n=100 m=200 d=3"),
            ]
        ),
        SMALL,
    ],
    sweeps=QUICK_GROWTH,
    seeds=1,
    minutes=3,
)

ON_CUDA = ("ours, gap 1e-3", "ours, gap 1e-4", "ours, exact", "ours, warm, gap 1e-3", "POT emd2", "geomloss sinkhorn",
           "flash-sinkhorn")  # fmt: skip
GPU = Section(
    title="Transports on a GPU",
    about="Points and samples lie on the GPU, but for POT's `emd2`, which runs on the CPU. Processor time includes "
    "waiting for the GPU.",
    plans={
        f"GPU: {name}": Plan(make=make, task="transport", methods=ON_CUDA, device="cuda", patience=25)
        for name, make in {
            "n=100 m=10k d=2": normal(100, 10_000, 2),
            "n=100 m=100k d=16": normal(100, 100_000, 16),
            "20 clusters, n=100 m=50k d=16": separated(100, 50_000, 16),
            "n=1,000 m=200k d=16": normal(1000, 200_000, 16),
            "n=10k m=200k d=8": normal(10_000, 200_000, 8),
        }.items()
    },
    compared=("ours, gap 1e-3", "geomloss sinkhorn"),
)
ON_GPU = Programme(sections=[GPU], minutes=2.8)

# What the tests of the benchmarks run, one of each task.
TINY = {
    "tiny transport": Plan(make=normal(50, 1000, 2), task="transport"),
    "tiny loss": Plan(make=normal(10, 100, 2), task="loss", steps=3),
    "tiny clouds": Plan(make=pairs(3, 5, 20, 2), task="clouds"),
    "tiny coreset": Plan(make=table(digits, 10, rows=400), task="coreset"),
    "tiny free coreset": Plan(make=table(digits, 10, rows=400), task="free coreset"),
    "tiny bounded coreset": Plan(make=table(digits, 10, rows=400), task="bounded coreset"),
    "tiny partial transport": Plan(make=normal(20, 400, 2), task="partial transport"),
}
PLANS: dict[str, Plan] = {
    **{name: plan for section in [*SECTIONS, SMALL, GPU] for name, plan in section.plans.items()},
    **{name: plan for programme in (FULL, QUICK) for name, plan in programme.growth().items()},
    **TINY,
}


def make_work(name: str, seed: int = 0) -> Work:
    """Work by its name. Raises Unavailable where its data is missing."""
    plan = PLANS[name]
    points, samples = (table.to(plan.device) for table in plan.make(seed))
    return Work(name=name, task=plan.task, points=points, samples=samples, p=plan.p, steps=plan.steps, seed=seed)

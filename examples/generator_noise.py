"""A generator's noise made a coreset: does its image stand in for what the generator makes?

A variational autoencoder is trained on handwritten digits; its decoder f turns Gaussian noise into images. Section 4 of
the paper suggests that a coreset of the noise, pushed through f, is a good enough coreset of the images "without
additional computations". Five sets of points, of equal size, are compared:

    random noise           f of a random sample of the noise
    Sobol noise            f of a scrambled Sobol sequence, made normal by the inverse of its distribution function
    noise coreset          f of a coreset of the noise
    through the network    f of noise that is moved, from there on, to lower W_2 of its image
    direct coreset         a coreset of the images, free to lie anywhere

W_2 to what the generator makes of all its noise is an interval at 95 %, from fresh samples: of pixels, and of features,
the last hidden layer of a classifier of the digits.

    python examples/generator_noise.py --config configs/generator_noise.yaml [--small]
    python examples/report.py generator_noise

Sources: Claici, Genevay, Solomon (2020), section 4; Kingma, Welling (2014), Auto-Encoding Variational Bayes; Owen
(1998), Scrambling Sobol' and Niederreiter-Xing points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import experiment
import figures
import numpy as np
import public_data
import report
import torch
from experiment import Row, Task
from torch import Tensor, nn

import torchcoreset as tc

NAME = "generator_noise"
RANDOM, SOBOL, CORESET = "random noise", "Sobol noise", "noise coreset"
THROUGH, DIRECT = "through the network", "direct coreset"
METHODS = (RANDOM, SOBOL, CORESET, THROUGH, DIRECT)
MEASURES = {"pixels": "$W_2$ of pixels", "features": "$W_2$ of features"}
ENDS = [f"{kind}_{end}" for kind in MEASURES for end in ("lower", "upper")]
BELOW = {"random": RANDOM, "sobol": SOBOL}
ACROSS = 5  # images side by side in the picture


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one set of points does not depend on stay out of its `repr`, by which results are kept."""

    data: str
    latent: int
    hidden: int
    epochs: int
    networks: int
    sizes: list[int] = field(repr=False)
    samples: int
    steps: int
    certified: int
    runs: int = field(repr=False)
    shown: int = field(repr=False)
    jobs: int = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Networks:
    """A decoder from noise to images with pixels in [0, 1], and the features of a classifier with its accuracy."""

    decoder: nn.Module
    features: nn.Module
    accuracy: float


def main(arguments: list[str] | None = None) -> list[Row]:
    """Train, place points, judge them, print the tables and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    tasks = [
        Task(settings, settings.data, "all", size, seed)
        for seed in range(settings.runs)
        for size in sorted(settings.sizes, reverse=True)
    ]
    keep = out / f"{NAME}_kept.jsonl"
    rows = [row for held in experiment.each(run, tasks, settings.jobs, keep) for row in held]
    rows.sort(key=lambda row: (METHODS.index(row["method"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["method", "size"], [*MEASURES, *ENDS, "accuracy", "seconds"])
    found = [{**row, **counted(rows, row)} for row in found]
    report.conclude(NAME, rows, found, tables(found), out)
    figures.save(draw(found), out / f"{NAME}.png")
    networks = trained(settings, 0)
    shown = {name: image for name, (image, _) in place(networks, settings, settings.shown, 0).items()}
    draw_images({name: ordered(image, networks) for name, image in shown.items()}, out / f"{NAME}_images.png")
    return found


def load(name: str) -> tuple[Tensor, Tensor]:
    """Images (rows, pixels) in [0, 1] and labels (rows,), in random order."""
    X, y = public_data.load(name)
    order = np.random.default_rng(0).permutation(len(X))
    return torch.from_numpy(X[order] / X.max()), torch.from_numpy(y[order])


@lru_cache(maxsize=4)
def networks_of(data: str, latent: int, hidden: int, epochs: int, seed: int) -> Networks:
    """A variational autoencoder of all images, and a classifier that learns from four fifths of them."""
    images, labels = load(data)
    pixels = images.shape[1]
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)  # layers draw their first weights from torch's global generator
        encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels), nn.Sigmoid())
        features = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, 32), nn.ReLU())
        classifier = nn.Sequential(features, nn.Linear(32, int(labels.max()) + 1))
    generator = torch.Generator().manual_seed(seed)
    held = len(images) // 5

    def elbo(rows: Tensor) -> Tensor:
        mean, log_variance = encoder(images[rows]).chunk(2, 1)
        z = mean + (log_variance / 2).exp() * torch.randn(mean.shape, generator=generator)
        misfit = nn.functional.binary_cross_entropy(decoder(z), images[rows], reduction="sum")
        divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum()
        loss: Tensor = (misfit + divergence) / len(rows)
        return loss

    def misclassified(rows: Tensor) -> Tensor:
        return nn.functional.cross_entropy(classifier(images[rows]), labels[rows])

    learn(elbo, nn.ModuleList([encoder, decoder]), torch.arange(len(images)), epochs, generator)
    learn(misclassified, classifier, torch.arange(held, len(images)), epochs, generator)
    with torch.no_grad():
        right = (classifier(images[:held]).argmax(1) == labels[:held]).float().mean()
    return Networks(
        decoder=decoder.requires_grad_(False), features=features.requires_grad_(False), accuracy=right.item()
    )


def trained(settings: Settings, seed: int) -> Networks:
    """The networks of one run."""
    number = seed % settings.networks
    return networks_of(settings.data, settings.latent, settings.hidden, settings.epochs, number)


def learn(
    loss: Callable[[Tensor], Tensor], network: nn.Module, rows: Tensor, epochs: int, generator: torch.Generator
) -> None:
    """Adam over batches of 100 rows."""
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in rows[torch.randperm(len(rows), generator=generator)].split(100):
            optimizer.zero_grad()
            loss(batch).backward()
            optimizer.step()


def place(networks: Networks, settings: Settings, size: int, seed: int) -> dict[str, tuple[Tensor, float]]:
    """The images (size, pixels) of each method, and the processor seconds that its points took."""
    normal = torch.distributions.Normal(torch.zeros(settings.latent), torch.ones(settings.latent))

    def build(source: object) -> Tensor:
        result = tc.build_coreset(source, size, samples=settings.samples, seed=seed, progress=False)
        return result.coreset.points.detach()

    random = tc.Coreset.from_source(normal, size, seed=seed).points.detach()
    even, sobol_seconds = experiment.timed(lambda: sobol(size, settings.latent, seed))
    noise, seconds = experiment.timed(lambda: build(normal))
    moved, more = experiment.timed(lambda: through(noise, networks.decoder, settings, seed))
    direct, direct_seconds = experiment.timed(lambda: build(tc.Pushforward(normal, networks.decoder)))
    decode = networks.decoder
    return {
        RANDOM: (decode(random), 0.0),
        SOBOL: (decode(even), sobol_seconds),
        CORESET: (decode(noise), seconds),
        THROUGH: (decode(moved), seconds + more),
        DIRECT: (direct, direct_seconds),
    }


def sobol(size: int, dimension: int, seed: int) -> Tensor:
    """(size, dimension) points of N(0, I): a scrambled Sobol sequence through the inverse distribution function."""
    uniform = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=seed).draw(size, dtype=torch.float64)
    # The sequence has multiples of 2^-30, 0 among them: the middles of their intervals are inside (0, 1).
    return torch.special.ndtri(uniform + 2.0**-31).float()


def run(task: Task) -> list[Row]:
    """How far the images of each method are from all that the generator makes."""
    settings, networks = task.settings, trained(task.settings, task.seed)
    normal = torch.distributions.Normal(torch.zeros(settings.latent), torch.ones(settings.latent))
    made = tc.Pushforward(normal, networks.decoder)
    seen = tc.Pushforward(made, networks.features)
    rows = []
    for method, (image, seconds) in place(networks, settings, task.size, task.seed).items():
        row: Row = {"method": method, "size": task.size, "seed": task.seed}
        for kind, source, points in (("pixels", made, image), ("features", seen, networks.features(image))):
            about = tc.certify(points, source, samples=settings.certified, seed=1000 + task.seed)
            row |= {kind: (about.lower + about.upper) / 2, f"{kind}_lower": about.lower, f"{kind}_upper": about.upper}
        rows.append({**row, "accuracy": networks.accuracy, "seconds": seconds})
    return rows


def through(noise: Tensor, decoder: nn.Module, settings: Settings, seed: int) -> Tensor:
    """Noise whose image is close to what the generator makes: Adam on W_2^2 of the images."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    with torch.no_grad():
        made = decoder(torch.randn(settings.samples, settings.latent, generator=generator))
    points = nn.Parameter(noise.clone())
    optimizer = torch.optim.Adam([points], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    loss = tc.CoresetLoss(p=2)
    for _ in range(settings.steps):
        optimizer.zero_grad()
        loss(decoder(points), made).backward()
        optimizer.step()
        schedule.step()
    return points.detach()


def counted(rows: Sequence[Row], row: Row) -> dict[str, int]:
    """In how many runs the interval of a method lies wholly below that of random noise, and of Sobol noise."""
    own = {held["seed"]: held for held in rows if (held["method"], held["size"]) == (row["method"], row["size"])}
    found = {}
    for name, other in BELOW.items():
        others = {held["seed"]: held for held in rows if (held["method"], held["size"]) == (other, row["size"])}
        for kind in MEASURES:
            wins = (own[seed][f"{kind}_upper"] < others[seed][f"{kind}_lower"] for seed in own)
            found[f"{kind}_below_{name}"] = sum(wins)
    return found


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables: the middles of the intervals, the intervals and what they certify, and seconds."""
    made, others = {}, [row for row in found if row["method"] != RANDOM]
    for kind in MEASURES:
        made[f"W_2 of {kind}"] = report.table(found, kind, "method", "size")
        made[f"W_2 of {kind}, change"] = changes(found, kind)
        made[f"W_2 of {kind}, intervals"] = report.intervals(found, f"{kind}_lower", f"{kind}_upper")
        below = [f"{kind}_below_{name}" for name in BELOW]
        made[f"W_2 of {kind}, certified"] = report.counts(others, *below)
    made["seconds"] = report.table(others, "seconds", "method", "size", digits=2)
    return made


def changes(found: Sequence[Row], kind: str) -> str:
    """A table of the median against that of random noise, by method and size."""
    base = {row["size"]: row[kind] for row in found if row["method"] == RANDOM}
    others = [row for row in found if row["method"] != RANDOM]
    return report.grid(others, lambda row: f"{100 * (row[kind] / base[row['size']] - 1):+.1f} %")


def draw(found: Sequence[Row]) -> Any:
    """The middle of the interval for W_2 against the number of points, of pixels and of features."""
    figure, axes = figures.panels(len(MEASURES))
    for axis, (kind, label) in zip(axes, MEASURES.items(), strict=True):
        figures.curves(axis, found, kind, figures.looks(METHODS))
        axis.set(title=label, xlabel="points", ylabel="distance")
        figures.sizes(axis, (row["size"] for row in found))
        figures.name_lines(axis)
    return figure


def ordered(images: Tensor, networks: Networks) -> Tensor:
    """The images along the first principal axis of their features, so that similar ones stand side by side."""
    features = networks.features(images)
    return images[torch.linalg.svd(features - features.mean(0), full_matrices=False).U[:, 0].argsort()]


def draw_images(found: Mapping[str, Tensor], path: Path) -> None:
    """The images of each method, one below the other, without the margins that are blank in all of them."""
    side = round(next(iter(found.values())).shape[1] ** 0.5)
    held = {name: points.reshape(-1, side, side) for name, points in found.items()}
    ink = torch.stack([images.amax(0) for images in held.values()]).amax(0) > 0.3
    down, across = (torch.nonzero(ink.any(axis)).flatten() for axis in (1, 0))
    rows = -(-len(next(iter(held.values()))) // ACROSS)
    plt = figures.pyplot()
    width = figures.PANEL[0]
    figure, axes = plt.subplots(
        len(held), 1, figsize=(width, len(held) * (width * rows / ACROSS + 0.3)), layout="constrained"
    )
    for axis, (name, images) in zip(axes, held.items(), strict=True):
        cut = images[:, down[0] : down[-1] + 1, across[0] : across[-1] + 1]
        cut = nn.functional.pad(cut, (1, 1, 1, 1))
        sheet = torch.zeros(rows * ACROSS, *cut.shape[1:])
        sheet[: len(cut)] = cut
        tiles = sheet.reshape(rows, ACROSS, *cut.shape[1:]).permute(0, 2, 1, 3).flatten(0, 1).flatten(1)
        axis.imshow(tiles.numpy(), cmap="gray_r", vmin=0, vmax=1, aspect="auto")
        axis.set_title(name, loc="left")
        axis.set_axis_off()
    figures.save(figure, path)


if __name__ == "__main__":
    main()

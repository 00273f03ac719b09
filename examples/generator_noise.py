"""A generator's noise made a coreset: does its image stand in for what the generator makes?

A variational autoencoder is trained on handwritten digits; its decoder f turns Gaussian noise into images. Section 4 of
the paper suggests that a coreset of the noise, pushed through f, is a good enough coreset of the images "without
additional computations". Four sets of points, of equal size, are compared:

    random noise           f of a random sample of the noise
    noise coreset          f of a coreset of the noise
    through the network    f of noise that is moved, from there on, until W_2 of its image no longer falls
    direct coreset         a coreset of the images, free to lie anywhere

W_2 to what the generator makes of all its noise is an interval at 95 %, from fresh samples: of pixels, and of features,
the last hidden layer of a classifier of the digits.

    python examples/generator_noise.py --config configs/generator_noise.yaml             # minutes
    python examples/generator_noise.py --config configs/generator_noise.yaml --small     # seconds

Sources: Claici, Genevay, Solomon (2020), section 4; Kingma, Welling (2014), Auto-Encoding Variational Bayes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import experiment
import figures
import numpy as np
import public_data
import torch
from experiment import Row
from torch import Tensor, nn

import torchcoreset as tc

NOISE, CORESET, THROUGH, DIRECT = "random noise", "noise coreset", "through the network", "direct coreset"
MEASURES = {"pixels": "W_2 of pixels", "features": "W_2 of features", "seconds": "seconds"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML file says."""

    data: str
    latent: int
    hidden: int
    epochs: int
    networks: int
    size: int
    samples: int
    steps: int
    certified: int
    runs: int


@dataclass(frozen=True, kw_only=True)
class Networks:
    """A decoder from noise to images with pixels in [0, 1], and the features of a classifier with its accuracy."""

    decoder: nn.Module
    features: nn.Module
    accuracy: float


def main(arguments: list[str] | None = None) -> list[Row]:
    """Train, place points, judge them, print the table and draw the figure."""
    settings, out = experiment.read(Settings, "generator_noise", __doc__, arguments)
    images, labels = load(settings.data)
    networks = [train(images, labels, settings, seed) for seed in experiment.seeds(settings.networks, "networks")]
    rows: list[Row] = []
    first: dict[str, Tensor] = {}
    for seed in experiment.seeds(settings.runs, "noise"):
        found, judged = run(networks[seed % len(networks)], settings, seed)
        rows += judged
        first = first or found
    experiment.write("generator_noise", rows, settings, out)
    accuracy = ", ".join(f"{network.accuracy:.3f}" for network in networks)
    print(
        f"{settings.size} points, {len(images)} images of {images.shape[1]} pixels ({settings.data}), noise in", end=" "
    )
    print(f"{settings.latent} dimensions; mean and standard deviation of {settings.runs} runs")
    print(
        f"accuracy of the classifiers on a held-out fifth: {accuracy}\n\n{table(experiment.summary(rows, ['points']))}"
    )
    print(f"\n{conclusion(rows)}")
    draw(first, networks[0], settings, out / "generator_noise.png")
    return rows


def load(name: str) -> tuple[Tensor, Tensor]:
    """Images (rows, pixels) in [0, 1] and labels (rows,), in random order."""
    if name == "mnist":
        path = public_data.folder() / "mnist_t10k.npz"
        if not path.is_file():
            raise SystemExit(
                f"mnist: no {path}; set TORCHCORESET_DATA to the folder with the data sets, or data: digits."
            )
        held = np.load(path, allow_pickle=False)
        X, y = held["X"].astype(np.float32), held["y"]
    else:
        X, y = public_data.load(name)
    order = np.random.default_rng(0).permutation(len(X))
    return torch.from_numpy(X[order] / X.max()), torch.from_numpy(y[order])


def train(images: Tensor, labels: Tensor, settings: Settings, seed: int) -> Networks:
    """A variational autoencoder on all images, and a classifier on four fifths of them."""
    hidden, latent, pixels = settings.hidden, settings.latent, images.shape[1]
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

    learn(elbo, nn.ModuleList([encoder, decoder]), torch.arange(len(images)), settings.epochs, generator)
    learn(misclassified, classifier, torch.arange(held, len(images)), settings.epochs, generator)
    with torch.no_grad():
        right = (classifier(images[:held]).argmax(1) == labels[:held]).float().mean()
    return Networks(
        decoder=decoder.requires_grad_(False), features=features.requires_grad_(False), accuracy=right.item()
    )


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


def run(networks: Networks, settings: Settings, seed: int) -> tuple[dict[str, Tensor], list[Row]]:
    """The images of the four sets of points, and how far each is from all that the generator makes."""
    normal = torch.distributions.Normal(torch.zeros(settings.latent), torch.ones(settings.latent))
    made = tc.Pushforward(normal, networks.decoder)

    def build(source: object) -> Tensor:
        result = tc.build_coreset(source, settings.size, samples=settings.samples, seed=seed, progress=False)
        return result.coreset.points.detach()

    seconds = {}
    start = tc.Coreset.from_source(normal, settings.size, seed=seed).points.detach()
    noise, seconds[CORESET] = experiment.timed(lambda: build(normal))
    moved, more = experiment.timed(lambda: through(noise, networks.decoder, settings, seed))
    seconds[THROUGH] = seconds[CORESET] + more
    direct, seconds[DIRECT] = experiment.timed(lambda: build(made))
    with torch.no_grad():
        found = {name: networks.decoder(z) for name, z in ((NOISE, start), (CORESET, noise), (THROUGH, moved))}
        found[DIRECT] = direct
    rows = []
    for name, points in found.items():
        row: Row = {"points": name, "seed": seed}
        for kind, source, image in (
            ("pixels", made, points),
            ("features", tc.Pushforward(made, networks.features), networks.features(points)),
        ):
            about = tc.certify(image, source, samples=settings.certified, seed=1000 + seed)
            row |= {f"{kind}_lower": about.lower, f"{kind}_upper": about.upper}
            row[kind] = (about.lower + about.upper) / 2
        rows.append({**row, "seconds": seconds.get(name, 0.0)})
    return found, rows


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


def table(means: Sequence[Row]) -> str:
    """Markdown: the middle of each interval, and how far its ends are from it."""
    lines = [f"| points | {' | '.join(MEASURES.values())} | half an interval |", f"|{' --- |' * (len(MEASURES) + 2)}"]
    for row in means:
        cells = [f"{row[key]:.3f} ± {row[f'{key}_sd']:.3f}" for key in ("pixels", "features")]
        half = [f"{(row[f'{key}_upper'] - row[f'{key}_lower']) / 2:.3f}" for key in ("pixels", "features")]
        lines.append(f"| {row['points']} | {' | '.join(cells)} | {row['seconds']:.2f} | {', '.join(half)} |")
    return "\n".join(lines)


def conclusion(rows: Sequence[Row]) -> str:
    """The four sets of points in one sentence."""
    means = {row["points"]: row for row in experiment.summary(rows, ["points"])}
    ends = {(row["points"], row["seed"]): row for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    wins = sum(ends[CORESET, s]["pixels_upper"] < ends[NOISE, s]["pixels_lower"] for s in seeds)
    part = {
        kind: [100 * (means[name][kind] / means[NOISE][kind] - 1) for name in (CORESET, THROUGH, DIRECT)]
        for kind in ("pixels", "features")
    }
    texts = [f"{', '.join(f'{value:+.0f} %' for value in values)} in {kind}" for kind, values in part.items()]
    return (
        f"Conclusion: against random noise, the noise coreset, noise moved through the network and the direct coreset "
        f"change W_2 by {' and '.join(texts)}; the first is certified to be closer in pixels than random noise in "
        f"{wins} of {len(seeds)} runs."
    )


def draw(found: dict[str, Tensor], networks: Networks, settings: Settings, path: Path) -> None:
    """The images of the four sets of points, sorted along the first principal axis of their features."""
    plt = figures.pyplot()
    side = round(next(iter(found.values())).shape[1] ** 0.5)
    across = min(10, settings.size)
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.4), layout="constrained", dpi=150)
    for axis, (name, points) in zip(axes.flat, found.items(), strict=True):
        features = networks.features(points)
        order = torch.linalg.svd(features - features.mean(0), full_matrices=False).U[:, 0].argsort()
        tiles = points[order][: across * (settings.size // across)].reshape(-1, across, side, side)
        axis.imshow(tiles.permute(0, 2, 1, 3).flatten(0, 1).flatten(1).numpy(), cmap="gray_r", vmin=0, vmax=1)
        axis.set_title(name, fontsize=11)
        axis.set_axis_off()
    figures.save(figure, path)


if __name__ == "__main__":
    main()

"""Points for a generator

A generator maps noise to samples. Points that stand for the noise are built once, and their images stand for what the
generator draws: the banana of the paper's figure 1. `certify_pushforward` says how well.

See [for a generator](../how-to/generators.md).
"""

import torch
from matplotlib import pyplot as plt

import torchcoreset as tc


def banana(z):
    return torch.stack((z[:, 0], z[:, 0] ** 2 + 0.4 * z[:, 1]), 1)


noise = torch.distributions.Normal(torch.zeros(2), 1.0)
codes = tc.build_coreset(noise, 30, samples=3000).coreset
images = codes.pushforward(banana)
print(tc.certify_pushforward(codes, noise, banana, p=1, samples=20_000))

z = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
figure, axes = plt.subplots(1, 2, figsize=(8, 4))
halves = (("noise", z, codes.points), ("samples", banana(z), images.points))
for axis, (title, samples, points) in zip(axes, halves, strict=True):
    axis.scatter(*samples.T, s=2, color="#c9c9c9")
    axis.scatter(*points.detach().T, s=30, color="#d1495b")
    axis.set_title(title)
    axis.axis("off")
figure.savefig("generator.png", dpi=80)

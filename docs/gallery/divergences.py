"""Points by other divergences

Thirty points that minimise the Wasserstein distance, the energy distance (support points) and a maximum mean
discrepancy with a Gaussian kernel.

See [other divergences](../how-to/divergences.md) for when to take which.
"""

import torch

import torchcoreset as tc
from torchcoreset.pictures import Panel, draw_comparison

generator = torch.Generator().manual_seed(0)
angle = 2 * torch.pi * torch.rand(500, generator=generator)
radius = 1 + 0.15 * torch.randn(500, generator=generator)
data = radius[:, None] * torch.stack((angle.cos(), angle.sin()), 1)

panels = []
for divergence in ("wasserstein", "energy", "mmd"):
    coreset = tc.build_coreset(data, 30, divergence=divergence, restarts=1).coreset
    distance = tc.transport(coreset, data).value ** 0.5
    energy = tc.energy_distance(coreset.points, data).item()
    print(f"{divergence:12} W2 = {distance:.3f}, energy distance = {energy:.5f}")
    panels.append(Panel(divergence, coreset, f"W2 = {distance:.3f}"))

figure = draw_comparison(data, panels)
figure.set_size_inches(9.6, 3.8)
figure.savefig("divergences.png", dpi=90)

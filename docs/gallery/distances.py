"""Distances on the globe

Where rows are latitudes and longitudes, `cost=tc.costs.GreatCircle()` measures along the surface of the Earth, so that
neither the date line nor the poles are borders. Here 24 depots stand for 1,500 ports in three clusters, one of
them across the date line.

See [distances](../reference/costs.md), and [what goes with what](../reference/combinations.md).
"""

import torch
from matplotlib import pyplot as plt

import torchcoreset as tc

generator = torch.Generator().manual_seed(0)
centres = torch.tensor([[40.0, 10.0], [0.0, 178.0], [-15.0, -60.0]])
spread = torch.tensor([10.0, 14.0]) * torch.randn(3, 500, 2, generator=generator)
ports = (centres[:, None] + spread).reshape(-1, 2)
ports[:, 1] = (ports[:, 1] + 180) % 360 - 180

result = tc.build_coreset(ports, 24, p=1, cost=tc.costs.GreatCircle(), restarts=1)
flat = tc.build_coreset(ports, 24, p=1, restarts=1).coreset.points
print(f"mean distance to a depot: {result.distance:.0f} km")
print(f"with depots by degrees:   {tc.transport(flat, ports, p=1, cost=tc.costs.GreatCircle()).value:.0f} km")

plt.figure(figsize=(7.2, 4))
plt.subplot(projection="mollweide")
plt.grid(alpha=0.3)
plt.scatter(*ports.flip(1).deg2rad().T, s=2, color="#c9c9c9")
plt.scatter(*result.coreset.points.detach().flip(1).deg2rad().T, s=25, color="#d1495b")
plt.xticks(color="#999999", fontsize=7)
plt.savefig("distances.png", dpi=90)

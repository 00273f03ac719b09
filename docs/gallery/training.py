"""A network trained by the distance

The distance is differentiable in the samples too. A small network learns to map normal noise to a ring that is known
only by 50 points.

See [in a training loop](../how-to/training-loop.md) and
[train the generator](../how-to/generators.md#train-the-generator).
"""

import torch
from matplotlib import pyplot as plt

import torchcoreset as tc

generator = torch.Generator().manual_seed(0)
angle = 2 * torch.pi * torch.rand(3000, generator=generator)
radius = 1 + 0.1 * torch.randn(3000, generator=generator)
ring = radius[:, None] * torch.stack((angle.cos(), angle.sin()), 1)
targets = tc.build_coreset(ring, 50).coreset.points.detach()

torch.manual_seed(0)  # of the weights that torch draws
hidden = torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()
network = torch.nn.Sequential(*hidden, torch.nn.Linear(64, 2))
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
loss, values = tc.CoresetLoss(p=2), []
for _ in range(150):
    optimizer.zero_grad()
    value = loss(targets, network(torch.randn(200, 2, generator=generator)))
    value.backward()
    optimizer.step()
    values.append(value.item())
print(f"W2^2 of a batch: {values[0]:.2f} at first, {sum(values[-20:]) / 20:.3f} at the end")

with torch.no_grad():
    drawn = network(torch.randn(2000, 2, generator=generator))
figure, axes = plt.subplots(1, 2, figsize=(8, 4))
halves = (("50 points of the data", ring), ("drawn by the network", drawn))
for axis, (title, samples) in zip(axes, halves, strict=True):
    axis.scatter(*samples.T, s=2, color="#2e6f95" if samples is drawn else "#c9c9c9")
    axis.set(title=title, xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal")
    axis.axis("off")
axes[0].scatter(*targets.T, s=25, color="#d1495b")
figure.savefig("training.png", dpi=80)

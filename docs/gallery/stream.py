"""Points of a stream

Batches of 40 samples of a ring are seen once and forgotten. The loss keeps a running potential from batch to batch, so
that the points do not shrink towards the centre, as they would if each batch were fitted by itself.

See [on a stream](../how-to/streams.md).
"""

import torch
from matplotlib import pyplot as plt

import torchcoreset as tc

generator = torch.Generator().manual_seed(0)


def batch(size):
    angle = 2 * torch.pi * torch.rand(size, generator=generator).square()
    radius = 1 + 0.1 * torch.randn(size, generator=generator)
    return radius[:, None] * torch.stack((angle.cos(), angle.sin()), 1)


points = torch.nn.Parameter(batch(20))
loss = tc.CoresetLoss(p=2, online=True)
optimizer = torch.optim.SGD([points], lr=10.0)
paths = [points.detach().clone()]
for step in range(150):
    optimizer.param_groups[0]["lr"] = 10.0 * (step + 1) ** -0.5
    optimizer.zero_grad()
    loss(points, batch(40)).backward()
    optimizer.step()
    paths.append(points.detach().clone())

fresh = batch(20_000)
print(f"W2 to the ring: {tc.transport(paths[0], fresh).value ** 0.5:.3f} at first, ", end="")
print(f"{tc.transport(points, fresh).value ** 0.5:.3f} after {len(paths) - 1} batches")

plt.figure(figsize=(5.2, 5.2))
plt.scatter(*fresh[:3000].T, s=2, color="#c9c9c9")
plt.plot(*torch.stack(paths).permute(2, 0, 1), color="#2e6f95", linewidth=0.5, alpha=0.6)
plt.scatter(*points.detach().T, s=30, color="#d1495b", zorder=3)
plt.axis("equal")
plt.axis("off")
plt.savefig("stream.png", dpi=80)

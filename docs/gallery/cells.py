"""Points and what each stands for

Forty points for 3,000 samples of two bent arcs. Each point stands for the samples of its cell, and every cell holds a
fortieth of them. Cells are narrow where samples are dense.

See the [tutorial](../tutorial.md), and [what is computed](../mathematics.md#the-semi-dual).
"""

import torch

import torchcoreset as tc
from torchcoreset.pictures import draw_cells

generator = torch.Generator().manual_seed(0)
upper = torch.rand(3000, generator=generator) < 0.65
angle = torch.pi * torch.rand(3000, generator=generator).sqrt()
x = torch.where(upper, angle.cos(), 1 - angle.cos())
y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
data = torch.stack((x, y), 1) + 0.1 * torch.randn(3000, 2, generator=generator)

result = tc.build_coreset(data, 40, restarts=1)
print(result)
print("samples in each cell:", result.transport.assignment.bincount()[:8].tolist(), "...")

draw_cells(result.coreset, data, result.transport.potential).savefig("cells.png", dpi=80, bbox_inches="tight")

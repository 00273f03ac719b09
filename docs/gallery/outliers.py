"""Outliers left out

Two per cent of the rows are far from all others, and draw points to them. With `trim=0.03` the plan leaves three per
cent of the mass unmatched, whatever costs it most: partial optimal transport.

See [outliers](../how-to/weights.md#outliers).
"""

import torch

import torchcoreset as tc
from torchcoreset.pictures import Panel, draw_comparison

generator = torch.Generator().manual_seed(0)
data = torch.randn(1500, 2, generator=generator)
data[:30] = torch.tensor([9.0, 9.0]) + 2 * torch.randn(30, 2, generator=generator)

plain = tc.build_coreset(data, 10, restarts=1)
trimmed = tc.build_coreset(data, 10, trim=0.03, restarts=1)
print(f"W2 to all rows {plain.distance:.3f}, to 97 % of them {trimmed.distance:.3f}")
print("rows left out:", (trimmed.transport.assignment < 0).sum().item())

panels = [Panel("all rows", plain.coreset), Panel("trim=0.03", trimmed.coreset)]
figure = draw_comparison(data, panels)
figure.set_size_inches(8, 4)
figure.savefig("outliers.png", dpi=90)

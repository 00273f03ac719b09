"""Sinkhorn beside exact transport

24 points for eight narrow clusters. Entropic transport without debiasing makes points fall together as the blur grows;
the Sinkhorn divergence keeps them apart; the exact distance has no blur to choose.

See [blur](../how-to/choosing.md#blur) and [other divergences](../how-to/divergences.md).
"""

import torch

import torchcoreset as tc
from torchcoreset.pictures import Panel, draw_comparison

generator = torch.Generator().manual_seed(0)
centres = torch.arange(8) * torch.pi / 4
centres = torch.stack((centres.cos(), centres.sin()), 1)
data = (centres[:, None] + 0.07 * torch.randn(8, 40, 2, generator=generator)).reshape(-1, 2)

entropic = {"divergence": "sinkhorn", "blur": 0.3, "backend": "newton", "steps": 30}
results = {
    "exact": tc.build_coreset(data, 24, restarts=1),
    "Sinkhorn divergence": tc.build_coreset(data, 24, **entropic),
    "entropic, not debiased": tc.build_coreset(data, 24, debias=False, **entropic),
}
panels = []
for name, result in results.items():
    apart = len(result.coreset.points.detach().div(0.02).round().unique(dim=0))
    print(f"{name:23} W2 = {result.distance:.3f}, {apart} points apart")
    panels.append(Panel(f"{name}: W2 = {result.distance:.3f}", result.coreset))

figure = draw_comparison(data, panels)
figure.set_size_inches(9.6, 3.6)
figure.savefig("sinkhorn.png", dpi=90)

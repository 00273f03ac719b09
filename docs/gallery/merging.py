"""Days and shards merged

Each day is reduced to 30 points and forgotten. `merge` makes 30 points of those of all days, by their masses, with a
bound for the distance to all rows, although it sees none of them.

See [parts, shards and days](../how-to/parts.md).
"""

import torch

import torchcoreset as tc
from torchcoreset.pictures import Panel, draw_comparison

generator = torch.Generator().manual_seed(0)
centres = torch.tensor([[0.0, 0.0], [4.0, 0.8], [2.0, 3.6]])
days = [centre + torch.randn(1000, 2, generator=generator) for centre in centres]

results = [tc.build_coreset(day, 30, restarts=1) for day in days]
merged = tc.merge(results, masses=[0.5, 0.3, 0.2], size=30, restarts=1)
rows, shares = torch.cat(days), torch.tensor([0.5, 0.3, 0.2]).repeat_interleave(1000)
exact = tc.transport(merged, rows, sample_weights=shares).value ** 0.5
print(f"bound: W2 <= {merged.bound.upper:.3f}; with all rows at hand: {exact:.3f}")

panels = [Panel(f"day {k}", result.coreset) for k, result in enumerate(results)]
panels.append(Panel("merged by 0.5, 0.3, 0.2", merged.coreset))
figure = draw_comparison(rows, panels)
figure.set_size_inches(10, 3.0)
figure.savefig("merging.png", dpi=90)

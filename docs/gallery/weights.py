"""Equal, bounded and free weights

Twelve points for a large and a small cluster. Points of equal weight are used like rows of the data. Free weights
bring the points closest, and can be very unequal; bounds are a compromise.

See [weights, and outliers](../how-to/weights.md).
"""

import torch

import torchcoreset as tc
from torchcoreset.pictures import Panel, draw_comparison

generator = torch.Generator().manual_seed(0)
small, large = torch.randn(150, 2, generator=generator) + 5, torch.randn(1850, 2, generator=generator)
data = torch.cat((small, large))

panels = []
for name, weights in (("equal", None), ("within (0.7, 1.4)", (0.7, 1.4)), ("free", "free")):
    coreset = tc.build_coreset(data, 12, weights=weights, restarts=1).coreset
    distance = tc.transport(coreset, data).value ** 0.5
    lightest, heaviest = coreset.weights.aminmax()
    print(f"{name:18} W2 = {distance:.3f}, weights {lightest:.3f} to {heaviest:.3f}")
    panels.append(Panel(f"{name}: W2 = {distance:.3f}", coreset))

figure = draw_comparison(data, panels)
figure.set_size_inches(9.6, 3.6)
figure.savefig("weights.png", dpi=90)

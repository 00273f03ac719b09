"""A certificate for what was not seen

How far are 20 points from the distribution behind the rows? Rows that the build has not seen give an interval at 95 %
confidence, here for five numbers of fresh rows. It narrows with the square root of the rows.

See [certify](../how-to/certify.md), and [the proof](../mathematics.md#the-certificate).
"""

import torch
from matplotlib import pyplot as plt

import torchcoreset as tc

data = torch.rand(40_000, 2, generator=torch.Generator().manual_seed(0))
build, fresh = tc.hold_out(data, 0.9)
coreset = tc.build_coreset(build, 20, samples=2000).coreset

rows = [1000, 2000, 4000, 8000, 16_000]
found = [tc.certify(coreset, fresh, samples=number) for number in rows]
for number, certificate in zip(rows, found, strict=True):
    print(f"{number:6,} fresh rows: {certificate.lower:.4f} <= W2 <= {certificate.upper:.4f}")

plt.figure(figsize=(6.4, 4))
plt.fill_between(rows, [c.lower for c in found], [c.upper for c in found], color="#2e6f95", alpha=0.3)
plt.xscale("log")
plt.xticks(rows, [f"{number:,}" for number in rows])
plt.minorticks_off()
plt.xlabel("fresh rows")
plt.ylabel("$W_2$ to the population, at 95 %")
plt.savefig("certificate.png", dpi=80)

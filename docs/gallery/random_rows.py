"""Closer than random rows and k-means

$W_2$ to 1,797 images of digits, of 5 to 200 points of equal weight. The centres of k-means are good where their shares
are kept as weights, and not when they are used as equal points.

See the [comparison with other libraries](../comparison.md) and [weights](../how-to/weights.md).
"""

import torch
from matplotlib import pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import torchcoreset as tc

data = torch.tensor(load_digits().data, dtype=torch.float32)
sizes = [5, 10, 20, 50, 100, 200]


def distance(points):
    return tc.transport(points, data).value ** 0.5


distances = {"random rows": [], "centres of KMeans": [], "build_coreset": []}
for size in sizes:
    centres = KMeans(size, random_state=0).fit(data.numpy()).cluster_centers_
    distances["random rows"].append(distance(tc.Coreset.from_source(data, size)))
    distances["centres of KMeans"].append(distance(centres))
    distances["build_coreset"].append(tc.build_coreset(data, size, restarts=1).distance)

for name, values in distances.items():
    print(f"{name:18}", *(f"{value:6.2f}" for value in values))
    plt.plot(sizes, values, marker="o", label=name)
plt.xscale("log")
plt.xticks(sizes, sizes)
plt.minorticks_off()
plt.xlabel("points")
plt.ylabel("$W_2$ to 1,797 digits")
plt.legend(frameon=False)
plt.savefig("random_rows.png", dpi=80)

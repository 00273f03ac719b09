"""Thinning the samples of a posterior

A Markov chain leaves thousands of dependent samples. Thirty points of a coreset replace them where each sample costs a
simulation. Their mean and covariance are nearer to those of the chain than those of every k-th sample.

See [the tutorial](../tutorial.md#6-use-it) for sums and means over a coreset.
"""

import torch
from matplotlib import pyplot as plt

import torchcoreset as tc


def log_density(z):  # a banana
    return -0.5 * z[..., 0] ** 2 - 2 * (z[..., 1] - 0.5 * z[..., 0] ** 2) ** 2


generator = torch.Generator().manual_seed(0)
state, chain = torch.zeros(50, 2), []
for _ in range(200):  # 50 Metropolis chains side by side
    proposal = state + 0.8 * torch.randn(state.shape, generator=generator)
    accept = torch.rand(50, generator=generator).log() < log_density(proposal) - log_density(state)
    state = torch.where(accept[:, None], proposal, state)
    chain.append(state)
samples = torch.cat(chain[60:])

coreset = tc.build_coreset(samples, 30).coreset
points = {"every 233rd sample": samples[:: len(samples) // 30][:30], "coreset": coreset.points.detach()}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6))
for axis, (name, chosen) in zip(axes, points.items(), strict=True):
    mean, spread = (chosen.mean(0) - samples.mean(0)).norm(), (chosen.T.cov() - samples.T.cov()).norm()
    distance = tc.transport(chosen, samples).value ** 0.5
    print(f"{name:18} W2 = {distance:.3f}, error of the mean {mean:.3f}, of the covariance {spread:.2f}")
    axis.scatter(*samples.T, s=1, color="#c9c9c9")
    axis.scatter(*chosen.T, s=30, color="#d1495b")
    axis.set_title(f"{name}: $W_2$ = {distance:.3f}")
    axis.axis("off")
figure.savefig("posterior.png", dpi=80)

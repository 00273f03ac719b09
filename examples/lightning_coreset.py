"""A coreset as a Lightning module: the Trainer brings the loop, the checkpoints, the precision and the devices.

    python examples/lightning_coreset.py [--epochs 20]

Needs `pip install lightning`.
"""

from __future__ import annotations

import argparse

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import torchcoreset as tc


class LitCoreset(lightning.LightningModule):
    """Points that minimise W_p^p to the batches, judged on all data after each epoch.

    Points, weights and the potential of the loss are in the state that Lightning saves and restores. No weight decay:
    it would pull the points to the origin.

    Args:
        start: (n, d) points to start from.
        p: power of the distance.
        rate: of Adam; falls to a hundredth over the run.
    """

    def __init__(self, start: Tensor, p: float = 2, rate: float = 0.05) -> None:
        super().__init__()
        self.coreset = tc.Coreset(start)
        self.loss, self.rate = tc.CoresetLoss(p=p), rate

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        value = self.loss(self.coreset.points, batch[0])
        self.log("train", value, prog_bar=True)
        return value

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        # In eval mode, which the Trainer sets here, the loss leaves its memory alone.
        self.log("all data", self.loss(self.coreset.points, batch[0]), prog_bar=True)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.rate)
        steps = int(self.trainer.estimated_stepping_batches)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {
                "scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, self.rate / 100),
                "interval": "step",
            },
        }


def main(arguments: list[str] | None = None) -> LitCoreset:
    """Fit 20 points to a ring of samples, and print the distance before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data (%(default)s)")
    parser.add_argument("--rows", type=int, default=10_000, help="samples (%(default)s)")
    options = parser.parse_args(arguments)
    generator = torch.Generator().manual_seed(0)
    data = torch.nn.functional.normalize(torch.randn(options.rows, 2, generator=generator))
    data = data + 0.1 * torch.randn(options.rows, 2, generator=generator)
    module = LitCoreset(data[:20])
    before = tc.wasserstein(module.coreset.points, data).item()
    trainer = lightning.Trainer(
        max_epochs=options.epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_model_summary=False, enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(
        module,
        DataLoader(TensorDataset(data), batch_size=1000, shuffle=True, generator=generator),
        DataLoader(TensorDataset(data), batch_size=len(data)),
    )
    after = float(trainer.callback_metrics["all data"])
    print(f"W_2^2 to all {options.rows:,} samples: {before:.4f} before, {after:.4f} after {options.epochs} epochs")
    return module


if __name__ == "__main__":
    main()

"""The metrics of a search as scalars for TensorBoard, where its package is installed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


def logger(folder: Path, names: list[str], n_steps: int) -> Callable[[dict[str, Any]], None]:
    """A logger that writes scalars for TensorBoard; rounds of `n_steps` follow one another."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def log(metrics: dict[str, Any]) -> None:
        step = max(metrics["round"] - 1, 0) * n_steps + metrics["step"]
        stage = "search" if metrics["round"] else f"pre-training-{metrics['n_composed']}"
        scalars = {f"{stage}/{key}": metrics[key] for key in ("train_loss", "val_loss") if key in metrics}
        if "pi" in metrics:
            scalars["search/entropy"] = sum(metrics["entropy"]) / len(metrics["entropy"])
            means = (sum(column) / len(column) for column in zip(*metrics["pi"], strict=True))
            scalars |= {f"pi/{name}": mean for name, mean in zip(names, means, strict=True)}
            scalars |= {f"mu/{name}": mu for name, mu in zip(names, metrics["mu"], strict=True) if mu is not None}
        for tag, value in scalars.items():
            writer.add_scalar(tag, value, step)
        writer.flush()

    return log

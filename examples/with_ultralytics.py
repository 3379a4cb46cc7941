"""Ultralytics classification: the policy in place of its own augmentation of training images.

Start it beside the folders pets/ and runs/: `python with_ultralytics.py`.
"""

from pathlib import Path
from typing import Any

import torch
from torchvision.transforms import v2
from ultralytics import YOLO
from ultralytics.data import ClassificationDataset
from ultralytics.models.yolo.classify import ClassificationTrainer

import slackaug

DATA, POLICY, SIZE = "pets", "runs/pets", 32


class WithPolicy(ClassificationTrainer):
    """What `model.train` does, but for the transforms of training images."""

    def build_dataset(self, img_path: str, mode: str = "train", batch: Any = None) -> ClassificationDataset:
        dataset = super().build_dataset(img_path, mode, batch)
        if mode == "train":
            # Takes the place of its flips, RandAugment, colour jitter and random erasing. Ultralytics' networks for
            # classification take floats in [0, 1], neither shifted nor scaled.
            dataset.torch_transforms = v2.Compose(
                [
                    v2.RandomResizedCrop(SIZE, scale=(0.35, 1)),
                    slackaug.SlackAugment(POLICY),
                    v2.ToImage(),
                    v2.ToDtype(torch.float32, scale=True),
                ]
            )
        return dataset


if __name__ == "__main__":
    model = YOLO("yolo11n-cls.yaml")  # from scratch; "yolo11n-cls.pt" is trained, and is downloaded
    # A whole path, or Ultralytics puts its results into a folder of its own.
    model.train(trainer=WithPolicy, data=DATA, epochs=2, imgsz=SIZE, workers=2, project=Path("runs").absolute())

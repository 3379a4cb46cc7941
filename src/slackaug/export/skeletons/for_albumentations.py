"""On numpy images, uint8, (H, W, 3) in RGB or (H, W, 1) or (H, W), with albumentations' own functions where they agree
with Pillow within a level, and Pillow for the rest:

    A.Compose([SlackAugment(), A.Normalize(mean, std)], seed=0)(image=image)["image"]

The mirror flip is part of it where the policy says so. Random numbers are the transform's own, which
A.Compose seeds; in a worker of a DataLoader, together with torch's seed for that worker.
"""

import sys
from collections.abc import Callable
from typing import Any

import albumentations as A
import numpy as np
from albumentations.augmentations.geometric import functional as geometric
from albumentations.augmentations.pixel import functional as pixel
from PIL import Image

from ...augment.pil import cutout
from .numbers import FILL, FILL_GREY, POLICY
from .one import Application, argument, composite


def by_pillow(function: Callable[..., Image.Image], pixels: np.ndarray, *arguments: Any) -> np.ndarray:
    image = Image.fromarray(pixels.squeeze(2) if pixels.shape[2:] == (1,) else pixels)
    return np.array(function(image, *arguments)).reshape(pixels.shape)


def is_grey(pixels: np.ndarray) -> bool:
    return pixels.ndim == 2 or pixels.shape[2] == 1


def grayscale(pixels: np.ndarray, value: float) -> np.ndarray:
    grey = pixels if is_grey(pixels) else pixel.to_gray_weighted_average(pixels)
    return pixels if is_grey(pixels) else pixel.grayscale_to_multichannel(grey, 3)


KERNELS: dict[str, Callable[..., np.ndarray]] = {
    "Identity": lambda pixels, value: pixels,
    "Invert": lambda pixels, value: pixel.invert(pixels),
    "Grayscale": grayscale,
    "Solarize": lambda pixels, value: pixel.solarize(pixels, value / 255),
    "Posterize": lambda pixels, value: pixel.posterize(pixels, round(value)),
    "Contrast": lambda pixels, value: pixel.adjust_contrast_torchvision(pixels, 1 + value),
    "Brightness": lambda pixels, value: pixel.adjust_brightness_torchvision(pixels, 1 + value),
    "Flip": lambda pixels, value: geometric.hflip(pixels),
    "Cutout": lambda pixels, box: by_pillow(cutout, pixels, box, (FILL_GREY,) if is_grey(pixels) else FILL),
}


def worker_seed() -> int | None:
    """Of the DataLoader's worker that this process is; where nobody has imported torch, there is none."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data else None
    return worker.seed if worker else None


class SlackAugment(A.ImageOnlyTransform):
    """Augments an image; before the normalisation."""

    def __init__(self, p: float = 1.0):
        super().__init__(p=p)
        self.mixed: tuple[Any, ...] = ()  # a worker's seed, the transform's generator, and what both have given

    def noise(self) -> np.random.Generator:
        """Workers begin as copies of one another, and each epoch's as copies again: their seeds tell them apart."""
        seed = worker_seed()
        if seed is None:
            return self.random_generator
        if not self.mixed or self.mixed[0] != seed or self.mixed[1] is not self.random_generator:
            own = int(self.random_generator.integers(2**63))
            self.mixed = (seed, self.random_generator, np.random.default_rng((seed, own)))
        return self.mixed[2]

    def get_params_dependent_on_data(self, params: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        k = len(next(iter(POLICY.values())).p)
        noise = self.noise()
        choice, size = noise.random((2, k)).tolist()
        normal = noise.standard_normal(k).tolist()
        u = noise.random((k, 4)).tolist()
        return {"steps": composite(choice, size, normal, u, noise.random())}

    def apply(self, img: np.ndarray, steps: list[Application], **params: Any) -> np.ndarray:
        if img.dtype != np.uint8:
            raise TypeError(f"expected uint8, got {img.dtype}: augment before A.Normalize")
        pixels = np.ascontiguousarray(img)
        for step in steps:
            pixels = KERNELS[step.name](pixels, argument(step, *pixels.shape[:2]))
        return pixels

    def get_transform_init_args_names(self) -> tuple[str, ...]:
        return ()

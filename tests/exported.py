"""Exported files as modules, and the pictures they are compared on."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from drawings import drawn
from slackaug import Policy, export
from slackaug.augment import pil

SIZES = ((32, 32), (64, 48), (37, 53), (17, 31), (2, 5))
FORMS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]] = {  # of (C, H, W) uint8, and back
    "python": (Tensor.clone, Tensor.clone),
    "kornia": (lambda x: x.float() / 255, lambda x: x.mul(255).round().to(torch.uint8)),
    "timm": (pil.from_tensor, pil.to_tensor),
    "torchvision": (pil.from_tensor, pil.to_tensor),
    "albumentations": (lambda x: x.permute(1, 2, 0).numpy().copy(), lambda x: torch.tensor(x).permute(2, 0, 1)),
}


def module(policy: Policy, target: str, folder: Path, name: str = "a policy") -> ModuleType:
    """Write, import; under a name of its own, so that what it defines can be pickled."""
    stem = f"exported_{target}_{len(list(folder.iterdir()))}_{folder.name}".replace("-", "_")
    (folder / f"{stem}.py").write_text(export.render(policy, target, name))
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(stem)
    finally:
        sys.path.remove(str(folder))


def through(augment: Any, target: str, image: Tensor) -> Tensor:
    """An image (C, H, W) uint8, augmented as its library wants it."""
    there, back = FORMS[target]
    given = there(image)
    return back(augment(image=given)["image"] if target == "albumentations" else augment(given))


def uneven(space: str = "domainnet", n_composed: int = 3, flip: bool = True) -> Policy:
    """All probabilities and bounds different."""
    return replace(drawn(space, 1, 0.5, n_composed), flip=flip)


@cache
def pictures(channels: int = 3, seed: int = 0) -> list[Tensor]:
    """Noise, smooth gradients with a little noise as in photographs, and flat ones, in several sizes."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for height, width in SIZES:
        found.append(torch.randint(0, 256, (channels, height, width), generator=generator, dtype=torch.uint8))
        coarse = torch.rand(1, channels, 4, 4, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0]
        noisy = smooth + 0.03 * torch.randn(smooth.shape, generator=generator)
        found.append((noisy.clamp(0, 1) * 255).to(torch.uint8))
        found.append((0.3 + 0.2 * noisy.clamp(0, 1)).mul(255).to(torch.uint8))  # of low contrast
    found.append(torch.full((channels, 16, 16), 77, dtype=torch.uint8))
    return found

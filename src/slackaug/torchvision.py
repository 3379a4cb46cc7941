"""The policy as a `torchvision.transforms.v2.Transform`. Needs torchvision."""

import os
from typing import Any

from PIL import Image
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten
from torchvision import tv_tensors
from torchvision.transforms import v2

from .augment import module
from .augment.policy import Policy


class SlackAugment(v2.Transform):  # type: ignore[misc]  # torchvision carries no annotations
    """As `slackaug.SlackAugment`, with its options, for samples: the image inside is augmented, all else passes.

    A sample (any nesting of tuples, lists and dicts) holds exactly one image: a PIL image, a `tv_tensors.Image`, or,
    where there is neither, its first plain tensor. Bounding boxes, masks, key points and videos are refused with a
    TypeError, for a policy may move the pixels under them.
    """

    def __init__(self, policy: Policy | str | os.PathLike[str], **options: Any):
        super().__init__()
        self.augment = module.SlackAugment(policy, **options)

    @property
    def policy(self) -> Policy:
        return self.augment.policy

    def forward(self, *inputs: Any) -> Any:
        leaves, structure = tree_flatten(inputs[0] if len(inputs) == 1 else inputs)
        where = find_image(leaves)
        image = leaves[where]
        out = self.augment(image.as_subclass(Tensor) if isinstance(image, tv_tensors.Image) else image)
        leaves[where] = tv_tensors.wrap(out, like=image) if isinstance(image, tv_tensors.Image) else out
        return tree_unflatten(leaves, structure)

    def __repr__(self) -> str:
        return repr(self.augment)


def find_image(leaves: list[Any]) -> int:
    """The position of the one image of a sample."""
    for leaf in leaves:
        if isinstance(leaf, tv_tensors.TVTensor) and not isinstance(leaf, tv_tensors.Image):
            raise TypeError(
                f"SlackAugment cannot transform {type(leaf).__name__}: the policy moves pixels of the image only"
            )
    images = [i for i, leaf in enumerate(leaves) if isinstance(leaf, tv_tensors.Image | Image.Image)]
    images = images or [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)][:1]
    if len(images) != 1:
        raise TypeError(f"expected exactly one image in a sample, found {len(images)}")
    return images[0]

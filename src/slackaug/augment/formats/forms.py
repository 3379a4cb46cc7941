"""The augmentation policies of other methods: their ranges, and one small type for each form a policy can take.

Axes: n draws, L positions, S sub-policies, K layers, C choices of a layer, P phases of a schedule, E its entries.
Every type has a space and draws as `Policy` does. The figures come from the papers and the authors' repositories, as
stated at each table; what our kernels do not share with theirs is in the docstrings and in docs/science/fidelity.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from PIL import Image
from torch import Generator, Tensor

from ... import rng
from .. import describe, functional, pil
from ..apply import Composites
from ..describe import Row
from ..functional import stack_box
from ..space import Space, Transform
from ..transforms import TRANSFORMS

# --- the ranges of each method ----------------------------------------------------------------------------------------

Spans = Mapping[str, tuple[float, float] | None]
WARPS = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
ENHANCERS = ("Contrast", "Color", "Brightness", "Sharpness")


class Levels(NamedTuple):
    """How a method writes strengths: levels from 0 to `top` go linearly through the ranges of its space."""

    space: Space
    top: int
    highest: int  # level in a file
    integral: bool
    whole: Mapping[str, int] = {}  # the width of a range, where the offset into it is cut to a whole number

    def magnitude(self, transform: Transform, level: float) -> float:
        """The magnitude that gives the strength which the method's own code uses at that level."""
        if transform.span is None or transform.name not in self.whole:
            return level / self.top
        start, end = transform.span
        return int(level * self.whole[transform.name] / self.top) / abs(end - start)


def space(name: str, spans: Spans, signed: tuple[str, ...] = WARPS) -> Space:
    return Space(name, tuple(replace(TRANSFORMS[t], span=span, signed=t in signed) for t, span in spans.items()))


# AutoAugment on CIFAR: augmentation_transforms.py in tensorflow/models research/autoaugment (copy in arcelien/pba).
# Pixels are of 32. Enhancers run through the factors 0.1 .. 1.9 and are not mirrored. Level 10 occurs in no file:
# there Posterize would keep 0 bits, which Pillow refuses, so its range stops at 1.
AUTOAUGMENT = Levels(
    space("autoaugment", {
        "ShearX": (0, 0.3), "ShearY": (0, 0.3), "TranslateX": (0, 10 / 32), "TranslateY": (0, 10 / 32),
        "Rotate": (0, 30), "AutoContrast": None, "Invert": None, "Equalize": None, "Solarize": (256, 0),
        "Posterize": (4, 1), "Contrast": (-0.9, 0.9), "Color": (-0.9, 0.9), "Brightness": (-0.9, 0.9),
        "Sharpness": (-0.9, 0.9), "Cutout": (0, 20 / 32),
    }),
    top=10, highest=9, integral=True, whole={"Solarize": 256, "Posterize": 4, "Posterize2": 4},
)  # fmt: skip

# The same under the names of kakaobrain/fast-autoaugment (archive.py), where the short ones mean Fast AA's ranges.
KAKAOBRAIN_NAMES = {
    "TranslateX": "TranslateXAbs", "TranslateY": "TranslateYAbs", "Posterize": "Posterize2", "Cutout": "CutoutAbs",
}  # fmt: skip
AUTOAUGMENT_KAKAOBRAIN = AUTOAUGMENT._replace(
    space=Space("autoaugment", tuple(replace(t, name=KAKAOBRAIN_NAMES.get(t.name, t.name)) for t in AUTOAUGMENT.space))
)

# AutoAugment in torchvision/transforms/autoaugment.py: ten bins, enhancers mirrored, Posterize rounded.
AUTOAUGMENT_TORCHVISION = Levels(
    space("autoaugment-torchvision", {
        "ShearX": (0, 0.3), "ShearY": (0, 0.3), "TranslateX": (0, 150 / 331), "TranslateY": (0, 150 / 331),
        "Rotate": (0, 30), "Brightness": (0, 0.9), "Color": (0, 0.9), "Contrast": (0, 0.9), "Sharpness": (0, 0.9),
        "Posterize": (8, 4), "Solarize": (255, 0), "AutoContrast": None, "Equalize": None, "Invert": None,
    }, signed=WARPS + ENHANCERS),
    top=9, highest=9, integral=True,
)  # fmt: skip

# Fast AA: augmentations.py in kakaobrain/fast-autoaugment. A level runs from one end to the other, e.g. from -0.3 to
# 0.3, and the warps are then mirrored at random all the same, so that 0.1 and 0.9 mean one strength.
FAST_AA = Levels(
    space("fastaa", {
        "ShearX": (-0.3, 0.3), "ShearY": (-0.3, 0.3), "TranslateX": (-0.45, 0.45), "TranslateY": (-0.45, 0.45),
        "Rotate": (-30, 30), "AutoContrast": None, "Invert": None, "Equalize": None, "Solarize": (0, 256),
        "Posterize": (4, 8), "Contrast": (-0.9, 0.9), "Color": (-0.9, 0.9), "Brightness": (-0.9, 0.9),
        "Sharpness": (-0.9, 0.9), "Cutout": (0, 0.2),
    }),
    top=1, highest=1, integral=False, whole={"Posterize": 4},
)  # fmt: skip

# DADA: fast-autoaugment/FastAutoAugment/augmentations.py in VDIGPKU/DADA, a copy of Fast AA's.
DADA = FAST_AA._replace(space=Space("dada", FAST_AA.space.transforms))

# PBA: pba/augmentation_transforms_hp.py in arcelien/pba; strengths are AutoAugment's. The order is that of the later
# commits, which write down the order of a Python 2 dictionary: the searches ran under it.
PBA_ORDER = (
    "Rotate", "TranslateX", "TranslateY", "Brightness", "Color", "Invert", "Sharpness", "Posterize", "ShearX",
    "Solarize", "ShearY", "Equalize", "AutoContrast", "Cutout", "Contrast",
)  # fmt: skip
PBA = AUTOAUGMENT._replace(space=Space("pba", tuple(AUTOAUGMENT.space[name] for name in PBA_ORDER)))
PBA_COPIES = 2  # every transformation has two entries, each with its own probability and level
PBA_COUNT = (0.2, 0.3, 0.5)  # probability of applying up to 0, 1, 2 transformations (apply_policy, as above)
PBA_EPOCHS = {"svhn": 160}  # length of the searches (scripts/table_*.sh): 160 on SVHN
PBA_DEFAULT_EPOCHS = 200


# --- DeepAA's own transformations -------------------------------------------------------------------------------------


def flip_window(strength: Tensor, u: Tensor, height: int, width: int) -> Tensor:
    """Not a window but a coin: the first number is 1 where the image is to be mirrored."""
    flipped = (u[:, 0] < 0.5).to(strength.dtype)
    return stack_box(flipped, *torch.zeros_like(flipped).expand(3, -1))


def flip_batch(images: Tensor, coin: Tensor) -> Tensor:
    return functional.hflip(images, coin[:, 0] > 0)


def flip_image(image: Image.Image, coin: tuple[int, ...]) -> Image.Image:
    return pil.hflip(image) if coin[0] else image.copy()


# DeepAA_evaluate/deep_autoaugment.py in AIoT-MLSys-Lab/DeepAA (once MSU-MLSys-Lab): sizes in pixels, the crop's area
# uniform in 0.08 .. 1. Its files carry the other ranges, and warps are mirrored as in Fast AA.
RAND_FLIP = Transform(name="RandFlip", kernel=flip_batch, pil=flip_image, window=flip_window)
DEEPAA_PIXELS = {"RandCutout": ("Cutout", 16), "RandCutout60": ("Cutout", 60), "RandCrop": ("RandomCrop", 4)}
DEEPAA_CROP, DEEPAA_AREA = "RandResizeCrop_imagenet", (1.0, 0.08)
DEEPAA_NAMES = [
    "Identity", *(name for name in FAST_AA.space.names if name != "Cutout"), "RandFlip", *DEEPAA_PIXELS, DEEPAA_CROP,
]  # fmt: skip


def deepaa_transform(name: str, span: tuple[float, float], size: int) -> Transform:
    """One of `DEEPAA_NAMES`, with the range that its file gives, for images of `size` pixels."""
    if name == "RandFlip":
        return RAND_FLIP
    if name in DEEPAA_PIXELS:
        base, pixels = DEEPAA_PIXELS[name]
        return replace(TRANSFORMS[base], name=name, span=(pixels / size, pixels / size))
    if name == DEEPAA_CROP:
        return replace(TRANSFORMS["RandomResizeCrop"], name=name, span=DEEPAA_AREA)
    if TRANSFORMS[name].span is None:
        return TRANSFORMS[name]
    if name in ENHANCERS:  # their factor, and our distance from the factor 1
        span = (round(span[0] - 1, 12), round(span[1] - 1, 12))
    return replace(TRANSFORMS[name], span=span, signed=name in WARPS)


# --- the types --------------------------------------------------------------------------------------------------------


def in_words(policy: Any) -> str:
    return f"{type(policy).__name__}({policy.name!r}, transformations of {policy.space.name!r})"


@dataclass(frozen=True, kw_only=True, eq=False)
class SubPolicies:
    """A list of sub-policies, one of which is drawn for each image: AutoAugment, Fast AA, DADA.

    Departures: Cutout acts last, in the caller's colour and cut to whole pixels; sizes in pixels of 32 are fractions of
    the image; a shift is rounded to the nearest pixel, and a blank is black (TensorFlow's code: the data's mean).
    """

    name: str
    space: Space
    op: Tensor  # (S, L) int64
    probability: Tensor  # (S, L) float64, of applying it; 0 where a sub-policy is shorter than L
    magnitude: Tensor  # (S, L) float64
    source: str = ""
    licence: str = ""

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        """Draw n sub-policies, and which of their transformations act."""
        u = rng.uniform((n, 1 + self.op.shape[1]), generator)
        drawn = (u[:, 0] * len(self.op)).long()  # (n,)
        return Composites(self.op[drawn], self.magnitude[drawn], u[:, 1:] < self.probability[drawn], self.space)

    __repr__ = in_words

    def rows(self, progress: float = 0.0) -> list[Row]:
        weight = self.probability / len(self.op)
        return describe.rows(self.space, self.op.flatten(), weight.flatten(), self.magnitude.flatten())


def all_pairs(name: str, levels: Levels) -> SubPolicies:
    """Where Fast AA and DADA start: every pair of transformations, equally likely, each of the two with probability 1/2
    and at mid-range, which leaves what goes from one direction to the other as it is (SLACK, App. C.1)."""
    op = torch.combinations(torch.arange(len(levels.space)))  # (S, 2); 105 of 15 transformations
    middle = torch.tensor([levels.magnitude(t, levels.top / 2) for t in levels.space], dtype=torch.float64)
    half = torch.full(op.shape, 0.5, dtype=torch.float64)
    return SubPolicies(name=name, space=levels.space, op=op, probability=half, magnitude=middle[op])


@dataclass(frozen=True, kw_only=True, eq=False)
class DeepAA:
    """K layers, each a distribution over pairs of a transformation and a level.

    Departures: RandCutout acts last and RandResizeCrop first, wherever they were drawn, and as defined here; RandCrop
    pads with black instead of the mean; RandCutout, which their code refuses on ImageNet, is 16 pixels of 224 there.
    """

    name: str
    space: Space
    probability: Tensor  # (K, C) float64, each row summing to 1
    op: Tensor  # (C,) int64
    magnitude: Tensor  # (C, 2) float64: uniform between the two
    source: str = ""
    licence: str = ""

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        """Draw one choice per layer."""
        u_choice, u_magnitude = rng.uniform((2, n, len(self.probability)), generator)
        choice = torch.searchsorted(self.probability.cumsum(-1), u_choice.T.contiguous(), right=True).T  # (n, K)
        choice = choice.clamp(max=len(self.op) - 1)
        low, high = self.magnitude[choice].unbind(-1)
        op = self.op[choice]
        return Composites(op, low + (high - low) * u_magnitude, torch.ones_like(op, dtype=torch.bool), self.space)

    __repr__ = in_words

    def rows(self, progress: float = 0.0) -> list[Row]:
        return describe.rows(self.space, self.op, self.probability.sum(0), self.magnitude.mean(-1))


@dataclass(frozen=True, kw_only=True, eq=False)
class PBASchedule:
    """A policy that changes over the training: E entries, gone through in random order until enough have acted.

    Departures: as for `SubPolicies`. Blanks are the data's mean in their code, and black here.
    """

    space: ClassVar[Space] = PBA.space
    MILESTONES: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0)  # the progress at which a table shows it

    name: str
    n_epochs: int  # of the training it was learned for
    first_epoch: Tensor  # (P,) int64, of each phase; increasing, from 0
    probability: Tensor  # (P, E) float64
    magnitude: Tensor  # (P, E) float64
    source: str = ""
    licence: str = ""

    @property
    def op(self) -> Tensor:
        return torch.arange(len(self.space)).repeat(PBA_COPIES)  # (E,)

    def phase(self, progress: float) -> int:
        """Which phase the epoch at that progress (0 .. 1) belongs to, in a training of any length."""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress must lie between 0 and 1, got {progress}")
        # The small term: an epoch that was divided by the number of epochs comes back as itself.
        epoch = min(int(progress * self.n_epochs + 1e-6), self.n_epochs - 1)
        return int(torch.searchsorted(self.first_epoch, epoch, right=True)) - 1

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        """Draw the number of transformations, then that many of the entries that would act, in random order."""
        phase = self.phase(progress)
        u_acts, u_order = rng.uniform((2, n, self.probability.shape[1]), generator)
        limits = torch.tensor(PBA_COUNT, dtype=torch.float64).cumsum(-1)[:-1]
        count = torch.searchsorted(limits, rng.uniform((n,), generator), right=True)
        acts = u_acts < self.probability[phase]  # (n, E)
        longest = len(PBA_COUNT) - 1
        first = torch.where(acts, u_order, torch.inf).topk(longest, largest=False).indices  # (n, E) -> (n, L)
        active = acts.gather(1, first) & (torch.arange(longest) < count[:, None])
        return Composites(self.op[first], self.magnitude[phase][first], active, self.space)

    __repr__ = in_words

    def rows(self, progress: float = 0.0) -> list[Row]:
        phase = self.phase(progress)
        return describe.rows(self.space, self.op, expected(self.probability[phase]), self.magnitude[phase])


def expected(probability: Tensor) -> Tensor:
    """How often each of E entries (E,) acts on an image by PBA's rule, exactly.

    Of s other entries that would act and the entry itself, each is among the first c with probability c / (s + 1).
    """
    n = len(probability)
    others = probability.repeat(n, 1).fill_diagonal_(0)  # (E, E)
    chance = torch.zeros(n, n + 1, dtype=torch.float64)  # (E, s): that s of the others would act
    chance[:, 0] = 1
    for p in others.split(1, dim=1):  # p: (E, 1)
        chance = chance * (1 - p) + p * chance.roll(1, 1)  # the last column, which comes first, is always 0
    s = torch.arange(n + 1)
    among_first = sum(weight * (c / (s + 1)).clamp(max=1) for c, weight in enumerate(PBA_COUNT))
    return probability * (chance * among_first).sum(-1)

"""How near an exported file comes to this package's pixels, transformation by transformation.

`tests/export/test_libraries.py` holds every line against the real library, on noise and on smooth images of several
sizes, in colour and grey, at six magnitudes.
"""

from importlib.util import find_spec
from typing import NamedTuple

from ..augment.describe import drawn
from ..augment.policy import Policy
from ..augment.transforms import TRANSFORMS

ALONE = "python"  # the target that needs torch alone
TESTED = {  # the versions the bounds were measured with
    "torchvision": "0.28.0",
    "timm": "1.0.30",
    "albumentations": "2.0.8",
    "kornia": "0.9.0",
    ALONE: "",
}


class Fidelity(NamedTuple):
    """A bound on the difference to this package's pixels."""

    by: str  # what computes the pixels
    levels: int = 0  # no value differs by more, out of 255
    share: float = 0.0  # nor do more of the values of the test's images differ at all
    why: str = ""

    @property
    def text(self) -> str:
        if not self.levels:
            return "exact"
        return f"within {self.levels} level" + ("s" if self.levels > 1 else "")

    @property
    def reason(self) -> str:
        return f"{self.why}, on up to {100 * self.share:g} % of values" if self.why else ""


def by(library: str, names: str, otherwise: str) -> dict[str, Fidelity]:
    """The library itself for `names`, exactly; for all else one of our own."""
    sources = dict.fromkeys(TRANSFORMS, otherwise) | dict.fromkeys(names.split(), library) | {"Identity": "-"}
    return {name: Fidelity(source) for name, source in sources.items()}


KERNEL, PILLOW = "slackaug's kernel", "Pillow"
LUMA, TRUNCATED = "its grey is rounded otherwise", "its grey is truncated, Pillow's rounded"
MEAN = "its mean is not rounded"

FIDELITY: dict[str, dict[str, Fidelity]] = {
    ALONE: by("", "", KERNEL),
    "timm": by(
        "timm",
        "ShearX ShearY TranslateX TranslateY Rotate AutoContrast Invert Equalize Solarize Posterize Contrast Color "
        "Brightness Sharpness",
        PILLOW,
    ),
    # For tensors; PIL images, which torchvision hands to Pillow, are exact throughout.
    "torchvision": by(
        "torchvision",
        "TranslateX TranslateY Invert Equalize Solarize Posterize Brightness Sharpness Cutout RandomCrop",
        PILLOW,
    )
    | {
        "AutoContrast": Fidelity("torchvision", 1, 0.25, "its scale is a float32"),
        "Grayscale": Fidelity("torchvision", 1, 0.7, TRUNCATED),
        "Color": Fidelity("torchvision", 1, 0.3, TRUNCATED),
    },
    "albumentations": by("albumentations", "Invert Solarize Posterize Brightness", PILLOW)
    | {
        "Grayscale": Fidelity("albumentations", 1, 0.002, LUMA),
        "Contrast": Fidelity("albumentations", 1, 0.15, MEAN),
    },
    "kornia": by("kornia", "Invert Equalize Solarize Posterize", KERNEL)
    | {
        "Grayscale": Fidelity("kornia", 1, 0.001, LUMA),
        "Contrast": Fidelity("kornia", 1, 0.15, MEAN),
        "Color": Fidelity("kornia", 1, 0.15, LUMA),
        "Brightness": Fidelity("kornia", 1, 0.005, "it computes in [0, 1]"),
        "Sharpness": Fidelity("kornia", 1, 0.2, "its smoothed image is not rounded"),
    },
}


def is_here(target: str) -> bool:
    """Whether its files run here: the library that they need is installed."""
    return target == ALONE or find_spec(target) is not None


def table(target: str, policy: Policy) -> str:
    """One line per transformation that can be drawn, for the terminal and for the file."""
    if not policy.n_composed:
        return f"no transformations; {'mirror flips only' if policy.flip else 'no mirror flips'}"
    rows = [("transformation", "pixels", "by", "")]
    rows += [(name, entry.text, entry.by, entry.reason) for name in drawn(policy) for entry in [FIDELITY[target][name]]]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    cells = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(cells)

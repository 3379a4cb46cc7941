"""How near an exported file comes to this package's pixels, transformation by transformation.

`tests/export/test_libraries.py` holds every line against the real library, on noise and on smooth images of several
sizes, in colour and grey, at six magnitudes.
"""

from typing import NamedTuple

TESTED = {  # the versions the bounds were measured with
    "torchvision": "0.28.0",
    "timm": "1.0.30",
    "albumentations": "2.0.8",
    "kornia": "0.9.0",
    "python": "",
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


def by(source: str, names: str) -> dict[str, Fidelity]:
    return {name: Fidelity(source) for name in names.split()}


GEOMETRY = "ShearX ShearY TranslateX TranslateY Rotate"
TONES = "AutoContrast Invert Equalize Solarize Posterize Contrast Color Brightness Sharpness"
CROPS = "Cutout RandomResizeCrop RandomCrop"
LUMA = "its grey is rounded otherwise"

FIDELITY: dict[str, dict[str, Fidelity]] = {
    "python": by("-", "Identity") | by("slackaug's kernel", f"{GEOMETRY} {TONES} Grayscale Hue {CROPS}"),
    "timm": by("timm", f"{GEOMETRY} {TONES}") | by("-", "Identity") | by("Pillow", f"Grayscale Hue {CROPS}"),
    # For tensors; PIL images, which torchvision hands to Pillow, are exact throughout.
    "torchvision": (
        by("-", "Identity")
        | by("torchvision", "TranslateX TranslateY Invert Equalize Solarize Posterize Brightness Sharpness")
        | by("torchvision", "Cutout RandomCrop")
        | by("Pillow", "ShearX ShearY Rotate Contrast Hue RandomResizeCrop")
        | {
            "AutoContrast": Fidelity("torchvision", 1, 0.25, "its scale is a float32"),
            "Grayscale": Fidelity("torchvision", 1, 0.7, "its grey is truncated, Pillow's rounded"),
            "Color": Fidelity("torchvision", 1, 0.3, "its grey is truncated, Pillow's rounded"),
        }
    ),
    "albumentations": (
        by("-", "Identity")
        | by("albumentations", "Invert Solarize Posterize Brightness")
        | by("Pillow", f"{GEOMETRY} AutoContrast Equalize Color Sharpness Hue {CROPS}")
        | {
            "Grayscale": Fidelity("albumentations", 1, 0.002, LUMA),
            "Contrast": Fidelity("albumentations", 1, 0.15, "its mean is not rounded"),
        }
    ),
    "kornia": (
        by("-", "Identity")
        | by("kornia", "Invert Equalize Solarize Posterize")
        | by("slackaug's kernel", f"{GEOMETRY} AutoContrast Hue {CROPS}")
        | {
            "Grayscale": Fidelity("kornia", 1, 0.001, LUMA),
            "Contrast": Fidelity("kornia", 1, 0.15, "its mean is not rounded"),
            "Color": Fidelity("kornia", 1, 0.15, LUMA),
            "Brightness": Fidelity("kornia", 1, 0.005, "it computes in [0, 1]"),
            "Sharpness": Fidelity("kornia", 1, 0.2, "its smoothed image is not rounded"),
        }
    ),
}


def table(target: str, names: list[str]) -> str:
    """One line per transformation, for the terminal and for the file."""
    rows = [(name, entry.text, entry.by, entry.reason) for name in names for entry in [FIDELITY[target][name]]]
    rows.insert(0, ("transformation", "pixels", "by", ""))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = []
    for *cells, why in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{line}  {why}".rstrip())
    return "\n".join(lines)

"""AutoAugment's policies for CIFAR-10 and ImageNet, as the paper's appendix prints them (Cubuk et al., CVPR 2019).

Between semicolons stands a sub-policy: two transformations, each with its probability in tenths and, where it has a
strength, its level.
"""

import re

from .forms import AUTOAUGMENT, SubPolicies
from .published import from_document

CIFAR10 = """\
Invert 1, Contrast 2 6; Rotate 7 2, TranslateX 3 9; Sharpness 8 1, Sharpness 9 3
ShearY 5 8, TranslateY 7 9; AutoContrast 5, Equalize 9; ShearY 2 7, Posterize 3 7
Color 4 3, Brightness 6 7; Sharpness 3 9, Brightness 7 9; Equalize 6, Equalize 5
Contrast 6 7, Sharpness 6 5; Color 7 7, TranslateX 5 8; Equalize 3, AutoContrast 4
TranslateY 4 3, Sharpness 2 6; Brightness 9 6, Color 2 8; Solarize 5 2, Invert 0
Equalize 2, AutoContrast 6; Equalize 2, Equalize 6; Color 9 9, Equalize 6
AutoContrast 8, Solarize 2 8; Brightness 1 3, Color 7 0; Solarize 4 5, AutoContrast 9
TranslateY 9 9, TranslateY 7 9; AutoContrast 9, Solarize 8 3; Equalize 8, Invert 1
TranslateY 7 9, AutoContrast 9
"""

IMAGENET = """\
Posterize 4 8, Rotate 6 9; Solarize 6 5, AutoContrast 6; Equalize 8, Equalize 6
Posterize 6 7, Posterize 6 6; Equalize 4, Solarize 2 4; Equalize 4, Rotate 8 8
Solarize 6 3, Equalize 6; Posterize 8 5, Equalize 10; Rotate 2 3, Solarize 6 8
Equalize 6, Posterize 4 6; Rotate 8 8, Color 4 0; Rotate 4 9, Equalize 6
Equalize 0, Equalize 8; Invert 6, Equalize 10; Color 6 4, Contrast 10 8
Rotate 8 8, Color 10 2; Color 8 8, Solarize 8 7; Sharpness 4 7, Invert 6
ShearX 6 5, Equalize 10; Color 4 0, Equalize 6; Equalize 4, Solarize 2 4
Solarize 6 5, AutoContrast 6; Invert 6, Equalize 10; Color 6 4, Contrast 10 8
Equalize 8, Equalize 6
"""

KIND = "subpolicies (op,prob,level 0-9)"


def read(name: str, text: str) -> SubPolicies:
    """A table above with the ranges of `forms.AUTOAUGMENT`."""
    policy = from_document({"kind": KIND, "source": "AutoAugment, appendix", "subpolicies": rows(text)}, name)
    assert isinstance(policy, SubPolicies)
    assert policy.space is AUTOAUGMENT.space
    return policy


def rows(text: str) -> list[list[list[str | float | None]]]:
    return [[entry(*words.split()) for words in row.split(",")] for row in re.split("[;\n]", text.strip())]


def entry(transformation: str, tenths: str, level: str | None = None) -> list[str | float | None]:
    return [transformation, int(tenths) / 10, None if level is None else int(level)]


def cifar10() -> SubPolicies:
    return read("autoaugment-cifar10", CIFAR10)


def imagenet() -> SubPolicies:
    return read("autoaugment-imagenet", IMAGENET)

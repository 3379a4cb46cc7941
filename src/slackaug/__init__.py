"""Learn an image-augmentation policy for your dataset, and prove whether it helps."""

from ._version import __version__
from .policy import Policy
from .schema import PolicyError

__all__ = ["Policy", "PolicyError", "__version__"]

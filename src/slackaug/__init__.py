"""Learn an image-augmentation policy for your dataset, and prove whether it helps."""

from ._version import __version__
from .policy import Policy
from .schema import PolicyError
from .slackaugment import SlackAugment

__all__ = ["Policy", "PolicyError", "SlackAugment", "__version__"]

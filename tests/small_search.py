"""A search of a blink, step by step: Algorithm 1 on random images with a network of two convolutions."""

import torch
from torch import nn

from slackaug import models, rng
from slackaug.augment.policy import Policy
from slackaug.augment.space import Space
from slackaug.augment.transforms import SPACES
from slackaug.data import Split
from slackaug.engine.chance import Chance
from slackaug.engine.passes import Passes
from slackaug.engine.state import State
from slackaug.methods import slack
from slackaug.methods.budget import SearchConfig

STREAMS = ("train data", "val data", "policy", "transform", "model")
SPACE = Space(
    "test*",
    tuple(SPACES["cifar"][name] for name in ("Rotate", "Invert", "Solarize", "Brightness", "Cutout", "RandomCrop")),
)
INVERT = SPACE.index("Invert")
CONFIG = SearchConfig(
    n_rounds=2, n_retrain=3, n_unrolled=3, n_composites=3, batch=6, model_lr=0.4, policy_lr=20.0, kl_weight=0.02,
    weight_decay=1e-2, clip=0.5, val_clip=0.5,
)  # fmt: skip


def tiny_net(seed: int = 0) -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip
    models.initialise(model, rng.generator(seed, "model"))
    return model


def split(n: int, seed: int) -> Split:
    """Random images whose class is, faintly, a colour."""
    stream = rng.generator(seed, "split")
    labels = torch.arange(n) % 3
    images = torch.randint(0, 200, (n, 3, 12, 12), generator=stream, dtype=torch.uint8)
    images[torch.arange(n), labels] += 50
    return Split(images, labels)


TRAIN, VAL = split(20, 0), split(17, 1)


def uniform(space: Space = SPACE, **settings) -> Policy:
    return Policy.uniform(space, n_composed=2, **settings)


def make(phi: Policy | None = None, seed: int = 0, kind: type[Passes] = Passes) -> tuple[Chance, Passes]:
    phi, streams = phi or uniform(), {name: rng.generator(seed, name) for name in STREAMS}
    chance = Chance(TRAIN, VAL, CONFIG.batch, CONFIG.batch, streams, flip=phi.flip)
    return chance, kind(tiny_net(), phi, TRAIN, VAL, streams["model"])


def search(config: SearchConfig, made: tuple[Chance, Passes], phi: Policy | None = None):
    return slack.rounds(slack.start(phi or uniform(), made[1].theta), *made, config)


def run(config: SearchConfig, made: tuple[Chance, Passes] | None = None, phi: Policy | None = None) -> list[State]:
    """The states after every step, and the momenta as they were."""
    states = search(config, made or make(phi), phi)
    return [state._replace(theta_momentum=state.theta_momentum.clone()) for state, _ in states]

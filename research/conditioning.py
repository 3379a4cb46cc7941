"""How far rounding alone moves the alignment weights w, by plain steps on the CPU.

    PYTHONPATH=src python research/conditioning.py

One policy step from a new network, as in tests/engine/gpu/test_captured_gpu.py: 4 composites of 64 images of 32
pixels. Against it, the same step with every weight changed by about 1e-7 of itself, and with passes in torch's bf16;
the error of w in shares of its RMS. Images are noise of GRAIN x GRAIN pixels, enlarged: the smaller, the smoother.
"""

import argparse

import torch
from torch import Tensor

from slackaug import models, rng
from slackaug.augment.apply import Composites
from slackaug.augment.policy import Policy
from slackaug.data import Split
from slackaug.engine.chance import Chance, Drawn
from slackaug.engine.passes import Passes
from slackaug.methods import slack
from slackaug.methods.budget import SearchConfig

CONFIG = SearchConfig(n_rounds=1, n_retrain=2, n_unrolled=2, n_composites=4, batch=64, model_lr=0.05)
PHI = Policy.uniform("cifar")
N, SIZE, N_CLASSES = 512, 32, 10


class InBf16(Passes):
    """Passes alone: what is calculated with their gradients stays in float32."""

    def train_gradients(self, tau: Composites, drawn: Drawn) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            gradients, losses = super().train_gradients(tau, drawn)
        return gradients.float(), losses.float()

    def val_gradient(self, drawn: Drawn) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            gradient, loss = super().val_gradient(drawn)
        return gradient.float(), loss.float()


def weights(name: str, grain: int, kind: type[Passes] = Passes, change: float = 0.0) -> Tensor:
    coarse = torch.rand(N, 3, grain, grain, generator=rng.generator(1, "test"))
    images = (255 * torch.nn.functional.interpolate(coarse, SIZE, mode="bilinear")).to(torch.uint8)
    split = Split(images, torch.arange(N) % N_CLASSES)
    model = models.build(name, N_CLASSES, (SIZE, SIZE), rng.generator(2, "test"))
    noise = rng.generator(5, "change")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + change * torch.randn(parameter.shape, generator=noise))
    streams = rng.streams(3, "search")
    chance = Chance(split, split, CONFIG.batch, CONFIG.n_val, streams, flip=PHI.flip)
    passes = kind(model, PHI, split, split, streams["model"])
    state = slack.start(PHI, passes.theta)._replace(step=CONFIG.n_retrain)
    _, report = slack.take_step(state, slack.draw(state, chance, CONFIG), passes, CONFIG)
    assert report.weight is not None  # of a policy step
    return report.weight


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("| network | grain | weights changed by 1e-7 | bf16 |\n|---|---|---|---|")
    for name, grain in (("wrn-16-2", 8), ("resnet18", 8), ("resnet18", 32)):
        exact = weights(name, grain)
        others = weights(name, grain, change=1e-7), weights(name, grain, InBf16)
        errors = [((other - exact).norm() / exact.norm()).item() for other in others]
        print(f"| {name} | {grain} | " + " | ".join(f"{100 * error:.1f} %" for error in errors) + " |", flush=True)


if __name__ == "__main__":
    main()

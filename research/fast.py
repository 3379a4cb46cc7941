"""Steps of the fast way on a GPU, against the plain one in float32: images/s, start-up and memory.

    PYTHONPATH=src python research/fast.py [--parts training search plain ...] [--seconds 4]

Images are random uint8 on the device: their content does not change the speed. A step includes the
draws, the augmentation, forward, backward, clip and optimiser. Start-up is from the start of Python to the end of the
first step, compiling included.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

CLOCK_TICKS = float(Path("/proc/self/stat").read_text().split()[21])  # from the machine's start to this process's
START = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + CLOCK_TICKS / os.sysconf("SC_CLK_TCK")

import torch  # noqa: E402

from slackaug import models, rng  # noqa: E402
from slackaug.augment.apply import Composites, Parameters  # noqa: E402
from slackaug.augment.policy import Policy  # noqa: E402
from slackaug.data import Split  # noqa: E402
from slackaug.engine.chance import Chance  # noqa: E402
from slackaug.engine.fit import Fit, FitConfig  # noqa: E402
from slackaug.engine.gpu.captured import CapturedFit, CapturedPasses  # noqa: E402
from slackaug.engine.gpu.graphs import N_AHEAD  # noqa: E402
from slackaug.engine.passes import Passes, look_up  # noqa: E402
from slackaug.machine import use_threads  # noqa: E402
from slackaug.methods import slack  # noqa: E402
from slackaug.methods.budget import SearchConfig  # noqa: E402

BATCH = 128
PIXELS = 50_000 * 32 * 32  # of all images on the device


class Setting(NamedTuple):
    model: str
    size: int
    device: str

    def data(self, n: int) -> Split:
        generator = torch.Generator(self.device).manual_seed(0)
        shape = n, 3, self.size, self.size
        images = torch.randint(0, 256, shape, dtype=torch.uint8, device=self.device, generator=generator)
        return Split(images, (torch.arange(n) % 10).to(self.device))

    def build(self) -> torch.nn.Module:
        return models.build(self.model, 10, (self.size, self.size), rng.generator(0, "model")).to(self.device)


def timed(step, n_images: int, seconds: float) -> dict[str, float]:
    """Warm up, then images/s over so many seconds."""
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(N_AHEAD // 2):  # so few that the host does not wait for the device
        step()
    host = (time.perf_counter() - start) / (N_AHEAD // 2)
    torch.cuda.synchronize()
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            step()
        n += 10
        if n % 100 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    return {
        "first_step_s": round(first, 1),
        "images_per_s": round(n * n_images / elapsed),
        "ms": round(1000 * elapsed / n, 3),
        "host_ms": round(1000 * host, 3),
    }


class Fits:
    """Steps of trainings of one setting."""

    def __init__(self, setting: Setting, phi: Policy):
        self.setting, self.phi, self.config = setting, phi, FitConfig(epochs=1000, batch=BATCH)

    def make(self, kind, **options) -> Fit:
        train = self.setting.data(min(50_000, PIXELS // self.setting.size**2))
        return kind(self.setting.build(), self.phi, train, self.config, rng.streams(0, "fit"), **options)


class Augmentation(CapturedFit):
    """All of a training step but the passes through the model, and its optimiser."""

    def move(self, lr, op, magnitude, active, u, flip, batch, window=None, images=None):
        images, labels = look_up(self.train, batch, images)
        out = self.way.augment(images, Parameters(Composites(op, magnitude, active, self.policy.space), u, flip))
        return out[0, 0, 0, 0] + labels[0]


class Search:
    """Steps of one kind of a search, over and over."""

    def __init__(self, kind, setting: Setting, phi: Policy, *, unrolled: bool, **options):
        self.config = SearchConfig(n_retrain=0 if unrolled else 10**6, n_rounds=1, n_unrolled=10**6)
        half = setting.data(min(25_000, PIXELS // setting.size**2))
        streams = rng.streams(0, "search")
        self.chance = Chance(half, half, BATCH, BATCH, streams, flip=phi.flip)
        self.passes = kind(setting.build(), phi, half, half, streams["model"], **options)
        self.step, self.state = self.passes.as_captured(slack.take_step), slack.start(phi, self.passes.theta)

    def __call__(self) -> None:
        drawn = self.passes.send(slack.draw(self.state, self.chance, self.config))
        self.state, _ = self.step(self.state, drawn, self.passes, self.config)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="+", default=["training", "augmentation", "search", "policy", "plain"])
    parser.add_argument("--model", default="wrn-40-2")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--space", default="cifar")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=4)
    arguments = parser.parse_args()
    use_threads(arguments.device, None)  # as commands do: with one for each processor, a busy one holds up all
    setting, phi = Setting(arguments.model, arguments.size, arguments.device), Policy.uniform(arguments.space)
    fits, bf16 = Fits(setting, phi), {"precision": torch.bfloat16}
    made = {
        "training": lambda: (fits.make(CapturedFit, **bf16).step, BATCH),
        "training plain": lambda: (fits.make(Fit).step, BATCH),
        "augmentation": lambda: (fits.make(Augmentation, **bf16).step, BATCH),
        "search": lambda: (Search(CapturedPasses, setting, phi, unrolled=False, **bf16), 8 * BATCH),
        "policy": lambda: (Search(CapturedPasses, setting, phi, unrolled=True, **bf16), 8 * BATCH),
        "plain": lambda: (Search(Passes, setting, phi, unrolled=False), 8 * BATCH),
    }
    print(f"imports: {time.time() - START:.1f} s after the start of Python", flush=True)
    for part in arguments.parts:
        torch.cuda.reset_peak_memory_stats()
        step, n_images = made[part]()
        found = timed(step, n_images, arguments.seconds)
        found["memory_GB"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
        found["since_start_s"] = round(time.time() - START, 1)
        print(json.dumps({"part": part, **setting._asdict(), **found}), flush=True)
        del step
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

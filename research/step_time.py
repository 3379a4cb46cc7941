"""What a search step costs beside the passes it consists of, on the CPU.

    python research/step_time.py [--repeats 7] [--threads 2]

A step: one unrolled step of Algorithm 1 as the search takes it (`slack.draw` and `slack.take_step`, with plain passes):
drawing 8 composites, taking and augmenting 8 x B train images, 8 passes, clipping and joining the 8 gradients, theta's
update, the val pass and its clip, the 8 alignments, the gradient of the policy and its update.
Its passes, the yardstick: 8 times [take B train images, draw one composite, augment, normalise, forward, backward], and
once [take B val images, normalise, forward, backward]; no optimiser, no clip, gradients are where `backward` puts them.
Bare passes: forward and backward alone, 9 times, on float images that were made before.
All three are interleaved, so that a noisy neighbour slows them alike; times are medians, the ratio is the median of the
ratios of neighbours, with its quartiles. The demand is a ratio to the passes of at most 1.2.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from slackaug import __version__, models, rng
from slackaug.augment.apply import augment
from slackaug.augment.policy import Policy
from slackaug.data import Split
from slackaug.engine.chance import Chance
from slackaug.engine.passes import Passes
from slackaug.methods import slack
from slackaug.methods.budget import SearchConfig
from slackaug.runs import provenance

A = 8
SIZE, N_CLASSES, N_IMAGES = 32, 10, 1000
STREAMS = ("train data", "val data", "policy", "transform", "model")
CASES = (("small", 32), ("small", 128), ("wrn-16-1", 32), ("wrn-16-1", 128))
DEMAND = 1.2


def split(generator: torch.Generator) -> Split:
    coarse = torch.rand(N_IMAGES, 3, 8, 8, generator=generator)
    images = torch.nn.functional.interpolate(coarse, SIZE, mode="bilinear")
    return Split((255 * images).to(torch.uint8), torch.arange(N_IMAGES) % N_CLASSES)


class Case:
    """One network and batch size: the step, its passes and the bare passes, each a function without arguments."""

    def __init__(self, name: str, batch: int):
        generator = rng.generator(0, "benchmark")
        self.phi = Policy.uniform("cifar")
        model = models.build(name, N_CLASSES, (SIZE, SIZE), generator)
        train, val, streams = split(generator), split(generator), rng.streams(0, STREAMS)
        self.chance = Chance(train, val, batch, batch, streams, flip=self.phi.flip)
        self.engine = Passes(model, self.phi, train, val, streams["model"])
        self.config = SearchConfig(
            n_rounds=1, n_retrain=0, n_unrolled=10**6, n_composites=A, batch=batch, model_lr=1e-3
        )
        self.state = slack.start(self.phi, self.engine.theta)
        images, self.labels = self.engine.train.take(torch.arange(batch))
        self.floats = self.engine.normalise(images)

    def step(self) -> None:
        drawn = slack.draw(self.state, self.chance, self.config)
        self.state, _ = slack.take_step(self.state, drawn, self.engine, self.config)

    def forward_and_backward(self, floats: Tensor, labels: Tensor) -> None:
        model = self.engine.model.train()
        model.zero_grad()
        cross_entropy(model(floats), labels).backward()

    def passes(self) -> None:
        e, chance = self.engine, self.chance
        for _ in range(A):
            images, labels = e.train.take(chance.train.batches.next())
            tau = self.phi.sample(1, chance.streams["policy"]).repeat(len(labels))
            images = augment(images, tau, chance.streams["transform"], flip=chance.train.flip, fill=self.phi.fill)
            self.forward_and_backward(e.normalise(images), labels)
        images, labels = e.val.take(chance.val_batches.next())
        self.forward_and_backward(e.normalise(images), labels)

    def bare_passes(self) -> None:
        for _ in range(A + 1):
            self.forward_and_backward(self.floats, self.labels)


def seconds(function: Callable[[], None]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(case: Case, repeats: int) -> str:
    """A row of the table."""
    functions = (case.step, case.passes, case.bare_passes)
    for function in functions:
        function()
    rounds = [[seconds(function) for function in functions] for _ in range(repeats)]
    step, passes, bare = (1e3 * statistics.median(times) for times in zip(*rounds, strict=True))
    low, ratio, high = statistics.quantiles([r[0] / r[1] for r in rounds], n=4)
    bare_ratio = statistics.median(r[0] / r[2] for r in rounds)
    verdict = "yes" if ratio <= DEMAND else "NO"
    return (
        f"{step:.1f} | {passes:.1f} | {bare:.1f} | {ratio:.3f} ({low:.3f} to {high:.3f}) | {verdict} | {bare_ratio:.3f}"
    )


def profile(case: Case, rows: int) -> str:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as record:
        for _ in range(3):
            case.step()
    return record.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=40)


def hardware() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--profile", type=int, default=0, metavar="ROWS", help="also print the costliest operators")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"slackaug {__version__} at {provenance.commit() or 'an unknown commit'}, torch {torch.__version__}")
    print(f"{hardware()}, {options.threads} threads; {SIZE} pixels, A = {A}, {options.repeats} repeats\n")
    print("| network | B | step, ms | its 8 + 1 passes, ms | bare passes, ms | step / passes (quartiles) "
          f"| at most {DEMAND} | step / bare |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    for name, batch in CASES:
        case = Case(name, batch)
        print(f"| {name} | {batch} | {measure(case, options.repeats)} |", flush=True)
        if options.profile:
            print(profile(case, options.profile))


if __name__ == "__main__":
    main()

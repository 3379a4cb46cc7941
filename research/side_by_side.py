"""Several trainings on one GPU at once: stacked as one network, on streams of one process, or by turns.

    PYTHONPATH=src python research/side_by_side.py [--model wrn-40-2] [--counts 1 2 4 8] [--streams 2 8]

Prints images/s of all trainings together, over steps with everything in: draws, augmentation, forward, backward, clip
and optimiser. Start-up is the time to the end of the first step; what is compiled by one count is there for the next.
Each training has a seed of its own and a uniform policy; with --mixed they have 1, 2 and 3 transformations in turn, and
every fourth is TrivialAugment (Wide).
"""

import argparse
import json
import time
from collections.abc import Callable

import torch

from slackaug import models, rng
from slackaug.augment.policy import Policy
from slackaug.augment.samplers import Method
from slackaug.augment.space import Space
from slackaug.data import Dataset, Split
from slackaug.engine.fit import Fit, FitConfig
from slackaug.engine.gpu.captured import CapturedFit
from slackaug.engine.gpu.stacked import StackedFits
from slackaug.judge.candidates import from_name
from slackaug.machine import use_threads

BATCH = 128
PIXELS = 10_000 * 32 * 32  # of all images
STATISTICS = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}


def make_data(size: int, device: str) -> Split:
    generator = rng.generator(0, "benchmark")
    n = min(10_000, PIXELS // size**2)
    images = torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=generator)
    return Split(images.to(device), torch.randint(0, 10, (n,), generator=generator).to(device))


def make_policy(seed: int, train: Split, space: Space, *, is_mixed: bool) -> Policy | Method:
    if not is_mixed:
        return Policy.uniform(space, **STATISTICS)
    about = {"name": "random", "class_names": tuple("0123456789"), "fingerprint": ""}
    data = Dataset(train=train, test=train, **about, **STATISTICS)
    return from_name("trivialaugment-wide" if seed % 4 == 3 else f"uniform-{seed % 4 + 1}").method(data, space)


def timed(step: Callable[[], object], n: int, seconds: float) -> dict[str, float]:
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    start, n_steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            step()
        n_steps += 10
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    found = {"images_per_s": round(n_steps * n * BATCH / elapsed), "ms": round(1000 * elapsed / n_steps, 2)}
    return found | {"first_step_s": round(first, 1), "memory_GB": round(torch.cuda.max_memory_allocated() / 1e9, 2)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="wrn-40-2")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--streams", type=int, nargs="*", default=[])
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--profile", action="store_true", help="of the last count: the costliest kernels")
    given = parser.parse_args()
    use_threads("cuda", None)  # as commands do: with one for each processor, a busy one holds up all
    data, space = make_data(given.size, "cuda"), Policy.uniform("cifar").space

    def arguments(seed: int) -> tuple:
        network = models.build(given.model, 10, (given.size, given.size), rng.generator(seed, "model")).cuda()
        policy = make_policy(seed, data, space, is_mixed=given.mixed)
        return network, policy, data, FitConfig(epochs=10**6, batch=BATCH), rng.streams(seed, "fit")

    def tell(way: str, n: int, step: Callable[[], object]) -> None:
        torch.cuda.reset_peak_memory_stats()
        found = timed(step, n, given.seconds)
        print(json.dumps({"way": way, "n": n, "model": given.model, "size": given.size, **found}), flush=True)

    bf16 = {"precision": torch.bfloat16}
    for n in given.counts:
        if n == 1:
            step = CapturedFit(*arguments(0), **bf16).step
        else:
            step = StackedFits([Fit(*arguments(seed)) for seed in range(n)], **bf16).step
        tell("alone" if n == 1 else "stacked", n, step)
    for n in given.streams:
        fits = []
        for seed in range(n):
            with torch.cuda.stream(stream := torch.cuda.Stream()):
                fits.append((stream, CapturedFit(*arguments(seed), **bf16)))

        def by_turns(fits=fits) -> None:
            for stream, fit in fits:
                with torch.cuda.stream(stream):
                    fit.step()

        tell("streams", n, by_turns)
    if given.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as record:
            for _ in range(5):
                step()
            torch.cuda.synchronize()
        print(record.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=70))


if __name__ == "__main__":
    main()

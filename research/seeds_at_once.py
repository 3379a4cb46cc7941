"""Several seeds of a small network on one GPU: in processes, on streams of one process, or stacked by vmap.

    PYTHONPATH=src python research/seeds_at_once.py --model wrn-40-2 --seconds 12

Prints images/s of all seeds together, augmentation included (the plain training step of `slackaug evaluate`).
"""

import argparse
import json
import multiprocessing
import time

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn.functional import cross_entropy

from slackaug import models, rng
from slackaug.augment.apply import augment
from slackaug.augment.policy import Policy
from slackaug.data import Split
from slackaug.engine import ways
from slackaug.engine.fit import Fit, FitConfig

N_IMAGES, BATCH = 10_000, 128


def make_data(device: str) -> Split:
    generator = rng.generator(0, "benchmark")
    images = torch.randint(0, 256, (N_IMAGES, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (N_IMAGES,), generator=generator)
    return Split(images.to(device), labels.to(device))


def build(model: str, seed: int, device: str) -> nn.Module:
    return models.build(model, 10, (32, 32), rng.generator(seed, "model")).to(device)


def train(model: str, kind: str, seed: int, device: str, barrier, seconds: float, results) -> None:
    """One seed, for so many seconds after all are ready; the number of images goes to `results`."""
    torch.set_num_threads(1)
    config = FitConfig(epochs=10**6, batch=BATCH)
    arguments = Policy.uniform("cifar"), make_data(device), config, rng.streams(seed, "fit")
    network = build(model, seed, device)
    fit = Fit(network, *arguments) if kind == "plain" else ways.make_fit("evaluate", network, *arguments)
    for _ in range(10):
        fit.step().item()
    barrier.wait()
    start, n_steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        loss = fit.step()
        n_steps += 1
    loss.item()
    results.put(n_steps * BATCH / (time.perf_counter() - start))


def side_by_side(model: str, kind: str, n: int, device: str, seconds: float) -> float:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(n), context.Queue()
    processes = [
        context.Process(target=train, args=(model, kind, seed, device, barrier, seconds, results)) for seed in range(n)
    ]
    for process in processes:
        process.start()
    total = sum(results.get() for _ in processes)
    for process in processes:
        process.join()
    return total


def on_streams(model: str, n: int, device: str, seconds: float) -> float:
    """Captured steps of n seeds, started in turn, each on a stream of its own."""
    data, config, fits = make_data(device), FitConfig(epochs=10**6, batch=BATCH), []
    for seed in range(n):
        with torch.cuda.stream(stream := torch.cuda.Stream()):
            arguments = Policy.uniform("cifar"), data, config, rng.streams(seed, "fit")
            fits.append((stream, ways.make_fit("evaluate", build(model, seed, device), *arguments)))

    def take_turns(seconds: float) -> float:
        torch.cuda.synchronize()
        start, n_steps = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for stream, fit in fits:
                with torch.cuda.stream(stream):
                    fit.step()
            n_steps += n
        torch.cuda.synchronize()
        return n_steps * BATCH / (time.perf_counter() - start)

    take_turns(1)
    return take_turns(seconds)


def stacked(model: str, n: int, device: str, seconds: float) -> float:
    """One step for n seeds: parameters and buffers stacked, every seed with its own images and draws."""
    networks = [build(model, seed, device) for seed in range(n)]
    parameters, buffers = stack_module_state(networks)  # type: ignore[arg-type]
    skeleton = networks[0].train()
    policy, data = Policy.uniform("cifar"), make_data(device)
    streams = rng.streams(0, "fit")
    scale = 1 / 255

    def loss(parameters: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(functional_call(skeleton, (parameters, buffers), (images,)), labels)

    step = vmap(grad_and_value(loss))

    def one() -> Tensor:
        index = torch.randint(0, N_IMAGES, (n * BATCH,), generator=streams["train data"])
        images, labels = data.take(index)
        images = augment(images, policy.sample(n * BATCH, streams["policy"]), streams["transform"], flip=True)
        images = (images * scale).view(n, BATCH, *images.shape[1:])
        gradients, losses = step(parameters, buffers, images, labels.view(n, BATCH))
        for name, value in parameters.items():
            value.data.sub_(gradients[name], alpha=0.1)
        return losses

    for _ in range(5):
        one().sum().item()
    start, n_steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        losses = one()
        n_steps += 1
    losses.sum().item()
    return n_steps * n * BATCH / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="wrn-40-2")
    parser.add_argument("--kind", choices=("plain", "fast"), default="plain")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--stacked", type=int, nargs="*", default=[4])
    parser.add_argument("--streams", type=int, nargs="*", default=[])
    arguments = parser.parse_args()
    found = {}
    for n in arguments.counts:
        found[f"{n} processes"] = side_by_side(arguments.model, arguments.kind, n, arguments.device, arguments.seconds)
        print(f"{n} {arguments.kind} processes: {found[f'{n} processes']:,.0f} images/s", flush=True)
    for n in arguments.streams:
        found[f"{n} streams"] = on_streams(arguments.model, n, arguments.device, arguments.seconds)
        print(f"{n} on streams: {found[f'{n} streams']:,.0f} images/s", flush=True)
    for n in arguments.stacked:
        found[f"{n} stacked"] = stacked(arguments.model, n, arguments.device, arguments.seconds)
        print(f"{n} stacked by vmap: {found[f'{n} stacked']:,.0f} images/s", flush=True)
    print(json.dumps({"model": arguments.model, "kind": arguments.kind, "torch": torch.__version__, **found}))


if __name__ == "__main__":
    main()

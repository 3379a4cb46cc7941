"""Our own kernels alone, on a GPU: microseconds, and the rate at which they move the least that must be moved.

    PYTHONPATH=src python research/kernels.py [--programs 256 512] [--pixels 64 128] [--channels 32] [--warps 4 8]

Shapes are those of WRN-40-2 (one group and eight, batch 128) and of WRN-28-10. Inputs change from call to call, so that
they come from memory and not from the cache. The options divide the kernels of batch-norm otherwise than they are: into
so many programs, with tiles of so many pixels and channels, and so many warps.
"""

import argparse
import itertools
import json

import torch

from slackaug.engine.gpu import norms
from slackaug.engine.gpu.convolutions import by_kernel, sums_by_kernel

SHAPES = [(1, 32, 32), (1, 64, 16), (1, 128, 8), (8, 32, 32), (8, 64, 16), (8, 128, 8),
          (1, 160, 32), (1, 320, 16), (1, 640, 8)]  # fmt: skip # groups, channels, pixels
BATCH, EPS, N_CALLS = 128, 1e-5, 24
SPREAD = 400e6  # bytes over which the inputs lie: several times the cache


def microseconds(call, inputs) -> float:
    """In the median of 20 replays of a graph of many calls."""
    turn = itertools.cycle(inputs)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(*next(turn))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(N_CALLS):
            call(*next(turn))
    times = []
    for _ in range(20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * start.elapsed_time(end) / N_CALLS)
    return sorted(times)[len(times) // 2]


def measure(n_groups: int, n_channels: int, size: int) -> dict[str, tuple[float, int]]:
    """Of each kernel: microseconds, and how often it must read or write a tensor."""
    shape = n_groups * BATCH, n_channels, size, size
    n_sets = max(1, min(N_CALLS, int(SPREAD / (4 * BATCH * n_groups * n_channels * size * size))))
    weight, bias = (torch.randn(n_channels, device="cuda") for _ in range(2))
    sets = []
    for _ in range(n_sets):
        x, grad = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        x, grad = (value.contiguous(memory_format=torch.channels_last) for value in (x, grad))
        sets.append((x, grad, norms.by_kernel(x, weight, bias, None, n_groups, EPS, True)[1]))
    found = {
        "norm forward": (lambda x, g, m: norms.by_kernel(x, weight, bias, None, n_groups, EPS, True), 3),
        "norm backward": (lambda x, g, m: norms.back_by_kernel(g, x, m, weight, bias, None, None, EPS, True), 5),
        "norm, shortcut joined, forward": (
            lambda x, g, m: norms.by_kernel(x, weight, bias, g, n_groups, EPS, True),
            4,
        ),
        "norm, shortcut joined, backward": (
            lambda x, g, m: norms.back_by_kernel(g, x, m, weight, bias, x, None, EPS, True),
            7,
        ),
        "channel sums": (lambda x, g, m: sums_by_kernel(g, n_groups), 1),
    }
    if n_channels <= 128:
        found["weight gradients"] = (lambda x, g, m: by_kernel(g, x, n_groups, 3, 1, 1), 2)
    return {name: (microseconds(call, sets), n) for name, (call, n) in found.items()}


def divide(programs: int | None, pixels: int, channels: int, warps: int) -> None:
    """Let the kernels be divided so."""
    norms.TILE_P, norms.MAX_TILE_C = pixels, channels
    if programs is not None:
        norms.n_programs = lambda n_tiles: programs

    def __init__(self, x, n_groups):
        GRID(self, x, n_groups)
        self.tiles["num_warps"] = warps

    norms.Grid.__init__ = __init__


GRID = norms.Grid.__init__


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, nargs="*", default=[None])
    parser.add_argument("--pixels", type=int, nargs="*", default=[norms.TILE_P])
    parser.add_argument("--channels", type=int, nargs="*", default=[norms.MAX_TILE_C])
    parser.add_argument("--warps", type=int, nargs="*", default=[4])
    given = parser.parse_args()
    for division in itertools.product(given.programs, given.pixels, given.channels, given.warps):
        divide(*division)
        print(json.dumps(dict(zip(("programs", "pixels", "channels", "warps"), division, strict=True))))
        for n_groups, n_channels, size in SHAPES:
            gigabytes = 2e-9 * n_groups * BATCH * n_channels * size * size
            row = {"groups": n_groups, "channels": n_channels, "pixels": size}
            for name, (us, n) in measure(n_groups, n_channels, size).items():
                row[name] = f"{us:.1f} us, {n * gigabytes / us * 1e6:.0f} GB/s"
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

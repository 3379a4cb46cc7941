"""Speed of the augmentation: composites of K = 3, an own composite for each image, flips included.

    python research/augment.py [--device cpu|cuda] [--repeats 20]

On the CPU: our default execution, a plain Pillow loop over the same drawn composites (arguments ready, so that nothing
but Pillow is timed), and TrivialAugment of torchvision and kornia where installed; each on one core and on all.
On a GPU: drawing and applying compiled and captured as a CUDA graph, with the bytes it must move. Every row checks
that its pixels are Pillow's. Ratios are from one run; the table goes to docs/science/performance.md.
"""

import argparse
import importlib.util
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from slackaug import Policy, __version__, rng
from slackaug.augment import pil
from slackaug.augment.apply import Parameters, branch_free, draw, grouped
from slackaug.augment.functional import paint_for
from slackaug.augment.space import Stage
from slackaug.runs import provenance

Job = list[tuple[Callable, tuple]]  # what Pillow does to one image


def smooth_images(n: int, size: int, generator: torch.Generator) -> Tensor:
    """Images with structure at all scales, unlike noise, which no cache and no histogram likes: (n, 3, size, size)."""
    total = torch.zeros(n, 3, size, size)
    for cells in (2, 4, 8, 16, 32):
        grid = torch.rand(n, 3, cells, cells, generator=generator)
        total += torch.nn.functional.interpolate(grid, size, mode="bilinear") / cells**0.5
    low, high = total.amin((2, 3), keepdim=True), total.amax((2, 3), keepdim=True)
    return ((total - low) / (high - low) * 255).to(torch.uint8)


def pillow_jobs(parameters: Parameters, fill: tuple[int, ...], size: int) -> list[Job]:
    """The calls of Pillow for each image, with plain numbers for arguments."""
    (op, magnitude, _, space), u, flip = parameters
    jobs: list[Job] = []
    for i in range(len(op)):
        job: Job = []
        for stage in Stage:
            if stage is Stage.LAST and flip[i]:
                job.append((pil.hflip, ()))
            for k in range(op.shape[1]):
                t = space.transforms[op[i, k]]
                if t.stage is stage and not t.changes_nothing:
                    argument = t.argument(magnitude[i : i + 1, k], u[i : i + 1, k], size, size)[0].tolist()
                    job.append((t.pil, (argument, fill) if stage is Stage.LAST else (argument,)))
        jobs.append(job)
    return jobs


def run_jobs(images: list, jobs: list[Job]) -> list:
    out = []
    for image, job in zip(images, jobs, strict=True):
        for function, arguments in job:
            image = function(image, *arguments)
        out.append(image)
    return out


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Median wall-clock time."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def worker(images: list, jobs: list[Job], repeats: int, barrier, out) -> None:
    run_jobs(images, jobs)
    barrier.wait()
    start = time.perf_counter()
    for _ in range(repeats):
        run_jobs(images, jobs)
    out.put(time.perf_counter() - start)


def pillow_on_all_cores(images: list, jobs: list[Job], repeats: int, cores: int) -> float:
    """Each core loops over its share, started together; images are already in place, so nothing is copied."""
    context = multiprocessing.get_context("fork")
    barrier, out = context.Barrier(cores), context.Queue()
    shares = [slice(i, None, cores) for i in range(cores)]
    processes = [context.Process(target=worker, args=(images[s], jobs[s], repeats, barrier, out)) for s in shares]
    for process in processes:
        process.start()
    slowest = max(out.get() for _ in processes)
    for process in processes:
        process.join()
    return slowest / repeats


def cpu_rows(policy: Policy, size: int, batch: int, repeats: int) -> None:
    generator = rng.generator(0, "benchmark")
    images = smooth_images(batch, size, generator)
    parameters = draw(policy.sample(batch, generator), generator, flip=True)
    pictures = [pil.from_tensor(image) for image in images]
    jobs = pillow_jobs(parameters, paint_for(policy.fill, 3), size)
    ours = partial(grouped, images, parameters, policy.fill)
    same = torch.equal(ours(), torch.stack([pil.to_tensor(p) for p in run_jobs(pictures, jobs)]))
    print(f"\n{batch} images of {size} pixels on the CPU; every pixel equal to Pillow's: {same}\n")
    print("| what | cores | images/s | against Pillow |\n|---|---|---|---|")
    for cores in (1, os.cpu_count() or 1):
        torch.set_num_threads(cores)
        # Interleaved, so that a noisy neighbour slows both alike.
        ratios, times = [], {"ours": [], "pillow": []}
        for _ in range(5):
            times["ours"].append(seconds(ours, repeats))
            if cores == 1:
                times["pillow"].append(seconds(partial(run_jobs, pictures, jobs), max(1, repeats // 4)))
            else:
                times["pillow"].append(pillow_on_all_cores(pictures, jobs, max(1, repeats // 4), cores))
            ratios.append(times["pillow"][-1] / times["ours"][-1])
        pillow, mine = statistics.median(times["pillow"]), statistics.median(times["ours"])
        print(f"| Pillow loop | {cores} | {batch / pillow:,.0f} | 1 |")
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"| slackaug, grouped | {cores} | {batch / mine:,.0f} | {statistics.median(ratios):.2f} ({spread}) |")
        for name, function in peers(pictures, images).items():
            print(f"| {name} | {cores} | {batch / seconds(function, max(1, repeats // 4)):,.0f} | |")


def peers(pictures: list, images: Tensor) -> dict[str, Callable[[], object]]:
    """TrivialAugmentWide (one transformation an image) of the libraries that are here."""
    found: dict[str, Callable[[], object]] = {}
    if importlib.util.find_spec("torchvision"):
        declare_missing_operators()
        from torchvision.transforms import v2

        wide = v2.TrivialAugmentWide()
        found["torchvision TrivialAugmentWide, PIL, image by image"] = lambda: [wide(p) for p in pictures]
        found["torchvision TrivialAugmentWide, tensors, image by image"] = lambda: [wide(i) for i in images]
    if importlib.util.find_spec("kornia"):
        from kornia.augmentation import AugmentationSequential
        from kornia.augmentation.auto import TrivialAugment

        trivial = AugmentationSequential(TrivialAugment(), data_keys=["input"])
        floats = images.float() / 255
        found["kornia TrivialAugment, a batch (one draw for all)"] = lambda: trivial(floats)
        found["kornia TrivialAugment, image by image"] = lambda: [trivial(f[None]) for f in floats]
    return found


@cache
def declare_missing_operators() -> torch.library.Library | None:
    """Beside a CPU build of torch, torchvision's wheel misses two schemas, and cannot be imported without them."""
    if torch.version.cuda is not None:
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # cached: the schemas go when it does


def gpu_rows(name: str, policy: Policy, size: int, batch: int, repeats: int) -> None:
    """Drawing and applying, out of noise that lies on the device, replayed as a CUDA graph."""
    generator = rng.generator(0, "benchmark")
    images = smooth_images(batch, size, generator)
    k = len(policy.pi)
    noise = [rng.uniform((2, batch, k), generator), rng.normal((batch, k), generator)]
    noise += [rng.uniform((batch, k, 4), generator), rng.uniform((batch,), generator) < 0.5]

    def step(policy: Policy, images: Tensor, uniform: Tensor, normal: Tensor, u: Tensor, flip: Tensor) -> Tensor:
        return branch_free(images, Parameters(policy.transport(uniform, normal), u, flip), policy.fill)

    expected = grouped(images, Parameters(policy.transport(noise[0], noise[1]), noise[2], noise[3]), policy.fill)
    here = on_cuda(policy)
    inputs = [t.cuda() for t in (images, *noise)]
    start = time.perf_counter()
    compiled = torch.compile(partial(step, here), fullgraph=True, dynamic=False)
    compiled(*inputs)
    torch.cuda.synchronize()
    compile_seconds = time.perf_counter() - start
    rows = {"eager": partial(step, here, *inputs), "compiled": partial(compiled, *inputs)}
    rows["compiled, CUDA graph"] = captured(rows["compiled"])
    least = 2 * images.numel()
    for what, function in rows.items():
        different = (function().cpu() != expected).sum().item()
        t = cuda_seconds(function, repeats)
        print(
            f"| {name}, {batch} x {size} px, {what} | {batch / t:,.0f} | {t * 1e6:,.0f} | {least / 1e6:.1f} MB, "
            f"{least / t / 1e9:,.0f} GB/s | {different} of {expected.numel():,} |"
        )
    print(f"| (compiling took {compile_seconds:.0f} s) | | | | |", flush=True)


def on_cuda(policy: Policy) -> Policy:
    from dataclasses import replace

    return replace(policy, pi=policy.pi.cuda(), mu=policy.mu.cuda())


def captured(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function()

    def replay() -> Tensor:
        graph.replay()
        return out

    return replay


def cuda_seconds(function: Callable[[], Tensor], repeats: int) -> float:
    """Median over `repeats` of the device's time for 10 runs in a row, over 10."""
    times = []
    for _ in range(repeats + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            function()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e4)
    return statistics.median(times[2:])


def copy_bandwidth() -> float:
    source = torch.randint(0, 255, (1 << 30,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / cuda_seconds(lambda: target.copy_(source), 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=8)
    options = parser.parse_args()
    where = (
        torch.cuda.get_device_name() if options.device == "cuda" else f"{platform.processor()}, {os.cpu_count()} cores"
    )
    print(f"slackaug {__version__} at {provenance.commit() or 'an unknown commit'}, torch {torch.__version__}, {where}")
    if options.device == "cpu":
        cpu_rows(Policy.uniform("cifar"), 32, 1024, options.repeats)
        return
    print(f"a copy on the device moves {copy_bandwidth() / 1e9:,.0f} GB/s\n")
    print(
        "| what | images/s | microseconds | least to move, and rate | pixels unlike Pillow's |\n|---|---|---|---|---|"
    )
    gpu_rows("cifar", Policy.uniform("cifar"), 32, 1024, options.repeats)
    gpu_rows("cifar", Policy.uniform("cifar"), 32, 128, options.repeats)
    gpu_rows("domainnet", Policy.uniform("domainnet"), 32, 1024, options.repeats)
    gpu_rows("domainnet", Policy.uniform("domainnet"), 224, 128, options.repeats)


if __name__ == "__main__":
    main()

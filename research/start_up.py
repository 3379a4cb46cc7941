"""Where the time goes before the first step of a search on a GPU.

    PYTHONPATH=src python research/start_up.py DATA [--preset fast] [--at-once 8]

Measures the cost of a search as `slackaug search` does before it begins, then the first step of trainings side by side
as its race has them. For each step that is captured: the pass in which kernels are compiled, those that warm up, the
capture, and all of it, in seconds; at the end what torch's compiler counted. Empty its caches and Triton's
(TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR) to see a first run.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

START = time.perf_counter()

import torch  # noqa: E402

from slackaug import models  # noqa: E402
from slackaug.auto import timing  # noqa: E402
from slackaug.config.layers import configure, data_config  # noqa: E402
from slackaug.data import read  # noqa: E402
from slackaug.engine import ways  # noqa: E402
from slackaug.engine.fit import Fit  # noqa: E402
from slackaug.engine.gpu import graphs  # noqa: E402
from slackaug.judge.candidates import from_name  # noqa: E402
from slackaug.machine import machine  # noqa: E402
from slackaug.rng import generator, streams  # noqa: E402

CANDIDATES = ("none", "default", "trivialaugment-wide", "uniform-1", "uniform-2", "uniform-3")


def now() -> float:
    torch.cuda.is_available() and torch.cuda.synchronize()
    return time.perf_counter()


def tell(what: str, *seconds: float) -> None:
    times = "  ".join(f"{one:6.2f}" for one in seconds)
    print(f"{now() - START:7.2f} s  {what:40} {times}", flush=True)


class Watched(graphs.Captured):
    """Tells how long each part of a capture takes."""

    def __init__(self, body: Callable[..., Any], *arguments: Any):
        passes: list[float] = []
        began = now()

        def timed_body(**drawn: torch.Tensor) -> Any:
            is_capture, start = torch.cuda.is_current_stream_capturing(), time.perf_counter()
            found = body(**drawn)
            if not is_capture:
                torch.cuda.is_available() and torch.cuda.synchronize()
            passes.append(time.perf_counter() - start)
            return found

        super().__init__(timed_body, *arguments)
        tell(f"captured {getattr(body, '__qualname__', body)}", *passes, now() - began)


@contextmanager
def told(what: str) -> Any:
    start = now()
    yield
    tell(what, now() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--at-once", type=int, default=8)
    given = parser.parse_args()
    tell("imports")
    device, _ = machine(None, None)
    with told("data"):
        dataset = read(data_config(given.data, {}, None))
        config = configure(dataset, {"preset": given.preset}, None, ())
    graphs.Captured = Watched  # type: ignore[misc]
    with told("estimate of a search"):
        print(timing.step_seconds(config, dataset, device))

    def fit(seed: int) -> Fit:
        model = models.build(config.model, dataset.n_classes, dataset.image_size, generator(seed, "model")).to(device)
        space = timing.Problem(config, dataset, device).phi.space
        method = from_name(CANDIDATES[seed % len(CANDIDATES)]).method(dataset, space)
        train = dataset.train
        train = type(train)(train.images.to(device), train.labels.to(device))
        return Fit(model, method, train, config.evaluate, streams(seed, "fit"), method.preparation)

    with told("first steps of a race"):
        for members, team in ways.side_by_side("evaluate", [fit(seed) for seed in range(given.at_once)]):
            with told(f"step of {len(members)}"):
                team.step()
    print(torch._dynamo.utils.compile_times())


if __name__ == "__main__":
    main()

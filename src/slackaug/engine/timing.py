"""How long a step takes, measured."""

import statistics
import time
from collections.abc import Callable

import torch

AT_A_TIME, MOST_AT_A_TIME = 0.1, 20  # seconds and steps that are timed together


def timed(step: Callable[[], object]) -> float:
    """Seconds of one step after a warm-up: a few steps where they are slow, some hundred where they are not.

    On a GPU several at a time, as steps follow one another there: to wait for each had made a seventh of a short one.
    """
    times: list[float] = []
    spent, n = 0.0, 1
    while len(times) < 4 or (spent < 1 and len(times) < 200):
        start = time.perf_counter()
        try:
            for _ in range(n):
                step()
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                "with a batch of one image, this network's batch-norm has a single value to normalise; give batches of "
                "at least 2: pretrain.batch, search.batch or evaluate.batch"
            ) from None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        times.append(seconds / n)
        spent += seconds
        if spent > 5:
            break
        if torch.cuda.is_available():
            n = min(max(round(AT_A_TIME / times[-1]), 1), MOST_AT_A_TIME)
    return statistics.median(times[len(times) // 2 :])

"""Does a training that goes side by side with others end as it would have alone?

    PYTHONPATH=src python research/alike.py DATA [--n 32] [--set evaluate.epochs=30] [--out FILE.json]

The same seeds are trained alone, one after the other, and eight at a time as one step. Rounding differs, and grows over
a training, so the two are compared as distributions: means and deviations of accuracy and loss on test images, and a
two-sample Kolmogorov-Smirnov test. A quarter of the trainings each has 1, 2 and 3 random transformations and
TrivialAugment, so that a team is mixed.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy import stats

from slackaug.auto import race
from slackaug.auto.conduct import Session
from slackaug.config.layers import configure, data_config
from slackaug.data import read
from slackaug.judge import records, training
from slackaug.judge.candidates import from_name
from slackaug.judge.protocols import Training
from slackaug.judge.queue import N_SIDE_BY_SIDE, Comparison
from slackaug.machine import machine
from slackaug.runs.ensemble import ALONE

POLICIES = ("uniform-1", "uniform-2", "uniform-3", "trivialaugment-wide")


def comparison(source: str, assignments: Sequence[str], preset: str, folder: Path) -> Comparison:
    where = data_config(source, {}, None)
    dataset = read(where)
    config = configure(dataset, {"preset": preset}, None, assignments)
    config = replace(config, data=replace(where, fingerprint=dataset.fingerprint))
    session = Session(source, folder, *machine(None, None), None, (), Console(stderr=True), ALONE)
    return race.comparison(session, config, dataset, folder)


def trained(work: Comparison, n: int, at_once: int) -> tuple[list[dict[str, Any]], float]:
    """The results of n seeds, so many trained at once, and the seconds that they took."""
    start = time.perf_counter()
    work.folder.mkdir()
    wanted: list[Training] = [work.training(from_name(POLICIES[seed % len(POLICIES)]), seed) for seed in range(n)]
    for i in range(0, n, at_once):
        training.run(wanted[i : i + at_once], lambda share: None)
    return [one for one in records.read(wanted) if one], time.perf_counter() - start


def compared(alone: Sequence[float], together: Sequence[float]) -> dict[str, Any]:
    """Two samples of one quantity, each without what the policies differ by."""
    a, b = (residuals(np.array(found)) for found in (alone, together))
    difference = np.mean(together) - np.mean(alone)
    error = np.sqrt(a.var(ddof=len(POLICIES)) / len(a) + b.var(ddof=len(POLICIES)) / len(b))
    freedom = len(a) + len(b) - 2 * len(POLICIES)
    return {
        "mean": [float(np.mean(alone)), float(np.mean(together))],
        "difference": float(difference),
        "half_width": float(error * stats.t.ppf(0.975, freedom)),
        "deviation": [float(one.std(ddof=len(POLICIES))) for one in (a, b)],
        "ks_p": float(stats.ks_2samp(a, b + difference).pvalue),
    }


def residuals(values: np.ndarray) -> np.ndarray:
    found = values.copy()
    for i in range(len(POLICIES)):
        found[i :: len(POLICIES)] -= found[i :: len(POLICIES)].mean()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--n", type=int, default=32, help="seeds")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways = {"alone": 1, "side by side": N_SIDE_BY_SIDE}
        found = {}
        for name, at_once in ways.items():
            work = comparison(given.data, given.set, given.preset, Path(folder) / name)
            found[name] = trained(work, given.n, at_once)
    results = {name: of for name, (of, _) in found.items()}
    table: dict[str, Any] = {"seconds": {name: round(seconds, 1) for name, (_, seconds) in found.items()}}
    table |= {"ways": {name: sorted({one["way"] for one in of}) for name, of in results.items()}, "n": given.n}
    for key in ("accuracy", "loss"):
        table[key] = compared(*([one[key] for one in of] for of in results.values()))
    table["each"] = {name: [one["accuracy"] for one in of] for name, of in results.items()}
    print(json.dumps({key: value for key, value in table.items() if key != "each"}, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()

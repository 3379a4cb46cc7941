"""Planted truth: does a search find the transformations that destroy the label?

    python research/planted.py [--seeds 5] [--processes 2] [--out FILE.json]

On `shapes:colour` the class is a hue, so Hue, Grayscale and Invert destroy it; on `shapes:angle` it is an orientation,
so Rotate, ShearX and ShearY do. Both run with the same settings, the `quick` preset, one thread each. The table has the
total probability of the destroying transformations (averaged over positions) before and after, and that of the harmless
family (geometric for colour, colour for angle), with 95 % t-intervals over the seeds. `--collapse` instead follows the
entropy over 10 rounds at the paper's rate with KL, and without it at 0.25 and 0.5 of the rate.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from slackaug import Policy
from slackaug.auto.problem import Problem
from slackaug.auto.stages import Search
from slackaug.config import paper, presets
from slackaug.config.run_config import RunConfig
from slackaug.data import load
from slackaug.judge.intervals import Interval, interval
from slackaug.runs import provenance

GEOMETRIC = [
    "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Cutout", "RandomResizeCrop", "RandomCrop"
]  # fmt: skip
COLOUR = [
    "AutoContrast", "Invert", "Equalize", "Grayscale", "Solarize", "Posterize", "Contrast", "Color", "Brightness",
    "Sharpness", "Hue",
]  # fmt: skip


class Planted(NamedTuple):
    source: str
    destroying: list[str]
    harmless: list[str]


PROBLEMS = (
    Planted("shapes:colour", ["Hue", "Grayscale", "Invert"], GEOMETRIC),
    Planted("shapes:angle", ["Rotate", "ShearX", "ShearY"], COLOUR),
)


def total(phi: Policy, names: list[str]) -> float:
    return float(phi.probabilities.mean(0)[[phi.space.index(name) for name in names]].sum())


def search(source: str, seed: int, change: Callable[[RunConfig], RunConfig] = lambda config: config) -> dict:
    """One search; the policy and its entropy after every round."""
    torch.set_num_threads(1)
    data = load(source)
    config = change(replace(paper.rounds_alone(presets.quick(data)), seed=seed))
    found = Search(Problem(config, data))
    start = time.perf_counter()
    rounds, anchor = [], found.problem.phi
    for standing in itertools.chain.from_iterable(stage.run() for stage in found.stages()):
        if standing.round and standing.step == standing.n_steps:
            phi = standing.phi
            entropy = phi.entropy().mean().item() / math.log(len(phi.space))
            kl = phi.kl(anchor).item() / len(phi.pi)
            pi, mu, anchor = phi.probabilities.mean(0).tolist(), phi.mu.tolist(), phi
            rounds.append({"pi": pi, "mu": mu, "entropy": entropy, "kl": kl})
    rate = found.stage.given.model_lr
    seconds = time.perf_counter() - start
    return {"source": source, "seed": seed, "seconds": seconds, "rounds": rounds, "model_lr": rate}


def job(arguments: tuple[str, int, str]) -> dict:
    source, seed, variant = arguments
    return search(source, seed, CHANGES[variant]) | {"variant": variant}


def by_rate(config: RunConfig, kl_weight: float, policy_lr: float) -> RunConfig:
    """Ten rounds with a rate and a penalty, as the paper has them, in place of the preset's budget."""
    search = replace(config.search, n_rounds=10, kl_budget=None, kl_weight=kl_weight, policy_lr=policy_lr)
    return replace(config, search=replace(search, calibrate=False))


CHANGES: dict[str, Callable[[RunConfig], RunConfig]] = {
    "quick": lambda config: config,
    "with KL": lambda config: by_rate(config, 0.02, 1.0),
    "without KL, 0.25": lambda config: by_rate(config, 0.0, 0.25),
    "without KL, 0.5": lambda config: by_rate(config, 0.0, 0.5),
}


def percent(values: list[float]) -> str:
    mean, half_width = interval(values)[:2]
    return f"{mean:.3f}" if half_width is None else f"{mean:.3f} ± {half_width:.3f}"


def planted_table(results: list[dict]) -> str:
    lines = ["| data | seeds | transformations | uniform | learned | change |", "|---|---|---|---|---|---|"]
    for problem in PROBLEMS:
        mine = [r for r in results if r["source"] == problem.source]
        names = Policy.uniform("domainnet").space.names

        def learned(group: list[str], mine: list[dict] = mine, names: list[str] = names) -> list[float]:
            return [sum(r["rounds"][-1]["pi"][names.index(name)] for name in group) for r in mine]

        groups = {"destroying, total": problem.destroying} | {name: [name] for name in problem.destroying}
        for label, group in (groups | {"harmless family": problem.harmless}).items():
            before, after = len(group) / len(names), learned(group)
            change: Interval = interval([a / before - 1 for a in after])
            lines.append(
                f"| {problem.source} | {len(mine)} | {label} | {before:.3f} | {percent(after)} | "
                f"{100 * change.mean:+.0f} ± {100 * (change.half_width or 0):.0f} % |"
            )
    slowest = max(r["seconds"] for r in results)
    return "\n".join([*lines, "", f"a search took at most {slowest:.0f} s on one thread"])


def collapse_table(results: list[dict]) -> str:
    n_rounds = len(results[0]["rounds"])
    header = " | ".join(f"round {i + 1}" for i in range(n_rounds))
    lines = [f"| data | search | seeds | {header} |", "|" + "---|" * (n_rounds + 3)]
    for source, variant in dict.fromkeys((r["source"], r["variant"]) for r in results):
        mine = [r for r in results if (r["source"], r["variant"]) == (source, variant)]
        means = (sum(r["rounds"][i]["entropy"] for r in mine) / len(mine) for i in range(n_rounds))
        lines.append(f"| {source} | {variant} | {len(mine)} | " + " | ".join(f"{m:.3f}" for m in means) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--collapse", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    variants = [v for v in CHANGES if (v == "quick") != options.collapse]
    jobs = [(p.source, seed, v) for seed in range(options.seeds) for p in PROBLEMS for v in variants]
    print(f"commit {provenance.commit() or 'unknown'}, torch {torch.__version__}, {options.processes} processes\n")
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        results = pool.map(job, jobs, chunksize=1)
    if options.out:
        options.out.write_text(json.dumps(results))
    print(collapse_table(results) if options.collapse else planted_table(results))


if __name__ == "__main__":
    main()

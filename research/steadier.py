"""Do averages over the end of a training differ less from seed to seed than its last step does?

    PYTHONPATH=src python research/steadier.py DATA [DATA ...] --seeds 16 --out FILE.json

Trainings as `quick` evaluates, with two random transformations per image. Of each: accuracy on test images with the
last weights; the mean of accuracies at the last steps; answers of the mean of probabilities at these; and of the
weights averaged, with the statistics of batch-norm. Ratios of standard deviations to that of the last weights have
95 % intervals by bootstrap over seeds.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from slackaug.config import presets
from slackaug.data import load
from slackaug.data.options import DataConfig
from slackaug.engine.fit import Fit, predict
from slackaug.judge import candidates, protocols, training
from slackaug.judge.protocols import Protocol, Training
from slackaug.runs import provenance

CANDIDATE = "uniform-2"
N_EVALUATIONS = 5
SHARES = (0.02, 0.05, 0.1, 0.2)  # of the steps: how far back the means go
N_BOOTSTRAPS = 10_000
LAST = "last weights"
Weights = dict[str, Tensor]


class Averaged:
    """The exponential mean of all weights and statistics of a network, over about so many steps."""

    def __init__(self, model: nn.Module, n_steps: float):
        self.n_steps, self.mean = n_steps, floating(model)

    def see(self, model: nn.Module) -> None:
        for name, value in floating(model).items():
            self.mean[name].lerp_(value, min(1 / self.n_steps, 1.0))


def floating(model: nn.Module) -> Weights:
    return {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}


def moments(n_steps: int, share: float) -> list[int]:
    """The steps after which a training is tested, the last one among them."""
    return [n_steps - round(share * n_steps * i / N_EVALUATIONS) for i in range(N_EVALUATIONS)]


def train(one: Training) -> dict[str, float]:
    """The accuracy by each way to end."""
    begun = training.begin(one, {})
    fit, test = begun.fit, begun.test
    tested = {step for share in SHARES for step in moments(fit.n_steps, share)}
    begin = round(fit.n_steps * (1 - 3 * max(SHARES)))  # of the longest mean, little is older
    averaged: dict[float, Averaged] = {}
    probabilities: dict[int, Tensor] = {}

    def answers() -> Tensor:
        found = predict(fit.model, fit.normalise, test).softmax(1)
        fit.model.train()
        return found

    while fit.done < fit.n_steps:
        fit.step()
        if fit.done == begin:
            averaged = {share: Averaged(fit.model, share * fit.n_steps) for share in SHARES}
        for mean in averaged.values():
            mean.see(fit.model)
        if fit.done in tested:
            probabilities[fit.done] = answers()
    found = {LAST: accuracy(probabilities[fit.n_steps], test.labels)}
    for share in SHARES:
        last = [probabilities[step] for step in moments(fit.n_steps, share)]
        found[f"mean of accuracies, {share:.0%}"] = float(np.mean([accuracy(p, test.labels) for p in last]))
        found[f"mean of probabilities, {share:.0%}"] = accuracy(torch.stack(last).mean(0), test.labels)
    return found | {f"mean of weights, {share:.0%}": of_weights(fit, averaged[share].mean, answers, test.labels)
                    for share in SHARES}  # fmt: skip


def of_weights(fit: Fit, weights: Weights, answers, labels: Tensor) -> float:
    fit.model.load_state_dict(weights, strict=False)
    return accuracy(answers(), labels)


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    return float((probabilities.argmax(1) == labels).double().mean())


def measure(source: str, n_seeds: int, folder: Path) -> list[dict[str, float]]:
    data = load(source)
    config = presets.quick(data)
    where = DataConfig(source=source, fingerprint=data.fingerprint)
    protocol = Protocol.of(config, where, protocols.data_digest(data), config.model)
    common = {"protocol": protocol, "candidate": candidates.from_name(CANDIDATE), "folder": folder, "threads": 1}
    found = []
    for seed in range(n_seeds):
        found.append(train(Training(seed=seed, **common)))
        print(f"{Path(source).stem}, seed {seed}: {100 * found[-1][LAST]:.2f} %", flush=True)
    return found


# --- the table --------------------------------------------------------------------------------------------------------


def ratio(values: Sequence[float], last: Sequence[float]) -> tuple[float, float, float]:
    """Of standard deviations, with its interval; seeds are drawn in pairs."""
    pairs = np.array([values, last])
    drawn = np.random.default_rng(0).integers(0, len(last), (N_BOOTSTRAPS, len(last)))
    deviations = pairs[:, drawn].std(-1, ddof=1)  # (2, N_BOOTSTRAPS)
    low, high = np.quantile(deviations[0] / np.maximum(deviations[1], 1e-12), (0.025, 0.975))
    own = pairs.std(-1, ddof=1)
    return float(own[0] / own[1]), float(low), float(high)


def table(found: dict[str, list[dict[str, float]]]) -> str:
    lines = ["| set | how it ends | accuracy, % | deviation between seeds, points | over that of the last weights |",
             "|---|---|---|---|---|"]  # fmt: skip
    for name, trainings in found.items():
        last = [one[LAST] for one in trainings]
        for way in trainings[0]:
            values = [one[way] for one in trainings]
            mean, deviation = 100 * np.mean(values), 100 * np.std(values, ddof=1)
            own, low, high = ratio(values, last)
            shown = "" if way == LAST else f"{own:.2f} ({low:.2f} to {high:.2f})"
            lines.append(f"| {name} | {way} | {mean:.2f} | {deviation:.2f} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = {Path(one).stem: measure(one, given.seeds, Path(folder)) for one in given.data}
    if given.out is not None:
        about = {"commit": provenance.commit(), "torch": torch.__version__, "candidate": CANDIDATE, "preset": "quick"}
        given.out.write_text(json.dumps(about | {"sets": found}, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()

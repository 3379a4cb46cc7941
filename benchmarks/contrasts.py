"""A search without unrolled steps: what is each transformation worth to whole re-trainings from theta_0?

    PYTHONPATH=src python benchmarks/contrasts.py DATA --out FOLDER --preset fast [--seeds 0 1 2 3] [--rounds 3]

Line 10 of Algorithm 1 asks what one step of theta does to the validation loss. Here every transformation takes part in
half of a round's re-trainings, and in the other half it does not; where mu is learned, its bound is raised in half of
those, and lowered in the others. Which does what in which is the design of an orthogonal experiment: with 32 pairs of
re-trainings, the effects of 31 things are found as exactly as if each had all 32 pairs to itself. The two of a pair are
each other's opposites and have all draws in common. A round then moves the policy along these effects by its KL budget,
as a search does. FOLDER gets policy_SEED.json, for `slackaug evaluate`, and contrasts.json.

Axes: n pairs, F factors, N transformations, K positions.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from slackaug import budget, engines, provenance, recipes, rng
from slackaug.data import load
from slackaug.fit import FitConfig
from slackaug.learner import Learner
from slackaug.machine import default_device
from slackaug.policy import MU_MAX, MU_MIN, Policy, magnitude_mask

Array = np.ndarray[Any, np.dtype[np.float64]]

MU_STEP = 0.25  # that a bound is raised and lowered by
LEFT_OUT = 1e3  # nats below the others
VAL_BATCH = 512


# --- the design -------------------------------------------------------------------------------------------------------


def hadamard(order: int) -> Array:
    """Paley's matrix of +1 and -1 with orthogonal columns; the order is one more than a prime q = 4 m + 3."""
    q = order - 1
    squares = {i * i % q for i in range(1, q)}
    cyclic = [[1.0 if (j - i) % q in squares else -1.0 for j in range(q)] for i in range(q)]
    return np.block([[np.ones((1, 1)), np.ones((1, q))], [np.ones((q, 1)), np.array(cyclic)]])


def orders() -> Iterator[int]:
    """Of such matrices, ascending."""
    q = 3
    while True:
        if q % 4 == 3 and all(q % i for i in range(2, int(q**0.5) + 1)):
            yield q + 1
        q += 1


def design(n_transforms: int, n_factors: int, generator: np.random.Generator) -> Array:
    """(n, F) of +1 and -1: orthogonal columns, in random order and with random signs.

    The first n_transforms say which half a transformation is in; no half is less than a quarter of them.
    """
    whole = hadamard(next(order for order in orders() if order > n_factors))
    while True:
        columns = generator.permutation(whole.shape[1])[:n_factors]
        found: Array = whole[:, columns] * generator.choice([-1.0, 1.0], n_factors)
        n_in = (found[:, :n_transforms] > 0).sum(1)
        if min(n_in.min(), n_transforms - n_in.max()) >= n_transforms // 4:
            return found


# --- a round ----------------------------------------------------------------------------------------------------------


class Retraining:
    """From theta_0, again and again: one captured training for all policies of a search."""

    def __init__(self, learner: Learner, config: FitConfig):
        for _ in learner.pretrain():
            pass
        self.learner, self.theta_0 = learner, {k: v.clone() for k, v in learner.model.state_dict().items()}
        data = learner.phi, learner.train, config, learner.streams("contrasts"), learner.preparation
        self.fit = engines.make_fit("pretrain", learner.model, *data)

    def loss(self, policy: Policy, *draws: str | int) -> float:
        """Of all validation images, after re-training with this policy; `draws` names the random streams."""
        fit, learner = self.fit, self.learner
        learner.model.load_state_dict(self.theta_0)
        fit.momentum.zero_()
        fit.done, fit.policy = 0, policy
        rng.set_state(fit.streams, rng.get_state(rng.streams(learner.config.seed, "contrasts", *draws)))
        fit.batches.order = fit.batches.order[:0]  # a new epoch
        while fit.done < fit.n_steps:
            fit.step()
        return self.val_loss()

    @torch.no_grad()
    def val_loss(self) -> float:
        learner = self.learner
        learner.model.eval()
        total, labels = 0.0, learner.val.labels
        for index in torch.arange(len(labels), device=labels.device).split(VAL_BATCH):
            images, target = learner.val.take(index)
            logits = learner.model(self.fit.normalise(learner.preparation.test(images)))
            total += cross_entropy(logits.float(), target, reduction="sum").item()
        return total / len(labels)


class Sides(NamedTuple):
    """A policy for each side of a pair, and how far apart their bounds are."""

    policies: tuple[Policy, Policy]
    mu_apart: Tensor  # (N,)


def sides(phi: Policy, row: Tensor) -> Sides:
    """By the signs (F,): transformations of one half and the other, and bounds that are higher and lower."""
    n = len(phi.space)
    moved = torch.zeros(n, dtype=torch.float64)
    if len(row) > n:
        moved[magnitude_mask(phi.space, torch.device("cpu"))] = row[n:]
    found = []
    for side in (1, -1):
        pi = phi.pi - LEFT_OUT * (row[:n] != side)
        found.append(replace(phi, pi=pi, mu=(phi.mu + side * MU_STEP * moved).clamp(MU_MIN, MU_MAX)))
    return Sides((found[0], found[1]), (found[0].mu - found[1].mu).abs())


def gradients(
    phi: Policy, retraining: Retraining, round_number: int, *, learn_mu: bool
) -> tuple[Tensor, Tensor, list[list[float]]]:
    """Of the validation loss by pi (K, N), a mean over positions, and by mu (N,); and the losses of all pairs."""
    n, has_magnitude = len(phi.space), magnitude_mask(phi.space, torch.device("cpu"))
    n_factors = n + int(has_magnitude.sum()) * learn_mu
    generator = np.random.default_rng((retraining.learner.config.seed, round_number))
    grad_pi, grad_mu = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    signs, losses = torch.from_numpy(design(n, n_factors, generator)), []
    for pair, row in enumerate(signs):
        policies, mu_apart = sides(phi, row)
        ends = [retraining.loss(policy, "round", round_number, "pair", pair) for policy in policies]
        difference = ends[0] - ends[1]
        grad_pi += row[:n] * difference / (2 * len(signs))
        if learn_mu:
            grad_mu[has_magnitude] += row[n:] * difference / mu_apart[has_magnitude] / len(signs)
        losses.append(ends)
    return grad_pi.expand_as(phi.pi) / len(phi.pi), grad_mu, losses


def search(arguments: argparse.Namespace, seed: int) -> tuple[Policy, dict[str, Any]]:
    start = time.perf_counter()
    data = load(arguments.data)
    config = replace(recipes.preset(arguments.preset, data, arguments.model), seed=seed)
    batch, weight_decay = arguments.batch or config.evaluate.batch, config.pretrain.weight_decay
    retrain = FitConfig(
        epochs=arguments.epochs, batch=batch, lr=arguments.lr, nesterov=False, weight_decay=weight_decay
    )
    retraining = Retraining(Learner(config, data, arguments.device), retrain)
    phi, rounds = retraining.learner.phi, []
    kl = recipes.kl_budget(arguments.rounds)
    print(f"seed {seed}: {retraining.fit.n_steps} steps a re-training; began after {time.perf_counter() - start:.0f} s")
    for number in range(1, arguments.rounds + 1):
        grad_pi, grad_mu, losses = gradients(phi, retraining, number, learn_mu=arguments.mu)
        phi = budget.move(phi, grad_pi, grad_mu, kl)
        worth = dict(zip(phi.space.names, (-1000 * grad_pi.sum(0)).tolist(), strict=True))
        rounds.append({"losses": losses, "grad_pi": grad_pi[0].tolist(), "grad_mu": grad_mu.tolist(),
                       "pi": phi.probabilities.mean(0).tolist(), "mu": phi.mu.tolist()})  # fmt: skip
        best = ", ".join(f"{name} {value:.1f}" for name, value in sorted(worth.items(), key=lambda item: -item[1]))
        print(
            f"round {number}, {time.perf_counter() - start:.0f} s; mean loss {np.mean(losses):.4f}; {best}", flush=True
        )
    seconds = time.perf_counter() - start
    phi = replace(phi, learned={"method": "contrasts", "seconds": round(seconds, 1), "seed": seed})
    return phi, {"seed": seed, "seconds": seconds, "kl": kl, "names": phi.space.names, "rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--preset", default="fast", help="of pre-training, and the network")
    parser.add_argument("--model")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8, help="of a re-training")
    parser.add_argument("--batch", type=int, help="of a re-training; that of evaluations, unless given")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--mu", action="store_true", help="learn the bounds of magnitudes, too")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = []
    for seed in arguments.seeds:
        phi, log = search(arguments, seed)
        phi.save(arguments.out / f"policy_{seed}.json")
        found.append(log)
        said = {
            **{k: str(v) if isinstance(v, Path) else v for k, v in vars(arguments).items()},
            "commit": provenance.commit(),
        }
        text = json.dumps({"settings": said, "searches": found}, indent=1)
        (arguments.out / "contrasts.json").write_text(text)


if __name__ == "__main__":
    main()

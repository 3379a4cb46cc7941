"""A search without unrolled steps: what is each transformation worth to short re-trainings from theta_0?

    PYTHONPATH=src python research/contrasts.py DATA --out FOLDER --preset fast [--seeds 0 1 2 3] [--rounds 3] [--mu]
    PYTHONPATH=src python research/contrasts.py DATA --out FOLDER --preset fast --rounds 1 --mu --composed 2 --whole

Line 10 of Algorithm 1 asks what one step of theta does to the validation loss. Here every transformation takes part in
half of a round's re-trainings; with --mu, its bound is raised in half of them, and lowered in the others. Which does
what in which is an orthogonal design, so that the effects of all are found from the same few re-trainings: 20 pairs for
17 transformations, 32 pairs where they have 13 bounds. The two of a pair are each other's opposites and have all draws
in common. By least squares their losses become the gradient, and the policy moves along it by the round's KL budget, as
in a search. With --whole they are no re-trainings but whole trainings, as long as pre-training, from the weights that a
search starts with. FOLDER gets policy_SEED.json, for `slackaug evaluate`, and contrasts.json.

Axes: n pairs, F factors, N transformations, K positions.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slackaug import rng
from slackaug.augment.policy import MU_MAX, MU_MIN, Policy, magnitude_mask
from slackaug.augment.policy_file import MAX_COMPOSED
from slackaug.auto.pretrain import Pretrain
from slackaug.auto.problem import Problem, tempered_loss
from slackaug.config import paper, presets
from slackaug.config.run_config import N_COMPOSED
from slackaug.data import Dataset, load
from slackaug.engine import ways
from slackaug.engine.chance import scalar
from slackaug.engine.fit import Fit, FitConfig, predict
from slackaug.machine import default_device
from slackaug.methods import budget
from slackaug.runs import provenance

Array = np.ndarray[Any, np.dtype[np.float64]]

MU_STEP = 0.25  # that a bound is raised and lowered by
LEFT_OUT = 1e3  # nats below the others
EPOCHS = 8  # of a re-training
TRIES = 10_000  # of columns and signs; for 5 to 20 transformations a few are enough, with bounds and without
CPU = torch.device("cpu")


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
    """(n, F) of +1 and -1: orthogonal columns that sum to zero, in random order and with random signs.

    The first n_transforms say which half a transformation is in; no half is less than a quarter of them.
    """
    whole, least = hadamard(next(order for order in orders() if order > n_factors)), max(1, n_transforms // 4)
    for _ in range(TRIES):
        columns = 1 + generator.permutation(len(whole) - 1)[:n_factors]  # the first is constant
        found: Array = whole[:, columns] * generator.choice([-1.0, 1.0], n_factors)
        n_in = (found[:, :n_transforms] > 0).sum(1)
        if least <= n_in.min() and n_in.max() <= n_transforms - least:
            return found
    raise SystemExit(f"no design of {n_factors} factors was found that has halves of {n_transforms} transformations")


def signs_of(seed: int, round_number: int, n_transforms: int, n_factors: int) -> Array:
    """The design of one round of one search."""
    return design(n_transforms, n_factors, np.random.default_rng((seed, round_number)))


def sides(phi: Policy, row: Tensor) -> tuple[Policy, Policy]:
    """By the signs (F,): transformations of one half and of the other, with bounds that are higher and lower."""
    n_transforms = len(phi.space)
    moved = torch.zeros(n_transforms, dtype=torch.float64)
    if len(row) > n_transforms:
        moved[magnitude_mask(phi.space, CPU)] = row[n_transforms:]

    def side(sign: int) -> Policy:
        pi = phi.pi - LEFT_OUT * (row[:n_transforms] != sign)
        return replace(phi, pi=pi, mu=(phi.mu + sign * MU_STEP * moved).clamp(MU_MIN, MU_MAX))

    return side(1), side(-1)


# --- a round ----------------------------------------------------------------------------------------------------------


class Retraining:
    """From the same start, again and again: one captured training for all policies of a search."""

    def __init__(self, problem: Problem, config: FitConfig):
        """That start is what the model has become: after pre-training theta_0."""
        data = problem.phi, problem.train, config, problem.streams("contrasts"), problem.preparation
        self.problem, self.fit = problem, ways.captured("pretrain", Fit(problem.model, *data))
        self.first = self.fit.get_state()

    def loss(self, policy: Policy, *draws: str | int) -> float:
        """Of all validation images, at the best temperature, after training with this policy; `draws` names streams."""
        fit, problem = self.fit, self.problem
        fit.set_state(self.first)
        fit.policy = policy
        rng.set_state(fit.streams, rng.get_state(rng.streams(problem.config.seed, "contrasts", *draws)))
        while fit.done < fit.n_steps:
            fit.step()
        logits = predict(problem.model, fit.normalise, problem.val)
        found = tempered_loss(logits, problem.val.labels).item()
        if not math.isfinite(found):
            raise SystemExit("the validation loss is no longer a number after a training; try a lower --lr")
        return found


def shares(policy: Policy) -> tuple[Tensor, Tensor]:
    """How often each transformation is drawn (N,), and that times its bound (N,)."""
    p = policy.probabilities.mean(0)
    return p, p * policy.mu


def gradients(
    phi: Policy, retraining: Retraining, round_number: int, *, learn_mu: bool
) -> tuple[Tensor, Tensor, list[list[float]]]:
    """Of the validation loss by pi (K, N) and by mu (N,); and the losses of all pairs.

    What a policy costs is taken to be sum_k p_k (a_k + b_k mu_k), with a and b by least squares over the pairs, and
    something for each transformation that it has: halves differ in size, and having many is worth something by itself.
    """
    n_transforms, bounded = len(phi.space), magnitude_mask(phi.space, CPU) & learn_mu
    seed, n_factors = retraining.problem.config.seed, n_transforms + int(bounded.sum())
    signs = torch.from_numpy(signs_of(seed, round_number, n_transforms, n_factors))
    apart, losses = [], []
    for pair, row in enumerate(signs):
        policies = sides(phi, row)
        losses.append([retraining.loss(policy, "round", round_number, "pair", pair) for policy in policies])
        (p, p_mu), (q, q_mu) = map(shares, policies)
        apart.append(torch.cat([p - q, (p_mu - q_mu)[bounded], row[:n_transforms].sum(0, keepdim=True)]))
    first, second = torch.tensor(losses, dtype=torch.float64).T
    found = torch.linalg.lstsq(torch.stack(apart), first - second, driver="gelsd").solution  # a, b, size: (F + 1,)
    b = torch.zeros(n_transforms, dtype=torch.float64)
    b[bounded] = found[n_transforms:-1]
    cost, p = found[:n_transforms] + b * phi.mu, phi.probabilities
    return p * (cost - (p * cost).sum(-1, keepdim=True)) / len(p), p.mean(0) * b, losses


def search(arguments: argparse.Namespace, data: Dataset, seed: int) -> tuple[Policy, dict[str, Any]]:
    """The policy, and what each round has seen and done."""
    start = time.perf_counter()
    config = replace(paper.rounds_alone(presets.preset(arguments.preset, data, arguments.model)), seed=seed)
    config = replace(config, n_composed=arguments.composed)
    problem, usual = Problem(config, data, arguments.device), config.pretrain
    if not arguments.whole:
        usual = replace(usual, epochs=EPOCHS, batch=config.evaluate.batch)
        for _ in Pretrain(problem, problem.start()).run():
            pass
    epochs, batch = arguments.epochs or usual.epochs, arguments.batch or usual.batch
    retrain = replace(usual, epochs=epochs, batch=batch, lr=arguments.lr)
    retraining, phi, rounds = Retraining(problem, retrain), problem.phi, []
    kl = presets.kl_budget(arguments.rounds, arguments.distance)
    print(f"seed {seed}: {retraining.fit.n_steps} steps a re-training; began after {time.perf_counter() - start:.0f} s")
    for number in range(1, arguments.rounds + 1):
        grad_pi, grad_mu, losses = gradients(phi, retraining, number, learn_mu=arguments.mu)
        phi = budget.along(phi, grad_pi, grad_mu, scalar(kl))
        worth = dict(zip(phi.space.names, (-1000 * grad_pi.sum(0)).tolist(), strict=True))
        rounds.append({"losses": losses, "grad_pi": grad_pi.sum(0).tolist(), "grad_mu": grad_mu.tolist(),
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
    parser.add_argument("--epochs", type=int, help=f"of a re-training: {EPOCHS}; with --whole those of pre-training")
    parser.add_argument("--batch", type=int, help="of evaluations; with --whole that of pre-training")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--distance", type=float, default=presets.DISTANCE, help="nats from uniform, if all agree")
    parser.add_argument("--composed", type=int, default=N_COMPOSED, help="transformations of a composite")
    parser.add_argument("--whole", action="store_true", help="whole trainings instead of re-trainings from theta_0")
    parser.add_argument("--mu", action="store_true", help="learn the bounds of magnitudes, too")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if not 1 <= arguments.composed <= MAX_COMPOSED:
        parser.error(f"--composed: expected a number from 1 to {MAX_COMPOSED}, got {arguments.composed}")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    data, said, found = load(arguments.data), vars(arguments) | {"commit": provenance.commit()}, []
    for seed in arguments.seeds:
        phi, log = search(arguments, data, seed)
        phi.save(arguments.out / f"policy_{seed}.json")
        found.append(log)
        text = json.dumps({"settings": said, "searches": found}, indent=1, default=str)
        (arguments.out / "contrasts.json").write_text(text)


if __name__ == "__main__":
    main()

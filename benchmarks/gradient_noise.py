"""Variance, signal and direction of estimators of the policy's gradient, at one theta at the end of a re-training.

    PYTHONPATH=src python benchmarks/gradient_noise.py DATA [--model wrn-40-2] [--draws 64] [--out FILE.json]

The network is pre-trained and then re-trained with shared composites, as a search does it; there, each estimator draws
the gradient of pi many times, always with 1,024 training images (128 x 8). The variance is the trace of the covariance
of one draw; signal^2 is the squared norm of the mean, less what the variance adds to it; "draws for 1" is variance over
signal^2, the draws that a mean needs until noise and signal are alike; the cosine is that of the mean with the mean of
the first estimator, the paper's.

Axes: A composites, B images, P parameters, K positions, N transformations, R draws.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, jvp
from torch.nn.functional import cross_entropy

from slackaug import hypergrad, recipes, rng, slack
from slackaug.data import Split, load
from slackaug.engine import Plain
from slackaug.learner import Learner
from slackaug.policy import Policy
from slackaug.spaces import Composites, augment

N_IMAGES = 1024  # training images of a draw
VAL_BATCH = 128
CLIP = 5.0


class Place:
    """A theta, the data, and a stream to draw from."""

    def __init__(self, engine: Plain, phi: Policy, seed: int):
        self.engine, self.phi, self.model = engine, phi, engine.model
        self.stream = rng.generator(seed, "gradient noise")
        self.names = [name for name, p in self.model.named_parameters() if p.requires_grad]

    def batch(self, split: Split, n: int) -> tuple[Tensor, Tensor]:
        index = torch.randint(len(split.labels), (n,), generator=self.stream)
        return split.take(index.to(split.labels.device))

    def augmented(self, images: Tensor, tau: Composites) -> Tensor:
        """Each image under its own composite, normalised."""
        engine = self.engine
        out = augment(images, tau, self.stream, flip=engine.flip, fill=engine.fill)
        return engine.normalise(out)

    def val_gradient(self, n: int) -> Tensor:
        """v (P,), each tensor clipped."""
        images, labels = self.batch(self.engine.val, n)
        self.model.train()
        with hypergrad.unchanged_buffers(self.model):
            loss = cross_entropy(self.model(self.engine.normalise(images)), labels)
            v = hypergrad.gradient(loss, self.model)
        return hypergrad.clip_each(v, self.engine.sizes, CLIP)

    def score(self, tau: Composites, weight: Tensor) -> Tensor:
        """-mean_a w_a grad log p(tau_a), for pi: (K, N)."""
        phi = replace(self.phi, pi=self.phi.pi.detach().requires_grad_())
        objective = hypergrad.score_objective(phi.log_prob(tau), weight.cpu().to(phi.pi), 1.0, 1 / len(weight))
        (gradient,) = torch.autograd.grad(objective, phi.pi)
        return gradient


Estimator = Callable[[Place], tuple[Composites, Tensor]]  # what was drawn, and its weights w


def shared(n_composites: int, val_batch: int = VAL_BATCH) -> Estimator:
    """The paper's: every composite is applied to a whole batch, which has its own statistics."""

    def estimate(place: Place) -> tuple[Composites, Tensor]:
        tau = place.phi.sample(n_composites, place.stream)
        images, labels = place.batch(place.engine.train, N_IMAGES // n_composites)
        v = place.val_gradient(val_batch)
        repeated = place.augmented(images.repeat(n_composites, 1, 1, 1), tau.repeat(len(labels)))
        place.model.train()
        weights = []
        with hypergrad.unchanged_buffers(place.model):
            for part in repeated.split(len(labels)):
                g = hypergrad.gradient(cross_entropy(place.model(part), labels), place.model)
                weights.append(hypergrad.clip(g, CLIP) @ v)
        return tau, torch.stack(weights)

    return estimate


def per_image(*, frozen: bool, val_batch: int = VAL_BATCH) -> Estimator:
    """A composite of its own for each image; <v, g_i> of all of them by one pass of forward mode along v."""

    def estimate(place: Place) -> tuple[Composites, Tensor]:
        tau = place.phi.sample(N_IMAGES, place.stream)
        images, labels = place.batch(place.engine.train, N_IMAGES)
        v = place.val_gradient(val_batch)
        x = place.augmented(images, tau)
        parameters = dict(place.model.named_parameters())
        primal = {name: parameters[name].detach() for name in place.names}
        parts = v.split(place.engine.sizes)
        tangent = {name: part.view_as(primal[name]) for name, part in zip(place.names, parts, strict=True)}
        place.model.train(not frozen)  # frozen: batch-norm with its running statistics

        def losses(theta: dict[str, Tensor]) -> Tensor:
            buffers = {
                name: value.clone() for name, value in place.model.named_buffers()
            }  # to be changed in train mode
            return cross_entropy(functional_call(place.model, (theta, buffers), (x,)), labels, reduction="none")

        with torch.no_grad():
            _, along = jvp(losses, (primal,), (tangent,))
        return tau, along

    return estimate


def with_baseline(estimator: Estimator) -> Estimator:
    """w_a less the mean of the others."""

    def estimate(place: Place) -> tuple[Composites, Tensor]:
        tau, weight = estimator(place)
        return tau, (weight - weight.mean()) * (len(weight) / (len(weight) - 1))

    return estimate


ESTIMATORS: dict[str, Estimator] = {
    "8 shared composites x 128": shared(8),
    "16 shared composites x 64": shared(16),
    "32 shared composites x 32": shared(32),
    "8 shared, val batch 1,024": shared(8, val_batch=1024),
    "8 shared, baseline": with_baseline(shared(8)),
    "per image, train-mode statistics": per_image(frozen=False),
    "per image, frozen statistics": per_image(frozen=True),
    "per image, frozen, baseline": with_baseline(per_image(frozen=True)),
    "per image, frozen, val batch 1,024": per_image(frozen=True, val_batch=1024),
}


class Found(NamedTuple):
    name: str
    variance: float
    signal2: float
    seconds: float  # of a draw
    mean: list[float]  # (K * N,)
    reward: dict[str, float]  # mean w of the composites with a transformation, less the mean of all


def measure(name: str, place: Place, n_draws: int) -> Found:
    draws, start = [], time.perf_counter()
    total, count = torch.zeros(2, len(place.phi.space), dtype=torch.float64)
    for _ in range(n_draws):
        tau, weight = ESTIMATORS[name](place)
        weight = weight.detach().cpu().double()
        draws.append(place.score(tau, weight).flatten())
        off = (weight - weight.mean())[:, None].expand(tau.op.shape)
        total.index_add_(0, tau.op.flatten(), off.flatten())
        count.index_add_(0, tau.op.flatten(), torch.ones(tau.op.numel(), dtype=torch.float64))
    seconds = (time.perf_counter() - start) / n_draws
    gradients = torch.stack(draws)  # (R, K * N)
    mean, variance = gradients.mean(0), gradients.var(0).sum().item()
    reward = dict(zip(place.phi.space.names, (total / count.clamp(min=1)).tolist(), strict=True))
    return Found(name, variance, mean.square().sum().item() - variance / n_draws, seconds, mean.tolist(), reward)


def prepare(arguments: argparse.Namespace) -> Place:
    data = load(arguments.data)
    base = recipes.paper(data, arguments.model)
    pretrain = replace(base.pretrain, epochs=arguments.epochs)
    config = replace(base, seed=arguments.seed, pretrain=pretrain, search=replace(base.search, n_rounds=1))
    learner = Learner(config, data, arguments.device)
    for _ in learner.pretrain():
        pass
    learner.begin_search()
    engine, state = learner.engine, learner.state
    assert engine is not None
    assert state is not None
    for _ in range(arguments.retrain or config.search.n_retrain):
        state, _ = engine.execute(slack.take_step, state, config.search)
    return Place(engine, learner.phi, arguments.seed)


def table(results: list[Found]) -> str:
    first = torch.tensor(results[0].mean)
    lines = [
        "| estimator | variance | signal^2 | draws for 1 | cosine with the paper's | ms a draw |",
        "|---|---|---|---|---|---|",
    ]
    for one in results:
        cosine = torch.cosine_similarity(first, torch.tensor(one.mean), dim=0).item()
        needed = f"{one.variance / one.signal2:.0f}" if one.signal2 > 0 else "no signal"
        spread = f"{one.variance:.2e} | {one.signal2:.2e} | {needed}"
        lines.append(f"| {one.name} | {spread} | {cosine:.2f} | {1000 * one.seconds:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--model", default="wrn-40-2")
    parser.add_argument("--epochs", type=int, default=40, help="of pre-training")
    parser.add_argument("--retrain", type=int, help="steps of re-training, if not the paper's")
    parser.add_argument("--draws", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", nargs="+", default=list(ESTIMATORS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    place = prepare(arguments)
    results = []
    for name in arguments.only:
        results.append(measure(name, place, arguments.draws))
        print(json.dumps(results[-1]._asdict() | {"mean": None}), flush=True)
        if arguments.out is not None:
            arguments.out.write_text(json.dumps([one._asdict() for one in results]))
    print(table(results))


if __name__ == "__main__":
    main()

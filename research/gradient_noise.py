"""Variance, signal and direction of estimators of the policy's gradient, at thetas at the end of re-trainings.

    PYTHONPATH=src python research/gradient_noise.py record DATA OUT.npz [--seeds 0 1] [--draws 64]
    PYTHONPATH=src python research/gradient_noise.py table OUT.npz [OUT.npz ...] [--out FILE.json]

For each seed, `record` pre-trains a network on a split of its own, re-trains it with shared composites as a search does
it, and holds theta there. Each estimator then draws composites and rewards them, many times, always with 1,024 training
images (128 x 8) in a draw, and along several validation gradients v: of 128 images, of 1,024, and of all. What was
drawn and its rewards are kept, so that `table` can ask of the same draws what a baseline makes of them.

For each way to estimate the gradient of pi, `table` gives, as means over thetas: the noise of one draw (the trace of
its covariance); signal^2, the squared norm of the mean over draws, less what the noise adds to it; common^2, what the
signals of two thetas share (the mean inner product of their gradients, free of noise); the noise over each of them, the
draws that a mean needs until both are alike; and the cosine of the mean with that of the first estimator, with a
baseline and v of all.

Axes: R draws, A composites, V validation gradients, P parameters, K positions, N transformations, T thetas.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jvp
from torch.nn.functional import cross_entropy

from slackaug import rng
from slackaug.augment import apply
from slackaug.augment.apply import Composites, Parameters
from slackaug.augment.policy import Policy
from slackaug.auto.pretrain import Pretrain
from slackaug.auto.problem import Problem
from slackaug.config import presets
from slackaug.data import Split, load
from slackaug.engine.gpu.captured import CompiledModel, in_groups
from slackaug.engine.passes import Passes, clip, clip_each, unchanged_buffers
from slackaug.methods import slack

N_IMAGES = 1024  # training images of a draw
V_IMAGES = (128, 1024, None)  # None: all
CLIP = 5.0


# --- what is drawn ----------------------------------------------------------------------------------------------------


class Place:
    """A theta, the data, and a stream to draw from."""

    def __init__(self, engine: Passes, phi: Policy, seed: int):
        self.engine, self.phi, self.model = engine, phi, engine.model
        self.device = engine.theta.device
        self.stream = rng.generator(seed, "gradient noise")
        self.names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        self.passes = engine.way
        if not isinstance(engine.way, CompiledModel):
            groups = in_groups(self.model, engine.theta, engine.normalise, engine.train, torch.float32)
            self.passes = CompiledModel(engine.way, groups, torch.float32, compiled=False)
        self.v_all = self.val_gradient_of_all()

    def batch(self, split: Split, n: int) -> tuple[Tensor, Tensor]:
        index = torch.randint(len(split.labels), (n,), generator=self.stream)
        return split.take(index.to(self.device))

    def augmented(self, images: Tensor, tau: Composites) -> Tensor:
        """Each image under its own composite."""
        u, flip = apply.chance(len(images), len(self.phi.pi), self.stream, flip=self.phi.flip)
        op, magnitude, active, space = tau
        tau = Composites(op.to(self.device), magnitude.to(self.device), active.to(self.device), space)
        parameters = Parameters(tau, u.to(self.device), flip.to(self.device))
        return self.passes.augment(images, parameters)

    def val_gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        with unchanged_buffers(self.model):
            return self.passes.gradient(images, labels)[0]

    def val_gradient_of_all(self) -> Tensor:
        val = self.engine.val
        parts = torch.randperm(len(val.labels), generator=self.stream).to(self.device).split(N_IMAGES)
        whole = [part for part in parts if len(part) == len(parts[0])]  # batch-norm sees batches of one size
        return torch.stack([self.val_gradient(*val.take(part)) for part in whole]).mean(0)

    def validation_gradients(self) -> Tensor:
        """(V, P), each tensor of each clipped."""
        drawn = [self.v_all if n is None else self.val_gradient(*self.batch(self.engine.val, n)) for n in V_IMAGES]
        return torch.stack([clip_each(v, self.engine.sizes, CLIP) for v in drawn])


Estimator = Callable[[Place, Tensor], tuple[Composites, Tensor]]  # from v (V, P): what was drawn, its rewards (A, V)


def shared(n_composites: int) -> Estimator:
    """The paper's: every composite is applied to a whole batch, which has its own statistics."""

    def estimate(place: Place, v: Tensor) -> tuple[Composites, Tensor]:
        tau = place.phi.sample(n_composites, place.stream)
        images, labels = place.batch(place.engine.train, N_IMAGES // n_composites)
        images = place.augmented(images.repeat(n_composites, 1, 1, 1), tau.repeat(len(labels)))
        with unchanged_buffers(place.model):
            g, _ = place.passes.gradients(images, labels)
        return tau, clip(g, CLIP) @ v.T

    return estimate


def per_image(*, frozen: bool) -> Estimator:
    """A composite of its own for each image; <v, g_i> of all of them by one pass of forward mode along v."""

    def estimate(place: Place, v: Tensor) -> tuple[Composites, Tensor]:
        tau = place.phi.sample(N_IMAGES, place.stream)
        images, labels = place.batch(place.engine.train, N_IMAGES)
        x = place.engine.normalise(place.augmented(images, tau))
        parameters = dict(place.model.named_parameters())
        theta = {name: parameters[name].detach() for name in place.names}
        place.model.train(not frozen)  # frozen: batch-norm with its running statistics

        def losses(theta: dict[str, Tensor]) -> Tensor:
            buffers = {name: value.clone() for name, value in place.model.named_buffers()}  # changed in train mode
            return cross_entropy(functional_call(place.model, (theta, buffers), (x,)), labels, reduction="none")

        along = []
        with torch.no_grad():
            for one in v:
                parts = zip(place.names, one.split(place.engine.sizes), strict=True)
                tangent = {name: part.view_as(theta[name]) for name, part in parts}
                along.append(jvp(losses, (theta,), (tangent,))[1])
        return tau, torch.stack(along, 1)

    return estimate


ESTIMATORS: dict[str, Estimator] = {
    "8 shared": shared(8),
    "16 shared": shared(16),
    "32 shared": shared(32),
    "64 shared": shared(64),
    "each, frozen": per_image(frozen=True),
    "each, train mode": per_image(frozen=False),
}


def record(arguments: argparse.Namespace) -> None:
    data = load(arguments.data)
    base = presets.paper(data, arguments.model)
    search = replace(base.search, model_lr=arguments.model_lr or base.search.model_lr)
    if arguments.retrain:
        search = replace(search, n_retrain=arguments.retrain)
    base = replace(base, pretrain=replace(base.pretrain, epochs=arguments.epochs), search=search)
    kept: dict[str, list[np.ndarray]] = {}
    for seed in arguments.seeds:
        place = prepare(Problem(replace(base, seed=seed), data, arguments.device))
        seconds = dict.fromkeys(arguments.only, 0.0)
        for _ in range(arguments.draws):
            v = place.validation_gradients()
            for name in arguments.only:
                start = time.perf_counter()
                tau, reward = ESTIMATORS[name](place, v)
                op, reward = tau.op.cpu().numpy().astype(np.int8), reward.float().cpu().numpy()
                seconds[name] += time.perf_counter() - start
                kept.setdefault(f"{seed}/{name}/op", []).append(op)
                kept.setdefault(f"{seed}/{name}/reward", []).append(reward)
        print({name: f"{1000 * s / arguments.draws:.0f} ms" for name, s in seconds.items()}, flush=True)
        stacked = {key: np.stack(value) for key, value in kept.items()}
        np.savez_compressed(arguments.out, names=np.array(place.phi.space.names), **stacked)


def prepare(problem: Problem) -> Place:
    """At the end of a re-training."""
    start = time.perf_counter()
    pretrain = Pretrain(problem, problem.start())
    for _ in pretrain.run():
        pass
    chance, passes = problem.make_search(pretrain.found)
    before, search, state = problem.val_loss(passes), problem.config.search, slack.start(problem.phi, passes.theta)
    for _ in itertools.islice(slack.rounds(state, chance, passes, search), search.n_retrain):
        pass
    losses = f"validation loss {before:.3f} after pre-training, {problem.val_loss(passes):.3f} after re-training"
    print(f"seed {problem.config.seed}: {losses}, {time.perf_counter() - start:.0f} s", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True  # forward mode knows no autocast
    return Place(passes, problem.phi, problem.config.seed)


# --- what it says -----------------------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """By one estimator at one theta."""

    op: np.ndarray  # (R, A, K)
    reward: np.ndarray  # (R, A, V)


Way = Callable[[np.ndarray, np.ndarray, int], np.ndarray]  # op (R, A, K), reward (R, A), N: draws of the gradient


def score(op: np.ndarray, reward: np.ndarray, n: int) -> np.ndarray:
    """(R, K, N): mean_a w_a grad log p(tau_a) at the uniform policy, an ascent direction."""
    return (reward[..., None, None] * (one_hot(op, n) - 1 / n)).mean(1)


def with_baseline(op: np.ndarray, reward: np.ndarray, n: int) -> np.ndarray:
    """w_a less the mean of the others."""
    a = reward.shape[1]
    return score(op, (reward - reward.mean(1, keepdims=True)) * a / (a - 1), n)


def tied(op: np.ndarray, reward: np.ndarray, n: int) -> np.ndarray:
    """With a baseline, and the mean over the positions for all of them."""
    return with_baseline(op, reward, n).mean(1, keepdims=True).repeat(op.shape[2], 1)


def additive(op: np.ndarray, reward: np.ndarray, n: int, ridge: float = 1.0) -> np.ndarray:
    """(K, N): the effect of each transformation at each position, draws centred, by least squares."""
    x = one_hot(op, n).reshape(*op.shape[:2], -1)
    x = (x - x.mean(1, keepdims=True)).reshape(-1, x.shape[-1])
    y = (reward - reward.mean(1, keepdims=True)).reshape(-1)
    effect = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y).reshape(op.shape[2], n)
    return effect - effect.mean(1, keepdims=True)


def predict(effect: np.ndarray, op: np.ndarray) -> np.ndarray:
    return sum(effect[k][op[..., k]] for k in range(op.shape[2]))


def one_hot(op: np.ndarray, n: int) -> np.ndarray:
    return np.eye(n)[op]


WAYS: dict[str, Way] = {"": score, ", baseline": with_baseline, ", baseline, tied": tied}


class Found(NamedTuple):
    noise: float
    signal2: float
    common2: float
    mean: np.ndarray  # (K, N)


def judge(draws: list[np.ndarray]) -> Found:
    """Of draws (R, K, N) at each of T thetas."""
    means = [d.mean(0) for d in draws]
    noises = [d.var(0, ddof=1).sum() for d in draws]
    signals = [(m**2).sum() - noise / len(d) for m, noise, d in zip(means, noises, draws, strict=True)]
    shared_by = [(a * b).sum() for a, b in itertools.combinations(means, 2)]
    common = float(np.mean(shared_by)) if shared_by else float("nan")
    return Found(float(np.mean(noises)), float(np.mean(signals)), common, np.mean(means, 0))


def explained(drawn: list[Drawn], v: int, n: int) -> float:
    """The share of the rewards' variance within a draw that an additive model, fitted on other draws, explains."""
    shares = []
    for op, reward in drawn:
        half, w = len(op) // 2, reward[..., v]
        effect = additive(op[:half], w[:half], n)
        left = centred(w[half:]) - centred(predict(effect, op[half:]))
        shares.append(1 - left.var() / centred(w[half:]).var())
    return float(np.mean(shares))


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(1, keepdims=True)


def read(paths: list[Path]) -> tuple[list[str], dict[str, list[Drawn]]]:
    drawn: dict[str, list[Drawn]] = {}
    names: list[str] = []
    for path in paths:
        with np.load(path) as file:
            names = file["names"].tolist()
            for key in file.files:
                if key.endswith("/reward"):
                    name = key.split("/")[1]
                    op = file[key.replace("/reward", "/op")].astype(int)
                    drawn.setdefault(name, []).append(Drawn(op, file[key].astype(np.float64)))
    return names, drawn


def table(paths: list[Path], out: Path | None) -> None:
    names, drawn = read(paths)
    n, rows = len(names), []
    first = next(iter(drawn))
    reference = judge([with_baseline(d.op, d.reward[..., -1], n) for d in drawn[first]]).mean
    print(f"| estimator | v of | noise | signal^2 | common^2 | noise / signal^2 | / common^2 | cosine with {first} |")
    print("|---|---|---|---|---|---|---|---|")
    rewards = {}
    for name, at_thetas in drawn.items():
        for v, n_images in enumerate(V_IMAGES):
            for said, way in WAYS.items():
                found = judge([way(d.op, d.reward[..., v], n) for d in at_thetas])
                cosine = (found.mean * reference).sum() / np.linalg.norm(found.mean) / np.linalg.norm(reference)
                needed = [f"{found.noise / x:.0f}" if x > 0 else "-" for x in (found.signal2, found.common2)]
                numbers = f"{found.noise:.2e} | {found.signal2:.2e} | {found.common2:.2e} | {' | '.join(needed)}"
                print(f"| {name}{said} | {n_images or 'all'} | {numbers} | {cosine:.2f} |")
                shown = found._asdict() | {"mean": found.mean.tolist(), "cosine": cosine}
                rows.append({"estimator": name + said, "v": n_images, "thetas": len(at_thetas)} | shown)
            if n_images is None:
                rewards[name] = found.mean.mean(0) * n / np.mean([centred(d.reward[..., v]).std() for d in at_thetas])
    if out is not None:
        out.write_text(json.dumps({"names": names, "rows": rows}))
    shares = {name: f"{explained(at_thetas, -1, n):.2f}" for name, at_thetas in drawn.items()}
    print(f"\nThe share of the rewards that an additive model of the transformations explains, v of all: {shares}")
    print("\nEffect of each transformation, v of all, in standard deviations of a reward:\n")
    print("| |" + "|".join(rewards) + "|")
    print("|---|" + "---|" * len(rewards))
    for i in np.argsort(-rewards[first]):
        print(f"| {names[i]} | " + " | ".join(f"{row[i]:+.2f}" for row in rewards.values()) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record")
    one.add_argument("data")
    one.add_argument("out", type=Path)
    one.add_argument("--model")
    one.add_argument("--model-lr", type=float, help="of re-training, if not the paper's")
    one.add_argument("--epochs", type=int, default=40, help="of pre-training")
    one.add_argument("--retrain", type=int, help="steps of re-training, if not the paper's")
    one.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    one.add_argument("--draws", type=int, default=64)
    one.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    one.add_argument("--only", nargs="+", default=list(ESTIMATORS), choices=list(ESTIMATORS))
    other = commands.add_parser("table")
    other.add_argument("files", type=Path, nargs="+")
    other.add_argument("--out", type=Path, help="the numbers as JSON")
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments)
    else:
        table(arguments.files, arguments.out)


if __name__ == "__main__":
    main()

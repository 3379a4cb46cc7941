"""Estimators of the policy's gradient judged by their outcome: do searches on different splits find the same policy?

    PYTHONPATH=src python benchmarks/steadiness.py DATA [--preset fast] [--seeds 4] [--variants ...] [--out FOLDER]

For every seed (a split and a network) one pre-training, from which each variant searches. A variant decides on what
theta is trained, how composites are rewarded, and how the validation gradient v is found:

- theta: "shared", the paper's, all images of a batch under each of A composites; or "mixed", one batch, every image
  under a composite of its own, which is A times as cheap;
- reward: "shared", <v, g_a> of the composites that theta was trained with; or "each", <v, g_i> of single images with
  composites of their own, by one pass of forward mode with frozen batch-norm statistics;
- v: of one batch, of a batch several times as large, or averaged over the last steps.

Axes: A composites, B images, P parameters, R rewarded images.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, jvp
from torch.nn.functional import cross_entropy

from slackaug import engines, hypergrad, recipes, rng, slack, spaces
from slackaug.calibrate import Calibration, Trial
from slackaug.data import Batches, load
from slackaug.fast import Fast
from slackaug.learner import Learner
from slackaug.policy import Policy
from slackaug.slack import Report, SearchConfig, State
from slackaug.spaces import Composites, Parameters
from slackaug.stability import stability

N_REWARDED = 1024  # images: as many as 8 shared composites see


class Variant(NamedTuple):
    mixed: bool = False  # theta
    each: bool = False  # reward
    val_factor: int = 1  # images of v, in batches
    val_average: float = 0.0  # share of the past in v
    more_policy: bool = False  # twice the policy steps, and so many fewer of re-training
    tied: bool = False  # one distribution for all positions


VARIANTS = {
    "shared": Variant(),
    "shared, tied": Variant(tied=True),
    "shared, v averaged": Variant(val_average=0.9),
    "shared, v of 4 batches": Variant(val_factor=4),
    "shared, more policy steps": Variant(more_policy=True),
    "shared, more policy steps, v averaged": Variant(more_policy=True, val_average=0.9),
    "shared theta, each rewarded": Variant(each=True),
    "shared theta, each rewarded, v averaged": Variant(each=True, val_average=0.9),
    "mixed theta, each rewarded": Variant(mixed=True, each=True),
    "mixed theta, each rewarded, v averaged": Variant(mixed=True, each=True, val_average=0.9),
}


class Trying(Fast):
    """The fast engine with a variant's batches and rewards."""

    def __init__(self, variant: Variant, *arguments, **options):
        super().__init__(*arguments, **options)
        self.variant = variant
        batch = variant.val_factor * self.val_batches.batch
        self.val_batches = Batches(len(self.val.labels), batch, self.streams["val data"])
        self.reward_batches = Batches(len(self.train.labels), N_REWARDED, rng.generator(0, "rewards"))
        self.v = torch.zeros_like(self.theta)

    def changed(self) -> list[Tensor]:
        return [*super().changed(), self.v]

    def cold_start(self) -> None:
        super().cold_start()
        self.v.zero_()

    def draw_noise(self, state: State, config: SearchConfig, is_unrolled: bool) -> dict[str, Tensor]:
        drawn = super().draw_noise(state, config, is_unrolled)
        if self.variant.mixed:
            drawn |= self.own_composites("own", len(drawn["index"]), len(state.phi.pi))
        if self.variant.each and is_unrolled:
            index = self.reward_batches.next()
            drawn |= {"rewarded": index, **self.own_composites("rewarded", len(index), len(state.phi.pi))}
        return drawn

    def own_composites(self, name: str, n: int, k: int) -> dict[str, Tensor]:
        u, flip = spaces.chance(n, k, self.streams["transform"], flip=self.flip)
        noise = {"uniform": rng.uniform((2, n, k), self.streams["policy"]), "u": u, "flip": flip}
        noise |= {"normal": rng.normal((n, k), self.streams["policy"])}
        return {f"{name} {key}": value for key, value in noise.items()}

    def taken(self, name: str, index: Tensor, phi: Policy) -> tuple[Tensor, Tensor, Composites]:
        """Images, each under a composite of its own."""
        tau = phi.transport(self.drawn[f"{name} uniform"], self.drawn[f"{name} normal"])
        images, labels = self.train.take(index)
        images = self.preparation.test(images)
        parameters = Parameters(tau, self.drawn[f"{name} u"], self.drawn[f"{name} flip"])
        return self.passes.augment(images, parameters, self.fill), labels, tau

    def mixed_gradient(self, phi: Policy) -> tuple[Tensor, Tensor]:
        images, labels, _ = self.taken("own", self.drawn["index"], phi)
        g, loss = self.passes.gradient(images, labels)
        return g[None], loss[None]

    def rewards(self, phi: Policy, v: Tensor) -> tuple[Composites, Tensor]:
        """<v, g_i> of single images: the derivative of their losses along v."""
        images, labels, tau = self.taken("rewarded", self.drawn["rewarded"], phi)
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        parameters = dict(self.model.named_parameters())
        theta = {name: parameters[name].detach() for name in names}
        along = {name: part.view_as(theta[name]) for name, part in zip(names, v.split(self.sizes), strict=True)}
        x = self.normalise(images).contiguous(memory_format=torch.channels_last)
        buffers = dict(self.model.named_buffers())
        self.model.eval()

        def losses(theta: dict[str, Tensor]) -> Tensor:
            logits = functional_call(self.model, (theta, buffers), (x,))
            return cross_entropy(logits, labels, reduction="none")

        with torch.no_grad():  # in float32: autocast does not know forward mode
            return tau, jvp(losses, (theta,), (along,))[1]

    def smoothed(self, v: Tensor) -> Tensor:
        keep = self.variant.val_average
        if not keep:
            return v
        self.v.mul_(keep).add_(v, alpha=1 - keep)
        return self.v


def take_step(state: State, engine: Trying, config: SearchConfig) -> tuple[State, Report]:
    """slack.take_step, with the variant's choices."""
    variant = engine.variant
    tau = engine.draw(state.phi, config.n_composites)
    g, losses = engine.mixed_gradient(state.phi) if variant.mixed else engine.train_gradients(tau)
    g = hypergrad.clip(g, config.clip)
    slack.update_theta(state, engine, config, g.mean(0))
    report = Report(losses.mean(), None, None, tau)
    state = state._replace(step=state.step + 1)
    if state.step > config.n_retrain:
        v, val_loss = engine.val_gradient()
        v = engine.smoothed(hypergrad.clip_each(v, engine.sizes, config.val_clip))
        tau, weight = engine.rewards(state.phi, v) if variant.each else (tau, hypergrad.alignment(v, g))
        weight = weight - weight.mean()
        share = replace(config, n_composites=len(weight))
        grad_pi, grad_mu = slack.policy_gradient(state, share, tau, weight)
        if variant.tied:
            grad_pi = grad_pi.mean(0, keepdim=True).expand_as(grad_pi)
        state = slack.spend_budget(
            state, engine.scheduled("kl", slack.kl_allowed(state.step, config)), grad_pi, grad_mu
        )
        report = report._replace(val_loss=val_loss, weight=weight)
    return state, report


def make_engine(variant: Variant, learner: Learner, search: SearchConfig) -> Trying:
    """With each kind of step tried, and taken back."""
    on_gpu = learner.train.images.is_cuda
    precision = engines.precision() if on_gpu else torch.float32
    streams = rng.streams(learner.config.seed, "search")
    arguments = learner.model, learner.phi, learner.train, learner.val, search.batch, streams, learner.preparation
    engine = Trying(variant, *arguments, precision=precision, compiled=on_gpu)
    before = engine.get_state()
    for step in (0, search.n_retrain):
        engine.execute(take_step, slack.start(learner.phi, engine)._replace(step=step), search)
    engine.set_state(before)
    return engine


def calibrated(engine: Trying, learner: Learner, search: SearchConfig) -> tuple[SearchConfig, Calibration]:
    """As `Learner.calibrate`, with the variant's steps."""
    engine.cold_start()
    found = Calibration(learner.val_loss(), ())
    while (rate := found.next_rate(search.model_lr)) is not None:
        state = slack.start(learner.phi, engine)
        for _ in range(search.n_retrain):
            state, _ = engine.execute(take_step, state, replace(search, model_lr=rate))
        found = found._replace(trials=(*found.trials, Trial(rate, learner.val_loss())))
        engine.cold_start()
    return replace(search, model_lr=found.model_lr), found


def rounds(engine: Trying, learner: Learner, search: SearchConfig) -> Iterator[State]:
    state = slack.start(learner.phi, engine)
    for _ in range(search.n_rounds):
        engine.cold_start()
        state = slack.start(state.phi, engine)
        for _ in range(search.n_steps):
            state, _ = engine.execute(take_step, state, search)
        yield state


def divided(variant: Variant, search: SearchConfig) -> SearchConfig:
    if not variant.more_policy:
        return search
    n = min(search.n_unrolled, search.n_retrain - 1)
    return replace(search, n_retrain=search.n_retrain - n, n_unrolled=search.n_unrolled + n)


def detached(phi: Policy) -> Policy:
    return replace(phi, pi=phi.pi.detach().cpu().clone(), mu=phi.mu.detach().cpu().clone())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--preset", default="fast", choices=["quick", "fast", "standard"])
    parser.add_argument("--model")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data = load(arguments.data)
    base = getattr(recipes, arguments.preset)(data, arguments.model)
    found: dict[str, list[Policy]] = {name: [] for name in arguments.variants}
    seconds = dict.fromkeys(arguments.variants, 0.0)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for seed in range(arguments.seeds):
        learner = Learner(replace(base, seed=seed), data, arguments.device)
        start = time.perf_counter()
        for _ in learner.pretrain():
            pass
        print(f"seed {seed}: pre-trained in {time.perf_counter() - start:.0f} s", flush=True)
        for name in arguments.variants:
            variant = VARIANTS[name]
            engine = make_engine(variant, learner, divided(variant, base.search))
            start = time.perf_counter()
            search, calibration = calibrated(engine, learner, divided(variant, base.search))
            policies = [detached(state.phi) for state in rounds(engine, learner, search)]
            seconds[name] += time.perf_counter() - start
            engine.cold_start()
            found[name].append(policies[-1])
            policies[-1].save(arguments.out / f"{name.replace(', ', '_').replace(' ', '-')}.{seed}.json")
            print(f"  {name}: {time.perf_counter() - start:.0f} s, {calibration.describe()}", flush=True)
        report(found, seconds, seed + 1, arguments)


def report(found: dict[str, list[Policy]], seconds: dict[str, float], n: int, arguments: argparse.Namespace) -> None:
    if n < 2:
        return
    everyone = [policy.probabilities.mean(0) for policies in found.values() for policy in policies]
    consensus = torch.stack(everyone).mean(0)
    rows = {}
    for name, policies in found.items():
        mean = torch.stack([policy.probabilities.mean(0) for policy in policies]).mean(0)
        rows[name] = stability(policies)._asdict() | {
            "with the mean of all variants": torch.corrcoef(torch.stack([mean, consensus]))[0, 1].item(),
            "seconds a search": seconds[name] / n,
            "mean pi": dict(zip(policies[0].space.names, [round(p, 4) for p in mean.tolist()], strict=True)),
        }
    (arguments.out / "steadiness.json").write_text(json.dumps({"data": arguments.data, "n": n, "variants": rows}))
    print("| variant | correlation of pi | without Invert, Solarize | of mu | with the mean of all | s a search |")
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        numbers = [row[key] for key in ("pi", "pi_rest", "mu", "with the mean of all variants")]
        cells = " | ".join("-" if value is None else f"{value:.2f}" for value in numbers)
        print(f"| {name} | {cells} | {row['seconds a search']:.0f} |", flush=True)


if __name__ == "__main__":
    main()

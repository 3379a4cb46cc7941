"""Estimators of the policy's gradient judged by their outcome: do searches on different splits find the same policy?

    PYTHONPATH=src python research/steadiness.py DATA --out FOLDER [--preset fast] [--seeds 0 1 2 3] [--variants ...]

For every seed (a split and a network) one pre-training, from which each variant searches; policies that are in FOLDER
already are not searched for again, so seeds can be added. A variant has settings of the search, and decides on what
theta is trained and how composites are rewarded:

- theta: "shared", the paper's, all images of a batch under each of A composites; or "mixed", one batch, every image
  under a composite of its own, which is A times as cheap;
- reward: "shared", <v, g_a> of the composites that theta was trained with; or "each", <v, g_i> of single images with
  composites of their own, by one pass of forward mode with frozen batch-norm statistics.

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
from slackaug.engine.gpu.fast import Fast
from torch import Tensor
from torch.func import functional_call, jvp
from torch.nn.functional import cross_entropy

from slackaug import rng
from slackaug.augment import apply
from slackaug.augment.apply import Composites, Parameters
from slackaug.augment.policy import Policy
from slackaug.augment.stability import stability
from slackaug.auto.calibrate import Calibration, Trial
from slackaug.auto.stages import Learner
from slackaug.config import paper, presets
from slackaug.config.run_config import RunConfig
from slackaug.data import Batches, load
from slackaug.engine import hypergrad, ways
from slackaug.engine.state import Report, State
from slackaug.methods import budget, slack
from slackaug.methods.slack_config import SearchConfig

N_REWARDED = 1024  # images: as many as 8 shared composites see


class Variant(NamedTuple):
    divided: int = 1  # so many times as many composites, of so many times fewer images
    v_images: int = 1  # of v, in batches
    settings: dict[str, bool] = {}  # noqa: RUF012 - of SearchConfig; nobody changes it
    mixed: bool = False  # theta
    each: bool = False  # reward
    plain: bool = False  # the budget is spent along the gradient of the logits, not along the natural one


BASELINE = {"baseline": True}
TIED = {"baseline": True, "tied": True}
VARIANTS = {
    "as the paper": Variant(),
    "baseline": Variant(settings=BASELINE),
    "baseline, v of 8 batches": Variant(1, 8, BASELINE),
    "4 x composites, baseline": Variant(4, 1, BASELINE),
    "4 x composites, baseline, v of 8 batches": Variant(4, 8, BASELINE),
    "4 x composites, baseline, v of 8 batches, tied": Variant(4, 8, TIED),
    "4 x composites, baseline, v of 8 batches, tied, plain gradient": Variant(4, 8, TIED, plain=True),
    "8 x composites, baseline, v of 8 batches, tied": Variant(8, 8, TIED),
    "each rewarded, v of 8 batches, tied": Variant(1, 8, TIED, each=True),
    "mixed theta, each rewarded, v of 8 batches, tied": Variant(1, 8, TIED, mixed=True, each=True),
}


class Trying(Fast):
    """The fast engine with a variant's batches and rewards."""

    def __init__(self, variant: Variant, *arguments, **options):
        super().__init__(*arguments, **options)
        self.variant = variant
        self.reward_batches = Batches(len(self.train.labels), N_REWARDED, rng.generator(0, "rewards"))

    def draw_noise(self, state: State, config: SearchConfig, is_unrolled: bool) -> dict[str, Tensor]:
        drawn = super().draw_noise(state, config, is_unrolled)
        if self.variant.mixed:
            drawn |= self.own_composites("own", len(drawn["index"]), len(state.phi.pi))
        if self.variant.each and is_unrolled:
            index = self.reward_batches.next()
            drawn |= {"rewarded": index, **self.own_composites("rewarded", len(index), len(state.phi.pi))}
        return drawn

    def own_composites(self, name: str, n: int, k: int) -> dict[str, Tensor]:
        u, flip = apply.chance(n, k, self.streams["transform"], flip=self.flip)
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
        v = hypergrad.clip_each(v, engine.sizes, config.val_clip)
        tau, weight = engine.rewards(state.phi, v) if variant.each else (tau, hypergrad.alignment(v, g))
        weight = hypergrad.less_the_others(weight) if config.baseline else weight
        share = replace(config, n_composites=len(weight))
        grad_pi, grad_mu = slack.policy_gradient(state, share, tau, weight, engine.scheduled("eta", config.model_lr))
        if variant.plain:
            grad_pi = grad_pi / budget.natural(state.anchor, torch.ones_like(grad_pi))
        state = slack.spend_budget(
            state, engine.scheduled("kl", slack.kl_allowed(state.step, config)), grad_pi, grad_mu
        )
        report = report._replace(val_loss=val_loss, weight=weight)
    return state, report


def make_engine(variant: Variant, learner: Learner, search: SearchConfig) -> Trying:
    """With each kind of step tried, and taken back."""
    on_gpu = learner.train.images.is_cuda
    precision = ways.precision() if on_gpu else torch.float32
    streams = rng.streams(learner.config.seed, "search")
    arguments = learner.model, learner.phi, learner.train, learner.val, search.batch, streams, learner.preparation
    engine = Trying(variant, *arguments, val_batch=search.val_batch, precision=precision, compiled=on_gpu)
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


def as_the_paper(base: RunConfig) -> SearchConfig:
    """The preset's search without what it does against noise: what the variants start from."""
    return replace(base.search, n_composites=8, batch=base.pretrain.batch, val_batch=None, baseline=False, tied=False)


def settled(variant: Variant, search: SearchConfig) -> SearchConfig:
    """Each variant's step has the same number of training images."""
    return replace(
        search,
        n_composites=search.n_composites * variant.divided,
        batch=search.batch // variant.divided,
        val_batch=search.n_val * variant.v_images,
        **variant.settings,
    )


def detached(phi: Policy) -> Policy:
    return replace(phi, pi=phi.pi.detach().cpu().clone(), mu=phi.mu.detach().cpu().clone())


def policy_name(variant: str, seed: object) -> str:
    """Of its file."""
    return f"{variant.replace(', ', '_').replace(' ', '-')}.{seed}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--preset", default="fast", choices=["quick", "fast", "standard"])
    parser.add_argument("--model")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data = load(arguments.data)
    base = paper.rounds_alone(presets.preset(arguments.preset, data, arguments.model))
    start_search = as_the_paper(base)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        learner = Learner(replace(base, seed=seed), data, arguments.device)
        start = time.perf_counter()
        for _ in learner.pretrain():
            pass
        print(f"seed {seed}: pre-trained in {time.perf_counter() - start:.0f} s", flush=True)
        for name in arguments.variants:
            path = arguments.out / policy_name(name, seed)
            if path.exists():
                continue
            variant = VARIANTS[name]
            search = settled(variant, start_search)
            engine = make_engine(variant, learner, search)
            start = time.perf_counter()
            search, calibration = calibrated(engine, learner, search)
            policies = [detached(state.phi) for state in rounds(engine, learner, search)]
            engine.cold_start()
            policies[-1].save(path)
            print(f"  {name}: {time.perf_counter() - start:.0f} s, {calibration.describe()}", flush=True)
        report(arguments)


def report(arguments: argparse.Namespace) -> None:
    """Of all policies that there are."""
    found: dict[str, list[Policy]] = {}
    for name in VARIANTS:
        paths = sorted(arguments.out.glob(policy_name(name, "*")))
        if len(paths) > 1:
            found[name] = [Policy.load(path) for path in paths]
    everyone = [policy.probabilities.mean(0) for policies in found.values() for policy in policies]
    if not everyone:
        return
    consensus = torch.stack(everyone).mean(0)
    rows = {}
    for name, policies in found.items():
        mean = torch.stack([policy.probabilities.mean(0) for policy in policies]).mean(0)
        rows[name] = stability(policies)._asdict() | {
            "n": len(policies),
            "with the mean of all variants": torch.corrcoef(torch.stack([mean, consensus]))[0, 1].item(),
            "mean pi": dict(zip(policies[0].space.names, [round(p, 4) for p in mean.tolist()], strict=True)),
        }
    (arguments.out / "steadiness.json").write_text(json.dumps({"data": arguments.data, "variants": rows}, indent=1))
    print("| variant | searches | correlation of pi | without Invert, Solarize | of mu | with the mean of all |")
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        numbers = [row[key] for key in ("pi", "pi_rest", "mu", "with the mean of all variants")]
        cells = " | ".join("-" if value is None else f"{value:.2f}" for value in numbers)
        print(f"| {name} | {row['n']} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

"""The paper's tables of settings (App. B.4 and B.5), cell by cell, and every variant of the paper."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from slackaug import data
from slackaug.auto.resume import read_config
from slackaug.config import paper, presets
from slackaug.config.run_config import RaceConfig, RunConfig
from slackaug.data import Split
from slackaug.methods.budget import Budget, SearchConfig
from slackaug.methods.slack import Rate
from tiny import dataset

RESULTS = Path(__file__).parents[2] / "research" / "results"
# App. B.4: n_retrain, n_unrolled, batch, model_lr, policy_lr, kl_weight, weight decay, clip
# App. B.5: epochs, warm-up, batch, lr, weight decay
ROWS = {
    ("cifar10", "wrn-40-2"): (1000, 400, 128, 0.4, 1, 0.02, 2e-4, 5.0, 200, 0, 128, 0.1, 2e-4),
    ("cifar10", "wrn-28-10"): (1000, 400, 128, 0.4, 1, 0.02, 5e-4, 5.0, 200, 0, 128, 0.1, 5e-4),
    ("cifar100", "wrn-40-2"): (1000, 400, 128, 0.1, 1, 0.02, 5e-4, 5.0, 200, 0, 128, 0.1, 5e-4),
    ("cifar100", "wrn-28-10"): (1000, 400, 128, 0.1, 1, 0.02, 5e-4, 5.0, 200, 0, 128, 0.1, 5e-4),
    ("imagenet100", "resnet18"): (2000, 800, 256, 0.1, 0.5, 0.01, 1e-3, None, 270, 5, 256, 0.1, 1e-3),
    ("domainnet", "resnet18"): (1000, 400, 128, 0.1, 1, 0.01, 1e-3, 5.0, 200, 0, 128, 0.1, 1e-3),
    ("domainnet-painting", "resnet18"): (1200, 400, 128, 0.1, 0.8, 0.0125, 1e-3, 5.0, 200, 0, 128, 0.1, 1e-3),
    ("domainnet-sketch", "resnet18"): (1200, 400, 128, 0.1, 0.8, 0.0125, 1e-3, 5.0, 200, 0, 128, 0.1, 1e-3),
    ("domainnet-clipart", "resnet18"): (800, 400, 128, 0.1, 1, 0.01, 1e-3, 5.0, 200, 0, 128, 0.1, 1e-3),
    ("domainnet-infograph", "resnet18"): (800, 400, 128, 0.1, 0.625, 0.016, 1e-3, 5.0, 200, 0, 128, 0.1, 1e-3),
    ("domainnet-quickdraw", "resnet18"): (1000, 400, 128, 0.1, 1.25, 0.008, 1e-3, 5.0, 200, 0, 128, 0.1, 1e-3),
    ("domainnet-real", "resnet18"): (1000, 400, 128, 0.1, 0.8, 0.0125, 1e-3, 5.0, 200, 0, 128, 0.1, 1e-3),
}
SPACES = {"cifar10": "cifar", "cifar100": "cifar", "imagenet100": "imagenet"}  # else domainnet
# kl_weight times policy_lr, as the paper prints it
PRODUCTS = {"cifar10": 0.02, "cifar100": 0.02, "imagenet100": 0.005}  # else 0.01
each_row = pytest.mark.parametrize(("name", "model"), ROWS, ids="-".join)


@each_row
def test_the_tables_of_the_paper(name, model):
    config = paper.row(name, model)
    s = config.search
    found = (s.n_retrain, s.n_unrolled, s.batch, s.model_lr, s.policy_lr, s.kl_weight, s.weight_decay, s.clip)
    assert (config.model, config.space, config.preset) == (model, SPACES.get(name, "domainnet"), "paper")
    assert s.kl_weight * s.policy_lr == pytest.approx(PRODUCTS.get(name, 0.01))
    for fit, nesterov in ((config.evaluate, True), (config.pretrain, False)):
        cells = (fit.epochs, fit.warmup_epochs, fit.batch, fit.lr, fit.weight_decay)
        assert (*found, *cells) == ROWS[name, model]
        assert (fit.momentum, fit.clip, fit.nesterov) == (0.9, 5.0, nesterov)
    # what the text around the tables fixes for all rows
    assert (s.n_rounds, s.n_composites, s.momentum, s.mu_divisor) == (10, 8, 0.9, 40)
    assert (s.cold_start, s.learn_pi, s.learn_mu) == (True, True, True)
    assert (s.calibrate, s.kl_budget, s.val_batch) == (False, None, None)
    assert isinstance(s.rule, Rate)
    assert (config.exclude, config.flip, config.seed) == ((), None, 0)


def test_every_row_is_in_the_tables():
    assert {name for name, _ in ROWS} == paper.ROWS.keys()
    assert {(name, paper.row(name).model) for name in paper.ROWS} <= ROWS.keys()


# --- the variants -----------------------------------------------------------------------------------------------------

LONG = {"n_rounds": 1, "n_retrain": 0, "n_unrolled": 10_000}
VARIANTS = {
    "without-kl": {"kl_weight": 0.0, "policy_lr": 0.25, "mu_divisor": 10.0},
    "without-kl-0.5": {"kl_weight": 0.0, "policy_lr": 0.5, "mu_divisor": 10.0},
    "unrolled": LONG | {"policy_lr": 0.25, "kl_weight": 0.005},
    "unrolled-without-kl": LONG | {"policy_lr": 0.0625, "kl_weight": 0.0, "mu_divisor": 40.0},
    "unrolled-without-kl-0.25": LONG | {"policy_lr": 0.25, "kl_weight": 0.0, "mu_divisor": 10.0},
    "warm-start": {"cold_start": False, "model_lr": 0.8, "policy_lr": 0.5},
    "pi-only": {"learn_mu": False},
    "mu-only": {"learn_pi": False, "policy_lr": 0.025, "mu_divisor": 1.0},
    "ensembling": {"policy_lr": 4.0, "kl_weight": 0.005, "mu_divisor": 60.0},
}


@pytest.mark.parametrize("variant", paper.VARIANTS)
def test_variants_change_what_the_paper_says_and_nothing_else(variant):
    base = paper.row("cifar10")
    n_ranks = 4 if variant == "ensembling" else 1
    changed = replace(base.search, **VARIANTS[variant])
    assert paper.VARIANTS[variant](base) == replace(base, search=changed, n_ranks=n_ranks)


@pytest.mark.parametrize("variant", paper.VARIANTS)
@each_row
def test_variants_are_of_any_configuration(variant, name, model):
    base = paper.row(name, model)
    changed = paper.VARIANTS[variant](base)
    assert changed != base
    assert (changed.pretrain, changed.evaluate, changed.model) == (base.pretrain, base.evaluate, base.model)


# --- presets ----------------------------------------------------------------------------------------------------------


def test_paper_picks_the_row_of_the_data():
    cifar100 = paper.row("cifar100")
    assert presets.paper(dataset("torchvision:CIFAR10")) == paper.row("cifar10")
    assert presets.paper(dataset("torchvision:CIFAR100")) == presets.paper(dataset("own")) == cifar100
    large = presets.paper(dataset("own", size=80))
    assert large == paper.row("domainnet")
    assert (large.model, large.search.weight_decay, large.evaluate.weight_decay) == ("resnet18", 1e-3, 1e-3)
    assert (paper.paper_row(dataset("own", size=64)), paper.paper_row(dataset("own", size=65))) == (
        "cifar100",
        "domainnet",
    )


@pytest.mark.parametrize(
    ("name", "size", "space"),
    [("own", 32, "cifar"), ("own", 64, "cifar"), ("own", 65, "domainnet"), ("shapes:colour", 20, "domainnet")],
)
def test_the_space_is_by_the_size_of_the_images(name, size, space):
    small = dataset(name, 4, size)
    assert presets.quick(small).space == presets.paper(small).space == paper.default_space(small) == space


# Of so many training images: epochs before and after the rounds, and steps of a round. Few images have as many steps as
# four, to within an epoch, and many no more than a limit.
STEPS = {
    "quick": {40: (500, 500, 40, 60), 400: (84, 42, 40, 60), 1000: (34, 17, 75, 60), 5000: (28, 12, 80, 60),
              27_600: (12, 6, 80, 60), 100_000: (4, 2, 80, 60)},
    "standard": {40: (2000, 2000, 100, 100), 1000: (667, 286, 100, 100), 5000: (200, 200, 100, 100),
                 27_600: (200, 200, 535, 200), 100_000: (103, 103, 1000, 200)},
    "fast": {40: (1000, 1000, 60, 60), 1000: (334, 143, 60, 60), 5000: (60, 60, 95, 60), 27_600: (60, 38, 300, 150),
             100_000: (31, 11, 300, 150)},
}  # fmt: skip


@pytest.mark.parametrize(("name", "n"), [(name, n) for name in STEPS for n in STEPS[name]])
def test_what_tunes_itself_depends_on_the_number_of_images_alone(name, n):
    base = dataset(n=40, size=8)
    many = Split(base.train.images[:1].expand(n, -1, -1, -1), base.train.labels[:1].expand(n))
    config = presets.preset(name, replace(base, train=many))
    search = config.search
    assert (config.pretrain.epochs, config.evaluate.epochs, search.n_retrain, search.n_unrolled) == STEPS[name][n]
    assert (config.pretrain.nesterov, search.calibrate, search.cold_start) == (False, True, True)
    assert search.kl_budget == pytest.approx(0.4 / search.n_rounds**2)
    assert isinstance(search.rule, Budget)


def test_the_budget_of_ten_rounds_is_the_speed_of_the_paper_s_search():
    """0.0030 to 0.0056 nats a position and round, mean 0.0041; single positions 0.0015 to 0.0098."""
    found = json.loads((RESULTS / "cifar10_wrn-40-2_paper_0" / "rounds.json").read_text())
    pi = torch.tensor([one["pi"] for one in found["rounds"]], dtype=torch.float64)  # (10, K, N), of six digits
    before = torch.cat([torch.full_like(pi[:1], 1 / pi.shape[-1]), pi[:-1]])
    kl = (pi * (pi / before).log()).sum(-1)
    assert kl.mean(-1).tolist() == pytest.approx([one["kl"] for one in found["rounds"]], abs=5e-6)
    assert kl.mean().item() == pytest.approx(0.0041, abs=5e-5)
    assert (kl.amin().item(), kl.amax().item()) == pytest.approx((0.0015, 0.0098), abs=5e-5)
    assert presets.kl_budget(10) == pytest.approx(0.004)


def test_only_the_built_in_shapes_have_a_space_of_their_own():
    for name in ("shapes", "shapes_folder", "shapes.npz"):
        assert presets.quick(replace(dataset(size=8), name=name)).space == "cifar"
    assert presets.quick(data.load("shapes:colour")).space == presets.quick(data.load("shapes")).space == "domainnet"


def test_the_network_is_by_the_size_of_the_images():
    assert [presets.standard(dataset(size=size)).model for size in (64, 65)] == ["wrn-40-2", "resnet18"]
    assert presets.standard(dataset(size=65), "small").model == "small"


def test_presets_are_listed_and_an_unknown_one_is_not():
    small = dataset(n=4, size=8)
    assert list(presets.PRESETS) == ["quick", "standard", "fast", "paper", "demo"]
    assert all(presets.preset(name, small).preset == name for name in presets.PRESETS)
    with pytest.raises(ValueError, match="unknown preset 'quik'; did you mean 'quick'"):
        presets.preset("quik", small)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"space": "cifer"}, "unknown space 'cifer'; did you mean 'cifar'"),
        ({"model": ""}, "model: expected a name, such as small"),
        ({"n_ranks": 0}, "n_ranks must be at least 1, got 0"),
        ({"seed": -1}, "seed must not be negative, got -1"),
    ],
)
def test_run_config_refuses(wrong, says):
    with pytest.raises(ValueError, match=says):
        RunConfig(**{"preset": "quick", "model": "small", "space": "cifar"} | wrong)


def test_a_stored_configuration_without_ranks_is_of_one_process(tmp_path):
    (tmp_path / "config.yaml").write_text("preset: quick\nmodel: small\nspace: cifar\n")
    assert read_config(tmp_path).n_ranks == 1


def test_defaults_are_the_cifar10_row_and_plain_momentum_in_pre_training():
    config = RunConfig(preset="paper", model="wrn-40-2", space="cifar")
    assert config.search == SearchConfig() == paper.row("cifar10").search
    assert (config.pretrain.nesterov, config.evaluate.nesterov) == (False, True)


def test_the_default_is_what_proved_itself_on_such_a_machine(monkeypatch):
    for has_gpu, preset in ((False, "quick"), (True, "fast")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert presets.default_preset() == preset


@pytest.mark.parametrize("name", presets.PRESETS)
def test_trials_before_and_after_the_rounds_are_of_the_presets_that_tune_themselves(name):
    config = presets.preset(name, dataset(n=5000))
    assert config.n_composed == (3 if name in ("paper", "demo") else None)
    assert bool(config.race.candidates) == (name != "paper")
    assert config.fewest_composed == (3 if name in ("fast", "standard") else 1)
    assert paper.rounds_alone(config) == replace(config, n_composed=3, race=RaceConfig())


def test_long_trainings_race_variants_of_what_was_learned_for_six_trainings_more():
    races = {name: presets.preset(name, dataset()).race for name in ("quick", "standard", "fast")}
    for name, fewer in (("standard", races["quick"]), ("fast", replace(races["quick"], n_last=16))):
        assert races[name].n_trainings == fewer.n_trainings + 6
        more = [one for one in races[name].candidates if one not in fewer.candidates]
        assert len(more) == 6
        assert all(one.startswith("learned-") for one in more)

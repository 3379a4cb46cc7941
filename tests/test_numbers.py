"""Numbers at their limits: a loss, a gradient or logits that are none, and policies, batches and spaces at the edge."""

import json
import math
from dataclasses import replace

import pytest
import torch

import slackaug
import small_search
import tiny
from slackaug import models
from slackaug.augment.policy import MU_FILE_MIN, MU_MAX, MU_MIN, Policy, SmoothedUniform
from slackaug.augment.transforms import get_space
from slackaug.engine import ways
from slackaug.methods import budget

pytestmark = pytest.mark.usefixtures("quick_search")


# --- what is no number ------------------------------------------------------------------------------------------------


class BadGradient(torch.autograd.Function):
    """Nothing is wrong with what comes out, only with what goes back."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * math.nan


class Failing(torch.nn.Module):
    """A model of which passes in training fail, by their numbers."""

    def __init__(self, model, numbers, harm):
        super().__init__()
        self.model, self.numbers, self.harm, self.count = model, numbers, harm, 0

    def forward(self, images):
        logits = self.model(images)
        self.count += self.training
        return self.harm(logits) if self.training and self.count in self.numbers else logits


@pytest.fixture
def failing(monkeypatch):
    def fail(numbers, harm):
        build = models.build
        monkeypatch.setattr(models, "build", lambda *rest: Failing(build(*rest), numbers, harm))

    return fail


HARMS = {
    "nan logits": lambda logits: logits * math.nan,
    "one nan": lambda logits: logits + torch.tensor([math.nan] + [0.0] * (logits.shape[1] - 1)),
    "inf logits": lambda logits: logits + math.inf,
    "minus inf": lambda logits: logits - math.inf,
    "inf loss": lambda logits: 0 * logits + torch.tensor([3e38, -3e38, -3e38]),
    "nan gradient": BadGradient.apply,
}
N_PRETRAINING = 6  # passes: one a step; a step of a round has two, and an unrolled one a third
MOMENTS = {"pre-training": 3, "re-training": N_PRETRAINING + 3, "train": N_PRETRAINING + 7, "val": N_PRETRAINING + 9}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("harm", HARMS)
def test_what_is_no_number_ends_the_search_and_is_nowhere_saved(harm, moment, command, tiny_npz, tmp_path, failing):
    out = tmp_path / "run"
    failing(range(MOMENTS[moment], 1000), HARMS[harm])
    done = command(*tiny.arguments(tiny_npz, out))
    assert done.returncode == 1
    assert "the loss or the model is no longer a number (" in done.stderr
    assert "Try a lower rate, from the start: --overwrite --set " in done.stderr
    assert "Traceback" not in done.stderr
    for line in (out / "metrics.jsonl").read_text().splitlines() if (out / "metrics.jsonl").exists() else []:
        json.loads(line, parse_constant=pytest.fail)
    assert not (out / "policy.json").exists()


def test_a_single_bad_gradient_of_the_policy_is_found(command, tiny_npz, tmp_path, failing):
    """It leaves theta as it was, and makes phi nothing."""
    failing([MOMENTS["val"]], BadGradient.apply)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run"))
    assert (done.returncode, "is no longer a number (policy, round 1, step" in done.stderr) == (1, True)


def test_precision_has_the_range_of_float32(monkeypatch):
    """bf16 or float32, never fp16: nothing that is a number in one is too large for the other."""
    for is_supported in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda is_supported=is_supported, **_: is_supported)
        assert torch.finfo(ways.precision()).max > 1e38


# --- policies at the edge ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [MU_FILE_MIN, MU_MIN, MU_MAX])
def test_the_density_is_a_number_wherever_a_magnitude_can_be(mu):
    high = torch.full((2001,), mu, dtype=torch.float64, requires_grad=True)
    m = torch.linspace(-1, 2, 2001, dtype=torch.float64)  # ten deviations around
    log_prob = SmoothedUniform(high, 0.1).log_prob(m)
    (score,) = torch.autograd.grad(log_prob.sum(), high)
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(score).all()


def one_for_all(name):
    """A policy with everything on one transformation."""
    document = Policy.uniform("cifar").to_dict()
    place = document["transformations"].index(name)
    return Policy.from_dict(document | {"pi": [[float(n == place) for n in range(17)]] * 3})


def few(n_composed, *names):
    space = get_space("domainnet")
    return Policy.uniform(space.exclude(*{*space.names} - {*names}), n_composed=n_composed)


def with_bounds(mu):
    phi = Policy.uniform("cifar", n_composed=2)
    return replace(phi, mu=torch.full_like(phi.mu, mu))


EDGES = {
    **{f"mu {mu:g}": with_bounds(mu) for mu in (MU_MIN, MU_MAX)},
    **{name: one_for_all(name) for name in ("Identity", "Rotate", "Cutout")},
    "two transformations": few(1, "Rotate", "Identity"), "one": few(1, "Invert"), "16 times 2": few(16, "Hue", "Color"),
}  # fmt: skip


@pytest.mark.parametrize("way", [{"policy_lr": 1.0}, {"kl_budget": 0.01}], ids=["rate", "budget"])
@pytest.mark.parametrize("edge", EDGES)
def test_a_search_from_a_policy_at_the_edge(edge, way):
    phi = EDGES[edge]
    config = replace(small_search.CONFIG, n_rounds=1, n_retrain=1, n_unrolled=4, mu_divisor=0.01, **way)
    end = small_search.run(config, small_search.make(phi), phi)[-1]
    tensors = (end.phi.pi, end.phi.mu, end.theta_momentum, end.pi_momentum, end.mu_momentum)
    assert all(torch.isfinite(tensor).all() for tensor in tensors)
    assert ((end.phi.mu >= MU_MIN) & (end.phi.mu <= MU_MAX)).all()
    assert end.phi.pi.shape == phi.pi.shape
    assert Policy.from_dict(json.loads(end.phi.dumps())).space.names == phi.space.names
    if edge in phi.space.names:  # all of it: it stays so
        for policy in (phi, end.phi):
            tau = policy.sample(100, torch.Generator().manual_seed(0))
            assert (tau.op == phi.space.index(edge)).all()
            assert torch.isfinite(policy.log_prob(tau)).all()
        assert (phi.kl(phi).item(), phi.entropy().max().item()) == (0, pytest.approx(0, abs=1e-9))
        images = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        assert slackaug.SlackAugment(phi)(images).shape == images.shape


def test_a_budget_with_no_gradient_moves_nothing():
    phi = Policy.uniform("cifar")
    moved = budget.along(phi, torch.zeros_like(phi.pi), torch.zeros_like(phi.mu), torch.tensor(0.01))
    assert torch.isfinite(moved.pi).all()
    assert torch.equal(moved.probabilities, phi.probabilities)


# --- batches at the edge ----------------------------------------------------------------------------------------------


SMALL = {"pretrain__batch": 1, "search__batch": 1}


@pytest.mark.parametrize(
    "settings", [SMALL, dict.fromkeys(SMALL, 2), {"search__n_composites": 1}], ids=["one image", "two", "one composite"]
)
def test_batches_without_some_of_the_classes(settings, command, tiny_npz, tmp_path):
    """Of one image, whose class is the only one there, or of two, of three classes; and a step of one composite."""
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", pretrain__epochs=1, **settings))
    assert done.returncode == 0, done.stderr
    assert torch.isfinite(Policy.load(tmp_path / "run" / "policy.json").pi).all()


def test_a_batch_too_small_for_the_network_is_one_message(command, tiny_npz, tmp_path, monkeypatch):
    """At 8 x 8 pixels, ResNet-18 ends with maps of a single pixel. The first steps are those that measure the cost."""
    monkeypatch.undo()
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--model", "resnet18", **SMALL))
    says = ("give batches of at least 2", "pretrain.batch", "search.batch", "evaluate.batch")
    assert (done.returncode, [text for text in says if text not in done.stderr]) == (2, [])
    assert not (tmp_path / "run").exists()

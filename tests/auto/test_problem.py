"""What stages share: the images, which no test image is among, and the losses on those for validation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from searching import config_of, search_of
from slackaug.auto import problem as problems
from slackaug.auto.problem import N_IMAGES, Problem, mixed_batches, tempered_loss
from slackaug.data import Split, load

ON_AND_OFF = torch.tensor([-1.5, -0.5, 0.5, 1.5])[:, None].expand(4, 192) / 10


@pytest.fixture
def search(tiny_npz):
    return search_of(load(str(tiny_npz)))


def test_a_held_out_test_set_is_never_seen():
    digits = load("digits")
    problem = Problem(config_of(digits), digits)
    held_out = {image.numpy().tobytes() for image in digits.test.images}
    seen = [image.numpy().tobytes() for half in (problem.train, problem.val) for image in half.images]
    assert len(seen) == len(digits.train.labels)
    assert not held_out & set(seen)


# --- after a training -------------------------------------------------------------------------------------------------


@given(scale=st.floats(0.02, 50), seed=st.integers(0, 99))
def test_the_loss_does_not_depend_on_how_sure_a_network_is(scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits, labels = torch.randn(60, 4, generator=generator), torch.randint(4, (60,), generator=generator)
    logits[torch.arange(60), labels] += 1  # right more often than not, or the best scale would be none at all
    found = tempered_loss(logits, labels).item()
    assert tempered_loss(scale * logits, labels).item() == pytest.approx(found, rel=1e-6)
    tried = [cross_entropy(s * logits.double(), labels).item() for s in torch.logspace(-2, 2, 200).tolist()]
    assert found <= min(tried) + 1e-12
    assert found == pytest.approx(min(tried), rel=1e-3)


def test_the_loss_of_a_network_that_is_always_right_is_near_zero():
    labels = torch.arange(5)
    assert 0 <= tempered_loss(torch.eye(5), labels).item() < 1e-6


def test_the_loss_of_a_training_is_that_of_validation_images_as_they_are(search, monkeypatch):
    problem, fit, seen = search.problem, search.stage.fits[0], []
    fit.step()
    before = problem.weights()
    found = problem.tempered_loss(fit)
    problem.model.eval()
    with torch.no_grad():
        logits = problem.model(fit.normalise(problem.val.images))
    assert found == pytest.approx(tempered_loss(logits, problem.val.labels).item())
    assert all(torch.equal(value, problem.weights()[name]) for name, value in before.items())
    monkeypatch.setattr(problems, "N_IMAGES", 5)  # of many, some are looked at
    monkeypatch.setattr(problems, "tempered_loss", lambda _, labels: seen.append(len(labels)) or torch.tensor(1.0))
    problem.tempered_loss(fit)
    assert seen == [5]


# --- in a search, in train mode ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "batch", "n_batches"), [(700, 128, 5), (9_000, 128, 32), (50, 128, 1), (9_000, 5_000, 1)]
)
def test_validation_batches_mix_classes_that_come_one_after_the_other(n, batch, n_batches):
    batches = mixed_batches(n, batch, seed=0)
    size = min(n, batch, N_IMAGES)
    assert [len(index) for index in batches] == [size] * n_batches
    assert len(torch.cat(batches).unique()) == size * n_batches
    classes = torch.arange(n) * 7 // n
    assert all(len(classes[index].unique()) == 7 for index in batches)


def test_the_validation_loss_of_a_folder_in_order_is_that_of_the_folder_mixed(search):
    """A model that tells classes by what batch-norm takes away where a batch has only one."""
    problem, labels = search.problem, torch.arange(512) // 128
    images = (labels * 60 + 30).to(torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8).contiguous()
    problem.model = torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.Flatten(), torch.nn.Linear(192, 4))
    with torch.no_grad():
        problem.model[2].weight.copy_(ON_AND_OFF)
        problem.model[2].bias.copy_(torch.tensor([-20.0, 0.0, 0.0, -20.0]))
    _, passes = problem.make_search(problem.start()._replace(theta_0=problem.weights()))
    for order in (torch.arange(512), torch.randperm(512, generator=torch.Generator().manual_seed(0))):
        problem.val = Split(images[order], labels[order])
        assert problem.val_loss(passes) == pytest.approx(0, abs=0.1)


def test_the_validation_loss_is_that_of_the_images_as_they_are_and_leaves_no_trace(search):
    problem = search.problem
    chance, passes = problem.make_search(problem.start()._replace(theta_0=problem.weights()))
    before, streams = problem.weights(), chance.get_state()["streams"]
    found = problem.val_loss(passes)
    assert found == problem.val_loss(passes)
    assert all(torch.equal(value, before[name]) for name, value in problem.weights().items())
    assert all(torch.equal(streams[name], value) for name, value in chance.get_state()["streams"].items())
    images, labels = problem.val.images, problem.val.labels
    problem.model.train()
    losses = [
        cross_entropy(problem.model(passes.normalise(images[i])), labels[i])
        for i in mixed_batches(len(labels), problem.config.search.n_val, 0)
    ]
    assert found == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)

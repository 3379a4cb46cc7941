"""One pass over groups against one pass for each group, in float64."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from slackaug import models
from slackaug.engine import passes as plain
from slackaug.engine.gpu import groupable, grouped

A, B, SIZE = 3, 5, 12


def passes(model: nn.Module, images: torch.Tensor, labels: torch.Tensor):
    """One after the other: gradients (A, P), losses (A,)."""
    model.train()
    losses = [cross_entropy(model(part), labels) for part in images.split(len(labels))]
    return torch.stack([plain.gradient(loss, model) for loss in losses]), torch.stack(losses).detach()


def one_pass(model: nn.Module, images: torch.Tensor, labels: torch.Tensor):
    model.train()
    n = len(images) // len(labels)
    whole = grouped.Grouped(model, plain.flatten_(model), images.dtype)
    whole.prepare(n)
    parameters = whole.parameters(n)
    with grouped.swapped(whole.layers):
        losses = whole.losses(parameters, images, labels)
        return whole.gradients(losses, parameters), losses.detach()


@pytest.mark.parametrize("name", ["wrn-16-1", "resnet18", "small"])
def test_gradients_losses_and_statistics_are_those_of_single_passes(name, generator):
    model = models.build(name, 4, (SIZE, SIZE), generator).double()
    images = torch.randn(A * B, 3, SIZE, SIZE, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (B,), generator=generator)
    twin = copy.deepcopy(model)
    expected, expected_losses = passes(twin, images, labels)
    g, losses = one_pass(model, images, labels)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-12, atol=0)
    assert (g - expected).norm() <= 1e-10 * expected.norm()
    for (name_, value), other in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(value, other, rtol=1e-6, atol=1e-9, msg=name_)  # torch keeps 1 - momentum in float32
    assert int(model.state_dict()[next(n for n in model.state_dict() if "tracked" in n)]) == A


def test_gradients_in_a_lower_precision_arrive_in_that_of_theta(generator):
    """resnet18 has convolutions of 64 to 512 channels: the wide ones' gradients come as they are found."""
    model = models.build("resnet18", 4, (SIZE, SIZE), generator)
    images = torch.randn(A * B, 3, SIZE, SIZE, generator=generator).bfloat16()
    labels = torch.randint(4, (B,), generator=generator)
    whole = grouped.Grouped(model.train(), plain.flatten_(model), torch.bfloat16)
    found = []
    for all_alike in (False, True):
        whole.prepare(A)
        if all_alike:
            whole.lowered = {}
        parameters = whole.parameters(A)
        assert parameters["blocks.0.conv1.weight"].dtype is torch.float32
        assert parameters["blocks.7.conv1.weight"].dtype is (torch.float32 if all_alike else torch.bfloat16)
        with grouped.swapped(whole.layers):
            found.append(whole.gradients(whole.losses(parameters, images, labels), parameters))
    assert found[0].dtype is torch.float32
    assert torch.equal(*found)


def test_frozen_parameters_have_no_gradient(generator):
    model = models.build("small", 4, (SIZE, SIZE), generator)
    next(model.parameters()).requires_grad_(False)
    images, labels = torch.randn(A * B, 3, SIZE, SIZE, generator=generator), torch.arange(B) % 4
    expected, _ = passes(copy.deepcopy(model), images, labels)
    torch.testing.assert_close(one_pass(model, images, labels)[0], expected, rtol=1e-3, atol=1e-5)


def test_classes_come_back_even_after_an_error(generator):
    model = models.build("small", 4, (SIZE, SIZE), generator)
    before = [type(module) for module in model.modules()]
    with pytest.raises(RuntimeError, match="size"):
        one_pass(model, torch.zeros(A * B, 5, SIZE, SIZE), torch.arange(B) % 4)  # five channels
    assert [type(module) for module in model.modules()] == before


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.Conv2d(3, 4, 3, bias=False), True),
        (nn.Conv2d(3, 4, 3, padding="same"), False),
        (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), False),
        (nn.BatchNorm2d(3), True),
        (nn.BatchNorm2d(3, affine=False, track_running_stats=False), True),
        (nn.BatchNorm2d(3, momentum=None), False),
        (nn.BatchNorm1d(3), False),
        (nn.BatchNorm2d(3).eval(), False),
        (nn.InstanceNorm2d(3), True),
        (nn.InstanceNorm2d(3, track_running_stats=True), False),
        (nn.GroupNorm(1, 3), False),
        (nn.ReLU(), True),
    ],
    ids=str,
)
def test_only_known_layers_are_grouped(layer, expected):
    assert groupable.is_groupable(nn.Sequential(layer, nn.Flatten(), nn.Linear(4, 2))) == expected


def test_a_batch_norm_without_parameters_and_statistics(generator):
    model = nn.Sequential(nn.BatchNorm2d(3, affine=False, track_running_stats=False), nn.Flatten(), nn.Linear(12, 4))
    images, labels = torch.randn(A * B, 3, 2, 2, generator=generator), torch.arange(B) % 4
    expected, _ = passes(copy.deepcopy(model), images, labels)
    torch.testing.assert_close(one_pass(model, images, labels)[0], expected)


class Tokens(nn.Module):
    """Applies a linear layer at every place of an image."""

    def __init__(self):
        super().__init__()
        self.stem, self.each, self.head = nn.Conv2d(3, 6, 3), nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, x):
        x = self.stem(x).flatten(2).mT  # (B, places, 6)
        return self.head(self.each(x).relu().mean(1))


@pytest.mark.parametrize(("n_groups", "n_images"), [(3, 5), (4, 4), (1, 5)])
def test_a_linear_layer_at_many_places(n_groups, n_images, generator):
    """As many images as groups are the case in which a wrong product would have the right shape."""
    model = Tokens().double()
    images = torch.randn(n_groups * n_images, 3, 6, 6, generator=generator, dtype=torch.float64)
    labels = torch.arange(n_images) % 4
    expected, _ = passes(copy.deepcopy(model), images, labels)
    torch.testing.assert_close(one_pass(model, images, labels)[0], expected)

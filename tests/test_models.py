import sys

import pytest
import torch
from torch import nn

from pictures import inject
from slackaug import models, rng


def n_parameters(model):
    return sum(p.numel() for p in model.parameters())


def on_meta(name, n_classes=10, longest=32):
    with torch.device("meta"):
        return models.MODELS[name](n_classes, longest)


@pytest.mark.parametrize("name", [name for name in models.MODELS if name != "wrn-28-10"])  # 36 million: shapes only
@pytest.mark.parametrize("size", [(16, 16), (33, 20)])
def test_contract(name, size):
    before = torch.get_rng_state()
    model, again, other = (models.build(name, 7, size, rng.generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    assert not torch.equal(next(model.parameters()), next(other.parameters()))
    assert model.training
    logits = model(torch.randn(3, 3, *size, generator=rng.generator(0)))
    assert logits.shape == (3, 7)
    assert logits.isfinite().all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("wrn-40-2", 2_246_474), ("wrn-28-10", 36_489_290), ("resnet18", 11_173_962), ("small", 61_338)],
)
def test_sizes_are_the_known_ones(name, expected):
    """The wide networks have 2.24 and 36.5 million; a bias for each of their convolutions is included."""
    assert n_parameters(on_meta(name)) == expected


def test_resnet18_has_the_usual_stem_for_large_images():
    large = on_meta("resnet18", 1000, 224)
    assert n_parameters(large) == 11_689_512  # torchvision's
    assert models.flops(large, (224, 224)) == pytest.approx(2 * 1.814e9, rel=0.01)  # torchvision states 1.814 GMAC
    assert on_meta("resnet18", 10, 64).stem.kernel_size == (3, 3)


def test_flops_count_convolutions_and_the_head():
    at_16 = models.flops(on_meta("small"), (16, 16))
    macs = 16 * 16 * 27 * 16 + 8 * 8 * 9 * (16 * 32 + 32 * 64) + 4 * 4 * 9 * 64 * 64 + 64 * 10
    assert at_16 == 2 * macs
    assert models.flops(on_meta("small", 10, 224), (224, 224)) < 10 * at_16  # large images are reduced first


@pytest.mark.parametrize("layer", [nn.Conv2d(5, 64, 3), nn.Linear(50, 64)])
def test_initial_values_have_pytorchs_default_distribution(layer):
    """Uniform on +-1/sqrt(fan_in); 64 draws all miss the last tenth with probability 0.001, and the seed is fixed."""
    fan_in = layer.weight[0].numel()
    models.initialise(layer, rng.generator(0))
    for values in (layer.weight, layer.bias):
        assert values.abs().max() <= fan_in**-0.5
        assert values.abs().max() > 0.9 * fan_in**-0.5
        assert abs(values.mean()) < 0.25 * fan_in**-0.5


def test_wrn_follows_the_protocol():
    wide = models.build("wrn-10-1", 3, (8, 8), rng.generator(0))
    first, second = wide.blocks[0], wide.blocks[1]
    assert first.conv1.bias is not None
    assert isinstance(first.shortcut, nn.Identity)
    assert (second.conv1.stride, second.conv2.stride, second.shortcut.stride) == ((1, 1), (2, 2), (2, 2))
    assert second.norm1.momentum == 0.1
    assert not any(isinstance(module, nn.Dropout) for module in wide.modules())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrn-41-2", "6 n \\+ 4"),
        ("wrn-40-0", "22, 28, 40, ...\\), the width positive"),
        ("smal", "did you mean 'small'"),
        ("resnet50", "ours are small, resnet18, .*in timm: --model timm:resnet50"),
        ("timm:", "timm is not installed; pip install timm$"),
        ("torchvision:resnet18", "torchvision is not installed"),
        ("no_such_module:Net", "no module 'no_such_module'"),
        ("mine:not a name", "expected module:callable"),
        ("mine:text", "expected a torch.nn.Module, got str"),
        ("mine:wrong", r"expected logits \(B, 4\) for B images, got \(2, 5\)"),
        ("mine:picky", "on images of 16 x 8 pixels: failed with RuntimeError"),
    ],
)
def test_refuses(name, message, monkeypatch, mine):
    for package in ("timm", "torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=message):
        models.build(name, 4, (8, 16), rng.generator(0))


def flat(n_classes, n_values=3 * 8 * 16):
    return nn.Sequential(nn.Flatten(), nn.Linear(n_values, n_classes))


def lazy(n_classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(n_classes))


@pytest.fixture
def mine(monkeypatch):
    functions = {"wrong": lambda n: flat(n + 1), "picky": lambda n: flat(n, 100)}
    inject(monkeypatch, "mine", net=flat, lazy=lazy, text=str, **functions)


@pytest.mark.parametrize("name", ["mine:net", "mine:lazy", "timm:flat", "torchvision:flat"])
def test_foreign_models_draw_from_the_generator_and_leave_the_global_stream_alone(name, monkeypatch, mine):
    def construct(name, num_classes, **options):
        assert (name, options) in (("flat", {"pretrained": False}), ("flat", {"weights": None}))
        return flat(num_classes)

    inject(monkeypatch, "timm", create_model=construct)
    inject(monkeypatch, "torchvision")
    inject(monkeypatch, "torchvision.models", get_model=construct)
    before = torch.get_rng_state()
    first, again, other = (models.build(name, 4, (8, 16), rng.generator(seed))[1].weight for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first, again)
    assert not torch.equal(first, other)

"""The networks. Batch-norm everywhere, images (B, 3, H, W) float in, logits (B, classes) out."""

import math
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from . import foreign

SMALL_STEM = 64  # pixels: up to here, ResNet-18 keeps the full resolution in its first stage
NEAR = 0.8  # how alike two names are that are taken for one another: resnet18 and resnet50 are not
SMALL_GRID = 32  # pixels: the side of the small net's first feature map is at most about this


def conv3x3(n_in: int, n_out: int, stride: int = 1, *, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=bias)


class NormReLU(nn.BatchNorm2d):
    """Batch-norm and then ReLU, as one layer, so that a GPU can do both at once."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(super().forward(x))


class WideBlock(nn.Module):
    """Pre-activation; the stride is the second convolution's; the shortcut takes the input as it comes."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = NormReLU(n_in)
        self.conv1 = conv3x3(n_in, n_out, bias=True)
        self.norm2 = NormReLU(n_out)
        self.conv2 = conv3x3(n_out, n_out, stride, bias=True)
        same = stride == 1 and n_in == n_out
        self.shortcut = nn.Identity() if same else nn.Conv2d(n_in, n_out, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(self.norm1(x))
        out = self.conv2(self.norm2(out))
        total: Tensor = out + self.shortcut(x)
        return total


class WideResNet(nn.Module):
    """WRN-depth-width (Zagoruyko and Komodakis, 2016) as TrivialAugment's protocol has it: biases, no dropout."""

    def __init__(self, depth: int, width: int, n_classes: int) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6 or width < 1:
            raise ValueError(
                f"wrn-{depth}-{width}: the depth must be 6 n + 4 (10, 16, 22, 28, 40, ...), the width positive"
            )
        n_blocks = (depth - 4) // 6
        self.stem = conv3x3(3, 16, bias=True)
        blocks, n_in = [], 16
        for n_out, stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
            for i in range(n_blocks):
                blocks.append(WideBlock(n_in, n_out, stride if i == 0 else 1))
                n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.norm = NormReLU(n_in)
        self.head = nn.Linear(n_in, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.blocks(self.stem(x))).mean((2, 3)))
        return logits


class BasicBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = conv3x3(n_in, n_out, stride), NormReLU(n_out)
        self.conv2, self.norm2 = conv3x3(n_out, n_out), nn.BatchNorm2d(n_out)
        project = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out))
        self.shortcut = nn.Identity() if stride == 1 and n_in == n_out else project

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm1(self.conv1(x))
        out = self.norm2(self.conv2(out))
        return functional.relu(out + self.shortcut(x))


class ResNet18(nn.Module):
    """He et al., 2016; for small images the first layer is a 3 x 3 convolution of stride 1, without pooling."""

    def __init__(self, n_classes: int, small_stem: bool) -> None:
        super().__init__()
        self.small_stem = small_stem
        self.stem = conv3x3(3, 64) if small_stem else nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm = NormReLU(64)
        sizes = (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)
        self.blocks = nn.Sequential(*(BasicBlock(*size) for size in (*sizes, (256, 512, 2), (512, 512, 1))))
        self.head = nn.Linear(512, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x))
        if not self.small_stem:
            x = functional.max_pool2d(x, 3, stride=2, padding=1)
        logits: Tensor = self.head(self.blocks(x).mean((2, 3)))
        return logits


class SmallNet(nn.Module):
    """Four convolutions for a laptop: 2 million multiplications at 16 pixels, 9 at 32 and 64, 19 at 224."""

    def __init__(self, n_classes: int, longest: int) -> None:
        super().__init__()
        reduce = max(1, round(longest / SMALL_GRID))  # large images are reduced by the first layer
        stem = nn.Conv2d(3, 16, 2 * reduce + 1, stride=reduce, padding=reduce, bias=False)
        convolutions = stem, conv3x3(16, 32, 2), conv3x3(32, 64), conv3x3(64, 64, 2)
        self.layers = nn.Sequential(
            *(layer for conv in convolutions for layer in (conv, nn.BatchNorm2d(conv.out_channels), nn.ReLU()))
        )
        self.head = nn.Linear(64, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(x).mean((2, 3)))
        return logits


# name -> constructor(n_classes, longest side of the images in pixels); any other wrn-D-K is known too
MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "small": SmallNet,
    "resnet18": lambda n_classes, longest: ResNet18(n_classes, small_stem=longest <= SMALL_STEM),
    "wrn-40-2": lambda n_classes, longest: WideResNet(40, 2, n_classes),
    "wrn-28-10": lambda n_classes, longest: WideResNet(28, 10, n_classes),
}


def build(name: str, n_classes: int, image_size: tuple[int, int], generator: Generator) -> nn.Module:
    """A network with fresh parameters out of the generator.

    The name is one of MODELS, `wrn-D-K`, `timm:NAME`, `torchvision:NAME` or `module:callable`, which is called with the
    number of classes.
    """
    wide = re.fullmatch(r"wrn-(\d{1,3})-(\d{1,3})", name)
    if name in MODELS or wide:
        with torch.device("meta"):  # shapes only: nothing is drawn from the global stream
            depth, width = map(int, wide.groups()) if wide else (0, 0)
            model = WideResNet(depth, width, n_classes) if wide else MODELS[name](n_classes, max(image_size))
        model = model.to_empty(device="cpu")
        initialise(model, generator)
        return model
    if ":" not in name:
        raise unknown(name)
    return build_foreign(name, n_classes, image_size, generator)


def unknown(name: str) -> ValueError:
    if near := get_close_matches(name, MODELS, n=1, cutoff=NEAR):
        return ValueError(f"unknown model {name!r}; did you mean {near[0]!r}?")
    return ValueError(
        f"unknown model {name!r}; ours are {', '.join(MODELS)} and wrn-D-K. For the network of that name in timm: "
        f"--model timm:{name}; in torchvision: --model torchvision:{name}"
    )


def initialise(model: nn.Module, generator: Generator) -> None:
    """PyTorch's default rules with an explicit generator; ResNet-18's convolutions as torchvision does."""
    done = 0
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()  # ones and zeros, buffers too
        elif isinstance(module, nn.Conv2d) and isinstance(model, ResNet18):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        else:
            continue
        done += sum(1 for _ in module.parameters(recurse=False))
    assert done == len(list(model.parameters())), "a layer without a rule for its initial values"


def build_foreign(name: str, n_classes: int, image_size: tuple[int, int], generator: Generator) -> nn.Module:
    """Code that is not ours draws from torch's global CPU stream: lend it a seeded one, then restore it."""
    scheme, _, rest = name.partition(":")
    if scheme == "timm":
        construct = partial(foreign.extra("timm").create_model, rest, pretrained=False, num_classes=n_classes)
    elif scheme == "torchvision":
        get_model = foreign.extra("torchvision.models").get_model
        construct = partial(get_model, rest, weights=None, num_classes=n_classes)
    else:
        construct = partial(foreign.resolve(name), n_classes)
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(Generator().manual_seed(seed).get_state())
        model = foreign.call(name, construct)
        if not isinstance(model, nn.Module):
            raise ValueError(f"{name}: expected a torch.nn.Module, got {type(model).__name__}")
        check_output(model, name, n_classes, image_size)  # lazy layers draw their values here
    return model


def check_output(model: nn.Module, name: str, n_classes: int, image_size: tuple[int, int]) -> None:
    """One pass in evaluation mode, so that a model that does not fit the images is refused before any work."""
    training, what = model.training, f"{name} on images of {image_size[1]} x {image_size[0]} pixels"
    with torch.no_grad():
        logits = foreign.call(what, lambda: model.eval()(torch.zeros(2, 3, *image_size)))
    model.train(training)
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if shape != (2, n_classes):
        raise ValueError(f"{name}: expected logits (B, {n_classes}) for B images, got {shape} for 2")


def flops(model: nn.Module, image_size: tuple[int, int]) -> int:
    """Floating-point operations of one forward pass of one image; a multiplication and its addition are two."""
    training = model.training
    device = next(model.parameters()).device
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.eval()(torch.zeros(1, 3, *image_size, device=device))
    model.train(training)
    return int(counter.get_total_flops())

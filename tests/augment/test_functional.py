"""Every batched kernel against Pillow, pixel for pixel."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

import oracles
from slackaug.augment import hue, pil
from slackaug.augment.transforms import TRANSFORMS

SIZES = st.integers(1, 64) | st.sampled_from([1, 2, 3, 4, 32, 64])
MAGNITUDES = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
KINDS = ("random", "constant", "saturated", "few levels", "ramp", "one bright pixel")
FILL = (125, 200, 3)


def make_images(kind: str, shape: tuple[int, ...], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(0, 256, shape, generator=generator)
    made = {
        "random": lambda: noise,
        "constant": lambda: noise[..., :1, :1].expand(shape),
        "saturated": lambda: (noise > 127) * 255,
        "few levels": lambda: noise // 64 * 60 + noise[0, 0, 0, 0] // 4,
        "ramp": lambda: (torch.arange(noise.numel()) // 3).view(shape) % 256,
        "one bright pixel": lambda: torch.zeros(shape).index_fill(3, torch.tensor(shape[3] // 2), 255),
    }[kind]()
    return made.to(torch.uint8).contiguous()


@st.composite
def batches(draw: st.DrawFn, n: int = 3) -> Tensor:
    """n images, grey or RGB, 1 x 1 to 64 x 64."""
    shape = (n, draw(st.sampled_from([1, 3])), draw(SIZES), draw(SIZES))
    return make_images(draw(st.sampled_from(KINDS)), shape, draw(st.integers(0, 2**32 - 1)))


def arguments(name: str, images: Tensor, magnitudes: list[float], u: list[list[float]]) -> list:
    return [oracles.argument(name, m, v, *images.shape[2:]) for m, v in zip(magnitudes, u, strict=True)]


def kernel(name: str, images: Tensor, argument: list) -> Tensor:
    transform = TRANSFORMS[name]
    assert transform.kernel is not None
    dtype = torch.float64 if transform.window is None else torch.int32
    return transform.kernel(images, torch.tensor(argument, dtype=dtype), *extra(name, images))


def pillow(name: str, images: Tensor, argument: list) -> Tensor:
    pairs = zip(images, argument, strict=True)
    colour = (FILL,) if name == "Cutout" else ()
    return torch.stack([oracles.to_pixels(oracles.PIXELS[name](oracles.to_pil(i), v, *colour)) for i, v in pairs])


def extra(name: str, images: Tensor) -> tuple[tuple[int, ...], ...]:
    if name != "Cutout":
        return ()
    return (FILL,) if images.shape[1] == 3 else ((oracles.colour(oracles.to_pil(images[0]), FILL),),)


@pytest.mark.parametrize("name", TRANSFORMS)
@given(
    images=batches(),
    magnitudes=st.lists(MAGNITUDES, min_size=3, max_size=3),
    u=st.lists(st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4), min_size=3, max_size=3),
)
@settings(max_examples=60)
def test_equals_pillow(name, images, magnitudes, u):
    before = images.clone()
    argument = arguments(name, images, magnitudes, u)
    out = kernel(name, images, argument)
    assert (out.shape, out.dtype) == (images.shape, torch.uint8)
    assert torch.equal(out, pillow(name, images, argument))
    assert torch.equal(images, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_equals_pillow_at_both_ends(name, kind):
    """Magnitudes 0 and 1 in both directions, on images where a border or a rounding shows, and on large ones."""
    large = [(3, 224, 225)] if kind == "random" else []
    for channels, height, width in ((3, 33, 32), (1, 5, 8), (3, 3, 3), *large):
        images = make_images(kind, (4, channels, height, width), seed=height)
        u = [[direction, 0.3, 0.9, 0.6] for direction in (0.0, 0.0, 0.5, 0.5)]
        argument = arguments(name, images, [0.0, 1.0, 0.0, 1.0], u)
        assert torch.equal(kernel(name, images, argument), pillow(name, images, argument))


@pytest.mark.parametrize("name", [name for name, t in TRANSFORMS.items() if t.span and t.window is None])
@given(data=st.data())
@settings(max_examples=30)
def test_equals_pillow_up_to_the_limits(name, data):
    """`rerange` allows any strength within a transformation's limits."""
    low, high = TRANSFORMS[name].limits
    value = [data.draw(st.sampled_from([low, high]) | st.floats(low, high)) for _ in range(3)]
    images = data.draw(batches())
    assert torch.equal(kernel(name, images, value), pillow(name, images, value))


BOXED = [name for name, t in TRANSFORMS.items() if t.window is not None]


@pytest.mark.parametrize("name", BOXED)
@given(data=st.data())
@settings(max_examples=30)
def test_boxes_equal_pillow_wherever_they_lie(name, data):
    images = data.draw(batches(n=1))
    height, width = images.shape[2:]
    if name == "RandomResizeCrop":  # inside
        box_width, box_height = data.draw(st.integers(1, width)), data.draw(st.integers(1, height))
        left, top = data.draw(st.integers(0, width - box_width)), data.draw(st.integers(0, height - box_height))
    else:  # anywhere, and for a crop of the image's size
        box_width, box_height = (width, height) if name == "RandomCrop" else (data.draw(st.integers(0, 90)),) * 2
        left, top = data.draw(st.integers(-100, 100)), data.draw(st.integers(-100, 100))
    boxes = [(left, top, box_width, box_height)]
    assert torch.equal(kernel(name, images, boxes), pillow(name, images, boxes))


@pytest.mark.parametrize("name", ["RandomResizeCrop", "Hue"])
def test_a_thousand_fixed_cases(name):
    """The two kernels that a trial could not make exact."""
    generator = torch.Generator().manual_seed(0)
    for i in range(20):
        height, width = [(32, 32), (64, 64), *torch.randint(1, 65, (18, 2), generator=generator).tolist()][i]
        images = make_images("random" if i % 4 else "few levels", (50, 3, height, width), seed=i)
        magnitudes, u = torch.rand(50, generator=generator), torch.rand(50, 4, generator=generator, dtype=torch.float64)
        argument = arguments(name, images, magnitudes.tolist(), u.tolist())
        assert torch.equal(kernel(name, images, argument), pillow(name, images, argument))


def test_hue_is_exact_for_every_colour():
    """All 256 levels of two channels against 16 of the third, at a turn for each image."""
    levels = torch.arange(256, dtype=torch.uint8)
    third = torch.arange(0, 256, 17, dtype=torch.uint8)
    planes = (levels.view(1, 256, 1), levels.view(1, 1, 256), third.view(16, 1, 1))
    images = torch.stack([plane.expand(16, 256, 256) for plane in planes], 1)
    turns = torch.linspace(-0.5, 0.5, 16, dtype=torch.float64).tolist()
    assert torch.equal(kernel("Hue", images, turns), pillow("Hue", images, turns))


@pytest.mark.slow
def test_all_colours_to_hsv_and_back():
    """Every one of the 2^24 colours and of the 2^24 triples of hue, saturation and lightness, as Pillow converts it."""
    number = torch.arange(1 << 24, dtype=torch.int32)
    triples = torch.stack((number >> 16, number >> 8 & 255, number & 255)).to(torch.uint8).view(1, 3, 4096, 4096)
    picture = pil.from_tensor(triples[0])
    assert torch.equal(torch.stack(hue.hsv(triples), 1)[0], pil.to_tensor(picture.convert("HSV")).int())
    hsv = Image.frombytes("HSV", picture.size, picture.tobytes())
    assert torch.equal(hue.rgb(*triples.int().unbind(1))[0], pil.to_tensor(hsv.convert("RGB")))

"""What becomes of a stored image, against Pillow's crop, expand and resize."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

import oracles
from slackaug import rng
from slackaug.augment import prepare, resize
from slackaug.augment.prepare import AS_STORED


def pictures(n: int, height: int, width: int) -> Tensor:
    """Smooth and rough ones, with black and white in them."""
    noise = torch.randint(0, 256, (n, 3, height, width), generator=rng.generator(0, "noise"), dtype=torch.uint8)
    ramp = torch.linspace(0, 255, width).expand(n, 3, height, -1).to(torch.uint8)
    blocks = (noise > 127).to(torch.uint8) * 255
    kind = torch.arange(n).view(-1, 1, 1, 1) % 3
    return torch.where(kind == 0, noise, torch.where(kind == 1, ramp, blocks))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def crop(image: Tensor, left: int, top: int, height: int, width: int) -> Tensor:
    """By Pillow, which pads with black."""
    return oracles.to_pixels(oracles.to_pil(image).crop((left, top, left + width, top + height)))


# --- as stored, and windows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preparation", [AS_STORED, prepare.window((32, 24))], ids=["as stored", "no margin"])
def test_nothing_to_do_draws_nothing(preparation):
    images, stream = pictures(3, 32, 24), generator()
    before = stream.get_state()
    assert preparation.train(images, stream) is images
    assert torch.equal(stream.get_state(), before)


@pytest.mark.parametrize(
    ("preparation", "size", "pads"),
    [(prepare.window((32, 30)), (32, 30), (0, 0)), (prepare.padded_window((28, 20)), (28, 20), (4, 2))],
    ids=["window", "padded"],
)
def test_every_window_of_the_image_is_equally_likely_and_black_outside(preparation, size, pads):
    """28 / 8 and 20 / 8 are half-way, and rounded to even."""
    stored = (37, 36)
    images = pictures(12, *stored)
    out, u = preparation.train(images, generator()), rng.uniform((2, 12), generator())
    for image, result, *drawn in zip(images, out, *u.tolist(), strict=True):
        n_offsets = [have - seen + 2 * pad + 1 for have, seen, pad in zip(stored, size, pads, strict=True)]
        top, left = (int(u * n) - pad for u, n, pad in zip(drawn, n_offsets, pads, strict=True))
        assert torch.equal(result, crop(image, left, top, *size))


@pytest.mark.parametrize(
    "preparation",
    [prepare.window((20, 20)), prepare.padded_window((20, 20)), prepare.resize_crop((20, 20), 0.08, margin=None)],
    ids=["window", "padded", "resize crop"],
)
def test_contract(preparation):
    images = pictures(5, 24, 24)
    before = images.clone()
    out = preparation.train(images, generator())
    assert (out.shape, out.dtype) == ((5, 3, 20, 20), torch.uint8)
    assert torch.equal(images, before)
    assert torch.equal(out, preparation.train(images, generator()))
    assert not torch.equal(out, preparation.train(images, generator(1)))


# --- RandomResizeCrop -------------------------------------------------------------------------------------------------


def resized(image: Tensor, box: list[int], height: int, width: int) -> Tensor:
    """The width first, then the height: one call for both does so in Pillow before 13, and in 13 not always."""
    left, top, box_width, box_height = box
    part = oracles.to_pil(crop(image, left, top, box_height, box_width))
    wide = part.resize((width, box_height), Image.Resampling.BICUBIC)
    return oracles.to_pixels(wide.resize((width, height), Image.Resampling.BICUBIC))


@given(st.data(), st.integers(1, 40), st.integers(1, 40), st.integers(1, 30), st.integers(1, 30))
def test_resize_crop_is_pillows(data, height, width, out_height, out_width):
    """Any window to any size: larger, smaller, and to a single pixel."""
    images = pictures(6, height, width)
    boxes = []
    for _ in images:
        box_width, box_height = data.draw(st.integers(1, width)), data.draw(st.integers(1, height))
        left, top = data.draw(st.integers(0, width - box_width)), data.draw(st.integers(0, height - box_height))
        boxes.append([left, top, box_width, box_height])
    out = resize.resize_crop(images, torch.tensor(boxes, dtype=torch.int32), out_height, out_width)
    for image, box, result in zip(images, boxes, out, strict=True):
        assert torch.equal(result, resized(image, box, out_height, out_width))


@pytest.mark.parametrize(("stored", "seen"), [(256, 224), (224, 224), (110, 96)])
def test_resize_crop_at_the_papers_sizes(stored, seen):
    """And Pillow agrees in one call where any version takes the width first: the height does not shrink more."""
    images = pictures(6, stored, stored)
    boxes = [[0, 0, stored, stored], [3, 1, stored - 9, stored - 2], [10, 20, 70, 60], [0, 5, 100, 105], [9, 9, 96, 96]]
    boxes.append([stored - 80, stored - 90, 80, 90])
    out = resize.resize_crop(images, torch.tensor(boxes, dtype=torch.int32), seen, seen)
    for image, box, result in zip(images, boxes, out, strict=True):
        assert torch.equal(result, resized(image, box, seen, seen))
        left, top, width, height = box
        if height <= width:
            part = oracles.to_pil(crop(image, left, top, height, width))
            assert torch.equal(result, oracles.to_pixels(part.resize((seen, seen), Image.Resampling.BICUBIC)))


@pytest.mark.parametrize("least_area", [0.08, 0.5])
def test_resize_crop_is_drawn_and_applied_together(least_area):
    images = pictures(12, 32, 36)
    out = prepare.resize_crop((28, 24), least_area, margin=None).train(images, generator())
    u = rng.uniform((12, 4), generator()).tolist()
    for image, result, (first, *rest) in zip(images, out, u, strict=True):
        box = oracles.resize_box(least_area + (1 - least_area) * first, rest, 32, 36)
        assert torch.equal(result, resized(image, list(box), 28, 24))

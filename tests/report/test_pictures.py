"""What a policy does to images: by the kernels of search and training, and the same each time."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from drawings import drawn
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import TRANSFORMS, get_space
from slackaug.config.run_config import BLANK, start_policy
from slackaug.data import Split, build
from slackaug.report import pictures
from slackaug.report.policy_figures import pie
from slackaug.report.strength import FAMILIES, idle


@pytest.fixture
def photos() -> list[Image.Image]:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    return [Image.fromarray(pixels), Image.fromarray(255 - pixels)]


def test_strips_are_the_kernels_of_the_space(photos):
    policy = drawn("domainnet")
    found = pictures.strips(policy, photos)
    ranked = policy.probabilities.mean(0).argsort(descending=True).tolist()
    assert [strip.transform.name for strip in found] == [policy.space.names[n] for n in ranked]
    by_name = {strip.transform.name: [image.tobytes() for image in strip.images] for strip in found}
    bits = [round(8 - 6 * m * policy.mu[policy.space.index("Posterize")].item()) for m in (0.5, 1)]
    posterize, invert = policy.space["Posterize"], policy.space["Invert"]
    assert by_name["Posterize"] == [posterize.pil(photo, b).tobytes() for photo in photos for b in bits]
    assert by_name["Invert"] == [invert.pil(photo, 0).tobytes() for photo in photos]
    assert len(by_name["Rotate"]) == 4


def test_transformations_of_colour_do_nothing_to_grey_images(photos):
    grey = [photo.convert("L").convert("RGB") for photo in photos]
    for name in FAMILIES["colour"].split():
        assert all(TRANSFORMS[name].pil(photo, 0.4).tobytes() == photo.tobytes() for photo in grey)
    for images, names in ((grey, ["Grayscale", "Color", "Hue"]), ([grey[0], photos[1]], [])):
        pixels = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images])
        data = Split(pixels.repeat(2, 1, 1, 1), torch.tensor([0, 0, 1, 1]))
        assert idle(start_policy(replace(BLANK, space="domainnet"), build("own", data, data, ["a", "b"]))) == names
    assert not idle(Policy.uniform("domainnet", mean=(0.5,) * 3, std=(0.5,) * 3))  # of no data


def test_a_page_that_is_written_again_has_the_same_pictures(photos):
    def pixels(policy: Policy) -> list[bytes]:
        images = [image for row in pictures.composites(policy, photos) for image in row]
        images += pictures.at_bounds(policy, photos[0], range(len(policy.space)))
        return [image.tobytes() for image in images]

    assert pixels(drawn()) == pixels(drawn())
    assert pixels(drawn()) != pixels(drawn(seed=1))


@pytest.mark.parametrize(
    ("logits", "most", "least"),
    [
        ([0], [], []),
        ([0, 1], [1], [0]),
        ([2, 0, 1], [0, 2], [1]),
        ([0, 0, 0, 0, 0, 0, 0], [], []),  # nothing is ranked by the order of their names
        ([0, 0, 0, 1, 0, 0, 0], [3], []),
        ([0, 0, 0, -1, 0, 0, 0], [], [3]),
        ([3, 3, 2, 2, 2, 1, 0], [0, 1], [6, 5]),
        ([6, 5, 4, 3, 2, 1, 0], [0, 1, 2], [6, 5, 4]),
    ],
)
def test_extremes_are_the_ends_of_the_order_without_what_is_as_likely_as_others(logits, most, least):
    space = get_space("cifar")
    policy = Policy.uniform(space.exclude(*space.names[len(logits) :]))
    policy.pi.copy_(torch.tensor(logits, dtype=torch.float64))
    assert pictures.extremes(policy) == (most, least)


def test_extremes_are_in_the_order_of_the_pie():
    policy = drawn()
    ranked = [policy.space.index(row[0]) for row in pie(policy).table.rows]
    assert pictures.extremes(policy) == (ranked[:3], ranked[:-4:-1])


def test_pictures_have_a_row_for_each_image_or_transformation(photos):
    rows = pictures.composites(drawn(), photos)
    assert [[image.size for image in row] for row in rows] == [[photo.size] * pictures.N_EACH for photo in photos]
    sheet = pictures.strips_sheet(drawn(), photos)
    assert (sheet.mode, sheet.height) == ("RGB", 18 * (pictures.CAPTION + pictures.CELL + pictures.PAD) + pictures.PAD)
    assert pictures.thumbnail(Image.new("RGB", (500, 20))).size == (96, 4)
    assert pictures.thumbnail(photos[0]).size == (96, 80)

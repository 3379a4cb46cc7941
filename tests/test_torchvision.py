"""`slackaug.torchvision.SlackAugment` as a member of a v2 pipeline."""

import pickle

import pytest
import torch
from PIL import Image

import slackaug

pytestmark = pytest.mark.torchvision
pytest.importorskip("torchvision", reason="torchvision is not installed; the second lane of `make test` has it")

from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

from slackaug.torchvision import SlackAugment  # noqa: E402


@pytest.fixture
def augment():
    return SlackAugment(slackaug.Policy.uniform("cifar"))


@pytest.fixture
def image():
    return torch.randint(0, 256, (3, 12, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def seeded(augment, *sample):
    torch.manual_seed(0)
    return augment(*sample)


def test_is_a_transform_of_v2(augment):
    assert isinstance(augment, v2.Transform)
    assert repr(augment) == "SlackAugment(3 of 17 transformations of 'cifar', with flips)"


def test_it_is_off_in_eval_mode_unless_it_is_always_on(augment, image):
    assert augment.eval()(image) is image
    always = SlackAugment(augment.policy, always=True).eval()
    assert torch.equal(seeded(always, image), seeded(augment.train(), image))


def test_same_as_the_plain_module_and_a_tv_image_stays_one(augment, image):
    plain = seeded(slackaug.SlackAugment(slackaug.Policy.uniform("cifar")), image)
    assert torch.equal(seeded(augment, image), plain)
    out = seeded(augment, tv_tensors.Image(image))
    assert type(out) is tv_tensors.Image
    assert torch.equal(out, plain)


def test_labels_and_dicts_pass_through(augment, image):
    label = torch.tensor([0.0, 1.0])
    picture, out = seeded(augment, Image.new("RGB", (8, 8), (9, 99, 199)), label)
    assert isinstance(picture, Image.Image)
    assert out is label
    sample = {"image": tv_tensors.Image(image), "label": torch.tensor(3), "name": "cat", "more": [1, None]}
    out = seeded(augment, sample)
    assert torch.equal(out.pop("image"), seeded(augment, image))
    assert out.pop("label") is sample["label"]
    assert out == {"name": "cat", "more": [1, None]}


def test_batch(augment, image):
    batch = image.expand(16, -1, -1, -1)
    out, labels = seeded(augment, batch, torch.arange(16))
    assert out.shape == batch.shape
    assert len(out.flatten(1).unique(dim=0)) > 4
    assert torch.equal(labels, torch.arange(16))


def test_refuses_what_a_policy_would_tear_apart_and_none_or_two_images(augment, image):
    boxes = tv_tensors.BoundingBoxes(torch.zeros(1, 4), format="XYXY", canvas_size=(12, 10))
    for other in (tv_tensors.Mask(torch.zeros(12, 10)), boxes, tv_tensors.Video(image[None])):
        with pytest.raises(TypeError, match="cannot transform"):
            augment(tv_tensors.Image(image), other)
    with pytest.raises(TypeError, match="expected exactly one image in a sample, found 0"):
        augment({"label": 3})
    with pytest.raises(TypeError, match="found 2"):
        augment(tv_tensors.Image(image), tv_tensors.Image(image))


def test_in_a_pipeline_and_pickled(augment, image):
    pipeline = v2.Compose([augment, v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)])
    out, label = seeded(pickle.loads(pickle.dumps(pipeline)), tv_tensors.Image(image), 3)
    expected = (seeded(augment, image).float() / 255 - 0.5) / 0.5
    assert torch.allclose(out.as_subclass(torch.Tensor), expected, atol=1e-6)
    assert label == 3

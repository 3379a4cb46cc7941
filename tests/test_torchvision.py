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


def test_same_as_the_plain_module(augment, image):
    assert torch.equal(seeded(augment, image), seeded(slackaug.SlackAugment(slackaug.Policy.uniform("cifar")), image))


def test_tv_image_stays_one(augment, image):
    out = seeded(augment, tv_tensors.Image(image))
    assert type(out) is tv_tensors.Image
    assert torch.equal(out, seeded(augment, image))


def test_labels_and_dicts_pass_through(augment, image):
    sample = {"image": tv_tensors.Image(image), "label": torch.tensor(3), "name": "cat", "more": [1, None]}
    out = seeded(augment, sample)
    assert torch.equal(out.pop("image"), seeded(augment, image))
    assert out.pop("label") is sample["label"]
    assert out == {"name": "cat", "more": [1, None]}


def test_pil_image_beside_a_tensor_label(augment):
    label = torch.tensor([0.0, 1.0])
    picture, out = seeded(augment, Image.new("RGB", (8, 8), (9, 99, 199)), label)
    assert isinstance(picture, Image.Image)
    assert out is label


def test_batch(augment, image):
    batch = image.expand(16, -1, -1, -1)
    out, labels = seeded(augment, batch, torch.arange(16))
    assert out.shape == batch.shape
    assert len(out.flatten(1).unique(dim=0)) > 4
    assert torch.equal(labels, torch.arange(16))


@pytest.mark.parametrize("kind", ["mask", "boxes", "video"])
def test_refuses_what_a_policy_would_tear_apart(augment, image, kind):
    other = {
        "mask": lambda: tv_tensors.Mask(torch.zeros(12, 10)),
        "boxes": lambda: tv_tensors.BoundingBoxes(torch.zeros(1, 4), format="XYXY", canvas_size=(12, 10)),
        "video": lambda: tv_tensors.Video(image[None]),
    }[kind]()
    with pytest.raises(TypeError, match="cannot transform"):
        augment(tv_tensors.Image(image), other)
    if kind != "video":
        with pytest.raises(TypeError):  # as the library's own
            v2.TrivialAugmentWide()(tv_tensors.Image(image), other)


def test_refuses_none_or_two_images(augment, image):
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

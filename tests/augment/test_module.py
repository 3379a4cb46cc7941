"""SlackAugment in the hands of a user: inputs of all kinds, seeds, workers, copies."""

import copy
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import slackaug
from slackaug import Policy, PolicyError, SlackAugment
from slackaug.augment import pil
from slackaug.data import DataConfig, decode


@pytest.fixture
def augment():
    return SlackAugment(Policy.uniform("cifar"))


def seeded(augment, image, seed=0):
    torch.manual_seed(seed)
    return augment(image)


@pytest.mark.parametrize("shape", [(3, 8, 9), (1, 8, 9), (4, 3, 8, 9), (4, 1, 8, 9), (0, 3, 8, 9), (3, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.float64])
def test_keeps_shape_dtype_and_input(augment, shape, dtype):
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    image = image if dtype == torch.uint8 else (image / 255).to(dtype)
    before = image.clone()
    out = augment(image)
    assert (out.shape, out.dtype) == (image.shape, image.dtype)
    assert torch.equal(image, before)


def test_float_is_the_same_as_uint8(augment, images):
    assert torch.equal((seeded(augment, images.float() / 255) * 255).round().to(torch.uint8), seeded(augment, images))


@pytest.mark.parametrize("channels", [1, 3])
def test_pil_and_tensor_agree(augment, images, channels):
    for i, image in enumerate(images[:, :channels, :12, :9]):
        picture = seeded(augment, pil.from_tensor(image), i)
        assert torch.equal(pil.to_tensor(picture), seeded(augment, image, i))


def test_images_of_a_batch_get_their_own_composites(augment, images):
    out = seeded(augment, images[0].expand(32, -1, -1, -1))
    assert len(out.flatten(1).unique(dim=0)) > 16


def test_own_generator_leaves_torch_alone_and_is_refused_in_workers(images, monkeypatch):
    augment = SlackAugment(Policy.uniform("cifar"), generator=torch.Generator().manual_seed(3))
    state = torch.get_rng_state()
    first = augment(images)
    assert torch.equal(torch.get_rng_state(), state)
    augment.generator.manual_seed(3)
    assert torch.equal(augment(images), first)
    monkeypatch.setattr("slackaug.augment.module.get_worker_info", lambda: "a worker")
    with pytest.raises(RuntimeError, match="every DataLoader worker would draw the same"):
        augment(images)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_a_seed_and_copies_do_the_same(augment, images, duplicate):
    assert torch.equal(seeded(duplicate(augment), images), seeded(augment, images))
    assert not torch.equal(seeded(augment, images, 0), seeded(augment, images, 1))


def test_strength_multiplies_mu(images):
    policy = Policy.uniform("cifar", mu=0.4)
    weaker = SlackAugment(policy, strength=0.5)
    assert repr(weaker) == "SlackAugment(3 of 17 transformations of 'cifar', with flips, strength=0.5)"
    assert torch.equal(seeded(weaker, images), seeded(SlackAugment(policy.strengthened(0.5)), images))
    assert torch.equal(weaker.policy.mu, policy.mu)
    for strength in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="strength must be"):
            SlackAugment(policy, strength=strength)


def test_flip_only_where_the_policy_says_so():
    only_identity = Policy.uniform("cifar")
    only_identity.pi[:, only_identity.space.index("Identity")] = 100
    image = torch.arange(48, dtype=torch.uint8).view(1, 3, 4, 4).expand(64, -1, -1, -1)
    out = seeded(SlackAugment(only_identity), image)
    flipped = (out == image.flip(3)).flatten(1).all(1)
    assert 16 < flipped.sum() < 48  # fails by chance once in 10,000 seeds
    unflipped = Policy.from_dict(only_identity.to_dict() | {"flip": False})
    assert torch.equal(seeded(SlackAugment(unflipped), image), image)


def test_it_is_off_in_eval_mode_unless_it_is_always_on(augment, images):
    model = torch.nn.Sequential(augment, torch.nn.Identity())
    assert model.eval()(images) is images
    assert not torch.equal(model.train()(images), images)
    always = SlackAugment(augment.policy, always=True)
    assert torch.equal(seeded(always.eval(), images), seeded(augment, images))
    assert repr(always).endswith("with flips, always)")
    assert repr(augment.eval()).endswith("with flips, off in eval mode)")


def test_takes_a_file_or_the_folder_of_a_run(tmp_path, images):
    with pytest.raises(PolicyError, match=r"a folder without policy\.json; a run has one at the end"):
        SlackAugment(tmp_path)
    (tmp_path / "config.yaml").touch()
    with pytest.raises(PolicyError, match=r"has not finished its first round, .* slackaug search DATA -o .* --resume"):
        SlackAugment(tmp_path)
    policy = Policy.uniform("imagenet", flip=False)
    policy.save(tmp_path / "policy.json")
    for run in (tmp_path / "policy.json", tmp_path, str(tmp_path)):
        assert torch.equal(seeded(SlackAugment(run), images), seeded(SlackAugment(policy), images))
    assert slackaug.load(tmp_path).to_dict() == policy.to_dict()
    assert slackaug.load("uniform:imagenet").space.name == "imagenet"


@pytest.mark.parametrize(
    ("image", "error", "says"),
    [
        (Image.new("RGBA", (4, 4)), TypeError, r"mode RGB or L, got RGBA; convert it first"),
        (Image.new("P", (4, 4)), TypeError, r"got P; convert it first: image\.convert\('RGB'\)"),
        (Image.new("F", (4, 4)), TypeError, r"got F; scale its values to 0\.\.255 first"),
        (torch.zeros(4, 4, dtype=torch.uint8), ValueError, r"got \(4, 4\)"),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), ValueError, r"C = 1 or 3, got \(2, 4, 4\)"),
        (torch.zeros(3, 0, 4, dtype=torch.uint8), ValueError, r"got \(3, 0, 4\)"),
        (torch.zeros(3, 4, 4, dtype=torch.int64), TypeError, r"got torch.int64"),
        (torch.full((3, 4, 4), 1.5), ValueError, r"1.5 to 1.5; augment before normalising"),
        (torch.full((3, 4, 4), float("nan")), ValueError, r"nan to nan"),
        ("cat.jpg", TypeError, r"got str"),
    ],
)
def test_bad_input_says_what_to_do(augment, image, error, says):
    with pytest.raises(error, match=says):
        augment(image)


@pytest.mark.parametrize("mode", ["I;16", "I"])
def test_the_advice_for_deep_images_keeps_their_levels(augment, mode, tmp_path):
    """It is what a search does when it reads such a file."""
    image = Image.fromarray(np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8))
    image.save(tmp_path / "deep.png")
    image = image if mode == "I;16" else image.convert("I")
    with pytest.raises(TypeError, match=f"got {mode}; make 16 bits 8 first: ") as caught:
        augment(image)
    advice = str(caught.value).partition("first: ")[2]
    found = eval(advice, {"Image": Image, "numpy": np, "image": image})
    assert np.array_equal(np.asarray(found), decode.read(tmp_path / "deep.png", DataConfig())[..., 0])
    assert augment(found).mode == "L"


class Constant(Dataset):
    """The same image again and again, augmented: what comes out shows the random stream."""

    def __init__(self, augment):
        self.augment = augment
        self.image = torch.arange(300, dtype=torch.uint8).view(3, 10, 10)

    def __len__(self):
        return 12

    def __getitem__(self, index):
        torch.set_num_threads(1)
        return self.augment(self.image)


def epochs(augment, context, n=2):
    chance = torch.Generator().manual_seed(7)
    workers = {"num_workers": 2, "multiprocessing_context": context, "persistent_workers": True}
    loader = DataLoader(Constant(augment), batch_size=3, generator=chance, **workers)
    return [torch.cat(list(loader)) for _ in range(n)]


@pytest.mark.parametrize("context", sorted({"fork", "spawn"} & set(multiprocessing.get_all_start_methods())))
def test_data_loader_workers(augment, context):
    """Different across workers and epochs, the same from the same seed, and the same in both kinds of processes."""
    first, second = epochs(augment, context)
    assert not torch.equal(first, second)
    worker_0, worker_1 = torch.cat((first[0:3], first[6:9])), torch.cat((first[3:6], first[9:12]))
    assert not torch.equal(worker_0, worker_1)
    again, _ = epochs(augment, "fork")
    assert torch.equal(first, again)


@pytest.mark.parametrize("policy", [None, 3, {}])
def test_what_is_no_policy(policy):
    with pytest.raises(TypeError, match=r"expected a slackaug\.Policy"):
        SlackAugment(policy)


def test_gradients_end_here_without_a_warning(augment):
    image = torch.rand(3, 8, 8, requires_grad=True)
    assert not augment(image).requires_grad

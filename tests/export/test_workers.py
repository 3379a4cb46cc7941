"""Exported files in the workers of a DataLoader: each worker and each epoch draws anew, and what comes back is right.

Workers begin as copies of one another: a generator of the file's own would draw the same in all of them.
"""

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import exported
import slackaug
from slackaug import Policy
from slackaug.augment.transforms import get_space
from slackaug.export.fidelity import FIDELITY

pytestmark = pytest.mark.exports
N, BATCH = 24, 6  # images of an epoch; worker 0 has the batches 0 and 2, worker 1 the others
FALSE_ALARM = 1e-3  # had the seed not been fixed
IMAGE = exported.pictures()[1]  # (3, 32, 32) uint8, smooth


class Constant(Dataset):
    """The same image again and again, augmented as `library` wants it; as (C, H, W) uint8."""

    def __init__(self, augment, library: str, n: int = N):
        self.augment, self.library, self.n = augment, library, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Tensor:
        torch.set_num_threads(1)
        return exported.through(self.augment, self.library, IMAGE)


def loader(augment, library: str, seed: int = 7, n: int = N, **options) -> DataLoader:
    options = {"num_workers": 2, "multiprocessing_context": "fork"} | options
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(Constant(augment, library, n), batch_size=BATCH, generator=generator, **options)


def epoch(found: DataLoader) -> Tensor:
    return torch.cat(list(found))


def make(module, library: str):
    """As its documentation shows it."""
    if library != "albumentations":
        return module.SlackAugment()
    import albumentations as A

    return A.Compose([module.SlackAugment()], seed=0)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    return {library: exported.module(exported.uneven(), library, folder) for library in FIDELITY}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("library", FIDELITY)
def test_workers_and_epochs_differ_and_a_seed_repeats_them(modules, library, persistent):
    data = loader(make(modules[library], library), library, persistent_workers=persistent)
    first, second = epoch(data), epoch(data)
    assert (first.shape, first.dtype) == ((N, *IMAGE.shape), torch.uint8)
    batches = first.split(BATCH)
    assert not torch.equal(batches[0], batches[1])  # the first of each worker
    assert not torch.equal(torch.cat(batches[0::2]), torch.cat(batches[1::2]))
    assert not torch.equal(first, second)
    again = loader(make(modules[library], library), library, persistent_workers=persistent)
    assert torch.equal(epoch(again), first)
    assert torch.equal(epoch(again), second)
    assert not torch.equal(epoch(loader(make(modules[library], library), library, seed=8)), first)


@pytest.mark.parametrize("library", ["python", "timm", "torchvision"])
def test_workers_give_slackaugs_own_images(modules, library):
    """Where all pixels are exact, the same seeds give the same images as slackaug.SlackAugment in the same workers."""
    ours = slackaug.SlackAugment(exported.uneven())
    kind = "python" if library == "python" else "timm"  # tensors or PIL images
    expected = epoch(loader(ours, kind))
    assert torch.equal(epoch(loader(make(modules[library], library), library)), expected)


@pytest.mark.parametrize("library", FIDELITY)
def test_workers_keep_the_probabilities(library, tmp_path):
    whole = get_space("cifar")
    space = whole.exclude(*(name for name in whole.names if name not in ("Identity", "Invert")))
    policy = Policy.uniform(space, n_composed=1, flip=False)
    policy.pi.copy_(torch.tensor([[0.7 if name == "Invert" else 0.3 for name in space.names]]).log())
    module, n = exported.module(policy, library, tmp_path), 300
    images = epoch(loader(make(module, library), library, n=n))
    same, inverted = ((images == image).flatten(1).all(1) for image in (IMAGE, 255 - IMAGE))
    assert (same ^ inverted).all()
    assert stats.binomtest(int(inverted.sum()), n, 0.7).pvalue > FALSE_ALARM


def test_albumentations_seeded_in_the_main_process_keeps_its_draws(modules):
    """Without workers, the transform's own seed alone decides."""
    first, again = (epoch(loader(make(modules["albumentations"], "albumentations"), "albumentations", seed=seed,
                                 num_workers=0, multiprocessing_context=None)) for seed in (1, 2))  # fmt: skip
    assert torch.equal(first, again)

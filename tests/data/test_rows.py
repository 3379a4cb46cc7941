"""Images in a file behave as a tensor of them would."""

import logging

import pytest
import torch

from slackaug.data import Split
from slackaug.data import rows as module
from slackaug.data.dataset import fingerprint, histogram, moments
from slackaug.data.rows import Rows, chunks
from slackaug.engine.fit import to_device

STORE = torch.randint(0, 256, (20, 3, 5, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
ORDER = torch.tensor([7, 3, 19, 0, 3, 12])
IMAGES, TENSOR = Rows(STORE, ORDER), STORE[ORDER]


def test_looks_like_a_tensor():
    assert IMAGES.shape == TENSOR.shape
    assert (IMAGES.dtype, len(IMAGES)) == (torch.uint8, 6)
    assert IMAGES.device == TENSOR.device


@pytest.mark.parametrize("index", [2, -1, slice(1, 4), [5, 0], torch.tensor([4, 4, 1])], ids=str)
def test_is_indexed_like_a_tensor(index):
    assert torch.equal(IMAGES[index], TENSOR[index])


def test_pixels_of_all_images_are_not_read_by_accident():
    with pytest.raises(TypeError, match="along the first axis alone"):
        IMAGES[:, 0]


def test_splits_chunks_and_selects(monkeypatch):
    assert [len(part) for part in IMAGES.split(4)] == [4, 2]
    monkeypatch.setattr(module, "CHUNK_BYTES", 130)  # two images
    assert [len(part) for part in chunks(IMAGES)] == [2, 2, 2]
    assert torch.equal(torch.cat([*chunks(IMAGES)]), TENSOR)
    chosen = IMAGES.select(torch.tensor([5, 0]))
    assert isinstance(chosen, Rows)
    assert torch.equal(chosen[:], TENSOR[[5, 0]])


def test_statistics_and_fingerprint_are_those_of_the_tensor():
    labels = torch.arange(6)
    assert moments(histogram(IMAGES)) == moments(histogram(TENSOR))
    assert fingerprint(Split(IMAGES, labels)) == fingerprint(Split(TENSOR, labels))


def test_on_the_cpu_images_stay_in_their_file():
    split = to_device(Split(IMAGES, torch.arange(6)), "cpu")
    assert isinstance(split.images, Rows)
    batch = split.take(torch.tensor([2, 0]))
    assert torch.equal(batch.images, TENSOR[[2, 0]])
    assert batch.labels.tolist() == [2, 0]


def test_elsewhere_they_are_kept_if_there_is_room_and_streamed_if_not(monkeypatch, caplog):
    """A device without memory of its own shows which: what is kept is a tensor."""
    monkeypatch.setattr(module, "room_on", lambda device: TENSOR.nbytes)
    assert isinstance(IMAGES.to("meta"), torch.Tensor)
    monkeypatch.setattr(module, "room_on", lambda device: TENSOR.nbytes - 1)
    with caplog.at_level(logging.WARNING, "slackaug"):
        streamed = IMAGES.to("meta")
    assert "batch by batch" in caplog.text
    assert isinstance(streamed, Rows)
    assert streamed[torch.tensor([1, 2])].device.type == streamed.device.type == "meta"


@pytest.mark.gpu
@pytest.mark.parametrize("fits", [True, False])
def test_on_a_gpu(fits, monkeypatch):
    monkeypatch.setattr(module, "room_on", lambda device: TENSOR.nbytes * fits)
    images = IMAGES.to("cuda")
    assert isinstance(images, Rows) != fits
    index = torch.tensor([5, 1, 1])
    for asked in (index, index.cuda()):
        assert images[asked].is_cuda
        assert torch.equal(images[asked].cpu(), TENSOR[index])

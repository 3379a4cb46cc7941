"""Images that lie in a file and are read when they are asked for: a set too large to be held, let alone twice.

Axes: B images, C = 3 channels, H, W pixels; N images in the store, of which `rows` says which these are, in order.
"""

import logging
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

DEVICE_SHARE = 0.5  # of a GPU's free memory that images may take; the rest is for the network and its passes
CHUNK_BYTES = 64 * 1024**2
log = logging.getLogger("slackaug")  # a warning is a line on stderr, unless a program decides otherwise


class Rows:
    """Stands where a tensor of images (B, C, H, W) uint8 would: indexed along B, it gives tensors on its device."""

    def __init__(self, store: Tensor, rows: Tensor, device: torch.device | str = "cpu"):
        self.store = store  # (N, C, H, W) uint8, memory-mapped
        self.rows = rows  # (B,) int64
        self.device = torch.device(device)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self.rows), *self.store.shape[1:]))

    @property
    def dtype(self) -> torch.dtype:
        return self.store.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Tensor | Sequence[int] | slice | int) -> Tensor:
        """Along the first axis. Indices on a GPU are waited for: those that stream should ask with indices on the CPU.

        A copy to a GPU does not wait, so that reading the next batch overlaps with what is computed there.
        """
        if isinstance(index, tuple):
            raise TypeError("images in a cache are indexed along the first axis alone: take some, then their pixels")
        if isinstance(index, int):
            return self.on_device(self.store[self.rows[index]])
        return self.on_device(self.read(index.cpu() if isinstance(index, Tensor) else index))

    def read(self, index: Tensor | Sequence[int] | slice) -> Tensor:
        """On the CPU."""
        return self.store.index_select(0, self.rows[index])

    def on_device(self, images: Tensor) -> Tensor:
        if self.device.type == "cuda":
            images = images.pin_memory()
        return images.to(self.device, non_blocking=True)

    def split(self, n: int) -> Iterator[Tensor]:
        """n images at a time, as Tensor.split gives them."""
        for start in range(0, len(self.rows), n):
            yield self[slice(start, start + n)]

    def select(self, index: Tensor) -> "Rows":
        """Some of the images; nothing is read."""
        return Rows(self.store, self.rows[index], self.device)

    def to(self, device: torch.device | str) -> "Tensor | Rows":
        """All of them on a GPU if there is room for them, else batch by batch; on the CPU they stay in their file."""
        device = torch.device(device)
        room, n_bytes = room_on(device), len(self) * self.store[:1].nbytes
        is_too_large = n_bytes > room
        if is_too_large:
            log.warning(
                "slackaug: %.1f GB of images and room for %.1f GB on the GPU: they are read batch by batch, which may "
                "be slower; a smaller --size makes room",
                n_bytes / 1e9,
                room / 1e9,
            )
        if is_too_large or device.type == "cpu":
            return Rows(self.store, self.rows, device)
        images = torch.empty(self.shape, dtype=self.dtype, device=device)
        for place, part in zip(chunks(images), chunks(Rows(self.store, self.rows)), strict=True):
            place.copy_(part)
        return images


Images = Tensor | Rows  # (B, C, H, W) uint8


def room_on(device: torch.device) -> float:
    """Bytes that images may take there; on the CPU they are in their file."""
    if device.type == "cpu":
        return math.inf
    free, _ = torch.cuda.mem_get_info(device)
    return DEVICE_SHARE * free


def repeated(images: Images, index: Tensor) -> Rows:
    """Images of which some occur again and again; none is copied, unless all of them find room on a GPU."""
    return images.select(index) if isinstance(images, Rows) else Rows(images, index)


def chunks(images: Images) -> Iterator[Tensor]:
    """All images in order, some 64 MB at a time."""
    per_image = images.shape[1:].numel()
    yield from images.split(max(1, CHUNK_BYTES // max(per_image, 1)))

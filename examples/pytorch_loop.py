"""A plain PyTorch loop: the policy augments whole batches, on the device where they are.

Start it beside the folders pets/ and runs/: `python pytorch_loop.py`.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import slackaug

DATA, POLICY, SIZE, EPOCHS = "pets", "runs/pets", 32, 2
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Folder(Dataset):
    """One folder for each class, as uint8 tensors (3, SIZE, SIZE): the policy wants pixels, not normalised numbers."""

    def __init__(self, root: str):
        self.paths = sorted(Path(root).glob("*/*"))
        self.classes = sorted({path.parent.name for path in self.paths})

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        image = Image.open(self.paths[i]).convert("RGB").resize((SIZE, SIZE))
        label = self.classes.index(self.paths[i].parent.name)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1), label


train = Folder(f"{DATA}/train")
model = nn.Sequential(nn.Flatten(), nn.LazyLinear(len(train.classes))).to(DEVICE)  # your network
augment = slackaug.SlackAugment(POLICY)
mean, std = (torch.tensor(x, device=DEVICE).view(3, 1, 1) for x in (augment.policy.mean, augment.policy.std))


def normalize(images: Tensor) -> Tensor:
    return (images.float() / 255 - mean) / std


model(normalize(train[0][0][None].to(DEVICE)))  # a lazy layer finds its size at the first image
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(EPOCHS):
    for images, labels in DataLoader(train, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        # Augment, then normalise. Each image of the batch gets transformations of its own. No flip of your own: the
        # policy has it, where mirror images keep their label. Test images are only normalised.
        outputs = model(normalize(augment(images.to(DEVICE))))
        loss = nn.functional.cross_entropy(outputs, labels.to(DEVICE))
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

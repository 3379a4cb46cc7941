"""albumentations: the policy as one of its transforms, from a file that needs no slackaug.

Start it beside pets/: `slackaug export runs/pets --to albumentations -o pets_policy.py`, then
`python with_albumentations.py`.
"""

from pathlib import Path

import albumentations as A
import numpy as np
import torch
from albumentations.pytorch import ToTensorV2
from pets_policy import SlackAugment
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

DATA, SIZE, EPOCHS = "pets", 32, 2
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# The policy stands in for HorizontalFlip, ColorJitter, Affine, CoarseDropout and the like. Before it comes what decides
# which part of the image is seen; after it, the numbers for the network.
for_training = A.Compose(
    [A.RandomResizedCrop((SIZE, SIZE), scale=(0.35, 1)), SlackAugment(), A.Normalize(MEAN, STD), ToTensorV2()]
)


class Pets(Dataset):
    def __init__(self, root: str):
        self.paths = sorted(Path(root).glob("*/*"))
        self.classes = sorted({path.parent.name for path in self.paths})

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        pixels = np.array(Image.open(self.paths[i]).convert("RGB"))  # (H, W, 3) uint8, as albumentations has it
        return for_training(image=pixels)["image"], self.classes.index(self.paths[i].parent.name)


train = Pets(f"{DATA}/train")
model = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, len(train.classes)))  # your network
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(EPOCHS):
    for images, labels in DataLoader(train, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

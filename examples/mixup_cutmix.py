"""Mixup or CutMix after a policy: the policy changes each image, then two of them are mixed.

Start it beside the folders pets/ and runs/: `python mixup_cutmix.py`.

A search learns without mixing. Mixing regularises, too: compare on your validation images whether a weaker policy, such
as strength=0.5, goes better with it.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, default_collate
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms import v2

import slackaug

DATA, POLICY, SIZE, EPOCHS = "pets", "runs/pets", 32, 2

augment = slackaug.SlackAugment(POLICY)
to_floats = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
normalize = v2.Normalize(augment.policy.mean, augment.policy.std)
# First the policy, on single images: it expects real pixels, and a mixture of two images has none.
train = ImageFolder(f"{DATA}/train", v2.Compose([v2.Resize((SIZE, SIZE)), augment, *to_floats, normalize]))
# Then the mixing, on whole batches: labels become shares of classes, (B,) -> (B, classes).
n_classes = len(train.classes)
mix = v2.RandomChoice([v2.MixUp(num_classes=n_classes, alpha=0.2), v2.CutMix(num_classes=n_classes, alpha=1.0)])


def mixed(samples: list) -> tuple[torch.Tensor, torch.Tensor]:
    return mix(*default_collate(samples))


if __name__ == "__main__":
    model = resnet18(num_classes=n_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(EPOCHS):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, num_workers=2, collate_fn=mixed):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)  # takes shares as well as classes
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

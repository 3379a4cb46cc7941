"""A torchvision v2 pipeline with the policy in it, for `ImageFolder` or any other data set that takes a transform.

Start it beside the folders pets/ and runs/: `python with_torchvision.py`.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms import v2

from slackaug.torchvision import SlackAugment

DATA, POLICY, SIZE, EPOCHS = "pets", "runs/pets", 32, 2

augment = SlackAugment(POLICY)
to_input = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(augment.policy.mean, augment.policy.std)]
# The order matters: first what decides which part of the image is seen, then the policy on its pixels, then the
# numbers for the network. The policy stands in for RandomHorizontalFlip, ColorJitter, RandAugment and the like.
for_training = v2.Compose([v2.RandomResizedCrop(SIZE, scale=(0.35, 1)), augment, *to_input])
for_test = v2.Compose([v2.Resize(SIZE), v2.CenterCrop(SIZE), *to_input])

train = ImageFolder(f"{DATA}/train", for_training)
test = ImageFolder(f"{DATA}/test", for_test)

if __name__ == "__main__":  # the workers of a DataLoader import this file, too
    model = resnet18(num_classes=len(train.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    for epoch in range(EPOCHS):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, num_workers=2):  # workers draw differently
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in DataLoader(test, 64))
        print(f"epoch {epoch + 1}: {right} of {len(test)} test images right")

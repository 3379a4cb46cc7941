"""timm's own pipeline, with the policy in place of its augmentation.

Start it beside the folders pets/ and runs/: `python with_timm.py`.

timm's train.py switches off the same things with `--aa "" --color-jitter 0 --hflip 0 --reprob 0`. Start it with
`--no-prefetcher`, and put the policy in after it has made its loader: `loader_train.dataset.transform = for_training`.
"""

import timm
import torch
from timm.data import create_transform, resolve_data_config
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose

import slackaug

DATA, POLICY, SIZE, EPOCHS = "pets", "runs/pets", 32, 2

model = timm.create_model("resnet18", num_classes=2)
config = resolve_data_config({"input_size": (3, SIZE, SIZE)}, model=model)  # the mean and std that the network wants

# Three parts: what decides which part of the image is seen, what augments it, and the numbers for the network. The
# policy takes the place of the second part. Switch off what would come on top of it in the others.
crop, _, to_input = create_transform(
    **config,
    is_training=True,
    separate=True,
    auto_augment=None,  # the policy stands in for RandAugment, AutoAugment and AugMix,
    color_jitter=None,  # and for ColorJitter; timm has 0.4 by default
    hflip=0.0,  # the policy flips, where mirror images keep their label
    vflip=0.0,
    re_prob=0.0,  # random erasing: the policy has Cutout, if that helps
)
for_training = Compose([crop, slackaug.SlackAugment(POLICY), to_input])
train = ImageFolder(f"{DATA}/train", for_training)

if __name__ == "__main__":  # the workers of a DataLoader import this file, too
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    for epoch in range(EPOCHS):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

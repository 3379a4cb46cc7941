"""Fine-tuning: search with the weights that you fine-tune from, then fine-tune with what was found.

Start it beside the folders pets/ and runs/: `python fine_tuning.py`.

A trained network may need other augmentation than one from scratch, so search with the same weights. They must come
from other images than yours.
"""

from pathlib import Path

import timm
import torch
from safetensors.torch import save_file
from timm.data import resolve_data_config
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import slackaug

DATA, OUT, NETWORK, SIZE, EPOCHS = "pets", "runs/tuned", "resnet18", 32, 2
LR = 0.001  # for weights that are good already: a tenth, or less, of what training from scratch takes

if __name__ == "__main__":  # the workers of a DataLoader import this file, too
    # The weights as a file. A last layer for another number of classes is made anew.
    save_file(timm.create_model(NETWORK, pretrained=True).state_dict(), "pretrained.safetensors")

    # On the command line: slackaug search pets -o runs/tuned --model timm:resnet18 --weights pretrained.safetensors \
    #   --size 32 --set pretrain.lr=0.001 --set evaluate.lr=0.001
    if not Path(OUT).exists():
        rates = [f"pretrain.lr={LR}", f"evaluate.lr={LR}"]
        slackaug.search(DATA, OUT, model=f"timm:{NETWORK}", weights="pretrained.safetensors", size=SIZE, set=rates)

    model = timm.create_model(NETWORK, pretrained=True, num_classes=len(list(Path(DATA, "train").iterdir())))
    wanted = resolve_data_config({}, model=model)  # the mean and std that the weights were trained with
    augment = slackaug.SlackAugment(OUT)
    to_input = [
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(wanted["mean"], wanted["std"]),
    ]
    train = ImageFolder(f"{DATA}/train", v2.Compose([v2.Resize((SIZE, SIZE)), augment, *to_input]))
    head = {id(one) for one in model.get_classifier().parameters()}
    optimizer = torch.optim.SGD(
        [
            {"params": [one for one in model.parameters() if id(one) not in head]},
            {"params": model.get_classifier().parameters(), "lr": 10 * LR},  # the new layer starts from nothing
        ],
        lr=LR, momentum=0.9,
    )  # fmt: skip
    for epoch in range(EPOCHS):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

"""Lightning: the policy in the DataModule (in the workers), or in the LightningModule (on the GPU). Choose one.

Start it beside the folders pets/ and runs/: `python with_lightning.py`.
"""

import lightning as L
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import slackaug

DATA, POLICY, SIZE, ON_GPU = "pets", "runs/pets", 32, torch.cuda.is_available()


class Pets(L.LightningDataModule):
    def loader(self, part: str, *augment: nn.Module, shuffle: bool = False) -> DataLoader:
        to_floats = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        images = ImageFolder(f"{DATA}/{part}", v2.Compose([v2.Resize((SIZE, SIZE)), *augment, *to_floats]))
        return DataLoader(images, batch_size=64, shuffle=shuffle, num_workers=2, persistent_workers=True)

    def train_dataloader(self) -> DataLoader:
        in_workers = [] if ON_GPU else [slackaug.SlackAugment(POLICY)]
        return self.loader("train", *in_workers, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self.loader("test")  # never augmented


class Classifier(L.LightningModule):
    def __init__(self, n_classes: int):
        super().__init__()
        self.augment = slackaug.SlackAugment(POLICY)  # has no parameters: checkpoints do not change
        self.normalize = v2.Normalize(self.augment.policy.mean, self.augment.policy.std)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, n_classes))  # your network

    def on_after_batch_transfer(self, batch: tuple[Tensor, Tensor], _: int) -> tuple[Tensor, Tensor]:
        images, labels = batch
        if (
            ON_GPU
        ):  # a whole batch at a time, each image with draws of its own; off in validation, as Lightning sets eval()
            images = self.augment(images)
        return self.normalize(images), labels

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        self.log("accuracy", (self.net(batch[0]).argmax(1) == batch[1]).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


if __name__ == "__main__":
    L.Trainer(max_epochs=2, log_every_n_steps=1).fit(Classifier(n_classes=2), datamodule=Pets())

"""Hugging Face: the policy in a data set's `set_transform`, trained with `Trainer`.

Start it beside the folders pets/ and runs/: `python with_huggingface.py`.
"""

import numpy as np
from datasets import load_dataset
from torchvision.transforms import v2
from transformers import AutoModelForImageClassification, ResNetConfig, Trainer, TrainingArguments

import slackaug

DATA, POLICY, SIZE = "pets", "runs/pets", 32

pets = load_dataset("imagefolder", data_dir=DATA)  # or any other set with "image" and "label"
augment = slackaug.SlackAugment(POLICY)
resize = v2.Resize((SIZE, SIZE))
to_input = v2.Compose([v2.PILToTensor(), lambda x: x / 255, v2.Normalize(augment.policy.mean, augment.policy.std)])


def for_training(rows: dict[str, list]) -> dict[str, list]:
    # Runs whenever rows are read, so that every epoch sees other draws. `map` would augment once and keep that.
    images = [to_input(augment(resize(image.convert("RGB")))) for image in rows["image"]]
    return {"pixel_values": images, "labels": rows["label"]}


def for_test(rows: dict[str, list]) -> dict[str, list]:
    return {
        "pixel_values": [to_input(resize(image.convert("RGB"))) for image in rows["image"]],
        "labels": rows["label"],
    }


pets["train"].set_transform(for_training)
pets["test"].set_transform(for_test)

# A small network from scratch. For a trained one, take AutoModelForImageClassification.from_pretrained(NAME), with
# `mean` and `std` from its AutoImageProcessor.
config = ResNetConfig(
    embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=pets["train"].features["label"].num_classes
)
trainer = Trainer(
    model=AutoModelForImageClassification.from_config(config),
    args=TrainingArguments(
        "runs/huggingface", num_train_epochs=2, report_to="none",
        remove_unused_columns=False,  # else Trainer drops "image" before the transform sees it
    ),
    train_dataset=pets["train"],
    eval_dataset=pets["test"],
    compute_metrics=lambda found: {"accuracy": np.mean(found.predictions.argmax(-1) == found.label_ids)},
)  # fmt: skip
trainer.train()
print(trainer.evaluate())

"""The page of all settings, docs/reference/settings.md: `make settings`, or

    python docs/reference/make_settings.py

What a setting means is the comment beside its field; what a preset gives is what its function in `recipes` returns for
data of many kinds.
"""

import ast
import inspect
import io
import json
import re
import tokenize
import typing
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch

from slackaug.augment.prepare import SMALL_IMAGE
from slackaug.config import presets
from slackaug.config.parse import kind_name
from slackaug.config.presets import RunConfig
from slackaug.data import Dataset, Split

PAGE = Path(__file__).parent / "settings.md"
PRESETS = ("quick", "standard", "fast", "paper")
FROM_THE_DATA = "from the data: "
NAMES = (
    "own",
    "torchvision:CIFAR10",
    "torchvision:CIFAR100",
    "imagenet100:x",
    *(f"domainnet:x/{d}" for d in presets.DOMAINNET),
)
SIZES = (SMALL_IMAGE, SMALL_IMAGE + 1)
LEAST_IMAGES, MOST_IMAGES = 4, 1_000_000
N_IMAGES = [*(round(LEAST_IMAGES * 1.2**i) for i in range(68)), MOST_IMAGES]  # the 68th is just below

TOP = f"""<!-- Written by docs/reference/make_settings.py from the comments beside the fields: make settings. -->
# Settings

`--set search.n_rounds=5` changes one setting of a search, an evaluation or a study (in Python
`set=["search.n_rounds=5"]`), and `--config FILE.yaml` several, of a search or an evaluation. The file counts more than
the preset, `--set` more than the file, and options more than `--set`. `slackaug search DATA -o RUN --dry-run` prints
all settings as they would be; a run's `config.yaml` has them as they were. What theta, phi, pi and mu are:
[method.md](../science/method.md).

- **From the data**: the preset looks at the number of images, their size and the name of the data. A range is that of
  {LEAST_IMAGES} to {MOST_IMAGES:,} training images. `paper` has a row for each set of the paper, and that of CIFAR-100
  for other data.
- **Rates**: with `--set search.model_lr=...` nothing is calibrated, and with `search.policy_lr` or `search.kl_weight`
  there is no budget. What has no effect beside a budget is refused.
- **Rounds**: `search.kl_budget` is {presets.DISTANCE:g} / n_rounds², whether the preset or `search.n_rounds` says how
  many there are: more of them take the policy no further.
- **Memory**: where images do not fit on the GPU, batches and then `search.n_composites` are halved, which is said; not
  with `paper` or `--config`, nor where `--set` gives them.
- **Evaluations** depend on `evaluate`, `model`, `weights`, `space`, `exclude` and `flip` alone. With a policy of a run
  they begin as in that run. Settings of a search are refused.
"""


def stand_in(name: str, size: int, n_images: int) -> Dataset:
    """All that a preset looks at; the images take no memory."""
    image, label = torch.zeros(1, 3, size, size, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    split = Split(image.expand(n_images, -1, -1, -1), label.expand(n_images))
    grey = (0.5, 0.5, 0.5)
    return Dataset(name=name, train=split, test=split, class_names=("a", "b"), mean=grey, std=grey, fingerprint="")


def comments(record: type) -> dict[str, str]:
    """What stands beside each field of a dataclass."""
    source = inspect.getsource(record)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    by_line = {token.start[0]: token.string.strip("# ") for token in tokens if token.type == tokenize.COMMENT}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = {
        node.target.id: by_line.get(node.end_lineno or 0, "")
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    missing = [name for name, comment in found.items() if not comment]
    if missing:
        raise ValueError(
            f"{record.__name__}: no comment says, on the line of the field, what it is: {', '.join(missing)}"
        )
    return found


def sentence(comment: str) -> str:
    """With names as code, and where a setting has no effect in a sentence of its own."""
    text = re.sub(r"--[a-z-]+|~/\.\w+|\b\w+[._]\w+\b", r"`\g<0>`", comment)
    return f"{text[0].upper()}{text[1:]}.".replace("; no effect", ". **No effect**")


def written(value: Any) -> str:
    """As in YAML and in --set."""
    return value if isinstance(value, str) and value else json.dumps(value)


def cell(values: Sequence[Any]) -> str:
    """What a preset gives, of its values for data of all kinds."""
    distinct = sorted({*values} - {None}) + [None] * (None in values)
    texts = [written(value) for value in distinct]
    if len(texts) == 1:
        return texts[0]
    if len(texts) > 2 and not isinstance(distinct[0], str) and None not in distinct:
        return f"{FROM_THE_DATA}{texts[0]} to {texts[-1]}"
    return f"{FROM_THE_DATA}{', '.join(texts[:-1])} or {texts[-1]}"


def table(configs: dict[str, list[Any]], where: str = "") -> str:
    """Of the fields of one record, given as each preset has it; a single column where all presets agree."""
    record = type(configs[PRESETS[0]][0])
    kinds, meanings = typing.get_type_hints(record), comments(record)
    names = [field.name for field in fields(record) if not is_dataclass(kinds[field.name])]
    cells = {name: [cell([getattr(c, name) for c in configs[preset]]) for preset in PRESETS] for name in names}
    columns = PRESETS if any(len({*row}) > 1 for row in cells.values()) else ("every preset",)
    lines = [("setting", "type", "meaning", *columns), ["---"] * (3 + len(columns))]
    lines += [
        (f"`{where}{name}`", kind_name(kinds[name]), sentence(meanings[name]), *cells[name][: len(columns)])
        for name in names
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page() -> str:
    """All of docs/reference/settings.md."""
    data = [stand_in(*kind) for kind in product(NAMES, SIZES, N_IMAGES)]
    configs = {preset: [presets.preset(preset, one) for one in data] for preset in PRESETS}
    parts = [TOP, "## The run\n" + table(configs)]
    for name, comment in comments(RunConfig).items():
        records = {preset: [getattr(config, name) for config in found] for preset, found in configs.items()}
        if is_dataclass(records[PRESETS[0]][0]):
            parts.append(f"## {name}\n{sentence(comment)}\n\n{table(records, f'{name}.')}")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""The pages of all settings and all commands, docs/reference/settings.md and commands.md: see make_pages.py.

Each field says what it means; what a preset gives is what its function in `presets` returns for
data of many kinds.
"""

import inspect
import json
import re
import typing
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any

import torch

import slackaug
from slackaug import cli
from slackaug.augment.prepare import SMALL_IMAGE
from slackaug.commands import COMMANDS
from slackaug.config import paper, presets
from slackaug.config.options import OTHER_NAMES
from slackaug.config.parse import kind_name
from slackaug.config.run_config import RunConfig
from slackaug.data import DataConfig, Dataset, Split

PRESETS = ("quick", "standard", "fast", "paper")
FROM_THE_DATA = "from the data: "
NAMES = (
    "own",
    "torchvision:CIFAR10",
    "torchvision:CIFAR100",
    "imagenet100:x",
    *(f"domainnet:x/{d}" for d in paper.DOMAINNET),
)
SIZES = (SMALL_IMAGE, SMALL_IMAGE + 1)
LEAST_IMAGES, MOST_IMAGES = 4, 1_000_000
N_IMAGES = [*(round(LEAST_IMAGES * 1.2**i) for i in range(68)), MOST_IMAGES]  # the 68th is just below

TOP = f"""<!-- Written by docs/reference/make_pages.py from the fields and the presets: make reference. -->
# Settings

Most people need none of these. `--set search.n_rounds=5` changes one setting of a search, an evaluation or a study; in
Python it is `set=["search.n_rounds=5"]`. `--config FILE.yaml` changes several, in a search or an evaluation. Options
win over `--set`, `--set` over the file, and the file over the preset. `slackaug search DATA -o RUN --dry-run` prints
what all settings would be; a run's `config.yaml` has what they were. [Method](../science/method.md) explains theta,
phi, pi and mu.

- **From the data**: the preset looks at the number of images, their size and the name of the data. The range is for
  {LEAST_IMAGES} to {MOST_IMAGES:,} training images. `paper` has a row for each set of the paper. For other
  data it takes that of CIFAR-100 up to {SMALL_IMAGE} pixels, and above that of DomainNet.
- **Rates**: if you give `search.model_lr`, no rate is tried. If you give `search.policy_lr` or `search.kl_weight`, the
  policy moves by that rate instead of a budget. With a budget, a reward counts less the mean of the step's others, and
  all positions of a composite share one distribution. A setting that would have no effect is refused.
- **Rounds**: `search.kl_budget` is {presets.DISTANCE:g} / n_rounds², also if you change the number of rounds: more of
  them take the policy no further.
- **Memory**: if images do not fit on the GPU, batches and then `search.n_composites` are halved, and the search says
  so. That is not done with `paper` or `--config`, nor to what you set.
- **Evaluations** look only at `evaluate`, `model`, `weights`, `space`, `exclude` and `flip`. With the policy of a run
  they begin as in that run. Settings of a search are refused.
"""


def stand_in(name: str, size: int, n_images: int) -> Dataset:
    """All that a preset looks at; the images take no memory."""
    image, label = torch.zeros(1, 3, size, size, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    split = Split(image.expand(n_images, -1, -1, -1), label.expand(n_images))
    grey = (0.5, 0.5, 0.5)
    return Dataset(name=name, train=split, test=split, class_names=("a", "b"), mean=grey, std=grey, fingerprint="")


def meanings(record: type) -> dict[str, str]:
    """What each field of a dataclass is, as its annotation says."""
    hints = typing.get_type_hints(record, include_extras=True)
    found = {field.name: getattr(hints[field.name], "__metadata__", ("",))[0] for field in fields(record)}
    missing = [name for name, meaning in found.items() if not meaning]
    if missing:
        raise ValueError(f"{record.__name__}: nothing says what it is: {', '.join(missing)}")
    return found


def sentence(comment: str) -> str:
    """With names as code, and where a setting has no effect in a sentence of its own."""
    text = re.sub(r"--[a-z-]+|~/[\w./]+|\b\w+[._]\w+\b", r"`\g<0>`", comment)
    return f"{text[0].upper()}{text[1:]}.".replace("; no effect", ". **No effect**")


def written(value: Any) -> str:
    """A value as it stands in YAML and in --set."""
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


def as_table(*lines: Sequence[str]) -> str:
    lines = (lines[0], ["---"] * len(lines[0]), *lines[1:])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table(configs: dict[str, list[Any]], where: str = "") -> str:
    """Of the fields of one record, given as each preset has it; a single column where all presets agree."""
    record = type(configs[PRESETS[0]][0])
    kinds, meaning = typing.get_type_hints(record), meanings(record)
    names = [field.name for field in fields(record) if not is_dataclass(kinds[field.name])]
    cells = {name: [cell([getattr(c, name) for c in configs[preset]]) for preset in PRESETS] for name in names}
    columns = PRESETS if any(len({*row}) > 1 for row in cells.values()) else ("every preset",)
    rows = [
        (f"`{where}{name}`", kind_name(kinds[name]), sentence(meaning[name]) + option_of(record, name), *cells[name])
        for name in names
    ]
    return as_table(("setting", "type", "meaning", *columns), *(row[: 3 + len(columns)] for row in rows))


def option_of(record: type, name: str) -> str:
    """Which option of a search sets it, if one does."""
    option = OTHER_NAMES.get(name, name)
    is_option = record in (RunConfig, DataConfig) and option in inspect.signature(slackaug.search).parameters
    return f" Option `--{option.replace('_', '-')}`." if is_option else ""


def settings_page() -> str:
    """All of docs/reference/settings.md."""
    data = [stand_in(*kind) for kind in product(NAMES, SIZES, N_IMAGES)]
    configs = {preset: [presets.preset(preset, one) for one in data] for preset in PRESETS}
    parts = [TOP, "## The run\n" + table(configs)]
    for name, meaning in meanings(RunConfig).items():
        records = {preset: [getattr(config, name) for config in found] for preset, found in configs.items()}
        if is_dataclass(records[PRESETS[0]][0]):
            parts.append(f"## {name}\n{sentence(meaning)}\n\n{table(records, f'{name}.')}")
    return "\n".join(parts)


COMMANDS_TOP = """<!-- Written by docs/reference/make_pages.py from slackaug.commands: make reference. -->
# Commands

Each command is also a Python function with the same names: `slackaug search pets -o runs/pets --size 32` is
`slackaug.search("pets", "runs/pets", size=32)`. Only `report` and `export` are elsewhere, in
`slackaug.commands.report` and `slackaug.commands.export`. `--debug` with any command shows the traceback of an error.
"""


def spelled(one: Any) -> str:
    """An option or an argument, as on the command line."""
    words = (*one.opts, *one.secondary_opts)
    return ", ".join(f"`{word if word.startswith('-') else word.upper()}`" for word in words)


def default_text(one: Any) -> str:
    return "required" if one.required else "" if one.default in (None, False) else written(one.default)


def commands_page() -> str:
    """All of docs/reference/commands.md."""
    parts = [COMMANDS_TOP]
    for name in COMMANDS:
        command = cli.load(name)
        shown = [one for one in command.params if one.name != "help"]
        rows = [(spelled(one), f"`{one.name}`", default_text(one), one.help) for one in shown]
        found = as_table(("command line", "Python", "default", "meaning"), *rows) if rows else ""
        parts.append(f"## {name}\n{command.help}\n\n```bash\n{command.epilog}\n```\n\n{found}")
    return "\n".join(parts)

"""The accuracies that the paper prints, to set beside ours: test accuracy in per cent with its 95 % interval.

One text per table, under the label it has in the paper. Rows have our names: baselines as on the command line, `slack`,
and the variants of `paper.VARIANTS`; what a later table repeats is left out. Where there is no interval, the paper
quotes another paper or does not say how many trainings it is of.
"""

from collections.abc import Iterable
from typing import NamedTuple

UNIFORM_AGAIN = "uniform (ablation table)"  # the same policy as `uniform`, printed with other figures
TRANSFER = "slack from wrn-40-2"  # searched with another network than evaluated


class Figure(NamedTuple):
    """An accuracy in per cent, as printed."""

    accuracy: float
    half_width: float | None = None

    def __str__(self) -> str:
        if self.half_width is None:
            return f"{self.accuracy} %"  # one digit or two, as printed
        return f"{self.accuracy:.2f} ± {self.half_width:.2f} %"


Column = tuple[str, str]  # data set and network


class Printed(NamedTuple):
    columns: tuple[Column, ...]
    text: str  # a line per row: its name, then a cell per column


WRN_40_2, WRN_28_10 = "wrn-40-2", "wrn-28-10"
CIFAR = (("cifar10", WRN_40_2), ("cifar10", WRN_28_10), ("cifar100", WRN_40_2), ("cifar100", WRN_28_10))
N_IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "domainnet-real": 50_000, "domainnet-quickdraw": 50_000}  # to train
DOMAINS = ("real", "quickdraw", "infograph", "sketch", "painting", "clipart", "average")

TABLES = {
    "sota": Printed(
        CIFAR,
        """
        autoaugment         | 96.3      | 97.4      | 79.3      | 82.9
        fast-aa             | 96.4      | 97.3      | 79.4      | 82.7
        dada                | 96.4      | 97.3      | 79.1      | 82.5
        randaugment         | -         | 97.3      | -         | 83.3
        teachaugment        | -         | 97.5      | -         | 83.2
        uniformaugment      | 96.25     | 97.33     | 79.01     | 82.82
        trivialaugment-wide | 96.32±.05 | 97.46±.06 | 79.86±.19 | 84.33±.17
        uniform             | 96.12±.08 | 97.26±.07 | 78.79±.25 | 82.82±.24
        deepaa              | -         | 97.56±.14 | -         | 84.02±.18
        deepaa (reproduced) | 96.25±.11 | 97.27±.11 | 79.26±.35 | 83.38±.33
        slack               | 96.29±.08 | 97.46±.06 | 79.87±.11 | 84.08±.16
        """,
    ),
    "imagenet-100": Printed(
        (("imagenet100", "resnet18"),),
        """
        trivialaugment-ra-imagenet   | 85.87±.30
        trivialaugment-wide-imagenet | 86.39±.18
        uniform                      | 85.78±.32
        slack                        | 86.06±.11
        """,
    ),
    "domainnet": Printed(
        tuple((f"domainnet-{domain}", "resnet18") for domain in DOMAINS),
        """
        domainbed                    | 62.54±.15 | 66.54±.91 | 26.76±.36 | 59.54±.37 | 58.31±.25 | 66.23±.10 | 57.23±.18
        trivialaugment-ra-imagenet   | 70.85±.13 | 67.85±.07 | 35.24±.19 | 65.63±.11 | 64.75±.18 | 70.29±.18 | 62.43±.05
        trivialaugment-wide-imagenet | 71.56±.07 | 68.60±.05 | 35.44±.33 | 66.21±.16 | 65.15±.20 | 71.19±.19 | 63.03±.07
        trivialaugment-ra-cifar      | 70.28±.08 | 68.35±.07 | 33.85±.21 | 64.13±.12 | 64.73±.17 | 70.33±.21 | 61.94±.05
        trivialaugment-wide-cifar    | 71.12±.10 | 69.29±.05 | 34.21±.29 | 65.52±.25 | 64.81±.14 | 71.01±.21 | 62.66±.07
        uniform                      | 70.37±.08 | 68.27±.06 | 34.11±.21 | 65.22±.17 | 63.97±.24 | 72.26±.14 | 62.37±.06
        slack                        | 71.00±.13 | 68.14±.11 | 34.78±.18 | 65.41±.16 | 64.83±.12 | 72.65±.20 | 62.80±.06
        """,
    ),
    "search-architecture": Printed(
        (("cifar10", WRN_28_10), ("cifar100", WRN_28_10)), f"{TRANSFER} | 97.43±.04 | 83.94±.20"
    ),
    "ablation-KL": Printed(CIFAR, "without-kl | 96.27±.05 | 97.06±.11 | 79.61±.13 | 83.79±.19"),
    "norm": Printed(
        CIFAR,
        f"""
        {UNIFORM_AGAIN} | 96.22±.10 | 97.38±.05 | 79.07±.24 | 83.26±.17
        mu-only                  | 96.20±.08 | 97.42±.05 | 79.22±.17 | 83.57±.18
        pi-only                  | 96.22±.09 | 97.35±.04 | 79.36±.11 | 83.45±.15
        """,
    ),
    "magnitude-ablations": Printed(  # its other rows are the first table's, but for Fast AA's 79.3 there
        CIFAR,
        """
        fast-aa-start                                   | 96.22 | 97.08 | 78.26 | 82.17
        fast-aa-start, uniform magnitudes               | 96.37 | 97.25 | 79.10 | 82.80
        fast-aa (magnitude table)                       | 96.4  | 97.3  | 79.3  | 82.7
        published fast-aa                               | 96.4  | 97.22 | 79.11 | 82.82
        published fast-aa, uniform magnitudes           | 96.37 | 97.30 | 79.15 | 82.84
        published dada                                  | 96.33 | 97.19 | 79.07 | 82.05
        published dada, uniform magnitudes              | 96.37 | 97.35 | 78.97 | 82.57
        published deepaa                                | 96.46 | 97.48 | 79.62 | 83.85
        published deepaa, uniform magnitudes            | 96.55 | 97.47 | 78.89 | 83.62
        """,
    ),
    "ablations": Printed(CIFAR, "unrolled | 96.30±.08 | 97.43±.04 | 79.54±.20 | 84.11±.13"),
    "ablation-ens": Printed(CIFAR, "ensembling | 96.33±.08 | 97.48±.06 | 79.94±.13 | 84.01±.14"),
    "ablation-warm": Printed(CIFAR, "warm-start | 96.27±.09 | 97.05±.15 | 79.70±.11 | 83.90±.10"),
}


def read(tables: Iterable[Printed]) -> dict[Column, dict[str, Figure]]:
    """The figures of tables; a cell of `-` has none."""
    found: dict[Column, dict[str, Figure]] = {}
    for columns, text in tables:
        for line in text.strip().splitlines():
            row, *cells = (cell.strip() for cell in line.split("|"))
            for column, cell in zip(columns, cells, strict=True):
                accuracy, _, half_width = cell.partition("±")
                if cell != "-":
                    figure = Figure(float(accuracy), float(half_width) if half_width else None)
                    found.setdefault(column, {})[row] = figure
    return found


FIGURES = read(TABLES.values())  # by (data set, network), then by row

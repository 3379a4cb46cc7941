"""The tables and figures of the paper that need trainings, and the accuracies that it prints, to set beside ours.

One text per table, under the label it has in the paper, in the paper's order: test accuracy in per cent with its 95 %
interval. Rows have our names: baselines as on the command line, `slack`, and the variants of `paper.VARIANTS`. A row
without cells is one that an earlier table has, or that the paper draws. Where there is no interval, the paper quotes
another paper or does not say how many trainings it is of.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ..intervals import Accuracy

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

    @property
    def share(self) -> Accuracy:
        """As ours are; of how many trainings is not printed."""
        mean, reach = self.accuracy / 100, self.half_width
        low, high = (None, None) if reach is None else (mean - reach / 100, mean + reach / 100)
        return Accuracy(mean, low, high, n=0)


Column = tuple[str, str]  # data set and network


class Printed(NamedTuple):
    """A table, or a figure of what searches learned."""

    title: str
    columns: tuple[Column, ...]
    text: str  # a line per row: its name, then a cell per column or none
    figure: str | None = None  # what it draws of each search, as `slackaug figure` calls it; None: a table

    @property
    def rows(self) -> list[str]:
        return [line.partition("|")[0].strip() for line in self.text.strip().splitlines()]


WRN_40_2, WRN_28_10 = "wrn-40-2", "wrn-28-10"
CIFAR = (("cifar10", WRN_40_2), ("cifar10", WRN_28_10), ("cifar100", WRN_40_2), ("cifar100", WRN_28_10))
# To train; of quickdraw the paper says 50,000, and its authors' list has 145 of each class.
N_IMAGES = {"cifar10": (50_000,), "cifar100": (50_000,), "domainnet-real": (50_000,),
            "domainnet-quickdraw": (50_000, 50_025)}  # fmt: skip
DOMAINS = ("real", "quickdraw", "infograph", "sketch", "painting", "clipart")
RESNET = "resnet18"
IMAGENET = ("imagenet100", RESNET)
DOMAINNET = tuple((f"domainnet-{domain}", RESNET) for domain in DOMAINS)
AVERAGE = ("domainnet-average", RESNET)  # over the six domains: no data set of its own

# Rows of the paper that no study makes, and why.
QUOTED = {
    "fast-aa": "quoted from its paper; the policy it published is in the table of magnitudes",
    "fast-aa (magnitude table)": "quoted from its paper, with another figure than in the first table",
    "dada": "quoted from its paper; the policy it published is in the table of magnitudes",
    "deepaa": "quoted from its paper; the policy it published is in the table of magnitudes",
    "deepaa (reproduced)": "needs DeepAA's own search",
    "teachaugment": "quoted from its paper; it publishes no policy",
}

TABLES = {
    "eye_catching": Printed("Images of each domain and what is most and least likely", DOMAINNET, "slack", "strips"),
    "sota": Printed(
        "CIFAR-10 and CIFAR-100, beside other methods",
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
        "ImageNet-100",
        (IMAGENET,),
        """
        trivialaugment-ra-imagenet   | 85.87±.30
        trivialaugment-wide-imagenet | 86.39±.18
        uniform                      | 85.78±.32
        slack                        | 86.06±.11
        """,
    ),
    "domainnet": Printed(
        "Six domains of DomainNet, and their average",
        (*DOMAINNET, AVERAGE),
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
    "domainnet-pie": Printed("Policies of three domains", (DOMAINNET[4], DOMAINNET[3], DOMAINNET[5]), "slack", "pie"),
    "search-architecture": Printed(
        "Searched with another network than evaluated",
        (CIFAR[1], CIFAR[3]),
        f"""
        {TRANSFER} | 97.43±.04 | 83.94±.20
        slack
        """,
    ),
    "ablation-KL": Printed(
        "With and without KL",
        CIFAR,
        """
        without-kl | 96.27±.05 | 97.06±.11 | 79.61±.13 | 83.79±.19
        slack
        """,
    ),
    "norm": Printed(
        "Probabilities, magnitudes or both learned",
        CIFAR,
        f"""
        {UNIFORM_AGAIN} | 96.22±.10 | 97.38±.05 | 79.07±.24 | 83.26±.17
        mu-only                  | 96.20±.08 | 97.42±.05 | 79.22±.17 | 83.57±.18
        pi-only                  | 96.22±.09 | 97.35±.04 | 79.36±.11 | 83.45±.15
        slack
        """,
    ),
    "magnitude-ablations": Printed(  # of the figures that it repeats, Fast AA's 79.3 is another in the first table
        "Other methods with their magnitudes and with uniform ones",
        CIFAR,
        """
        fast-aa-start                                   | 96.22 | 97.08 | 78.26 | 82.17
        fast-aa-start, uniform magnitudes               | 96.37 | 97.25 | 79.10 | 82.80
        fast-aa (magnitude table)                       | 96.4  | 97.3  | 79.3  | 82.7
        published fast-aa                               | 96.4  | 97.22 | 79.11 | 82.82
        published fast-aa, uniform magnitudes           | 96.37 | 97.30 | 79.15 | 82.84
        dada
        published dada                                  | 96.33 | 97.19 | 79.07 | 82.05
        published dada, uniform magnitudes              | 96.37 | 97.35 | 78.97 | 82.57
        deepaa
        published deepaa                                | 96.46 | 97.48 | 79.62 | 83.85
        published deepaa, uniform magnitudes            | 96.55 | 97.47 | 78.89 | 83.62
        """,
    ),
    "cifar-pies": Printed("CIFAR: how policies were learned, and what came out", CIFAR, "slack", "pie"),
    "imagenet100-pies": Printed("The policy of ImageNet-100", (IMAGENET,), "slack", "pie"),
    "domainnet-pies": Printed("The policies of all domains", DOMAINNET, "slack", "pie"),
    "ablations": Printed(
        "In one stage, and without KL",
        CIFAR,
        """
        unrolled | 96.30±.08 | 97.43±.04 | 79.54±.20 | 84.11±.13
        without-kl
        slack
        """,
    ),
    # Of the next three the paper does not name the network.
    "ev-unrolled-nkl": Printed("In one stage without KL: a collapse", (CIFAR[2],), "unrolled-without-kl", "evolution"),
    "ev-unrolled": Printed("In one stage with KL", (CIFAR[2],), "unrolled", "evolution"),
    "ev-nkl": Printed("Without KL at two rates", (CIFAR[2],), "without-kl\nwithout-kl-0.5", "evolution"),
    "ablation-ens": Printed(
        "Several models, one policy",
        CIFAR,
        """
        slack
        ensembling | 96.33±.08 | 97.48±.06 | 79.94±.13 | 84.01±.14
        """,
    ),
    "ablation-warm": Printed(
        "Cold start and warm start",
        CIFAR,
        """
        warm-start | 96.27±.09 | 97.05±.15 | 79.70±.11 | 83.90±.10
        slack
        """,
    ),
}


def read(tables: Iterable[Printed]) -> dict[Column, dict[str, Figure]]:
    """The figures of tables; a cell of `-` has none."""
    found: dict[Column, dict[str, Figure]] = {}
    for table in tables:
        for line in table.text.strip().splitlines():
            row, *cells = (cell.strip() for cell in line.split("|"))
            for column, cell in zip(table.columns, cells, strict=bool(cells)):
                accuracy, _, half_width = cell.partition("±")
                if cell != "-":
                    figure = Figure(float(accuracy), float(half_width) if half_width else None)
                    found.setdefault(column, {})[row] = figure
    return found


FIGURES = read(TABLES.values())  # by (data set, network), then by row

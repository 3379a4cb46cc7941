"""All that decides a search: the preset's choices, the rounds, and the trainings before and after them."""

from dataclasses import dataclass, field, replace
from typing import Annotated

from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..augment.policy_file import MAX_COMPOSED, MU_START, SIGMA_MAX, SIGMA_MIN
from ..augment.transforms import SPACES, get_space
from ..data import Dataset
from ..data.options import DataConfig
from ..engine.fit import FitConfig
from ..methods.budget import SearchConfig
from ..models import MODELS
from ..schema import check_bounds, number, unknown

N_COMPOSED = 3  # where a search is to find out by itself, it begins as the paper does
FEWEST = (1, 2, 3)  # transformations that rounds may start from


@dataclass(frozen=True, kw_only=True)
class RaceConfig:
    """How the learned policy is compared with what people use instead; research/notebook.md has the error rates."""

    candidates: Annotated[
        tuple[str, ...],
        "what races, the simplest first: baselines, and `learned`, taken further or less far (learned-x2, "
        "learned-x0.5), with other magnitudes (learned-mu0.75) or fewer transformations (learned-1); none: no race",
    ] = ()
    incumbent: Annotated[str, "the candidate that is taken where no other is shown to be better"] = "uniform-2"
    n_first: Annotated[int, "trainings of each candidate before the worse half drops out"] = 2
    n_last: Annotated[int, "trainings of each of the last two, with seeds and on images that nothing was chosen by"] = 8

    def __post_init__(self) -> None:
        check_bounds(self, at_least_1=("n_first", "n_last"))
        if self.candidates and self.incumbent not in self.candidates:
            raise ValueError(f"race.candidates: expected {self.incumbent} among them, or another race.incumbent")
        if len(self.candidates) == 1 or len({*self.candidates}) < len(self.candidates):
            raise ValueError(f"race.candidates: expected two or more different ones, got {', '.join(self.candidates)}")

    @property
    def rounds(self) -> list[tuple[int, int]]:
        """The challengers in each, and how often each is trained by its end: half as many, twice as often."""
        found = [(max(len(self.candidates) - 1, 1), self.n_first)]
        while found[-1][0] > 3:
            found.append((found[-1][0] // 2, 2 * found[-1][1]))
        return found

    @property
    def n_trainings(self) -> int:
        """Count all trainings; the incumbent is trained beside the challengers."""
        ends = [0, *(n for _, n in self.rounds)]
        in_rounds = sum((n_alive + 1) * (n - before) for (n_alive, n), before in zip(self.rounds, ends, strict=False))
        return in_rounds + 2 * self.n_last


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The settings of a run that are options of the commands, too."""

    preset: Annotated[
        str, "what all other settings begin with: quick (the default without a GPU), fast (with one), standard or paper"
    ]
    model: Annotated[str, "the network: small, resnet18, wrn-40-2, timm:NAME or module:callable"]
    space: Annotated[str, "the transformations that a policy chooses from: cifar, imagenet or domainnet"]
    exclude: Annotated[tuple[str, ...], "transformations to leave out of the space, such as Invert,Solarize"] = ()
    flip: Annotated[
        bool | None,
        "mirror half of the images; turn it off if a mirror image may have another label, as with text. Without: on, "
        "except for data known for that, such as digits",
    ] = None
    balanced: Annotated[bool, "the validation loss counts all classes alike, however many images they have"] = False
    weights: Annotated[str | None, "FILE.safetensors that the network starts from; without, it starts at random"] = None
    worth: Annotated[
        float,
        "a difference of up to so many points of accuracy counts as none; raise it if small gains do not matter to you",
    ] = 0.25
    seed: Annotated[int, "seed of the split, the networks, the batches and the draws"] = 0


@dataclass(frozen=True, kw_only=True)
class RunConfig(Choices):
    """All that decides a search."""

    data: Annotated[DataConfig, "which images, and how they are read; by options, not --set"] = field(
        default_factory=DataConfig
    )
    weights_digest: Annotated[str | None, "digest of that file, written by the search; another file is refused"] = None
    n_composed: Annotated[
        int | None, "transformations of a composite (K); null: tried before the rounds, how many do best"
    ] = 3
    fewest_composed: Annotated[
        int, "fewest transformations that rounds start from where n_composed is null: 1, 2 or 3"
    ] = 1
    mu_start: Annotated[float, "bound of all magnitudes (mu) that a search starts from, from 0.1 to 1"] = MU_START
    sigma: Annotated[float, "deviation of the Gaussian that blurs magnitudes, from 0.001 to 1"] = Policy.sigma
    n_ranks: Annotated[int, "models of an ensemble, each in a process of its own: as many as torchrun starts"] = 1
    pretrain: Annotated[FitConfig, "training before the rounds"] = field(
        default_factory=lambda: FitConfig(nesterov=False)
    )
    search: Annotated[SearchConfig, "the rounds, in which the policy is learned"] = field(default_factory=SearchConfig)
    evaluate: Annotated[FitConfig, "the trainings that compare policies, in the race and in evaluations"] = field(
        default_factory=FitConfig
    )
    race: Annotated[RaceConfig, "which of the learned policy and what people use instead is best"] = field(
        default_factory=RaceConfig
    )

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise ValueError(unknown("space", self.space, list(SPACES)))
        if not self.model:
            raise ValueError(f"model: expected a name, such as {', '.join(MODELS)}")
        check_bounds(self, at_least_1=("n_ranks",), not_negative=("seed",))
        number(self.mu_start, "mu_start", MU_MIN, MU_MAX)
        number(self.sigma, "sigma", SIGMA_MIN, SIGMA_MAX)
        if not 0 <= self.worth <= 100:
            raise ValueError(f"--worth {self.worth:g}: expected points of accuracy, from 0 to 100, such as 0.25")
        if self.n_composed is not None and not 1 <= self.n_composed <= MAX_COMPOSED:
            raise ValueError(f"n_composed must be from 1 to {MAX_COMPOSED}, or null, got {self.n_composed}")
        if self.fewest_composed not in FEWEST:
            raise ValueError(f"fewest_composed must be 1, 2 or 3, got {self.fewest_composed}")


BLANK = RunConfig(preset="", model="small", space="cifar")  # for a file that has all settings


def start_policy(config: RunConfig, data: Dataset) -> Policy:
    """Where a search begins; an unknown transformation in `exclude` is found here."""
    space = get_space(config.space)
    space = space.exclude(*config.exclude) if config.exclude else space
    flip = data.flip if config.flip is None else config.flip
    n_composed = config.n_composed or N_COMPOSED
    phi = Policy.uniform(space, n_composed=n_composed, mu=config.mu_start, flip=flip, mean=data.mean, std=data.std)
    return replace(phi, sigma=config.sigma, dataset=data.fingerprint)

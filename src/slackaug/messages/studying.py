"""What studies tell."""

from collections.abc import Mapping, Sequence

from . import counted, duration, listed
from .names import augmentation


def as_the_paper_counts(name: str, interval: str, over: str) -> str:
    return f"{name} over all evaluations, as the paper counts: {interval} ({over})."


def stability(n_searches: int, correlations: Mapping[str, float | None], entropy: str) -> str:
    """How alike the policies of several searches are."""
    values = {key: "undefined" if value is None else f"{value:.2f}" for key, value in correlations.items()}
    return (
        f"Stability over {n_searches} searches (mean pairwise correlation): pi {values['pi']}, without Invert and "
        f"Solarize {values['pi_rest']}; mu {values['mu']}, without Solarize {values['mu_rest']}; {entropy}."
    )


def stability_of_one(entropy: str) -> str:
    return f"One search says nothing about stability; {entropy}."


def entropy(nats: float, share: float | None) -> str:
    of_highest = "" if share is None else f", {share:.1%} of the highest"
    return f"entropy {nats:.3f} nats{of_highest}"


def kept(n_kept: int, n_searches: int, others: Mapping[str, int]) -> str:
    """What races decided; `others`, how many searches end with which baseline instead."""
    text = f"the race kept the learned policy in {n_kept} of {counted(n_searches, 'search')}"
    instead = listed([f"{augmentation(name)} in {n}" for name, n in others.items()])
    return f"{text}, and took {instead}" if instead else text


def study_of(recipe: str, n_searches: int, model: str, n_trainings: int) -> str:
    searched = f"{counted(n_searches, 'search')} with {model}, then " if n_searches else ""
    return f"Study {recipe}: {searched}{counted(n_trainings, 'training')}."


def left_out(policies: Sequence[str]) -> str:
    options = " ".join(f"-p {name}=FILE" for name in policies)
    return f"Without {listed(policies)}: their published policies are not part of slackaug. To add them: {options}"


def each_search(sentence: str) -> str:
    return f"Each search: {sentence[:1].lower()}{sentence[1:]}"


def no_figures_of_the_paper(reason: str) -> str:
    return f"The paper's figures are left out: {reason}."


def search_done(name: str, seconds: float | None, entropy: float, remarks: Sequence[str]) -> str:
    """`remarks` are whole sentences."""
    took = "" if seconds is None else f"{duration(seconds)}, "
    return " ".join([f"{name}: {took}entropy {entropy:.3f}.", *remarks])


def one_policy(n_searches: int, path: str) -> str:
    return f"One policy for all {n_searches} searches is {path}"

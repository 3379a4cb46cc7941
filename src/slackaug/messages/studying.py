"""What studies tell."""

from collections.abc import Mapping, Sequence

from . import counted, duration, listed
from .names import spoken


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
    instead = listed([f"{spoken(name)} in {n}" for name, n in others.items()])
    return f"{text}, and took {instead}" if instead else text


def study_of(recipe: str, n_searches: int, model: str, n_trainings: int) -> str:
    searched = f"{counted(n_searches, 'search')} with {model}, then " if n_searches else ""
    return f"Study {recipe}: {searched}{counted(n_trainings, 'training')}."


def left_out(policies: Sequence[str]) -> str:
    options = " ".join(f"-p {name}=FILE" for name in policies)
    return f"Without {listed(policies)}: their published policies are not part of slackaug. To add them: {options}"


# --- tables of the paper ----------------------------------------------------------------------------------------------

TABLE_RUNS = "The studies of this table are running. This page renews itself until the end."
FIGURE = "This is a figure of the paper: see what the searches learned."
LIST_HEAD = "Tables and figures of the paper, in its order. For one of them: slackaug study paper/sota --list"
HOURS = (
    "Hours are of one H200, from images per second that were measured there, not here: each study measures its cost on "
    "your machine, and tells you before it starts."
)
WHERE_IMAGES_ARE = (
    "--data ROOT names the folder of the images: ROOT/imagenet100, ROOT/domainnet/clipart and so on, and, unless "
    "torchvision is to load them, ROOT/cifar10 and ROOT/cifar100 as folders or npz files."
)
PRINTED = "What the paper prints, and how many transformations each method composes:"


def listed_table(name: str, title: str, n_studies: int, hours: float, lacking: Sequence[str]) -> str:
    lack = f"; no images of {listed(lacking)}" if lacking else ""
    return f"{name}: {title} ({counted(n_studies, 'study')}, {hours:,.0f} H200 hours{lack})"


def no_images(data: str, places: Sequence[str], root: str | None, is_in_torchvision: bool) -> str:
    expected = " or ".join(f"{root or 'ROOT'}/{place}" for place in places)
    other = ", or install torchvision" if is_in_torchvision else ""
    return f"no images of {data}: expected {expected}{'' if root else ' with --data ROOT'}{other}"


def not_there(study: str, lack: str, *, is_done: bool) -> str:
    if lack:
        return lack
    return f"left out of {study}: it needs a file" if is_done else f"{study} is not done yet"


def domains_missing(n: int, n_all: int) -> str:
    return f"{n} of {n_all} domains are there"


def answer_of_table(n_ours: int, n_judged: int, n_agree: int) -> str:
    if not n_ours:
        return "There is no answer yet: none of the studies is done."
    if not n_judged:
        return (
            f"{counted(n_ours, 'accuracy')} {'is' if n_ours == 1 else 'are'} there. None can be compared with the "
            "paper's: that takes its images, its trainings and intervals on both sides."
        )
    return (
        f"{n_agree} of {counted(n_judged, 'accuracy')} agree with the paper: the gap is within both intervals together."
    )


def part_left_out(name: str, lack: str) -> str:
    return f"{name} is left out: {lack}"


def part_of_table(name: str, i: int, n: int) -> str:
    return f"Study {i} of {n}: {name}"


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

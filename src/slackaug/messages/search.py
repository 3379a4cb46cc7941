"""What a search tells its user: what its stages found, how it ended, and what to do next."""

import math
from collections.abc import Mapping, Sequence

from . import counted, duration, listed

# --- before it starts -------------------------------------------------------------------------------------------------

COUNTS_NUMBERS = (
    "Pre-training with 3 random transformations per image, then with fewer or more, shows how many of them do best."
)
RACES = "First it learns a policy. Then a race shows whether that beats what people use instead."
BALANCED = "The validation loss counts all classes alike (--balanced)."


def images(data: str, n_train: int, n_test: int, size: tuple[int, int], n_classes: int) -> str:
    height, width = size
    return (
        f"{data}: {n_train:,} training images of {width} x {height} pixels, {counted(n_classes, 'class')}; "
        f"{counted(n_test, 'test image')}, which the search does not see."
    )


def flips(*, is_on: bool) -> str:
    on, other = ("on", "--no-flip") if is_on else ("off", "--flip")
    return f"Mirror flips are {on} ({other} changes that)."


def basis(
    space: str, excluded: Sequence[str], model: str, preset: str, row: str | None, device: str | None = None
) -> str:
    """What a search chooses from, and with what; `row`, that of the paper whose settings it takes."""
    facts = [f"Space {space}{f' without {listed(excluded)}' if excluded else ''}", f"network {model}"]
    facts += [f"preset {preset}{f' (the row of {row})' if row else ''}", *([f"device {device}"] if device else [])]
    return f"{'; '.join(facts)}."


def rounds(n: int, n_retrain: int, n_unrolled: int, n_composites: int, batch: int, n_val: int) -> str:
    return (
        f"{counted(n, 'round')} of {n_retrain} steps in which only the network learns, then {n_unrolled} in which the "
        f"policy learns too. A step applies {n_composites} composites to {counted(batch, 'image')}, and judges the "
        f"policy by {counted(n_val, 'validation image')}."
    )


def rate_of_retraining(model_lr: float, *, is_tried: bool) -> str:
    if is_tried:
        return f"The rate of re-training is found by trial, starting at {model_lr:g}."
    return f"The rate of re-training is {model_lr:g}."


def by_budget(kl_budget: float) -> str:
    return (
        f"Each round moves the policy by a set distance (search.kl_budget={kl_budget:g}). All draws for an image "
        "use one table of probabilities."
    )


def by_rate(policy_lr: float, kl_weight: float) -> str:
    return (
        f"The policy moves at a set rate (search.policy_lr={policy_lr:g}) and is held back by a KL penalty "
        f"(search.kl_weight={kl_weight:g})."
    )


def ensemble(n_models: int) -> str:
    return (
        f"{n_models} models, one in each process, learn one policy together. The losses that are shown and stored are "
        "those of rank 0."
    )


def does_not_fit(what: str, settings: Mapping[str, int]) -> str:
    """`settings`, those that are taken instead."""
    instead = listed([f"{setting}={value}" for setting, value in settings.items()])
    return f"{what} do not fit on the GPU. The search continues with {instead}."


def takes(learning: float, race: float) -> str:
    """Seconds; without a race, none for that."""
    return f"This search takes about {parts(learning, race)} (measured over a few steps)."


def parts(learning: float, race: float) -> str:
    whole = f"{duration(learning + race)} here"
    return f"{whole}: {duration(learning)} to learn, {duration(race)} for the race" if race else whole


def limited(
    limit: float, left: float, learning: float, race: float, first_round: float, to_learn: float, least: float
) -> str:
    """What a time limit leaves of that; learning ends after `to_learn`, and with a limit of `least` a policy is
    learned."""
    if to_learn < first_round:
        minutes = duration(60 * math.ceil(least / 60)).removesuffix(" 00 s")
        instead = "" if to_learn else ", so only simple choices are compared"
        return f"In this time no policy can be learned{instead}. To learn one, give at least {minutes}."
    if learning + race <= left:
        return f"That is within your limit of {duration(limit)}."
    learns = min(learning, to_learn)
    says = f"Your limit of {duration(limit)} leaves {duration(learns)} to learn"
    says += f" and {duration(left - learns)} for the race" if race else ""
    is_cut, has_less = learns < learning, race - (left - learns) >= 1
    early = listed(["learning"] * is_cut + ["the race"] * (has_less or not is_cut))
    return f"{says}, so {early} will end early."


# --- stages -----------------------------------------------------------------------------------------------------------


def transformations(n: int) -> str:
    return f"{counted(n, 'random transformation')} per image" if n else "images as they are"


def composing(losses: Mapping[int, float], start: int) -> str:
    """Pre-trainings with several numbers of transformations, and how many rounds start with."""
    tried = ", ".join(f"{losses[number]:.3f} with {number or 'none'}" for number in sorted(losses))
    return f"Validation loss after pre-training: {tried}. Learning starts from {counted(start, 'transformation')}."


def best_number(tried: Sequence[int], best: int, epochs: int) -> list[str]:
    """Transformations per image, of those that were tried."""
    others = listed([str(number or "none") for number in sorted(tried)])
    said = [f"Best in the first short trainings: {transformations(best)} (tried: {others})."]
    if not best:
        said.append(
            f"That holds after {counted(epochs, 'epoch')} of pre-training. In longer trainings more augmentation pays; "
            f"to search with longer ones: --set pretrain.epochs={4 * epochs}"
        )
    return said


def rate(model_lr: float, before: float, losses: Mapping[float, float], *, fits: bool, is_far: bool) -> str:
    """The rate of re-training that was taken of those that were tried."""
    tried = f"({', '.join(f'{loss:.3f} at {rate:g}' for rate, loss in losses.items())})"
    if is_far:
        return (
            f"Re-training uses rate {model_lr:g}, the highest tried that does not raise the validation loss. It ends "
            f"far below the {before:.3f} of pre-training {tried}."
        )
    if fits:
        return (
            f"Re-training uses rate {model_lr:g}, the highest tried that keeps the validation loss near the "
            f"{before:.3f} of pre-training {tried}."
        )
    return (
        f"Re-training uses rate {model_lr:g}, which comes closest. No rate tried keeps the validation loss near the "
        f"{before:.3f} of pre-training {tried}."
    )


def hardly_learned(epochs: int, lr: float) -> str:
    return (
        f"After {counted(epochs, 'epoch')} of pre-training the network has hardly learned these classes, so the policy "
        f"would be chance: train it longer (--set pretrain.epochs={4 * epochs}) or in smaller steps (--set "
        f"pretrain.lr={lr / 4:g}), or take another --model."
    )


def nearly_right(epochs: int) -> str:
    return (
        f"After {counted(epochs, 'epoch')} of pre-training nearly every image is right already, so augmentation has "
        "little to gain here and the policy may be chance. To see whether it helps: slackaug evaluate with --baselines "
        "none,uniform."
    )


def too_short(epochs: int) -> str:
    return (
        f"Pre-training for {counted(epochs, 'epoch')} was short: the network still had much to learn. "
        f"Try --set pretrain.epochs={4 * epochs}."
    )


# --- the end, and resuming --------------------------------------------------------------------------------------------


SHORTENED = "The time limit shortened the race."


def time_limit(n_rounds: int, planned: int, to_continue: str) -> str:
    if not n_rounds:
        return f"The time limit left no time to learn a policy. {to_continue}"
    return f"Time limit reached: learning ended with round {n_rounds} of {planned}. {to_continue}"


OTHER_SPLITS = "`slackaug study` shows whether other splits agree."


def agreement(value: float, *, is_chance: bool) -> str:
    """Whether the rounds of a search know where they go: their mean correlation."""
    scale = f"{value:.2f}; 1 would be all the same way, 0 chance"
    if is_chance:
        return f"The rounds went different ways ({scale}), so the learned policy may be chance."
    return f"The rounds agree ({scale})."


MAY_BE_CHANCE = "Learning went different ways from round to round, so the learned policy may be chance."


def collapsed(kl_budget: float | None) -> str:
    advice = "a lower search.policy_lr or a higher search.kl_weight"
    if kl_budget is not None:
        advice = f"a lower search.kl_budget than {kl_budget:g}"
    return f"The policy has narrowed to few transformations, which rarely helps. Try {advice}."


def result(policy: str, *, is_answer: bool) -> str:
    """`is_answer`: the policy is what the search says to use."""
    return f"The {'' if is_answer else 'learned '}policy is {policy}"


NEXT, LOOK_AT_IT = "Next", "Next, to look at the learned policy"
USE_IT = "Next, to use the answer without slackaug in your training"
USE_OTHER = "Next, the report has the command that trains with it"
LONGER = "Next, to search with longer trainings"
FOR_YOURS = "Next, for your images, of which 200 digits and trainings of seconds say little"


def no_log(logger: str, reason: str) -> str:
    return f"{logger} gets no more numbers ({reason}). The search continues, and metrics.jsonl has them all."


def finished(folder: str, policy: str) -> str:
    return f"{folder}: this search is finished. Its policy is {policy}"


NO_CHECKPOINT = "There is no checkpoint yet, so the search starts again, with its stored settings."


def older_checkpoint(wrong: str) -> str:
    """`wrong`, what is wrong with a newer one."""
    return f"{wrong}. The search continues from the checkpoint before it."


def changed_since(before: str, now: str, *, is_code: bool) -> str:
    """`is_code`: more than rounding may differ."""
    what = "its numbers" if is_code else "the last bits of its numbers"
    return f"This run began with {before} and continues with {now}, so {what} may differ."


def resuming(share: float, seconds_left: float | None) -> str:
    left = "" if seconds_left is None else f"; about {duration(seconds_left)} left"
    return f"{share:.0%} of the search is done{left}."

"""The answer to the question that users come with, and what a race says on its way there.

Gains and their ends are in points of accuracy.
"""

import shlex
from collections.abc import Mapping, Sequence

from . import counted, listed
from .names import spoken
from .terminal import how

TIE = 0.05  # points: what is less reads as 0.0
LEVEL = "level with"
IT = "it"  # in a sentence that follows `Use ...`
MORE = {"seed": "--seeds 8", "search": "--resume --searches 4", "training": "--overwrite --set race.n_last=8"}


def n_digits(low: float, high: float) -> int:
    """After the point, of numbers with this interval; enough to see on which side of zero its ends are."""
    return 1 if high - low > 0.2 and min(abs(low), abs(high)) >= TIE else 2


def interval(gain: float | None, low: float, high: float) -> str:
    """`gain` where it has not been said yet."""
    digits = n_digits(low, high)
    ends = f"95 % interval {low:z.{digits}f} to {high:z.{digits}f}"
    return ends if gain is None else f"{gain:+z.{digits}f} points, {ends}"


def use(name: str, why: str, *, for_now: bool) -> str:
    """The answer; `why` calls that one IT."""
    return f"Use {spoken(name)}{' for now' if for_now else ''}. {why}"


def better(use: str, other: str, gain: float, low: float, high: float) -> str:
    points = f"{gain:.{n_digits(low, high)}f} points"
    return f"{first(use)} is {points} better than {spoken(other)} ({interval(None, low, high)})."


def better_still(name: str, used: str, gain: float, low: float, high: float) -> str:
    return f"But {spoken(name)} did better still ({interval(gain, low, high)}, over {spoken(used)})."


def ahead(use: str, other: str, gain: float, low: float, high: float) -> str:
    return (
        f"{first(use)} is probably better than {spoken(other)}: {gain:.{n_digits(low, high)}f} points ahead "
        f"({interval(None, low, high)})."
    )


def equal(use: str, other: str, gain: float, low: float, high: float, worth: float) -> str:
    """`gain`, of the other over what to use."""
    return f"{first(other)} is within {worth:g} points of {spoken(use)} ({interval(gain, low, high)})."


def unknown(use: str, other: str, gain: float, low: float, high: float) -> str:
    """`gain`, of the other over what to use."""
    where = place(gain, n_digits(low, high))
    doubt = "" if where == LEVEL else ", which may be chance"
    says = f"{first(other)} is {where} {spoken(use)} here{doubt}"
    return f"{says} ({interval(None, low, high)}). {smallest_gain(low, high)}"


def place(gain: float, digits: int) -> str:
    points = f"{abs(gain):.{digits}f}"
    return f"{points} points {'ahead of' if gain > 0 else 'behind'}" if float(points) else LEVEL


def smallest_gain(low: float, high: float) -> str:
    return f"A gain under {(high - low) / 2:.{n_digits(low, high)}f} points could not have been seen."


def no_spread(other: str, use: str, gain: float, over: str) -> str:
    """Speak of values that are all the same, as a few on a small test set may be."""
    says = f"{first(other)} is {place(gain, 2)} {spoken(use)} in each of {over}"
    return f"{says}: where all are the same there is no interval."


def too_few(other: str, use: str, n: int, unit: str) -> str:
    return (
        f"With {counted(n, unit)}, {spoken(other)} cannot be compared with {spoken(use)} yet: too few "
        f"{counted(0, unit).removeprefix('0 ')} to tell; add {MORE[unit]}."
    )


def no_common_seed(other: str, use: str) -> str:
    return f"{first(other)} cannot be compared with {spoken(use)}: they share no seed, so there is no interval."


def guessing(accuracy: float, largest: float, longer: Sequence[str]) -> str:
    """What to do where there is no answer; `accuracy` and `largest`, the share of the largest class, are in per cent,
    `longer` the options for longer trainings."""
    return (
        f"No answer yet: no network did clearly better than guessing. The best reached {accuracy:.1f} %, and naming "
        f"the largest class each time gives {largest:.1f} %. Try again with longer trainings ({' '.join(longer)}), "
        "more images or another --model."
    )


NO_TIME_TO_LEARN = "There was no time to learn a policy"
COMPARED_SIMPLE = f"{NO_TIME_TO_LEARN}, so only simple choices were compared"


def not_the_answer(use: str | None) -> str:
    """What must be known of a run's policy.json that is not what to use; `use`, what is."""
    if use is None:
        return "the search has no answer yet, so nothing shows whether this policy helps"
    return f"this is what the search learned, and not its answer, which is {spoken(use)}"


def is_the_answer(use: str) -> str:
    return f"this is the answer: {spoken(use)}"


def race_was_stopped(use: str) -> str:
    return f"the race was stopped before its end; so far: {spoken(use)}"


def no_time_so_far(use: str) -> str:
    return f"there was no time to learn; so far, the race says: {spoken(use)}"


def did_not_win(use: str) -> str:
    return f"this is the answer of the search, {spoken(use)}; the learned policy was not shown to be better"


def no_augmentation(*, flip: bool) -> str:
    """What to do if this is the answer."""
    return f"train on your images as they are{', with mirror flips' if flip else ''}"


def learned_dropped(points: float, n: int) -> str:
    how = f"{points:.1f} points behind the leader" if points >= TIE else "no better than simpler choices"
    return f"The learned policy was {how} after {counted(n, 'training')}, and dropped out."


def close_behind(names: Sequence[str]) -> str:
    """Those that dropped out of the race close behind its leader, which is what to use."""
    return f"In the race, it was not measurably better than {listed([spoken(name) for name in names])}."


def so_far(use: str, n: int, n_all: int, leader: str, points: float) -> str:
    """`points`, by which the leader is ahead of the default."""
    ahead = f"{spoken(leader)} was {points:.1f} points ahead of it" if points >= TIE else "nothing was ahead of it"
    return (
        f"So far: use {spoken(use)}, the default. The race was stopped after {n} of {counted(n_all, 'training')}, "
        f"before its end; by then {ahead}, which no final has tested."
    )


def no_answer(use: str, n: int, n_all: int) -> str:
    return (
        f"No answer yet: the race was stopped after {n} of {counted(n_all, 'training')}, before {spoken(use)}, the "
        "default, had its turn."
    )


def holds_for(epochs: int, model: str) -> str:
    length = counted(epochs, "epoch")
    return f"This is for {length} of the network {model}; longer trainings may want more augmentation."


def first(name: str) -> str:
    """As a sentence begins; the name of a file stays as it is."""
    return spoken(name) if spoken(name) == name != IT else capital(spoken(name))


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- on the way -------------------------------------------------------------------------------------------------------


def race(names: Sequence[str], incumbent: str, n_images: int) -> str:
    return (
        f"Race: {listed([spoken(name) for name in names])}. Each is trained several times, and tested in turn on "
        f"{n_images:,} images that it was not trained on. The best meets {spoken(incumbent)}, the default, in the "
        "final, and must beat it there."
    )


def dropped(behind: Mapping[str, float], n: int) -> str:
    """Points behind the first, by name."""
    who = listed([f"{spoken(name)} ({points:z.1f})" for name, points in behind.items()])
    return f"Out of the race after {counted(n, 'training')} each, with their points behind the leader: {who}."


def last_two(first: str, second: str, n: int, n_images: int) -> str:
    return (
        f"The last two, {spoken(first)} and {spoken(second)}, are trained {counted(n, 'more time')} each, and tested "
        f"on {n_images:,} other images."
    )


def race_failed(data: str, run: str) -> str:
    """What was learned is still there."""
    words = ["slackaug", "evaluate", data, "-p", run, "--baselines", "uniform-2", "--seeds", "8"]
    command = shlex.join([*words, "--set", "evaluate.lr=0.01", "-o", "OTHER"])
    return how(f"The learned policy is kept, {run}/policy.json. To compare it with other settings", command)


OUT_OF_TIME = "The time limit came before the end of the race."
NO_TIME_FOR_FORMS = "The time left is too short to race the learned policy in other forms, too."
NO_TIME_FOR_A_ROUND = "The time left is too short for another round: the leader goes to the final now."


def too_few_images(n: int, least: int) -> str:
    return (
        f"{n} training images are too few for a race, which needs {least}. The learned policy is the result; nothing "
        "shows whether it helps."
    )


NO_RACE_IN_AN_ENSEMBLE = (
    "An ensemble has no race. To compare what it learned: slackaug evaluate, with --baselines uniform-2."
)

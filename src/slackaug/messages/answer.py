"""The answer to the question that users come with, and what a race says on its way there.

Gains and their ends are in points of accuracy.
"""

import shlex
from collections.abc import Mapping, Sequence

from . import counted, listed
from .names import spoken
from .terminal import how

TIE = 0.05  # points: what is less reads as 0.0


def n_digits(low: float, high: float) -> int:
    """After the point, of numbers with this interval."""
    return 1 if high - low > 0.2 else 2


def interval(gain: float | None, low: float, high: float) -> str:
    """`gain` where it has not been said yet."""
    digits = n_digits(low, high)
    ends = f"95 % interval {low:.{digits}f} to {high:.{digits}f}"
    return ends if gain is None else f"{gain:+z.{digits}f} points, {ends}"


def better(use: str, other: str, gain: float, low: float, high: float) -> str:
    digits = n_digits(low, high)
    return f"Use {spoken(use)}: {gain:.{digits}f} points better than {spoken(other)} ({interval(None, low, high)})."


def better_still(name: str, used: str, gain: float, low: float, high: float) -> str:
    return f"But {spoken(name)} did better still ({interval(gain, low, high)}, over {spoken(used)})."


def no_difference(subject: str, reference: str, gain: float, low: float, high: float) -> str:
    return (
        f"No measurable difference between {spoken(subject)} and {spoken(reference)} ({interval(gain, low, high)}); "
        f"a gain under {high - gain:.{n_digits(low, high)}f} points could not have been seen."
    )


def ahead(use: str, other: str, gain: float, low: float, high: float) -> str:
    return (
        f"Use {spoken(use)}. It is probably better than {spoken(other)}: {gain:.{n_digits(low, high)}f} points ahead "
        f"({interval(None, low, high)})."
    )


def equal(use: str, other: str, gain: float, low: float, high: float, worth: float) -> str:
    """`gain`, of the other over what to use."""
    return (
        f"Use {spoken(use)}. {capital(spoken(other))} makes no difference of more than {worth:g} points "
        f"({interval(gain, low, high)})."
    )


def unknown(use: str, other: str, gain: float, low: float, high: float) -> str:
    """`gain`, of the other over what to use."""
    points, seen = (f"{value:.{n_digits(low, high)}f}" for value in (abs(gain), max(high - gain, gain - low)))
    where = f"{points} points {'ahead' if gain > 0 else 'behind'} here, which may be chance"
    where = where if float(points) else "level with it here"
    return (
        f"Use {spoken(use)}, the default. {capital(spoken(other))} is {where} "
        f"({interval(None, low, high)}). A gain under {seen} points could not have been seen."
    )


def guessing(accuracy: float, largest: float, longer: Sequence[str]) -> str:
    """What to do where there is no answer; `accuracy` and `largest`, the share of the largest class, are in per cent,
    `longer` the settings of a search with longer trainings."""
    settings = " ".join(f"--set {one}" for one in longer)
    return (
        f"No answer yet: no network did clearly better than guessing. The best reached {accuracy:.1f} %, and naming "
        f"the largest class each time gives {largest:.1f} %. Search again with longer trainings ({settings}), more "
        "images or another --model."
    )


NO_TIME_TO_LEARN = "There was no time to learn a policy, so only simple choices were compared."


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
    return f"the learned policy did not win the race; {spoken(use)} did"


def no_augmentation(*, flip: bool) -> str:
    """What to do if this is the answer."""
    return f"train on your images as they are{', with mirror flips' if flip else ''}"


def too_few(use: str, n: int) -> str:
    return (
        f"Use {spoken(use)} for now: {counted(n, 'training')} of each of the last two are too few to tell. Take "
        "--set race.n_last=8."
    )


def learned_dropped(points: float, n: int) -> str:
    how = f"{points:.1f} points behind the leader" if points >= TIE else "no better than simpler choices"
    return f"The learned policy was {how} after {counted(n, 'training')}, and dropped out."


def did_as_well(names: Sequence[str]) -> str:
    """Those that dropped out of the race level with its leader, which is what to use."""
    return f"{capital(listed([spoken(name) for name in names]))} did as well in the race."


def so_far(use: str, n: int) -> str:
    return (
        f"So far: use {spoken(use)}, the default; nothing is shown to beat it yet. The race was stopped after "
        f"{counted(n, 'training')}, before its final."
    )


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
        f"The last two, {spoken(first)} and {spoken(second)}, are trained {n} more times each, and tested on "
        f"{n_images:,} other images."
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

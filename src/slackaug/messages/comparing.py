"""What comparisons of policies tell: their trainings, and what came out. Accuracies and differences are shares."""

from collections.abc import Sequence

from . import counted, duration
from .names import augmentation

NOTHING_TO_COMPARE = "Nothing to compare: give a policy and a baseline, or two baselines."
NOTHING_SEARCHED = "Nothing was searched, so there is no answer."
NO_BASELINE = "There is no baseline, so there is no answer."


def copies(n: int, n_test: int) -> str:
    return f"But {n:,} of {n_test:,} test images {are_copies(n)}."


def different_ways(ways: Sequence[str]) -> str:
    return f"But the trainings were executed in different ways, which differ by rounding: {'; '.join(ways)}."


def no_answer_yet(n_done: int, n: int) -> str:
    return f"There is no answer yet: {n_done} of {n} trainings are done."


# --- trainings --------------------------------------------------------------------------------------------------------


def compared(
    data: str,
    n_images: tuple[int, int],
    size: tuple[int, int],
    n_classes: int,
    model: str,
    epochs: int,
    device: str,
    *,
    flips: bool,
) -> str:
    """What policies are about to be compared on; `n_images` are training and test images, `size` height and width."""
    (n_train, n_test), (height, width) = n_images, size
    return (
        f"{data}: {n_train:,} training and {n_test:,} test images of {width} x {height} pixels, {n_classes} classes; "
        f"network {model}, {counted(epochs, 'epoch')}, mirror flips {'on' if flips else 'off'}, device {device}."
    )


def read_without(options: str) -> str:
    """Of options that the policy's run had for its data, and that do not hold for other data."""
    return f"The policy's run had {options}. This is other data, and is read without, unless you give that again."


def exact_copies(n: int, n_test: int) -> str:
    return f"{n:,} of {n_test:,} test images {are_copies(n)}, so accuracies will look better than they are."


def are_copies(n: int) -> str:
    return "is an exact copy of a training image" if n == 1 else "are exact copies of training images"


def much_longer(name: str, preset: str, usual: int, epochs: int) -> str:
    return (
        f"{name} was learned by the preset {preset}, whose trainings would have {usual} epochs here. These have "
        f"{epochs}. In much longer trainings such policies have been worse than uniform, so compare with that."
    )


def there_already(n: int, n_all: int) -> str:
    return f"{n} of {counted(n_all, 'training')} are done already."


def cost(n: int, seconds: float, at_once: int) -> str:
    """`seconds` of one training: its share of those that are trained at once."""
    if at_once > 1 and n > 1:
        return f"{n} trainings, {min(n, at_once)} at once: about {duration(n * seconds)}, measured over a few steps."
    return (
        f"{counted(n, 'training')} of about {duration(seconds)} each, measured over a few steps: "
        f"{duration(n * seconds)} one after the other."
    )


def study_cost(n_searches: int, search: float, n_trainings: int, training: float) -> str:
    return (
        f"A search takes about {duration(search)} here and a training {duration(training)}, measured over a few steps: "
        f"{duration(n_searches * search + n_trainings * training)} one after the other."
    )


def training_done(name: str, accuracy: float, seconds: float, images_per_second: float) -> str:
    return f"{name}: {100 * accuracy:.2f} % ({duration(seconds)}, {images_per_second:,.0f} images/s)"


def side_by_side(n: int) -> str:
    return f"{n} trainings side by side"


def few(n: int, unit: str, advice: str) -> str:
    return f"{counted(n, unit)} {'is' if n == 1 else 'are'} too few for a verdict. Take {advice}."


def narrow_by_chance(n: int, enough: int) -> str:
    return (
        f"An interval over {counted(n, 'search')} may be narrow by chance. --until is safer with --searches {enough}."
    )


def expected(n: int, half_width: float, noise: float, n_test: int) -> str:
    return f"{usual(noise, n_test)}, {counted(n, 'seed')} {show(half_width)}"


def expected_of_study(n_searches: int, n_evaluations: int, half_width: float, noise: float, n_test: int) -> str:
    return (
        f"{usual(noise, n_test)}, {counted(n_searches, 'search')} with {counted(n_evaluations, 'evaluation')} each "
        f"{show(half_width)}"
    )


def usual(noise: float, n_test: int) -> str:
    return (
        f"A rough estimate: if accuracies vary by {100 * noise:.1f} points from seed to seed, as is usual on "
        f"{counted(n_test, 'test image')}"
    )


def show(half_width: float) -> str:
    return f"show gains of {100 * half_width:.1f} points or more. If they vary more here, only larger gains will show."


def more_needed(half_width: float, until: float, n: int, unit: str, whose: str, seconds: float) -> str:
    """`n` units of each of those `whose` they are."""
    return (
        f"{reaches(half_width)} For {100 * until:g} points, about {counted(n, f'more {unit}')} of {whose} are needed: "
        f"{duration(seconds)} one after the other."
    )


def reaches(half_width: float) -> str:
    return f"The interval reaches {100 * half_width:.2f} points to each side."


def needs_searches(half_width: float, until: float, n_searches: int, *, is_most: bool) -> str:
    """Say that more evaluations are not enough."""
    about = f"more than {n_searches:,}" if is_most else f"about {n_searches}"
    advice = "" if is_most else f" To add them: --resume --searches {n_searches}"
    return (
        f"{reaches(half_width)} The searches seem to differ so much that more evaluations alone cannot reach "
        f"{100 * until:g} points: {about} searches are needed.{advice}"
    )


def grid(n: int) -> str:
    return f"RandAugment's grid: {n} trainings on one half of the training images, tested on the other."


def grid_done(best: str, accuracy: float) -> str:
    return f"RandAugment's grid: {best} is best, with {100 * accuracy:.2f} % on the validation half."


def died(name: str, exit_code: int | None) -> str:
    return f"{name}: its process died (exit code {exit_code}). It is resumed."


# --- policies beside baselines ----------------------------------------------------------------------------------------

OTHER_DATA = "learned on other data; it is used with the mean and std of this data"
NO_FLIPS = "trained without mirror flips, as its file says; the baselines have them (--no-flip turns them off for all)"


def known_as(policy: str, baseline: str) -> str:
    return f"{policy} is {augmentation(baseline)}, so it is trained once, as {baseline}."


def compared_with_itself(policy: str, baseline: str, learned: object) -> str:
    """`learned`, the file of what the search of the policy's run has learned, if it is such a policy."""
    others = f"{baseline},{'none' if baseline != 'none' else 'uniform-2'}"
    instead = "" if learned is None else f"; or compare the learned policy: -p {learned} -o OTHER"
    return (
        f"{policy} is {augmentation(baseline)}, the only other one, so there is nothing to compare. Add a baseline: "
        f"--baselines {others}{instead}"
    )


def other_space(own: str, of_baselines: str) -> str:
    return f"its space is {own}, that of the uniform baselines {of_baselines} (--ops changes that)"


def other_transformations(names: Sequence[str]) -> str:
    return f"its space differs from that of the uniform baselines by {', '.join(names)}"


def other_flips(*, is_on: bool) -> str:
    return f"trained {'with' if is_on else 'without'} mirror flips, unlike what its file says"

"""What a search tells its user: what its stages found, how it ended, and what to do next."""

from collections.abc import Mapping

from . import counted, duration

# --- stages -----------------------------------------------------------------------------------------------------------


def transformations(n: int) -> str:
    return f"{counted(n, 'random transformation')} per image" if n else "images as they are"


def composing(losses: Mapping[int, float], best: int, start: int, epochs: int) -> list[str]:
    """Pre-trainings with several numbers of transformations, and how many rounds start with."""
    tried = ", ".join(f"{losses[number]:.3f} with {number or 'none'}" for number in sorted(losses))
    said = [f"Best in pre-training: {transformations(best)} (validation loss {tried})."]
    if start != best:
        said[0] += f" Learning still starts from {start}."
    if not best:
        said.append(
            f"That holds after {counted(epochs, 'epoch')} of pre-training. In longer trainings more augmentation pays; "
            f"to search with longer ones: --set pretrain.epochs={4 * epochs}"
        )
    return said


def rate(model_lr: float, before: float, losses: Mapping[float, float], *, fits: bool, is_far: bool) -> str:
    """The rate of re-training that was taken of those that were tried."""
    tried = ", ".join(f"{rate:g}: {loss:.3f}" for rate, loss in losses.items())
    why = "the highest tried that keeps the validation loss near"
    if is_far:
        why = "the highest tried that does not raise the validation loss; it is far below"
    elif not fits:
        why = "the nearest tried, but none keeps the validation loss near"
    return f"Re-training at rate {model_lr:g}: {why} the {before:.3f} of pre-training ({tried})."


def hardly_learned(loss: float, guessing: float, epochs: int) -> str:
    return (
        f"After {counted(epochs, 'epoch')} of pre-training the network has hardly learned these classes (validation "
        f"loss {loss:.3f}, guessing has {guessing:.3f}), so the policy would be chance. Try --set "
        f"pretrain.epochs={4 * epochs}, another --preset or another --model."
    )


def nearly_right(loss: float, guessing: float, epochs: int) -> str:
    return (
        f"After {counted(epochs, 'epoch')} of pre-training nearly every image is right already (validation loss "
        f"{loss:.3f}, guessing has {guessing:.3f}), so augmentation has little to gain here and the policy may be "
        "chance. To see whether it is worth anything: slackaug evaluate with --baselines none,uniform."
    )


def too_short(before: float, after: float, epochs: int) -> str:
    return (
        f"Pre-training for {counted(epochs, 'epoch')} was short: re-training lowered the validation loss from "
        f"{before:.3f} to {after:.3f}. Try --set pretrain.epochs={4 * epochs}."
    )


def confirmation(before: float, after: float, n_composed: int, *, is_kept: bool, margin: float) -> str:
    """What to use: the learned policy, or the best of those that nothing was learned for."""
    other = transformations(n_composed)
    losses = f"validation loss {after:.3f} learned, {before:.3f} {'random' if n_composed else 'without'}"
    if is_kept:
        return f"Use the learned policy. It did better than {other} ({losses})."
    if after < before:
        losses += f"; a gain below {margin:.0%} may be chance"
    if n_composed:
        return f"Use {other}. Learning which ones did not help on this data ({losses})."
    return f"Leave {other}. Learning transformations did not help on this data ({losses})."


# --- the end, and going on --------------------------------------------------------------------------------------------


def time_limit(n_rounds: int, planned: int, to_go_on: str) -> str:
    is_open = ", not confirmed yet" if n_rounds == planned else ""
    return f"Time limit reached: the policy is that of round {n_rounds} of {planned}{is_open}. {to_go_on}"


OTHER_SPLITS = "; slackaug study says whether other splits find the same"


def collapsed(share: float, kl_budget: float | None) -> str:
    advice = "a lower search.policy_lr or a higher search.kl_weight"
    if kl_budget is not None:
        advice = f"a lower search.kl_budget than {kl_budget:g}"
    return f"The policy has collapsed to {share:.0%} of the highest entropy, which rarely helps. Try {advice}."


def result(policy: str, show: str) -> str:
    return f"the policy is {policy}; look at it with: {show}"


def report(path: str) -> str:
    return f"the report is {path}"


def going_on(share: float, seconds_left: float | None) -> str:
    left = "" if seconds_left is None else f"; about {duration(seconds_left)} left"
    return f"going on after {share:.0%} of the search{left}"

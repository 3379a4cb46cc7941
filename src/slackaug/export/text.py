"""The text of an exported file: what it says about itself, the policy's numbers, and the code that it needs."""

import textwrap

from .. import schema
from .._version import __version__
from ..augment import describe, functional, hue, pil, resize
from ..augment.functional import paint_for
from ..augment.policy import Policy
from ..augment.transforms import TRANSFORMS
from . import fidelity
from .fidelity import FIDELITY, KERNEL, PILLOW, TESTED
from .sources import Cutting, import_block, read, table

MODULES = (functional, hue, resize, pil)  # where our own kernels are
CALLS = {  # of Pillow's functions, where images are something else
    "torchvision": "lambda image, {argument}: by_pillow({function}, image, {argument})",
    "albumentations": "lambda pixels, {argument}: by_pillow({function}, pixels, {argument})",
}
BATCHED = ("python", "kornia")  # all images that drew the same together; others one by one
WIDTH = 119
REMARK = 100  # characters of a line that quotes the policy
N_REMARKS = 20


def compose(policy: Policy, to: str, name: str, title: str) -> str:
    """For the target `to`; `name` says where the policy is from, `title` what it is, if it is no policy of SLACK."""
    main = f"export/skeletons/for_{to}"
    names = policy.space.names
    keys = [name for name in TRANSFORMS if name in names] + ["Flip"] * policy.flip
    ours = {name: kernel(name, to) for name in names if FIDELITY[to][name].by in (KERNEL, PILLOW)}
    values = numbers(policy) | {
        "KERNELS": table(main, "KERNELS", keys, {name: entry for name, (*_, entry) in ours.items()}),
        "WINDOWS": table(f"export/skeletons/{'batch' if to in BATCHED else 'one'}", "WINDOWS", keys, {}),
    }
    cutting = Cutting(values, {function: module for module, function, _ in ours.values()})
    cutting.need(main, "SlackAugment")

    def order(place: tuple[str, int]) -> tuple[int, str, int]:
        """The policy, the kernels, what draws, and last the target's own code."""
        module, line = place
        rank = {"export/skeletons/numbers": 0, main: 3}.get(module, 2 if module.startswith("export/") else 1)
        return rank, module, line

    blocks = [cutting.texts[place] for place in sorted(cutting.texts, key=order)]
    head = [docstring(policy, to, read(main).docstring, title), provenance(policy, name), import_block(cutting.imports)]
    return "\n\n".join(head) + join(blocks) + "\n"


def kernel(name: str, to: str) -> tuple[str, str, str]:
    """What a target uses for a transformation that its skeleton has no function for: the module, its name, the call."""
    transform = TRANSFORMS[name]
    function = transform.kernel if FIDELITY[to][name].by == KERNEL else transform.pil
    module, found = next(
        (module.__name__, other) for module in MODULES for other, it in vars(module).items() if it is function
    )
    call = CALLS.get(to, "{function}").format(function=found, argument="box" if transform.window else "value")
    return f"augment/{module.rpartition('.')[2]}", found, call


def join(blocks: list[str]) -> str:
    """Two empty lines around definitions, none between constants."""
    text, before = "", True
    for block in blocks:
        code = next(line for line in block.splitlines() if not line.startswith("#"))
        is_definition = code.startswith(("def ", "class ", "@"))
        text += ("\n\n\n" if is_definition or before else "\n") + block
        before = is_definition
    return text


# --- the head of the file ---------------------------------------------------------------------------------------------


def docstring(policy: Policy, to: str, usage: str, title: str) -> str:
    library = f" with {to} {TESTED[to]}" if TESTED[to] else ""
    tensors = " on tensors; on PIL images all are exact" if to == "torchvision" else ""
    what = describe.policy_text(policy.n_composed, len(policy.space), flip=policy.flip)
    title = title or f"An augmentation policy (SLACK): {what}."
    return (
        f'"""{title}\n\n'
        f"{usage}\n\n"
        f"Against slackaug {__version__}, measured{library}{tensors}:\n\n"
        f'{textwrap.indent(fidelity.table(to, policy), "    ")}\n"""'
    )


def provenance(policy: Policy, name: str) -> str:
    """Where the numbers come from. Texts of others are quoted in ASCII: a comment cannot end before its line does."""
    remarks = [f"Written by slackaug {__version__}"]
    if name:
        remarks.append(f"policy: {name!a}")
    remarks.append(f"space: {policy.space.name!a}")
    if policy.dataset:
        remarks.append(f"dataset: {policy.dataset!a}")
    for key, value in list(policy.learned.items())[:N_REMARKS]:
        if not isinstance(value, dict | list):
            remarks.append(f"learned: {schema.describe(key)}: {schema.describe(value)}")
    mean, std = (tuple(round(channel, 5) for channel in values) for values in (policy.mean, policy.std))
    normalisation = f"for the normalisation that follows: mean {mean}, std {std}"
    return "\n".join(f"# {remark}" for remark in [*(remark[:REMARK] for remark in remarks), normalisation])


# --- its numbers ------------------------------------------------------------------------------------------------------


def numbers(policy: Policy) -> dict[str, str]:
    """The statements that replace those of the skeleton."""
    return {
        "POLICY": "\n".join(["POLICY: dict[str, Choice] = {", *choices(policy), "}"]),
        "SIGMA": f"SIGMA = {policy.sigma!r}",
        "FLIP": f"FLIP = {policy.flip!r}  # mirror every second image",
        "FILL": f"FILL = {tuple(policy.fill)!r}  # colour of Cutout: the mean of the data",
        "FILL_GREY": f"FILL_GREY = {paint_for(policy.fill, 1)[0]!r}",
    }


def choices(policy: Policy) -> list[str]:
    """Most of a policy: for each transformation a line of numbers, above it the same for people."""
    lines = []
    columns = policy.probabilities.detach().T.tolist()
    for transform, p, mu in zip(policy.space, columns, policy.mu.tolist(), strict=True):
        percent = sum(p) / len(p)
        reached = describe.range_text(transform, mu)
        lines.append(f"    # {percent:.1%}" + (f", {reached}" if reached else ""))
        arguments = [f"p={tuple(p)!r}"]
        if transform.span is not None:
            arguments += [f"mu={mu!r}", f"span={tuple(map(float, transform.span))!r}"]
            arguments += ["signed=True"] if transform.signed else []
        lines += entry(transform.name, arguments)
    return lines


def entry(name: str, arguments: list[str]) -> list[str]:
    line = f'    "{name}": Choice({", ".join(arguments)}),'
    if len(line) <= WIDTH:
        return [line]
    p, *others = arguments
    wrapped = [p]
    if len(p) + 9 > WIDTH:
        wrapped = ["p=(", *(f"    {number}," for number in p.removeprefix("p=(").rstrip(",)").split(", ")), ")"]
    body = [*wrapped[:-1], wrapped[-1] + ",", *(f"{argument}," for argument in others)]
    return [f'    "{name}": Choice(', *(f"        {part}" for part in body), "    ),"]

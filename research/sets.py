"""One preset on several sets: what it costs, how steady it is, and what its policies are worth.

    PYTHONPATH=src python research/sets.py STUDY [STUDY ...] [--out FILE.json]

Each STUDY is a folder that `slackaug study PRESET --data SET -o STUDY --searches 4 --evaluations 1 --baselines ...`
left. How alike policies are is said of what the rounds have learned, kept or not; accuracies are those of the results.
Differences are paired, one number for each search (research/notebook.md, "Intervals hold the truth"); p is that of
Student's t-test on them, two-sided, and Holm's correction is over the sets, for each baseline by itself.
"""

import argparse
import csv
import itertools
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from slackaug.augment.policy import Policy
from slackaug.augment.stability import consensus, stability
from slackaug.auto import calibrate, pretrain
from slackaug.judge import answer
from slackaug.judge.intervals import interval
from slackaug.runs import folders

LEVEL = 0.05


def p_value(differences: Sequence[float]) -> float:
    """Where all are nothing, as where results are the baseline itself, the test has no answer: nothing can be told."""
    return float(stats.ttest_1samp(differences, 0.0).pvalue) if any(differences) else 1.0


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the same order."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    scaled = [min(1.0, (len(p) - rank) * p[i]) for rank, i in enumerate(order)]
    raised = itertools.accumulate(scaled, max)
    return [value for _, value in sorted(zip(order, raised, strict=True))]


def accuracies(study: Path) -> dict[str, dict[int, float]]:
    """By policy and seed, in points; all searches of a study are one policy, for each has a seed of its own."""
    found: dict[str, dict[int, float]] = {}
    with (study / "eval" / "results.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name = row["policy"].partition(", search")[0]
            found.setdefault(name, {})[int(row["seed"])] = 100 * float(row["accuracy"])
    return found


def searches(study: Path) -> list[Path]:
    """Their folders in the order of their numbers, which are their seeds."""
    return sorted((path.parent for path in (study / "searches").glob(f"*/{folders.POLICY}")), key=lambda p: int(p.name))


def courses(study: Path) -> Iterator[list[Policy]]:
    """Of each search: the policy that it starts from, and that of each of its rounds."""
    for run in searches(study):
        rounds = folders.read_policies(run)
        yield [Policy.uniform(rounds[0].space, n_composed=len(rounds[0].pi)), *rounds]


def divergences(study: Path) -> list[float]:
    """KL of each round from the one before it, per position, over its budget."""
    budget = json.loads((study / "study.json").read_text())["study"]["search"]["search"]["kl_budget"]
    pairs = (pair for course in courses(study) for pair in itertools.pairwise(course))
    return [after.kl(before).item() / len(after.pi) / budget for before, after in pairs]


def agreement_of_halves(policies: Sequence[Policy]) -> dict[str, float]:
    """Of one policy for half of the searches with one for the others, over all ways to part them in two."""
    n = len(policies)
    halves = [half for half in itertools.combinations(range(n), n // 2) if 0 in half]
    pairs = [[consensus([policies[i] for i in range(n) if (i in half) is side]) for side in (True, False)]
             for half in halves]  # fmt: skip
    found = [stability(pair)._asdict() for pair in pairs]
    return {key: statistics.mean(one[key] for one in found) for key in ("pi", "pi_rest", "mu")}


def describe(study: Path) -> dict[str, Any]:
    document = json.loads((study / "study.json").read_text())
    found = searches(study)
    if len(found) < 2 or document["study"]["search"]["search"]["kl_budget"] is None:
        raise SystemExit(f"{study}: expected a study of two searches or more, with a preset that has a KL budget")
    policies, learned = (
        [Policy.load(run / folders.POLICY) for run in found],
        [folders.learned(run) for run in found],
    )
    mean = sum(policy.probabilities.mean(0) for policy in learned) / len(learned)
    ratio = {name: round(len(mean) * p.item(), 2) for name, p in zip(learned[0].space.names, mean, strict=True)}
    found, own = accuracies(study), document["learned"]
    differences = {}
    for name, by_seed in found.items():
        if name != own:
            each = [found[own][seed] - by_seed[seed] for seed in sorted(found[own])]
            differences[name] = {**interval(each)._asdict(), "p": p_value(each), "each": each}
    return {
        "set": study.name,
        "model": document["study"]["search"]["model"],
        "preset": document["study"]["search"]["preset"],
        "seconds a search": [policy.learned["seconds"] for policy in policies],
        "model_lr": [note["model_lr"] for note in notes(study, calibrate.FILE)],
        "positions of what was learned": [len(policy.pi) for policy in learned],
        "positions of the results": [policy.n_composed for policy in policies],
        "kept": [policy.learned.get("is_kept") for policy in policies],
        "composing": notes(study, pretrain.FILE),
        "answer": notes(study, answer.FILE),
        "stability": stability(learned)._asdict(),
        "stability of halves together": agreement_of_halves(learned),
        "KL of a round over its budget": divergences(study),
        "pi over uniform": dict(sorted(ratio.items(), key=lambda item: -item[1])),
        "accuracy": {name: interval(list(by_seed.values()))._asdict() for name, by_seed in found.items()},
        "slack less": differences,
    }  # fmt: skip


def notes(study: Path, name: str) -> list[dict[str, Any]]:
    """What its searches have written of their trials."""
    return [json.loads((run / name).read_text()) for run in searches(study) if (run / name).exists()]


def plus_minus(found: dict[str, Any], sign: str = "") -> str:
    return f"{found['mean']:{sign}.2f} ± {found['half_width']:.2f}"


def tables(sets: list[dict[str, Any]]) -> None:
    heads = ["set", "network", "s a search", "composed: learned; results", "kept", "rates", "correlation of pi",
             "without Invert, Solarize", "of mu", "of halves together: pi, mu", "KL / budget",
             "most and least, times uniform"]  # fmt: skip
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for one in sets:
        ratio = [f"{name} {value}" for name, value in one["pi over uniform"].items()]
        halves = "{pi:.2f}, {mu:.2f}".format(**one["stability of halves together"])
        kl = one["KL of a round over its budget"]
        rates = ", ".join(f"{rate:g}" for rate in one["model_lr"])
        cells = [one["set"], one["model"], f"{statistics.median(one['seconds a search']):.0f}",
                 "; ".join(", ".join(map(str, one[key])) for key in one if key.startswith("positions of ")),
                 ", ".join({None: "-", True: "yes", False: "no"}[kept] for kept in one["kept"]), rates,
                 *(f"{one['stability'][key]:.2f}" for key in ("pi", "pi_rest", "mu")), halves,
                 f"{min(kl):.2f} to {max(kl):.2f}", f"{', '.join(ratio[:3])}; {', '.join(ratio[-3:])}"]  # fmt: skip
        print("| " + " | ".join(cells) + " |")
    names = list(dict.fromkeys(name for one in sets for name in one["accuracy"]))
    print("\n| set | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for one in sets:
        cells = [plus_minus(one["accuracy"][name]) if name in one["accuracy"] else "" for name in names]
        print(f"| {one['set']} | " + " | ".join(cells) + " |")
    for name in names:
        having = [one for one in sets if name in one["slack less"]]
        if not having:
            continue
        adjusted = holm([one["slack less"][name]["p"] for one in having])
        print(f"\n| set | slack less {name} | p | by Holm | |\n|---|---|---|---|---|")
        for one, p in zip(having, adjusted, strict=True):
            difference = one["slack less"][name]
            verdict = ("better" if difference["mean"] > 0 else "worse") if p < LEVEL else "not distinguishable"
            print(f"| {one['set']} | {plus_minus(difference, '+')} | {difference['p']:.4f} | {p:.4f} | {verdict} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="the numbers as JSON")
    arguments = parser.parse_args()
    sets = [describe(study) for study in arguments.studies]
    tables(sets)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(sets, indent=1))


if __name__ == "__main__":
    main()

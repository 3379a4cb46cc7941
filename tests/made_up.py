"""Folders of runs and studies that nobody searched: to report on in a blink, with whatever names a test likes."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from slackaug.augment.policy import Policy
from slackaug.config import parse
from slackaug.config.run_config import RunConfig
from slackaug.data.options import DataConfig
from slackaug.judge import results
from slackaug.judge.answer import Answer
from slackaug.judge.studies.plan import Study
from slackaug.judge.verdicts import Judgement, Terms
from slackaug.messages import answer as messages
from slackaug.methods.budget import SearchConfig
from slackaug.runs import provenance

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "قطة سوداء", "{{ 7 * 7 }} & co")
LONG = "a-policy-with-a-name-that-goes-on-and-on-as-the-names-of-files-of-some-people-do-v2-final-really.json"

LEARNED = "slack (paper)"  # the row of a study's searches


def images(folder: Path, names: tuple[str, ...] = HOSTILE, side: int = 40) -> Path:
    """A csv with one image of each class: gradients, so that shifts and turns can be seen."""
    folder.mkdir(parents=True, exist_ok=True)
    ramp = np.linspace(0, 255, side)
    with (folder / "data.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label"))
        for i, name in enumerate(names * 5):
            pixels = np.stack(
                (np.tile(ramp, (side, 1)), np.tile(ramp[:, None], (1, side)), np.full((side, side), 50 * i % 256))
            )
            Image.fromarray(pixels.transpose(1, 2, 0).astype(np.uint8)).save(folder / f"{i}.png")
            writer.writerow((f"{i}.png", name))
    return folder / "data.csv"


def config(source: object, n_rounds: int = 10, space: str = "domainnet", seed: int = 0) -> RunConfig:
    search = SearchConfig(n_rounds=n_rounds, n_retrain=100, n_unrolled=100)
    base = RunConfig(preset="quick", model="small", space=space)
    return replace(base, search=search, seed=seed, data=DataConfig(source=str(source)))


def run(
    folder: Path, source: object = "digits", *, n_rounds: int = 10, n_done: int | None = None, seed: int = 0
) -> Path:
    """A search in which pi and mu walk at random."""
    chosen = config(source, n_rounds, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policies").mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(parse.dump(chosen), encoding="utf-8")
    (folder / "env.json").write_text(json.dumps(provenance.environment()))
    generator = torch.Generator().manual_seed(seed)
    phi = Policy.uniform(chosen.space)
    start = {"stage": "pre-training", "round": 0, "n_composed": 3}
    lines: list[dict[str, Any]] = [start | {"step": i, "train_loss": 2 / i} for i in range(10, 110, 10)]
    for number in range(1, (n_rounds if n_done is None else n_done) + 1):
        lines += [{"stage": "re-training", "round": number, "step": i, "train_loss": 1.0} for i in range(10, 110, 10)]
        for step in range(110, 210, 10):
            drift = torch.linspace(-0.02, 0.02, len(phi.space), dtype=torch.float64)
            pi = phi.pi + drift + 0.03 * torch.randn(phi.pi.shape, generator=generator, dtype=torch.float64)
            mu = phi.mu + 0.02 * torch.randn(phi.mu.shape, generator=generator, dtype=torch.float64)
            phi = replace(phi, pi=pi, mu=mu.clamp(0.1, 1), learned={"seconds": 60.0 * number, "rounds": number})
            lines.append(metrics(phi, number, step))
        text = phi.dumps()
        (folder / "policies" / f"round_{number:02d}.json").write_text(text)
        (folder / "policy.json").write_text(text)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


CANDIDATES = ("none", "trivialaugment-wide", "uniform-1", "uniform-2", "learned-x2", "learned")


def raced(folder: Path, use: str, *, is_policy: bool = True) -> Path:
    """answer.json, in which `use` has won by 1.5 points, and the policy.json that such a race leaves."""
    candidates: list[dict[str, Any]] = [
        {"name": name, "n": 2 if i % 2 else 4, "accuracy": 90.0 + i,
         "interval": None if i % 2 else (89.0, 93.5 + i), "dropped_after": 2 if i % 2 else 4}
        for i, name in enumerate(CANDIDATES)
    ]  # fmt: skip
    other = "none" if use != "none" else "learned"
    for one in candidates:
        if one["name"] in (use, other):
            one.update(dropped_after=None)
    sentence = messages.better(use, other, 1.5, 0.7, 2.3)
    found = Answer(sentence, use, other, "better", 1.5, (0.7, 2.3), 0.8, True, [], 32, 60.0)
    last_two: list[dict[str, Any]] = [
        {"name": other, "n": 8, "accuracy": 94.0, "interval": (93.0, 95.0), "dropped_after": None},
        {"name": use, "n": 8, "accuracy": 95.5, "interval": (95.1, 95.9), "dropped_after": None},
    ]
    document = json.loads(found.to_json()) | {"candidates": candidates, "last_two": last_two}
    (folder / "answer.json").write_text(json.dumps(document), encoding="utf-8")
    policy = Policy.load(folder / "policy.json")
    about = policy.learned | {"use": use, "is_kept": use.startswith("learned"), "is_answer": is_policy}
    pi = 2 * policy.pi if use == "learned-x2" else policy.pi
    if use.startswith("uniform-"):
        pi = torch.zeros_like(pi[: int(use[-1])])
    replace(policy, pi=pi, learned=about).save(folder / "policy.json")
    return folder


def metrics(phi: Policy, number: int, step: int) -> dict[str, Any]:
    return {
        "stage": "policy",
        "round": number,
        "step": step,
        "train_loss": 1.0,
        "val_loss": 0.9 - 0.01 * number,
        "entropy": phi.entropy().tolist(),
        "pi": phi.probabilities.tolist(),
        "mu": [bound if t.span else None for t, bound in zip(phi.space, phi.mu.tolist(), strict=True)],
    }


def evaluation(
    folder: Path, names: tuple[str, ...] = ("uniform", *HOSTILE, LONG), digests: dict[str, str] | None = None
) -> Path:
    """eval/results.json: the first is the reference, the last is judged; `digests` of the policies among them."""
    rest = {"seconds": 75, "images_per_second": 1234.5, "balanced_accuracy": 0.8}
    found = {
        name: [{"seed": e, "accuracy": 0.9 + 0.004 * i + 0.002 * (e * (i + 1) % 3)} | rest for e in range(4)]
        for i, name in enumerate(names)
    }
    rows = results.make_rows(found, names[0])
    judged = results.judge(rows, names[-1], names[0], Terms(0.0, 1, 0.0, []))
    document = judged._asdict() | {
        "subject": names[-1],
        "reference": names[0],
        "duplicates": 3,
        "digests": digests or {},
        "policies": results.plain(rows),
    }
    (folder / "eval").mkdir(parents=True, exist_ok=True)
    (folder / "eval" / "results.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def study(folder: Path, n_search: int = 4, n_rounds: int = 10, source: object = "digits") -> Path:
    chosen = Study(
        recipe="quick",
        data=DataConfig(source=str(source)),
        search=config(source, n_rounds),
        model="small",
        n_search=n_search,
        baselines=("uniform", "trivialaugment-wide"),
    )
    for s in range(n_search):
        run(folder / "searches" / str(s), source, n_rounds=n_rounds, seed=s)
    (folder / "study.yaml").write_text(parse.dump(chosen), encoding="utf-8")
    evaluation(folder, ("uniform", "trivialaugment-wide", LEARNED))
    document = json.loads((folder / "eval" / "results.json").read_text())
    rows = [
        {key: row[key] for key in ("name", "accuracy", "difference")}
        | {"over_evaluations": row["accuracy"], "paper": [{"accuracy": 96.2, "half_width": 0.1}]}
        for row in document["policies"]
    ]
    summary = {key: document[key] for key in Judgement._fields} | {
        "learned": LEARNED,
        "kept": f"kept in {n_search} of {n_search}",
    }
    summary |= {"rows": rows, "duplicates": 0}
    (folder / "study.json").write_text(json.dumps(summary | {"environment": provenance.environment()}))
    return folder

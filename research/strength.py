"""Is the KL budget of a search the right distance? Its policy, taken less far from uniform and further.

    PYTHONPATH=src python research/strength.py POLICY --out FOLDER [--strengths 0.5 1 2 4]

Writes FOLDER/strength_S.json for each S: the logits times S, and mu at S times its distance from where the search
began. 0 is uniform, 1 the policy itself. What they are worth says `slackaug evaluate DATA -p FOLDER/strength_0.5.json
-p ... --baselines uniform,default`.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from slackaug.augment.policy import MU_MAX, MU_MIN, Policy
from slackaug.augment.policy_file import MU_START
from slackaug.auto.race import at_strength


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    phi = Policy.load(given.policy)
    for strength in given.strengths:
        mu = (MU_START + strength * (phi.mu - MU_START)).clamp(MU_MIN, MU_MAX)
        changed, path = replace(at_strength(phi, strength), mu=mu), given.out / f"strength_{strength:g}.json"
        replace(changed, learned=phi.learned | {"strength": strength}).save(path)
        print(f"{path}: entropy {changed.entropy().mean().item():.3f} nats")


if __name__ == "__main__":
    main()

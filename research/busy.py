"""How fast a network trains on the CPU while other programs have some of its cores, with and without patient threads.

    PYTHONPATH=src python research/busy.py [--spins 4000 ...] [--seconds 8] [--repeats 3]

Threads of a step wait for the slowest at every operation. By default libgomp has them wait at full speed for
milliseconds, on the very cores that the slowest needs. The command sets GOMP_SPINCOUNT (exits.py), so that they soon
sleep instead. Each figure is from a process of its own: steps of pre-training a second, as `quick` has it on the
embedded digits, with a thread for each core, beside 0, 1, ... loops that keep a core busy each, in sessions of their
own, as other programs are: Linux shares cores between sessions first.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

from slackaug.exits import SPINS

BUSY = "while True: pass"


def measure(seconds: float) -> float:
    """Steps a second, in this process."""
    from slackaug.auto.pretrain import Pretrain
    from slackaug.auto.problem import Problem
    from slackaug.config import paper, presets
    from slackaug.data import load

    data = load("digits")
    problem = Problem(paper.rounds_alone(presets.quick(data)), data)
    steps = Pretrain(problem, problem.start()).run()
    next(steps)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        next(steps)
        done += 1
    return done / (time.perf_counter() - start)


def rate(spins: str | None, seconds: float) -> float:
    """The same in a new process, for libgomp reads its settings once."""
    environment = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}
    environment |= {} if spins is None else {"GOMP_SPINCOUNT": spins}
    command = [sys.executable, __file__, "--seconds", str(seconds), "--here"]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spins", nargs="+", default=[SPINS], help="GOMP_SPINCOUNT; 0: asleep at once")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        print(measure(arguments.seconds))
        return
    n_cores = os.cpu_count() or 1
    print(f"{n_cores} cores; steps a second, median of {arguments.repeats}\n")
    choices = [None, *arguments.spins]
    headers = ["busy cores", "libgomp's own", *(f"GOMP_SPINCOUNT={spins}" for spins in arguments.spins)]
    print(f"| {' | '.join(headers)} |\n{'|---' * len(headers)}|")
    for n_busy in range(n_cores + 1):
        others = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(n_busy)]
        try:  # all in turn, so that a noisy machine slows them alike
            found = [[rate(spins, arguments.seconds) for spins in choices] for _ in range(arguments.repeats)]
        finally:
            for other in others:
                other.kill()
        medians = [statistics.median(each) for each in zip(*found, strict=True)]
        print(f"| {n_busy} | {' | '.join(f'{median:.1f}' for median in medians)} |", flush=True)


if __name__ == "__main__":
    main()

"""The race of a search: the learned policy against what people use instead, on training images alone.

It comes after the stages of a search, and has no state of its own: trainings leave their results in files, and all else
is a function of these (judge/race.py).
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..config.run_config import RaceConfig, RunConfig, start_policy
from ..data import Dataset
from ..exits import Stopped
from ..judge import candidates, records
from ..judge.answer import FILE, Answer, answer
from ..judge.backends import get_backend
from ..judge.backends.jobs import BackendError
from ..judge.candidates import Candidate
from ..judge.intervals import LEAST
from ..judge.protocols import HeldOut, Protocol, Training, data_digest
from ..judge.queue import Comparison, train
from ..judge.race import N_FOLDS, Answers, Runners, behind, race
from ..judge.scoring import largest_share
from ..messages import answer as messages
from ..messages.names import LEARNED, form_of
from ..runs import folders
from ..runs.progress import Bar, Part
from .conduct import Opened, Session
from .timing import LEAST_IMAGES, Seconds, has_race

FOLDER = "race"  # of a run
FORMS_OF_LEARNED = ("learned", "learned-x2", "learned-x0.5", "learned-mu0.75", "learned-1")  # for example
LONG_FINAL = 8  # trainings of each of the last two, for which time must be left to race forms of the learned policy
FIRST_OF_LAST = 1000  # seed: no training before had it
LEARNING = 0.5  # share of a time limit that learning may take in any case, where a race follows
CHOSEN_BY, LEARNED_ON = 1, 0  # halves: phi was learned by validation on the one, theta on the other


class OutOfTime(Exception):
    """The time limit came while the race was on."""


class Race:
    """A race that resumes from what is in its folder; some of its candidates are forms of the learned policy."""

    def __init__(self, work: Comparison, dataset: Dataset, config: RunConfig, learned: Policy, deadline: float):
        self.work, self.config, self.deadline = work, config, deadline
        self.halves = [dataset.train.labels[half] for half in dataset.half_indices(config.seed)]  # labels
        self.largest = largest_share(self.halves[CHOSEN_BY])
        self.candidates = different(
            {name: candidate(name, learned) for name in config.race.candidates}, config.race.incumbent
        )
        self.settings = self.whole = replace(config.race, candidates=tuple(self.candidates))
        self.began = time.monotonic()
        self.n_trained, self.seconds = 0, 0.0  # here, and how long it took
        self.n_done = 0  # of all trainings, those of earlier processes too
        self.n_rounds: int | None = None  # that there is time for; None: all

    @property
    def is_shortened(self) -> bool:
        """Whether it leaves out what there is no time for."""
        return self.n_rounds is not None or self.settings != self.whole

    def training(self, name: str, seed: int, half: int) -> Training:
        part = HeldOut(half, self.config.seed, seed % N_FOLDS)
        return self.work.training(self.candidates[name], seed + (FIRST_OF_LAST if half == LEARNED_ON else 0), part)

    def found(self, names: Iterable[str], half: int, n: int) -> dict[str, Answers]:
        """Return the answers by candidate, from the first seed to the first of n that is missing."""
        found: dict[str, Answers] = {}
        for name in names:
            there = takewhile(bool, records.read([self.training(name, seed, half) for seed in range(n)]))
            found[name] = [records.unpack(one["answers"]) for one in there if one]
        return found

    def runners(self) -> tuple[Runners, dict[str, Answers]]:
        """How far the race is, and its answers. A race that is taken up again may have had less time before, or other
        candidates: what a candidate did after the training at which it drops out now is left out."""
        found = self.found(self.candidates, CHOSEN_BY, self.settings.rounds[-1][1])
        runners = race(found, self.settings, self.n_rounds, self.largest)
        return runners, {name: rows[: runners.dropped.get(name)] for name, rows in found.items()}

    def pair(self, runners: Runners) -> tuple[str, str]:
        return runners.challengers[0], self.settings.incumbent

    def last(self, pair: Sequence[str]) -> dict[str, Answers]:
        """The final of these two. Before it was taken up again the race may have come to a final of another leader."""
        return self.found(pair, LEARNED_ON, self.settings.n_last)

    def answer(self) -> Answer:
        """So far."""
        runners, raced = self.runners()
        last = self.last(self.pair(runners))
        config = replace(self.config, race=self.settings)
        found = answer(runners, raced, last, config, time.monotonic() - self.began, self.largest)
        return found._replace(is_shortened=self.is_shortened)

    def run(self) -> None:
        self.work.say(messages.race(list(self.candidates), self.settings.incumbent, len(self.halves[CHOSEN_BY])))
        self.was_found(self.runners()[1])
        out = set[str]()
        self.begin()
        while True:
            runners, raced = self.runners()
            if new := {name: n for name, n in runners.dropped.items() if name not in out}:
                out |= new.keys()
                self.tell_dropped(raced, new)
            if not runners.wanted:
                break
            if self.has_time_for(len(runners.wanted)):
                self.train([self.training(*entry, CHOSEN_BY) for entry in runners.wanted])
            else:
                self.n_rounds = self.rounds_over(raced)
                self.work.say(messages.NO_TIME_FOR_A_ROUND)
        if runners.is_guessing:
            return
        self.settings = replace(self.settings, n_last=self.n_last())
        pair, n = self.pair(runners), self.settings.n_last
        self.was_found(self.last(pair))
        self.work.say(messages.last_two(*pair, n, len(self.halves[LEARNED_ON])))
        self.train([self.training(name, seed, LEARNED_ON) for seed in range(n) for name in pair])

    def was_found(self, tables: Mapping[str, Answers]) -> None:
        """They are done: their part of the bar tells nothing of speed."""
        n = sum(map(len, tables.values()))
        self.n_done += n
        if self.work.part is not None:
            self.work.part.was_found(n / self.settings.n_trainings)

    def begin(self) -> None:
        """Train all but further forms of the learned policy once. Where time is short these stay out: what they cost
        shows more in a longer final (research/notebook.md)."""
        config = self.settings
        plain = [name for name in config.candidates if name in (LEARNED, config.incumbent) or form_of(name) is None]
        if len(plain) in (1, len(config.candidates)):
            return
        first = sorted(plain, key=lambda name: name != config.incumbent)  # as rounds have it
        self.train([self.training(name, 0, CHOSEN_BY) for name in first])
        if not self.has_time_for(config.n_trainings - 2 * config.n_last - len(plain), LONG_FINAL):
            self.settings = replace(config, candidates=tuple(plain))
            self.work.say(messages.NO_TIME_FOR_FORMS)

    def has_time_for(self, n: int, n_last: int = LEAST) -> bool:
        """For so many trainings and then a final of so many each, if they take as long as those before."""
        if not self.n_trained:
            return True
        return time.monotonic() + (n + 2 * n_last) * self.seconds / self.n_trained < self.deadline

    def rounds_over(self, raced: Mapping[str, Answers]) -> int:
        n_all = len(self.settings.rounds)
        return sum(not race(raced, self.settings, n, self.largest).wanted for n in range(1, n_all + 1))

    def n_last(self) -> int:
        """Follow the settings; take fewer where less time is left, but as many as an interval needs."""
        if not self.n_trained or math.isinf(self.deadline):
            return self.settings.n_last
        paid = (self.deadline - time.monotonic()) / (2 * self.seconds / self.n_trained)
        return min(self.settings.n_last, max(int(paid), LEAST))

    def train(self, wanted: Sequence[Training]) -> None:
        """Those that are not done yet."""
        done, began = records.read(wanted), time.monotonic()
        left = [one for one, result in zip(wanted, done, strict=True) if result is None]
        if left:
            self.work.follow()  # none is begun when the time is over
        train(self.on_the_bar(len(left)), left, lambda _: "")
        self.n_done += len(left)
        self.n_trained, self.seconds = self.n_trained + len(left), self.seconds + time.monotonic() - began

    def on_the_bar(self, n: int) -> Comparison:
        """The work of so many trainings more, with their part of the bar."""
        if self.work.part is None:
            return self.work
        done, whole = self.n_done, self.work.part
        n_all = max(self.settings.n_trainings, done + n)
        start, end = (whole.start + (1 - whole.start) * k / n_all for k in (done, done + n))
        part = Part(whole.bar, start, end, lambda n_done: f"Comparing: {done + n_done} of {n_all}")
        return self.work._replace(part=part)

    def tell_dropped(self, raced: Mapping[str, Answers], new: Mapping[str, int]) -> None:
        for n in sorted({*new.values()}):
            gaps = {name: 100 * behind(raced, name, self.settings.incumbent, n) for name in new if new[name] == n}
            self.work.say(messages.dropped(gaps, n))


def candidate(name: str, learned: Policy) -> Candidate:
    """A baseline, or `learned`, perhaps further, with other bounds of the magnitudes or with fewer transformations."""
    if (form := form_of(name)) is None:
        return candidates.from_name(name, FORMS_OF_LEARNED)
    policy = learned
    if (form.strength, form.mu) != (1, 1):
        policy = at_strength(learned, form.strength, form.mu)
    if form.n_composed is not None:
        policy = replace(policy, pi=policy.pi[: form.n_composed])
    return Candidate(name, policy, candidates.digest(policy))


def different(found: Mapping[str, Candidate], incumbent: str) -> dict[str, Candidate]:
    """Leave out candidates that are the same, as the learned policy and its first two transformations may be."""
    ranked = sorted(found.items(), key=lambda entry: (entry[0] == incumbent, -len(entry[0])))
    taken = {one.digest: name for name, one in ranked}
    return {name: one for name, one in found.items() if taken[one.digest] == name}


def at_strength(phi: Policy, strength: float = 1.0, mu_factor: float = 1.0) -> Policy:
    """Go in the learned direction, less far or further: pi is proportional to exp(strength * logits), where 0 is
    uniform. The bounds of the magnitudes have a factor of their own, for nothing shows that both are wrong alike."""
    mu = (mu_factor * phi.mu).clamp(MU_MIN, MU_MAX)
    return replace(phi, pi=strength * phi.pi.log_softmax(-1), mu=mu)


def check(config: RunConfig, dataset: Dataset) -> None:
    """An unknown candidate is found before the search, not after it."""
    start = start_policy(config, dataset)
    for name in config.race.candidates:
        candidate(name, start).method(dataset, start.space)


# --- at the end of a search -------------------------------------------------------------------------------------------


def hold(session: Session, opened: Opened, bar: Bar | None = None) -> Answer | None:
    """The answer, which is in the run's files then, or None where there is no race; so far, if it is stopped."""
    config, run, dataset = opened.search.problem.config, opened.run, opened.dataset
    if run is None:
        return None
    has_learned, start = folders.has_learned(run.path), start_policy(config, dataset)
    if not has_learned:
        config = replace(config, race=without_learned(config.race))
    if not config.race.candidates:
        return None
    n = len(dataset.train.labels)
    if config.n_ranks > 1 or n < LEAST_IMAGES:
        is_small = messages.too_few_images(n, LEAST_IMAGES)
        if has_learned:
            session.say(messages.NO_RACE_IN_AN_ENSEMBLE if config.n_ranks > 1 else is_small)
        return None
    about = {"preset": config.preset, "model": config.model, "seed": config.seed, "rounds": 0}
    learned = folders.learned(run.path) if has_learned else replace(start, learned=about)
    work = comparison(session, config, dataset, run.path / FOLDER)
    if bar is not None:
        began = opened.share_of_learning(session.n_jobs)
        work = work._replace(part=Part(bar, began, 1.0, str))
    one = Race(work, dataset, config, learned, session.deadline)
    one.work.folder.mkdir(exist_ok=True)
    try:
        one.run()
    except OutOfTime:
        session.say(messages.OUT_OF_TIME)
    except Stopped as error:
        raise Stopped(f"{one.answer().sentence}\n{error}", error.signal_number) from None
    except BackendError as error:
        raise BackendError(f"{error}\n{messages.race_failed(session.data, str(session.folder))}") from None
    finally:
        found = one.answer()
        if not has_learned:
            why = messages.COMPARED_SIMPLE if found.n_trainings else messages.NO_TIME_TO_LEARN
            found = found._replace(sentence=f"{found.sentence} {why}.")
        run.write(FILE, found.to_json())
        used = None if found.use is None else policy_of(one.candidates[found.use], dataset, learned)
        about = learned.learned | {
            "use": found.use,
            "is_kept": found.use is not None and found.use.startswith(LEARNED),
            "is_answer": used is not None,
            "is_final": found.is_final,
        }
        run.write(folders.POLICY, replace(used or learned, learned=about).dumps())
    return found


def without_learned(config: RaceConfig) -> RaceConfig:
    """The race of what needs no learning; it has no candidates if these are too few."""
    names = tuple(name for name in config.candidates if form_of(name) is None)
    can_race = len(names) > 1 and config.incumbent in names
    return replace(config, candidates=names if can_race else ())


def policy_of(chosen: Candidate, dataset: Dataset, learned: Policy) -> Policy | None:
    """What to use, as a policy like the learned one; none where it is something else, such as TrivialAugment."""
    if chosen.name == "none" and learned.can_compose_none:
        return learned.with_composed(0)
    match chosen.method(dataset, learned.space).parts:
        case (Policy() as phi,):
            return replace(learned, space=phi.space, pi=phi.pi, mu=phi.mu, sigma=phi.sigma)
    return None


def comparison(session: Session, config: RunConfig, dataset: Dataset, folder: Path) -> Comparison:
    """Trainings side by side: in processes of one thread each on a CPU, as one step on a GPU."""
    where = replace(config.data, source=session.data)
    protocol = Protocol.of(config, where, data_digest(dataset), config.model)
    threads = session.threads if session.device.startswith("cuda") else 1
    backend = get_backend("local", address=None, n_jobs=session.n_jobs, device=session.device, threads=threads)

    def follow() -> None:
        if time.monotonic() > session.deadline:
            raise OutOfTime

    again = session.resume_command(config)
    return Comparison(protocol, folder, None, session.device, threads, backend, session.console, again, follow)


def time_to_learn(config: RunConfig, n_train: int, left: float, takes: Seconds | None = None) -> float:
    """Seconds of those left that learning may take: half, or all but what the race takes, if that is more. None,
    if it would end before the first round does, and simple choices can be raced instead."""
    if not has_race(config, n_train):
        return left
    if takes is None:
        return LEARNING * left
    to_learn = max(LEARNING * left, left - takes.race)
    return 0.0 if to_learn < takes.first_round and without_learned(config.race).candidates else to_learn


def least_time(takes: Seconds) -> float:
    """Return the seconds that have to be left for a policy to be learned."""
    return min(takes.first_round / LEARNING, takes.first_round + takes.race)

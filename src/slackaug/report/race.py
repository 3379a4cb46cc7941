"""What a run's answer.json says: what to use, and how each candidate did in the race."""

from pathlib import Path
from typing import Any, NamedTuple

from .. import schema
from ..judge.answer import FILE
from ..judge.intervals import Accuracy
from ..messages import answer as messages
from ..messages import counted
from ..schema import expect
from .accuracies import Mark
from .outcome import LONGEST, Entry, read_file

BETTER = ("better", "ahead")  # verdicts
MOST = 10**9  # trainings


class Raced(NamedTuple):
    """The two that were in to the end come first, and of them the one to use."""

    sentence: str
    use: str
    is_final: bool
    tone: str  # better or open
    marks: list[Mark]
    final: list[Mark]  # of the last two alone, on new seeds and other images
    n_trainings: str

    @property
    def is_learned(self) -> bool:
        """Whether to use the learned policy, perhaps taken further."""
        return self.use.startswith(messages.LEARNED)


class Runner(NamedTuple):
    name: str
    accuracy: Accuracy
    dropped_after: int | None


def read(run: Path) -> Raced | None:
    """None where there is no answer yet. Raises a PolicyError on a file that is not whole or not ours."""
    path = run / FILE
    return read_file(path, of_answer) if path.is_file() else None


def of_answer(found: dict[str, Any]) -> Raced:
    document = Entry({"last_two": []} | found)
    use, is_final = document.read("use", schema.string), document.read("is_final", schema.boolean)
    runners, last_two = (document.read(key, schema.sequence, read_runner, 0) for key in ("candidates", "last_two"))
    runners.sort(key=lambda one: (one.dropped_after is not None, one.name != use, -(one.dropped_after or 0),
                                   -one.accuracy.mean))  # fmt: skip
    return Raced(
        document.read("sentence", schema.string, LONGEST),
        use,
        is_final,
        "better" if document.read("verdict", schema.string) in BETTER else "open",
        [mark(one, use, is_final=is_final) for one in runners],
        [in_final(one, use) for one in sorted(last_two, key=lambda one: one.name != use)],
        counted(document.read("n_trainings", schema.integer, 0, MOST), "training"),
    )


def mark(one: Runner, use: str, *, is_final: bool) -> Mark:
    name, trained = messages.capital(messages.spoken(one.name)), one.accuracy.counted()
    if one.dropped_after is not None:
        return Mark(name, one.accuracy, f"dropped out after {trained}", "out")
    note = "the answer" if one.name == use else "in to the end"
    return Mark(name, one.accuracy, note if is_final else trained, "first")


def in_final(one: Runner, use: str) -> Mark:
    """With two decimals, for the difference is in the answer with one: with one each, rounding could contradict it."""
    found = mark(one, use, is_final=False)
    return found._replace(note=f"the answer, {found.note}" if one.name == use else found.note, digits=2)


def read_runner(value: Any, where: str) -> Runner:
    """Accuracies become shares."""
    entry = Entry(value, where)
    mean, ends = entry.read("accuracy", schema.number, 0, 100), entry.read_or_null("interval", read_ends)
    low, high = ends or (mean, mean)
    expect(0 <= low <= mean <= high <= 100, f"{where}.interval", f"two ends around {mean:g}", ends)
    accuracy = Accuracy(mean / 100, None, None, entry.read("n", schema.integer, 1, MOST), "training")
    if ends:
        accuracy = accuracy._replace(low=low / 100, high=high / 100)
    dropped_after = entry.read_or_null("dropped_after", schema.integer, 1, MOST)
    return Runner(entry.read("name", schema.string), accuracy, dropped_after)


def read_ends(value: Any, where: str) -> list[float]:
    return schema.sequence(value, where, schema.number, 2, 2)

"""What the evidence says so far: the race's choice beside every fixed candidate, and beside the rule before the race.

Differences are of the accuracies on test images with the same seeds; ± is a 95 % t-interval over these, for the test
images as they are: other images are not counted. The best fixed candidate is the best of six by the very numbers that
it is compared by, so its lead is, if anything, too large.
"""

import statistics
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from evidence_cells import FIXED, Book, Cell, is_learned, row_of
from slackaug.judge.intervals import Interval, accuracy, interval, paired


class Demand(Enum):
    """Is the choice at most the zone worse than the best fixed candidate?"""

    BEST = "yes: it is the best"
    SHOWN = "yes: the whole interval"
    OPEN = "not contradicted: the interval has both"
    BROKEN = "NO: the whole interval is below"
    UNKNOWN = "not measured yet"
    SILENT = "no answer"


class Standing(NamedTuple):
    """Of what one rule chose, against the best fixed candidate."""

    use: str | None  # None: the search had no answer
    difference: Interval | None  # None: not measured, or it is that candidate itself
    demand: Demand


def best_fixed(book: Book) -> str | None:
    means = {row: statistics.mean(found.values()) for row in FIXED if (found := book.accuracies(row))}
    return max(means, key=lambda row: means[row]) if len(means) == len(FIXED) else None


def standing(book: Book, use: str | None, search: int) -> Standing:
    if use is None:
        return Standing(None, None, Demand.SILENT)
    best, row = best_fixed(book), row_of(use, search)
    if best is None or not book.accuracies(row):
        return Standing(use, None, Demand.UNKNOWN)
    if row == best:
        return Standing(use, None, Demand.BEST)
    found = paired(book.accuracies(row), book.accuracies(best))
    return Standing(use, found, demand(found, book.settings["worth"] / 100))


def demand(difference: Interval | None, worth: float) -> Demand:
    if difference is None or difference.half_width is None:
        return Demand.UNKNOWN
    low, high = difference.mean - difference.half_width, difference.mean + difference.half_width
    return Demand.SHOWN if low >= -worth else Demand.OPEN if high >= -worth else Demand.BROKEN


# --- Markdown ---------------------------------------------------------------------------------------------------------


def table(books: Sequence[Book]) -> str:
    return "\n\n".join([answers(books), choices(books), accuracies(books), *summary(books)])


def lines(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows])


def points(found: Interval | None) -> str:
    if found is None:
        return ""
    half = "" if found.half_width is None else f" ± {100 * found.half_width:.2f}"
    return f"{100 * found.mean:+.2f}{half}"


def answers(books: Sequence[Book]) -> str:
    """One line for each search: what the race chose, what it cost, and how both rules did."""
    head = ["set", "network", "search", "the race", "its gain", "trainings", "seconds", "best fixed"]
    head += ["the race less that, points", "holds", "old rule", "the old rule less that, points", "holds"]
    rows = []
    for book in books:
        for search, cell in book.autos.items():
            new, old = standing(book, cell["answer"]["use"], search), old_standing(book, cell, search)
            found = cell["answer"]
            rows.append([
                book.set, book.settings["model"], search, f"{new.use or 'nothing'}: {found['verdict']}", gain(found),
                found["n_trainings"], seconds(book, cell), best_fixed(book) or "",
                points(new.difference), new.demand.value,
                *(["", "", ""] if old is None else [old.use, points(old.difference), old.demand.value]),
            ])  # fmt: skip
    return lines(head, rows)


def choices(books: Sequence[Book]) -> str:
    """One line for each search, what the race chose less each fixed candidate; the last line is their mean, with t over
    the searches."""
    rows, gaps = [], dict[str, list[float]]()
    for book in books:
        for search, cell in book.autos.items():
            use = cell["answer"]["use"]
            found = book.accuracies(row_of(use, search)) if use else {}
            differences = [paired(found, book.accuracies(row)) if use != row else None for row in FIXED]
            rows.append([book.set, search, use or "nothing", *map(points, differences)])
            for row, difference in zip(FIXED, differences, strict=True):
                if difference or use == row:
                    gaps.setdefault(row, []).append(difference.mean if difference else 0.0)
    rows.append(["mean", "", "", *(points(interval(gaps[row])) if row in gaps else "" for row in FIXED)])
    return lines(["the race's choice less, points", "search", "the race", *FIXED], rows)


def seconds(book: Book, cell: Cell) -> str:
    """What the search took, if it had the device for itself."""
    beside = book.origins[cell["origin"]].get("beside", 0)
    return f"{round(cell['seconds'])}{f', beside {beside} others' if beside else ''}"


def gain(answer: Mapping[str, object]) -> str:
    """As the race itself found it, on training images; without `gain_of`, as in older cells, it is of what it used."""
    match answer:
        case {"gain": float() as mean, "interval": [low, high], "use": use, "other": other}:
            of = answer.get("gain_of", use)
            return f"{of} {mean:+.2f} ({low:.2f} to {high:.2f}) over {other if of == use else use}"
    return ""


def old_standing(book: Book, cell: Cell, search: int) -> Standing | None:
    return None if cell["old_rule"] is None else standing(book, cell["old_rule"]["use"], search)


def accuracies(books: Sequence[Book]) -> str:
    """One line for each set: accuracy on test images, and the number of trainings n."""
    names = list(dict.fromkeys(row for book in books for row in book.rows()))
    rows = []
    for book in books:
        found = {row: list(book.accuracies(row).values()) for row in names}
        shown = [f"{accuracy(one)}, n {len(one)}" if one else "" for one in found.values()]
        rows.append([book.set, *shown])
    return lines(["accuracy, %", *names], rows)


def summary(books: Sequence[Book]) -> list[str]:
    found = [(book, search, cell) for book in books for search, cell in book.autos.items()]
    new = [standing(book, cell["answer"]["use"], search) for book, search, cell in found]
    old = [one for one in (old_standing(*(book, cell, search)) for book, search, cell in found) if one]
    gains = [one.difference for one in new if is_learned(one.use)]
    return [*said("The race", new), *said("The old rule", old), gained([one for one in gains if one])]


def said(rule: str, standings: Sequence[Standing]) -> list[str]:
    if not standings:
        return []
    n, counts = len(standings), {kind: sum(one.demand is kind for one in standings) for kind in Demand}
    held = "; ".join(f"{count} {kind.value}" for kind, count in counts.items() if count)
    n_learned = sum(is_learned(one.use) for one in standings)
    return [
        f"{rule} chose learning in {n_learned} of {n} searches. At most the zone worse than the best fixed candidate? "
        f"{held}."
    ]


def gained(gains: Sequence[Interval]) -> str:
    if not gains:
        return "No search that chose learning has been measured yet."
    each = ", ".join(points(one) for one in gains)
    return (
        f"Where the race chose learning, its gain over the best fixed one, in points: {each}; mean {mean(gains):+.2f}."
    )


def mean(gains: Sequence[Interval]) -> float:
    return 100 * statistics.mean(one.mean for one in gains)

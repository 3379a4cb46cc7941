"""What has been measured, by set, row and seed, and what is to be measured next.

A set has one file, with a line for each cell: `auto` is a search with its race, and its seed that of the search; every
other row is what a fresh training on all training images has on test images, with this augmentation and seed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from slackaug.augment.policy import Policy
from slackaug.auto.race import candidate
from slackaug.config import presets
from slackaug.files import write_atomically
from slackaug.judge.candidates import Candidate, from_name
from slackaug.messages.names import LEARNED, form_of

AUTO = "auto"
FIXED = tuple(name for name in presets.RACE.candidates if name != LEARNED)
FIRST_SEED = 7000  # of fresh trainings: no search, race, study or evaluation comes near
N_SEEDS, N_BLOCK = 16, 8

Cell = dict[str, Any]


class Block(NamedTuple):
    """What is measured in one go, and written when it is done."""

    set: str
    row: str
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        first, last = self.seeds[0], self.seeds[-1]
        return f"{self.set}, {self.row}, seed{f' {first}' if first == last else f's {first} to {last}'}"


def is_learned(use: str | None) -> bool:
    """Whether a search learned it, be it as it is or taken further; None where the search had no answer."""
    return use is not None and form_of(use) is not None


def row_of(use: str, search: int) -> str:
    """The row that tells what an answer of this search is worth: `learned-x2@0` is what its first search learned, taken
    twice as far."""
    return f"{use}@{search}" if is_learned(use) else use


@dataclass
class Book:
    """The cells of one set."""

    set: str
    settings: Mapping[str, Any]  # by which all of them were measured
    origins: list[dict[str, Any]] = field(default_factory=list)
    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)

    def add(self, cells: Sequence[Cell], origin: dict[str, Any]) -> None:
        if origin not in self.origins:
            self.origins.append(origin)
        for cell in cells:
            self.cells[cell["row"], cell["seed"]] = cell | {"origin": self.origins.index(origin)}

    @property
    def autos(self) -> dict[int, Cell]:
        """By the seed of the search."""
        return {seed: cell for (row, seed), cell in sorted(self.cells.items()) if row == AUTO}

    def accuracies(self, row: str) -> dict[int, float]:
        """By seed."""
        return {seed: cell["accuracy"] for (name, seed), cell in sorted(self.cells.items()) if name == row}

    def rows(self) -> list[str]:
        """That are to be trained: the fixed candidates, the learned policy, and what either rule chose beside these."""
        found = [*FIXED]
        for seed, cell in self.autos.items():
            chosen = [cell["answer"]["use"], *([cell["old_rule"]["use"]] if cell["old_rule"] else [])]
            found += [row_of(use, seed) for use in (LEARNED, *chosen) if use is not None]
        return list(dict.fromkeys(found))

    def candidate(self, row: str) -> Candidate:
        use, _, search = row.partition("@")
        if not search:
            return from_name(row)
        learned = Policy.from_dict(self.cells[AUTO, int(search)]["policy"])
        return candidate(use, learned)._replace(name=row)


# --- files ------------------------------------------------------------------------------------------------------------


def file_of(results: Path, name: str) -> Path:
    return results / f"{name}.json"


def load(path: Path) -> Book:
    document = json.loads(path.read_text())
    cells = {(cell["row"], cell["seed"]): cell for cell in document["cells"]}
    return Book(document["set"], document["settings"], document["origins"], cells)


def opened(results: Path, name: str, settings: Mapping[str, Any]) -> Book:
    """The cells so far, if they were measured by the same settings on the same images."""
    path = file_of(results, name)
    if not path.is_file():
        return Book(name, settings)
    book = load(path)
    if book.settings != settings:
        changed = [key for key in {**settings, **book.settings} if settings.get(key) != book.settings.get(key)]
        raise ValueError(f"{path}: has cells by another {', '.join(sorted(changed))}; take another --results")
    return book


def save(results: Path, book: Book) -> None:
    cells = ",\n".join(json.dumps(book.cells[key], allow_nan=False) for key in sorted(book.cells))
    head = {"set": book.set, "settings": book.settings, "origins": book.origins}
    text = json.dumps(head, indent=1).removesuffix("\n}") + f',\n "cells": [\n{cells}\n ]\n}}\n'
    results.mkdir(parents=True, exist_ok=True)
    write_atomically(file_of(results, book.set), text.encode())


# --- what is missing --------------------------------------------------------------------------------------------------


def missing(books: Mapping[str, Book], n_searches: int = 1) -> list[Block]:
    """The most worth first: a search of each set, half of the seeds of each row, the others; then another search."""
    found: list[Block] = []
    for search in range(n_searches):
        found += [Block(name, AUTO, (search,)) for name, book in books.items() if search not in book.autos]
        for first in range(FIRST_SEED, FIRST_SEED + N_SEEDS, N_BLOCK):
            found += fresh(books, range(first, first + N_BLOCK))
    return list(dict.fromkeys(found))


def fresh(books: Mapping[str, Book], seeds: Sequence[int]) -> Iterator[Block]:
    """Missing trainings of all rows with these seeds; the sets take turns."""
    rows = {name: book.rows() for name, book in books.items()}
    for row in dict.fromkeys(row for one in rows.values() for row in one):
        for name, book in books.items():
            there = book.accuracies(row)
            left = tuple(seed for seed in seeds if seed not in there)
            if left and row in rows[name]:
                yield Block(name, row, left)

"""A csv file with the columns path and label, and perhaps split, separated by commas, semicolons or tabs.

Relative paths start at the folder of the csv and may not lead out of it, neither by .. nor by a link: such a file may
come with data from elsewhere. An absolute path is read wherever it points to: it names a place on this very machine.
"""

import csv
from collections import Counter
from pathlib import Path

from .dataset import Dataset
from .files import PARTS, checked, from_files, part_of, real, refuse_outside, split_of
from .listing import Item, Listing, label_of
from .options import DataConfig, DataError, Progress, counted, listing

SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def table(location: str, options: DataConfig, progress: Progress) -> Dataset:
    return from_files(list_table(location, options.group_by), options, progress)


def list_table(location: str, group_by: str | None = None) -> Listing:
    path = Path(location)
    rows = read_rows(path)
    problems, items, relative = [], [], []
    for line, row in rows:
        file, label, part = ((row.get(key) or "").strip() for key in ("path", "label", "split"))
        group = (row[group_by] or "").strip() if group_by is not None and group_by in row else None
        if group == "":
            problems.append(f"line {line}: {group_by} missing")
        elif not file or not label:
            problems.append(f"line {line}: {'path' if not file else 'label'} missing")
        elif "\0" in file:
            problems.append(f"line {line}: not a path")
        elif "split" in row and not part_of(part):
            problems.append(f"line {line}: split {part!r}, expected {', '.join(PARTS)}")
        else:
            items.append(Item(path.parent / file, label_of(label), split_of(part), group))
            if not Path(file).is_absolute():
                relative.append(items[-1])
    if problems:
        lines = counted(len(problems), "line is", "lines are")
        raise DataError(f"{path}: {lines} not complete: {listing(problems, '; ')}")
    files = Counter(real(item.path) for item in items)  # the same file by another path is found too
    twice = [file.name for file, count in files.items() if count > 1]
    if twice:
        raise DataError(f"{path}: files listed more than once: {listing(twice)}; an image has one label and one split")
    refuse_outside(str(path), path.parent, relative)
    notes = ["val joined train: a search splits it anew"] if any(is_val(row) for _, row in rows) else []
    return checked(Listing(str(path), path.parent, items, notes))


def is_val(row: dict[str, str]) -> bool:
    return part_of((row.get("split") or "").strip()) == "val"


def read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Each with the line that it ends in: blank lines are no rows, and a text in quotes may go over several lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            columns, separator = read_header(file.readline())
            reader = csv.DictReader(file, columns, delimiter=separator, strict=True)
            rows = [(1 + reader.line_num, row) for row in reader]  # the header is line 1
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a csv file in UTF-8 ({error})") from error
    missing = [column for column in ("path", "label") if column not in columns]
    if missing:
        known = ", ".join(SEPARATORS.values())
        found = f"{listing(columns)} (separated by {SEPARATORS[separator]})" if len(columns) > 1 else listing(columns)
        raise DataError(
            f"{path}: the first line must name the columns path,label; missing {missing}, found {found or 'none'}; "
            f"known separators: {known}"
        )
    twice = [column for column, n in Counter(filter(None, columns)).items() if n > 1]
    if twice:
        raise DataError(f"{path}: columns named more than once: {listing(twice)}; keep one of each")
    return rows


def read_header(line: str) -> tuple[list[str], str]:
    """The columns and what separates them: what makes path and label columns, or else most columns.

    csv.Sniffer fails on a single column, and takes what occurs most often even where path and label say otherwise.
    """
    headers = {}
    for separator in SEPARATORS:
        fields = next(csv.reader([line], delimiter=separator), [])
        headers[separator] = [field.strip() for field in fields]
    best = max(headers, key=lambda separator: ({"path", "label"} <= {*headers[separator]}, len(headers[separator])))
    return headers[best], best

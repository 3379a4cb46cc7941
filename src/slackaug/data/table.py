"""A csv file with the columns path and label, and perhaps split; paths are relative to the folder of the csv."""

import csv
from collections import Counter
from pathlib import Path

from .dataset import DataError, Dataset, Options, listing
from .files import PARTS, Item, from_files, real


def table(location: str, options: Options) -> Dataset:
    path = Path(location)
    rows = read_rows(path)
    problems = []
    items = []
    for line, row in enumerate(rows, start=2):  # the header is line 1
        file, label, part = ((row.get(key) or "").strip() for key in ("path", "label", "split"))
        if not file or not label:
            problems.append(f"line {line}: {'path' if not file else 'label'} missing")
        elif "\0" in file:
            problems.append(f"line {line}: not a path")
        elif "split" in row and part not in PARTS:
            problems.append(f"line {line}: split {part!r}, expected {', '.join(PARTS)}")
        else:
            items.append(Item(path.parent / file, label, PARTS[part or "train"]))
    if problems:
        raise DataError(f"{path}: {len(problems)} lines are not complete: {listing(problems, '; ')}")
    files = Counter(real(item.path) for item in items)  # the same file by another path is found too
    twice = [file.name for file, count in files.items() if count > 1]
    if twice:
        raise DataError(f"{path}: files listed more than once: {listing(twice)}; an image has one label and one split")
    notes = ["val joined train: a search splits it anew"] if any(is_val(row) for row in rows) else []
    return from_files(str(path), path.parent, items, options, notes)


def is_val(row: dict[str, str]) -> bool:
    return (row.get("split") or "").strip().startswith("val")


def read_rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = [column.strip() for column in reader.fieldnames or []]
            reader.fieldnames = columns
            rows = list(reader)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a csv file in UTF-8 ({error})") from error
    missing = [column for column in ("path", "label") if column not in columns]
    if missing:
        found = listing(columns) or "none"
        raise DataError(f"{path}: the first line must name the columns path,label; missing {missing}, found {found}")
    return rows

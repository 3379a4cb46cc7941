"""A csv file with columns of paths and labels, and perhaps split, separated by commas, semicolons or tabs.

Relative paths start at the folder of the csv and may not lead out of it, neither by .. nor by a link: such a file may
come with data from elsewhere. An absolute path is read wherever it points to: it names a place on this very machine.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .decode import SUFFIXES
from .listing import PARTS, Item, Listing, checked, joined_note, label_of, part_of, real, split_of
from .options import DataError, counted, listing, printable

SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def list_table(location: str, group_by: str | None = None, columns: str | None = None) -> Listing:
    path, named = Path(location), names_of(columns)
    problems, items, parts = [], [], set()
    for line, row in read_rows(path, named):
        file, label, part = ((row.get(key) or "").strip() for key in (*named, "split"))
        group = (row[group_by] or "").strip() if group_by is not None and group_by in row else None
        if group == "":
            problems.append(f"line {line}: {group_by} missing")
        elif not file or not label:
            problems.append(f"line {line}: {named[0 if not file else 1]} missing")
        elif "\0" in file:
            problems.append(f"line {line}: not a path")
        elif "split" in row and not part_of(part):
            problems.append(f"line {line}: split {part!r}, expected {', '.join(PARTS)}")
        else:
            parts.add(part_of(part) or "train")
            items.append((file, Item(path.parent / file, label_of(label), split_of(part), group)))
    if problems:
        lines = counted(len(problems), "line is", "lines are")
        raise DataError(f"{path}: {lines} not complete: {listing(problems, '; ')}")
    files = Counter(real(item.path) for _, item in items)  # the same file by another path is found too
    twice = [file.name for file, count in files.items() if count > 1]
    if twice:
        raise DataError(f"{path}: files listed more than once: {listing(twice)}; an image has one label and one split")
    if items and all(is_missing(item.path) for _, item in items):
        raise DataError(
            f"{path}: none of the {len(items)} paths exists. Relative ones are read from the folder of {path.name}; "
            f"the first: {printable(str(items[0][1].path))}"
        )
    found = Listing(str(path), path.parent, [item for _, item in items], joined_note(parts), [])
    return checked(found, inside=[item for file, item in items if not Path(file).is_absolute()])


def is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it may be there: no permission to look
        return False
    return False


def names_of(columns: str | None) -> tuple[str, str]:
    """The columns of paths and of labels."""
    if columns is None:
        return "path", "label"
    names = [name.strip() for name in columns.split(",")]
    if len(names) != 2 or "" in names:
        raise DataError(f"--columns {columns}: expected two, of the paths and of the labels, such as file,class")
    return names[0], names[1]


def read_rows(path: Path, named: tuple[str, str]) -> list[tuple[int, dict[str, str]]]:
    """Each with the line that it ends in: blank lines are no rows, and a text in quotes may go over several lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            columns, separator = read_header(file.readline(), named)
            reader = csv.DictReader(file, columns, delimiter=separator, strict=True)
            rows = [(1 + reader.line_num, row) for row in reader]  # the header is line 1
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a csv file in UTF-8 ({error})") from error
    if missing := [column for column in named if column not in columns]:
        raise no_column(path, missing, columns, separator)
    twice = [column for column, n in Counter(filter(None, columns)).items() if n > 1]
    if twice:
        raise DataError(f"{path}: columns named more than once: {listing(twice)}; keep one of each")
    return rows


def no_column(path: Path, missing: Sequence[str], columns: Sequence[str], separator: str) -> DataError:
    if any(column.lower().endswith(SUFFIXES) for column in columns):
        return DataError(
            f"{path}: the first line looks like data ({', '.join(columns)}). Put a header above it: path,label"
        )
    wrong = f"{path}: the first line names no column {' and no column '.join(missing)}"
    if len(columns) < 2:
        return DataError(f"{wrong}; expected names with {' or '.join(SEPARATORS.values())} between them")
    return DataError(
        f"{wrong}. Its columns, with {SEPARATORS[separator]} between them: {listing(columns)}. Say which have the "
        f"paths and the labels: --columns {columns[0]},{columns[1]}"
    )


def read_header(line: str, named: tuple[str, str]) -> tuple[list[str], str]:
    """The columns and what separates them: what makes path and label columns, or else most columns.

    csv.Sniffer fails on a single column, and takes what occurs most often even where path and label say otherwise.
    """
    fields = {separator: next(csv.reader([line], delimiter=separator), []) for separator in SEPARATORS}
    headers = {separator: [field.strip() for field in some] for separator, some in fields.items()}
    best = max(headers, key=lambda separator: ({*named} <= {*headers[separator]}, len(headers[separator])))
    return headers[best], best

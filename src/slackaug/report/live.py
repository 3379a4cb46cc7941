"""Reports that commands write beside their work: never in its way."""

from collections.abc import Callable
from pathlib import Path

from ..data import Dataset
from . import page, samples

Say = Callable[[str], None]


def attempt(folder: Path, data: Dataset | None, say: Say, *, is_running: bool = False) -> bool:
    """Write the report on a folder; where that fails, say so in one line. Whether it is there."""
    try:
        page.write(folder, samples=None if data is None else samples.of_dataset(data), is_running=is_running)
    except Exception as error:  # whatever it is: a report is not worth a search
        reason = str(error).partition("\n")[0] or type(error).__name__
        say(f"the report cannot be written ({reason}); all else is")
        return False
    return True


class Live:
    """Keeps the report of a search up to date. What goes wrong with that is said once, and the search goes on."""

    def __init__(self, folder: Path, data: Dataset, say: Say):
        self.folder, self.data, self.say, self.has_failed = folder, data, say, False

    def update(self, *, is_running: bool = True) -> None:
        def say_once(text: str) -> None:
            if not self.has_failed:
                self.say(text)
            self.has_failed = True

        attempt(self.folder, self.data, say_once, is_running=is_running)

"""How long `slackaug report` takes, from the shell: start, imports, reading, drawing and writing.

    python research/report.py [--repeats 5]

A made-up run of 10 rounds over 20 transformations with images of 224 pixels, and a made-up study of 4 searches x
4 evaluations of 10 rounds each. The fastest of the repeats is that of an idle machine; the table goes to
docs/science/performance.md.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from slackaug import __version__

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import made_up  # folders of runs that nobody searched


def seconds(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"slackaug {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    print("| command | fastest | median | report.html |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        source = made_up.images(root / "data", side=224)
        folders = {
            "10 rounds, 224 pixels": made_up.evaluation(made_up.run(root / "run", source)),
            "a study of 4 x 4": made_up.study(root / "study", source=source),
        }
        rows = {"`python -c 'import torch'`, for comparison": ("-c", "import torch")}
        rows |= {f"`report`, {what}": ("-m", "slackaug", "report", str(path)) for what, path in folders.items()}
        for what, words in rows.items():
            found = [seconds(*words) for _ in range(repeats)]
            page = Path(words[-1]) / "report.html"
            size = f"{page.stat().st_size / 1e6:.2f} MB" if page.is_file() else ""
            print(f"| {what} | {min(found):.1f} s | {statistics.median(found):.1f} s | {size} |")


if __name__ == "__main__":
    main()

"""Decoding a folder of small JPEG files into the cache, against decoding alone with as many processes: into memory, as
training needs the images, and with the pixels thrown away.

    python research/cache.py --files 100000 --repeats 3

In turns, so that other work on the machine meets all. The start of the processes counts for the cache alone. CPU time
is that of all processes together, which other work changes less. Then a process is killed in the middle (kill -9) and
the rest is decoded; and the cache is opened again, every checksum verified. Memory is that of the process that asks,
without what is mapped from files.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

SIDE, N_CLASSES = 64, 100
ALONE = """
import sys, time
from pathlib import Path
import numpy as np
from slackaug.data import decode
from slackaug.data.options import DataConfig
folder, is_kept, side, number, n = Path(sys.argv[1]), *map(int, sys.argv[2:])
paths = sorted(folder.rglob("*.jpg"))[number::n]
places = np.empty((len(paths) if is_kept else 1, 3, side, side), np.uint8)
start = time.perf_counter(), time.process_time()
for i, path in enumerate(paths):
    pixels = decode.read(path, DataConfig())
    if is_kept:
        places[i] = pixels.transpose(2, 0, 1)
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""
KILLED = """
import os, signal, sys
from slackaug.data import load
def progress(what, done, total):
    if done > total / 2:
        os.kill(os.getpid(), signal.SIGKILL)
load(sys.argv[1], cache=sys.argv[2], progress=progress)
"""
GENERATE = """
import sys
sys.path.insert(0, sys.argv[1])
import cache
cache.generate(sys.argv[2], *map(int, sys.argv[3:]))
"""


def generate(folder: str, n: int, first: int, step: int) -> None:
    """Every step-th class: smooth noise, which compresses about as photographs do."""
    for label in range(first, N_CLASSES, step):
        random = np.random.default_rng(label)
        place = Path(folder) / f"class{label:03d}"
        place.mkdir(parents=True)
        for i in range(n // N_CLASSES):
            coarse = Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            smooth = np.asarray(coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=np.int64)
            noisy = (smooth + random.integers(-12, 13, smooth.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(place / f"{i:06d}.jpg", quality=85)


def together(script: str, n: int, *arguments: object) -> list[str]:
    """What n processes side by side say, each with its number and n as the last arguments."""
    words = [sys.executable, "-c", script, *map(str, arguments)]
    processes = [subprocess.Popen([*words, str(i), str(n)], stdout=subprocess.PIPE, text=True) for i in range(n)]
    said = [process.communicate()[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return said


def decode_alone(folder: Path, n: int, *, is_kept: bool) -> tuple[float, float]:
    """Seconds until the last process is done, and of the CPU in all."""
    times = [[float(word) for word in text.split()] for text in together(ALONE, n, folder, int(is_kept), SIDE)]
    return max(wall for wall, _ in times), sum(seconds for _, seconds in times)


def cpu() -> float:
    """Seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def anonymous() -> int:
    """Bytes of memory of this process that are not mapped from files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


class Peak:
    """The most memory in use at any time, beyond what was there before."""

    def __enter__(self) -> "Peak":
        self.before = self.most = anonymous()
        self.is_over = threading.Event()
        self.watching = threading.Thread(target=self.watch)
        self.watching.start()
        return self

    def watch(self) -> None:
        while not self.is_over.wait(0.01):
            self.most = max(self.most, anonymous())

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.watching.join()


Times = list[tuple[float, float]]  # wall and CPU, of each repeat


def figures(n: int, times: Times) -> tuple[int, float]:
    return round(n / statistics.median(wall for wall, _ in times)), round(statistics.median(c for _, c in times), 1)


def ratios(alone: Times, cached: Times) -> dict[str, list[float]]:
    """Speed against speed, repeat by repeat."""
    pairs = [*zip(alone, cached, strict=True)]
    return {name: [round(a[k] / c[k], 2) for a, c in pairs] for k, name in enumerate(("wall", "CPU"))}


def measure(root: Path, n: int, repeats: int) -> dict[str, object]:
    from slackaug.data import load
    from slackaug.data.cache import Filling
    from slackaug.data.listing import Item
    from slackaug.data.options import DataConfig
    from slackaug.data.pool import n_cores

    folder, cores = root / "set", n_cores()
    together(GENERATE, cores, Path(__file__).parent, folder, n)
    items = [Item(path, "", "train") for path in sorted(folder.rglob("*.jpg"))]
    thrown_away, kept, cached = [], [], []
    for _ in range(repeats):
        thrown_away.append(decode_alone(folder, cores, is_kept=False))
        kept.append(decode_alone(folder, cores, is_kept=True))
        shutil.rmtree(root / "cache", ignore_errors=True)
        start = time.perf_counter(), cpu()
        found = Filling(root / "cache", folder, items, (SIDE, SIDE), DataConfig()).fill()
        cached.append((time.perf_counter() - start[0], cpu() - start[1]))
        assert len(found.readable) == n
    with Peak() as peak:
        begun = time.perf_counter()
        whole = load(str(folder), cache=root / "whole")
        seconds_load = time.perf_counter() - begun
    begun = time.perf_counter()
    assert load(str(folder), cache=root / "whole").fingerprint == whole.fingerprint
    seconds_again = time.perf_counter() - begun
    killed = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(root / "killed")])
    assert killed.returncode == -signal.SIGKILL
    (index,) = (root / "killed").glob("*/index.bin")
    n_before = index.stat().st_size // 32
    begun = time.perf_counter()
    assert load(str(folder), cache=root / "killed").fingerprint == whole.fingerprint
    seconds_rest = time.perf_counter() - begun
    return {
        "files": n,
        "cores": cores,
        **{
            f"{what}, images/s and CPU s": figures(n, times)
            for what, times in (
                ("decoding, pixels thrown away", thrown_away),
                ("decoding into memory", kept),
                ("caching", cached),
            )
        },
        "caching / decoding, pixels thrown away": ratios(thrown_away, cached),
        "caching / decoding into memory": ratios(kept, cached),
        "load, first time, s": round(seconds_load, 1),
        "load, from the cache, s": round(seconds_again, 1),
        "decoded before kill -9": n_before,
        "load after it, s": round(seconds_rest, 1),
        "set, MB": round(n * 3 * SIDE * SIDE / 1e6),
        "peak memory of the process beyond its start, MB": round((peak.most - peak.before) / 1e6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[1:])
    with tempfile.TemporaryDirectory() as root:
        print(json.dumps(measure(Path(root), arguments.files, arguments.repeats), indent=1))


if __name__ == "__main__":
    main()

"""What must one read to understand one update of the policy? The files and lines that Python executes for it.

    python research/trace_step.py [--device cpu|cuda] [--preset paper|quick] [--at-most FILES,LINES,FRAMES]

A tiny search of the embedded digits runs as usual, by `slackaug.search`. One call of `take_step` in it is traced, then
the search is stopped. It is the second call that moves the policy, because the first may fill caches; on a GPU both
warm up what is then captured as a CUDA graph. Nothing is compiled or captured here, so Python executes all of it.
Counted are
- the files of the package of which a line is executed from the call of `take_step` to its return (augmentation, passes
  through the network, hypergradient, update of phi), and all lines of these files. The network is the one below, not
  one of the package: any will do, and the method does not depend on it;
- the frames of the package from the command, `slackaug.search`, down to `take_step`.
With --at-most, the exit code is 1 if one of the three numbers is larger.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# As few steps as show two updates of the policy.
STEPS = ("pretrain.epochs=1", "search.n_rounds=1", "search.n_retrain=1", "search.n_unrolled=2")


def network(n_classes: int) -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.LazyLinear(n_classes)
    )


class Traced(BaseException):
    """Stops the search: what was to be seen has been seen."""


class NoGraph:
    """In place of a CUDA graph."""

    def replay(self) -> None: ...


class Tracer:
    """Watches for the call that is to be traced, and then for the lines that it executes."""

    def __init__(self, code: CodeType, package: Path):
        """Of `take_step` the code."""
        self.code, self.package, self.n_before = code, f"{package}{os.sep}", 1
        self.top: FrameType | None = None  # a call of `take_step`, while it runs
        self.frames: list[str] = []  # from the command down to it
        self.lines: dict[str, set[int]] = defaultdict(set)  # by file

    def is_ours(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self.package)

    def on_call(self, frame: FrameType, event: str, _: object) -> Any:
        """Python calls it for every new frame; what it returns is called for every line in that."""
        if self.top is None and frame.f_code is self.code:
            self.top, self.frames = frame, self.stack(frame)
            self.lines.clear()
        return self.on_line if self.top is not None and self.is_ours(frame) else None

    def on_line(self, frame: FrameType, event: str, result: Any) -> Any:
        if self.top is not None and event == "line":
            self.lines[frame.f_code.co_filename].add(frame.f_lineno)
        if frame is self.top and event == "return":
            self.top = None
            if result is not None and result[1].val_loss is not None:  # else it did not move the policy, or failed
                if not self.n_before:
                    raise Traced
                self.n_before -= 1
        return self.on_line

    def stack(self, frame: FrameType | None) -> list[str]:
        """The package's frames, the outermost first."""
        found = []
        while frame is not None:
            if self.is_ours(frame):
                where = Path(frame.f_code.co_filename).relative_to(self.package)
                found.append(f"{where}:{frame.f_lineno} {frame.f_code.co_qualname}")
            frame = frame.f_back
        return found[::-1]


def trace(preset: str, device: str) -> Tracer:
    if device == "cuda":
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # read when torch is imported
    import torch

    if device == "cuda":  # steps as they are written cannot be captured: the warm-up is enough, and replays do nothing
        torch.cuda.graph = lambda *_, **__: nullcontext()
        torch.cuda.CUDAGraph = NoGraph
    import slackaug
    from slackaug.methods import slack

    tracer = Tracer(slack.take_step.__code__, Path(slackaug.__file__).parent)
    search = slackaug.search  # imported before the tracing begins
    settings: dict[str, Any] = {
        "preset": preset,
        "model": f"{Path(__file__).stem}:network",
        "set": STEPS,
        "device": device,
        "estimate": False,
    }
    threads = torch.autograd.set_multithreading_enabled(False)  # for only this thread is traced
    with tempfile.TemporaryDirectory() as folder, threads:
        sys.settrace(tracer.on_call)
        try:
            search("digits:few", Path(folder) / "run", **settings)
        except Traced:
            return tracer
        finally:
            sys.settrace(None)
    raise RuntimeError("no call of take_step moved the policy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", choices=("paper", "quick"), default="paper")
    parser.add_argument("--at-most", metavar="FILES,LINES,FRAMES", help="exit with 1 where there are more")
    arguments = parser.parse_args()
    tracer = trace(arguments.preset, arguments.device)
    sizes = {path: len(Path(path).read_text(encoding="utf-8").splitlines()) for path in tracer.lines}
    print(f"{'file':28}{'lines':>7}{'executed':>10}")
    for path in sorted(sizes):
        print(f"{Path(path).relative_to(tracer.package)!s:28}{sizes[path]:>7,}{len(tracer.lines[path]):>10,}")
    n_files, n_lines, n_frames = len(sizes), sum(sizes.values()), len(tracer.frames)
    n_executed = sum(map(len, tracer.lines.values()))
    print(f"\n{n_files} files of {n_lines:,} lines, of which {n_executed:,} are executed\n")
    print(f"{n_frames} frames from the command to the step:")
    for depth, frame in enumerate(tracer.frames, 1):
        print(f"{depth:>4} {frame}")
    if arguments.at_most is None:
        return 0
    limits = [int(limit) for limit in arguments.at_most.split(",")]
    counts = {"files": n_files, "lines": n_lines, "frames": n_frames}
    exceeded = [
        f"{n:,} {what} (at most {limit:,})"
        for (what, n), limit in zip(counts.items(), limits, strict=True)
        if n > limit
    ]
    if exceeded:
        print(f"\ntoo many: {', '.join(exceeded)}", file=sys.stderr)
    return int(bool(exceeded))


if __name__ == "__main__":
    sys.exit(main())

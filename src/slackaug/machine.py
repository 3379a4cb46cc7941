"""The machine that commands run on: its device and threads, and the times they are given."""

import re

import torch


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def machine(device: str | None, threads: int | None, *, is_here: bool = True) -> tuple[str, int | None]:
    """The device and the number of threads, which is set here; a device elsewhere cannot be tried."""
    if threads is not None:
        if threads < 1:
            raise ValueError(f"--threads {threads}: expected at least 1")
        torch.set_num_threads(threads)
    device = device or default_device()
    if not is_here:
        return device, threads
    try:
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch raises any of them
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device {device}: cannot be used ({reason}); expected cpu or cuda") from None
    return device, threads


def duration_seconds(text: str) -> float:
    """90, 90s, 20min, 2h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h)?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"--time-limit {text}: expected a time such as 90s, 20min or 2h")
    return float(match[1]) * {"h": 3600, "m": 60, "min": 60}.get(match[2], 1)

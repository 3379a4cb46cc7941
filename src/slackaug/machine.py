"""The machine that commands run on: its device and threads, and the times they are given."""

import os
import re

import torch

BESIDE_A_GPU = 4  # threads: the processor draws and sends ahead, and more of them would only wait, at full speed
MAX_THREADS = 1024


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def machine(device: str | None, threads: int | None, *, is_here: bool = True) -> tuple[str, int | None]:
    """The device and the number of threads, which is set here; a device elsewhere cannot be tried."""
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"--threads {threads}: expected at least 1 and at most {MAX_THREADS}")
    device = device or default_device()
    use_threads(device, threads)
    if is_here:
        try:
            torch.empty(1, device=device).cpu()
        except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch raises any of them
            if device.partition(":")[0] not in ("cpu", "cuda"):
                meant = "did you mean cuda?" if device.lower().startswith("gpu") else "expected cpu or cuda"
                raise ValueError(f"--device {device}: cannot be used; {meant}") from None
            reason = why_no_cuda() if device.startswith("cuda") else None
            reason = reason or str(error).splitlines()[0]
            raise ValueError(f"--device {device}: cannot be used ({reason}); expected cpu or cuda") from None
        use_gpu(device)
    return device, threads


def why_no_cuda() -> str | None:
    """What keeps torch from using any GPU; None if it can."""
    if torch.cuda.is_available():
        return None
    if torch.version.cuda is None:
        return "this torch is built for CPUs alone: pip install --force-reinstall torch brings one for CUDA, on Linux"
    return f"torch is built for CUDA {torch.version.cuda}, but finds no GPU: does nvidia-smi list one?"


def use_gpu(device: str) -> None:
    """Captured steps and kernels of our own go to the current GPU, whichever has the tensors."""
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)


def use_threads(device: str, threads: int | None) -> None:
    """Use as many as were asked for; else torch's own number, or that of OMP_NUM_THREADS, but few beside a GPU."""
    if threads is not None:
        torch.set_num_threads(threads)
    elif device.startswith("cuda") and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), BESIDE_A_GPU))


def duration_seconds(text: str) -> float:
    """90s, 20min, 2h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"--time-limit {text}: expected a time with its unit, such as 90s, 20min or 2h")
    return float(match[1]) * {"h": 3600, "m": 60, "min": 60}.get(match[2], 1)

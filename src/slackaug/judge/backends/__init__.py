"""Where the jobs of an evaluation or a study run: here one after the other, in processes side by side, or on Ray."""

import torch

from .jobs import Backend
from .local import InTurn, Processes
from .ray import Ray


def get_backend(name: str, *, address: str | None, n_jobs: int | None, device: str, threads: int | None) -> Backend:
    if name == "local":
        if address is not None:
            raise ValueError("--address is for --backend ray")
        n_jobs = 1 if n_jobs is None else n_jobs
        return InTurn() if n_jobs == 1 else Processes(n_jobs)
    if name == "ray":
        gpus = 1 / (n_jobs or 1) if device.startswith("cuda") else 0
        return Ray(address, gpus, threads or torch.get_num_threads())
    raise ValueError(f"--backend {name}: expected local or ray")

"""Several networks of one shape in one pass, each with its own weights and its own images.

As in grouped.py, M groups of images go through the layers of one network; here each group finds the parameters of a
network of its own, and leaves its traces in that network's batch-norm statistics. So a step of M small networks keeps a
GPU as busy as a step with M times as many images. Axes: M networks, B images of a batch, C channels of all batch-norms,
P parameters of a network.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ... import models
from ..fit import Fit, Fits, descend
from .captured import CompiledModel
from .graphs import Graphs, Outputs
from .groupable import is_groupable
from .grouped import ALIGNED, Grouped

ENDS = "running_mean", "running_var"


def is_stackable(model: nn.Module) -> bool:
    """One of the package's own: what the layers of another share beside their parameters is not known here."""
    return type(model).__module__ == models.__name__ and is_groupable(model.train())


class Stacked(Grouped):
    """The networks' parameters are theta (M, P), and their batch-norm statistics are here until they are asked for."""

    def __init__(self, networks: Sequence[nn.Module], theta: Tensor, precision: torch.dtype):
        super().__init__(networks[0], theta, precision)
        self.networks = networks
        self.running = theta.new_empty(len(networks), 2, sum(norm.num_features for norm in self.norms))
        self.n_seen = 0  # passes since the statistics were taken
        self.gather()

    def gather(self) -> None:
        """Take the statistics of the networks."""
        for running, network in zip(self.running, self.networks, strict=True):
            for parts, place in zip(statistics(network), running, strict=True):
                torch.cat(parts, out=place)
        self.n_seen = 0

    def share_out(self) -> None:
        """Give them back."""
        for running, network in zip(self.running, self.networks, strict=True):
            for parts, place in zip(statistics(network), running, strict=True):
                torch._foreach_copy_(parts, list(place.split([len(part) for part in parts])))
            for name, buffer in network.named_buffers():
                if name.endswith("num_batches_tracked"):
                    buffer += self.n_seen
        self.n_seen = 0

    def update_statistics(self) -> None:
        """r <- (1 - m) r + m s, each network by its own images."""
        seen = torch.cat([norm.seen for norm in self.norms], 2)  # (M, 2, C)
        means, variances = (seen[:, i].split([norm.num_features for norm in self.norms], 1) for i in range(2))
        torch._foreach_mul_(list(variances), [norm.n_seen / max(norm.n_seen - 1, 1) for norm in self.norms])
        shifts = [(mean, norm.shift) for mean, norm in zip(means, self.norms, strict=True) if norm.shift is not None]
        if shifts:
            torch._foreach_add_([mean for mean, _ in shifts], [shift.detach() for _, shift in shifts])
        momentum = self.norms[0].momentum
        assert momentum is not None
        self.running.lerp_(seen, momentum)


def statistics(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The running means and variances of its batch-norm layers."""
    named = dict(network.named_buffers())
    means, variances = ([value for name, value in named.items() if name.endswith(end)] for end in ENDS)
    return means, variances


class StackedFits(Fits):
    """Trainings of M networks of one shape whose steps are one captured step."""

    def __init__(self, fits: Sequence[Fit], *, precision: torch.dtype, compiled: bool = True):
        super().__init__(fits)
        first = fits[0]
        n = len(first.theta)
        rows = first.theta.new_zeros(2, len(fits), n + -n % ALIGNED)
        self.theta, self.momentum = rows[..., :n]  # (M, P)
        self.stack = Stacked([fit.model for fit in fits], self.theta, precision)
        self.gather()
        self.way = CompiledModel(first.way, self.stack, precision, compiled=compiled)
        self.descend = torch.compile(descend, dynamic=True) if compiled else descend  # for any M
        self.graphs = Graphs(self.theta.device)

    def gather(self) -> None:
        """Take the values of the fits."""
        for fit, theta, momentum in zip(self.fits, self.theta, self.momentum, strict=True):
            theta.copy_(fit.theta)
            momentum.copy_(fit.momentum)
        self.stack.gather()

    def settle(self) -> None:
        for fit, theta, momentum in zip(self.fits, self.theta, self.momentum, strict=True):
            fit.theta.copy_(theta)
            fit.momentum.copy_(momentum)
        self.stack.share_out()

    def step(self) -> Tensor:
        drawn = {f"{name} {i}": value for i, fit in enumerate(self.fits) for name, value in fit.draw().items()}
        (losses,) = self.graphs.run("training", self.move, drawn, self.changed)
        self.stack.n_seen += 1
        for fit in self.fits:
            fit.done += 1
        return losses.clone()

    def move(self, **drawn: Tensor) -> Outputs:
        each: list[dict[str, Tensor]] = [{} for _ in self.fits]
        for key, value in drawn.items():
            name, _, i = key.partition(" ")
            each[int(i)][name] = value
        lr = torch.stack([one.pop("lr") for one in each])[:, None]
        shown = [fit.shown(**one) for fit, one in zip(self.fits, each, strict=True)]
        images = torch.cat([self.way.augment(images, parameters) for images, _, parameters in shown])
        g, losses = self.way.gradients(images, torch.stack([labels for _, labels, _ in shown]))
        self.descend(self.theta, self.momentum, g, self.fits[0].decay, lr, self.fits[0].config)
        return (losses,)

    def changed(self) -> list[Tensor]:
        return [self.theta, self.momentum, self.stack.running]

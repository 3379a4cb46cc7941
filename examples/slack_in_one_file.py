"""SLACK in one file: learn which augmentations your images need, how often and how strongly.

    python examples/slack_in_one_file.py        # handwritten digits, about a minute on a CPU

This is Algorithm 1 of "SLACK: Stable Learning of Augmentations with Cold-start and KL regularization" (CVPR 2023), with
its line numbers, and nothing else. It solves a problem on two levels:

    min over phi of L_val(theta*(phi)),  where theta*(phi) = argmin over theta of E_{tau ~ p_phi} l_train(theta, tau)

In words: find the policy phi such that a network theta, trained on images that phi augments, does well on other images.
The package computes the same numbers, bit for bit: slackaug.search("digits", "runs/x", preset="paper", model="small").

Axes: A composites, B images, K positions of a composite, N transformations, P parameters of the network.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from slackaug import models, rng
from slackaug.augment.apply import Composites, augment
from slackaug.augment.transforms import get_space
from slackaug.data import Dataset, Split, load

SPACE = get_space("cifar")  # the elementary transformations: ShearX, ..., Invert, ..., Identity
N, K = len(SPACE), 3
SIGMA = 0.1  # deviation of the Gaussian that smooths the magnitudes
MU_START, MU_MIN, MU_MAX = 0.75, 0.1, 1.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The paper's hyper-parameters (App. B.4), at sizes that take a minute on a CPU."""

    epochs: int = 20  # of pre-training
    pretrain_lr: float = 0.1
    n_rounds: int = 5
    n_retrain: int = 40  # steps of a round in which theta moves alone
    n_unrolled: int = 40  # steps after those, in which phi moves too
    n_composites: int = 8  # A, the composites of a step
    batch: int = 64  # B, the images that each of them is applied to; all other batches have as many
    model_lr: float = 0.1  # eta
    policy_lr: float = 4.0  # alpha; alpha x lambda is 0.02, as the paper has it on CIFAR
    kl_weight: float = 0.005  # lambda
    mu_divisor: float = 40.0  # mu moves so many times more slowly than pi
    momentum: float = 0.9
    weight_decay: float = 5e-4
    clip: float = 5.0  # the largest norm of a gradient of theta


# --- the policy p_phi (Sec. 3.1) --------------------------------------------------------------------------------------


class Phi(NamedTuple):
    """The parameters of a policy, in float64."""

    pi: Tensor  # (K, N) logits: how likely each transformation is at each position
    mu: Tensor  # (N,) upper bounds of the magnitudes: how strong each may be


def sample(phi: Phi, n: int, stream: Generator) -> Composites:
    """Draw n composites tau: for each position a transformation t ~ Cat(pi_k) and its magnitude m ~ p_mu(m | t)."""
    u_t, u_m = rng.uniform((2, n, K), stream)  # (n, K) each
    epsilon = rng.normal((n, K), stream)
    cumulative = phi.pi.softmax(-1).cumsum(-1)
    t = torch.searchsorted(cumulative, u_t.T.contiguous(), right=True).T.clamp(max=N - 1)  # (K, N), (K, n) -> (n, K)
    m = phi.mu[t] * u_m + SIGMA * epsilon
    return Composites(t, m, torch.ones_like(t, dtype=torch.bool), SPACE)


def log_smoothed_uniform(m: Tensor, mu: Tensor) -> Tensor:
    """log p_mu(m), where p_mu(m) = 1/mu ∫_0^mu N(u; m, sigma) du = [Φ((mu - m) / sigma) - Φ(-m / sigma)] / mu.

    The difference Φ(a) - Φ(b) is Φ(a) (1 - Φ(b) / Φ(a)), and for m < 0 Φ(-b) - Φ(-a), so that no digits are lost.
    """
    log_a: Tensor = torch.special.log_ndtr(torch.where(m < 0, m, mu - m) / SIGMA)
    log_b: Tensor = torch.special.log_ndtr(torch.where(m < 0, m - mu, -m) / SIGMA)
    return log_a + torch.log1p(-torch.exp(log_b - log_a)) - torch.log(mu)


def log_p(phi: Phi, tau: Composites) -> Tensor:
    """log p_phi(tau) = sum over k of log p_pi(t_k) + log p_mu(m_k | t_k), for n composites: (n,)  (Eq. 1)."""
    log_p_t = phi.pi.log_softmax(-1).T.gather(0, tau.op)  # (N, K), (n, K) -> (n, K)
    log_p_m = log_smoothed_uniform(tau.magnitude, phi.mu[tau.op])  # (n, K)
    has_magnitude = SPACE.has_magnitude[tau.op]  # (n, K): false for Invert, Identity, ...
    return (log_p_t + torch.where(has_magnitude, log_p_m, 0.0)).sum(-1)


def kl(phi: Phi, anchor: Phi) -> Tensor:
    """d(p_phi, p_anchor): the KL divergence of pi from the anchor's, summed over positions; mu is not anchored."""
    return (phi.pi.softmax(-1) * (phi.pi.log_softmax(-1) - anchor.pi.log_softmax(-1))).sum()


# --- the network f_theta ----------------------------------------------------------------------------------------------


class Network:
    """f_theta, whose parameters are one vector theta (P,): to change theta is to change the network."""

    def __init__(self, data: Dataset, seed: int):
        self.model = models.build("small", data.n_classes, data.image_size, rng.generator(seed, "model")).train()
        parameters = list(self.model.parameters())
        self.sizes = [p.numel() for p in parameters]
        self.theta = torch.cat([p.detach().flatten() for p in parameters])  # (P,)
        for p, part in zip(parameters, self.theta.split(self.sizes), strict=True):
            p.data = part.view_as(p)
        mean, std = (torch.tensor(channels).view(-1, 1, 1) for channels in (data.mean, data.std))  # (3, 1, 1)
        self.scale, self.shift = 1 / (255 * std), mean / std

    def gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient (P,) of the mean cross-entropy, and the loss; batch-norm uses the statistics of this batch."""
        loss = cross_entropy(self.model(images * self.scale - self.shift), labels)
        gradients = torch.autograd.grad(loss, list(self.model.parameters()))
        return torch.cat([g.flatten() for g in gradients]), loss.detach()


def batches(split: Split, size: int, stream: Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Images (B, 3, H, W) uint8 and labels (B,), epoch after epoch; an incomplete last batch is left out."""
    n, size = len(split.labels), min(size, len(split.labels))
    while True:
        for index in torch.randperm(n, generator=stream)[: n - n % size].split(size):
            yield split.images[index], split.labels[index]


def apply(tau: Composites, images: Tensor, data: Dataset, stream: Generator) -> Tensor:
    """tau(x), (B, 3, H, W), a composite for each image; the stream draws directions, crops, boxes and mirror flips."""
    return augment(images, tau, stream, flip=data.flip, fill=tuple(round(255 * channel) for channel in data.mean))


def clip(g: Tensor, largest: float) -> Tensor:
    """Gradients (..., P), each scaled down to the largest norm allowed."""
    norm: Tensor = torch.linalg.vector_norm(g, dim=-1, keepdim=True)
    return g * (largest / norm.clamp(min=largest))


def cosine(lr: float, step: int, n_steps: int) -> float:
    return lr * 0.5 * (1 + math.cos(math.pi * step / n_steps))


# --- Algorithm 1 (Sec. 3.3): the numbers are its lines ----------------------------------------------------------------


def slack(data: Dataset, s: Settings, seed: int = 0) -> Iterator[tuple[Phi, Tensor]]:
    """Yield the phi of each round, and its validation losses (n_unrolled,). The phi of the last round is the result."""
    train, val = data.halves(seed)  # D_train and D_val; test images have no part in a search
    network = Network(data, seed)
    theta = network.theta  # (P,)
    phi = Phi(torch.zeros(K, N, dtype=torch.float64), torch.full((N,), MU_START, dtype=torch.float64))  # 1: uniform
    pretrain(network, phi, data, train, s, rng.streams(seed, "pre-training"))  # 2
    theta_0 = theta.clone()

    streams = rng.streams(seed, "search")
    train_batches = batches(train, s.batch, streams["train data"])
    val_batches = batches(val, s.batch, streams["val data"])
    n_total = s.n_retrain + s.n_unrolled
    for _ in range(s.n_rounds):  # 3
        theta.copy_(theta_0)  # 4: cold start
        anchor = phi  # 5
        theta_momentum, pi_momentum, mu_momentum = (torch.zeros_like(value) for value in (theta, *phi))
        val_losses = []
        for j in range(n_total):  # 6
            tau = sample(phi, s.n_composites, streams["policy"])
            g = train_gradients(network, tau, *next(train_batches), data, streams["transform"])
            g = clip(g, s.clip)  # (A, P)
            g_theta = g.mean(0)  # 7
            theta_momentum.mul_(s.momentum).add_(g_theta).add_(theta, alpha=s.weight_decay)
            theta.sub_(cosine(s.model_lr, j, n_total) * theta_momentum)  # 8
            if j >= s.n_retrain:  # 9
                v, val_loss = network.gradient(*next(val_batches))  # without augmentation
                v = torch.cat([clip(part, s.clip) for part in v.split(network.sizes)])  # (P,)
                grad_pi, grad_mu = policy_gradient(phi, anchor, tau, g, v, s)  # 10
                pi_momentum = s.momentum * pi_momentum + grad_pi
                mu_momentum = s.momentum * mu_momentum + grad_mu / s.mu_divisor
                pi = phi.pi - s.policy_lr * pi_momentum
                mu = (phi.mu - s.policy_lr * mu_momentum).clamp(MU_MIN, MU_MAX)
                phi = Phi(pi, mu)  # 11
                val_losses.append(val_loss)
        yield phi, torch.stack(val_losses)


def pretrain(
    network: Network, phi: Phi, data: Dataset, train: Split, s: Settings, streams: dict[str, Generator]
) -> None:
    """2: theta_0 <- optimize(L_train(theta, phi)), by SGD, with a composite of its own for each image."""
    theta, momentum = network.theta, torch.zeros_like(network.theta)
    decays = [
        torch.full((p.numel(),), 0.0 if isinstance(layer, nn.BatchNorm2d) else s.weight_decay)
        for layer in network.model.modules()
        for p in layer.parameters(recurse=False)
    ]
    weight_decay = torch.cat(decays)  # (P,): none of batch-norm's parameters
    train_batches = batches(train, s.batch, streams["train data"])
    n_steps = s.epochs * max(len(train.labels) // s.batch, 1)
    for step in range(n_steps):
        images, labels = next(train_batches)
        tau = sample(phi, len(images), streams["policy"])
        g_theta, _ = network.gradient(apply(tau, images, data, streams["transform"]), labels)
        momentum.mul_(s.momentum).add_(clip(g_theta, s.clip) + weight_decay * theta)
        theta.sub_(cosine(s.pretrain_lr, step, n_steps) * momentum)


def train_gradients(
    network: Network, tau: Composites, images: Tensor, labels: Tensor, data: Dataset, stream: Generator
) -> Tensor:
    """7: g_a, the gradient of l_train(theta, tau_a), (A, P): A composites, each applied to the same B images."""
    n_composites, n_images = len(tau.op), len(images)
    augmented = apply(tau.repeat(n_images), images.repeat(n_composites, 1, 1, 1), data, stream)  # (A * B, 3, H, W)
    return torch.stack([network.gradient(part, labels)[0] for part in augmented.split(n_images)])


def policy_gradient(phi: Phi, anchor: Phi, tau: Composites, g: Tensor, v: Tensor, s: Settings) -> tuple[Tensor, ...]:
    """10: G_phi, plus lambda times the gradient of d(p_phi, p_anchor), for pi (K, N) and mu (N,).

    v is the gradient of L_val one step ahead, at theta - eta g_theta. By the score method (REINFORCE) the derivative of
    that step gives G_phi = -eta/A sum over a of w_a grad log p_phi(tau_a), where w_a = <v, g_a>: a composite becomes
    likelier if a step of theta along its gradient lowers L_val. This eta stays at its start, or G_phi would fade.
    """
    w = g @ v  # (A, P) @ (P,) -> (A,)
    phi = Phi(phi.pi.clone().requires_grad_(), phi.mu.clone().requires_grad_())
    objective = -s.model_lr * (w * log_p(phi, tau)).mean() + s.kl_weight * kl(phi, anchor)
    return torch.autograd.grad(objective, phi)


if __name__ == "__main__":
    for number, (phi, val_losses) in enumerate(slack(load("digits"), Settings()), 1):  # noqa: B007
        print(f"round {number}: validation loss {val_losses.mean():.3f}", flush=True)
    print(f"\n{'transformation':16}{'probability':>11}{'largest magnitude':>20}")
    probability = phi.pi.softmax(-1).mean(0)  # (N,), over positions
    for n in probability.argsort(descending=True).tolist():
        mu = f"{phi.mu[n]:.2f}" if SPACE.has_magnitude[n] else "-"
        print(f"{SPACE.names[n]:16}{probability[n]:11.3f}{mu:>20}")

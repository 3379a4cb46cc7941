"""Slow and obviously right: Pillow for pixels, plain loops for a composite, quadrature and every tau for the policy.

Nothing here uses the package's own arithmetic: pixels come from Pillow or numpy, one image at a time; strengths,
windows and the order are written down once more.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator

import mpmath
import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

BLACK = (0, 0, 0)


def to_pil(pixels: Tensor) -> Image.Image:
    """(C, H, W) uint8 -> mode L or RGB."""
    array = pixels.numpy()
    return Image.fromarray(array[0]) if len(array) == 1 else Image.merge("RGB", [Image.fromarray(c) for c in array])


def to_pixels(image: Image.Image) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(channel)) for channel in image.split()])


def colour(image: Image.Image, fill: tuple[int, ...]) -> int | tuple[int, ...]:
    return fill if image.mode == "RGB" else Image.new("RGB", (1, 1), fill).convert("L").getpixel((0, 0))


# --- pixels: (image, strength) or (image, box), by Pillow -------------------------------------------------------------


def affine(image: Image.Image, *coefficients: float) -> Image.Image:
    return image.transform(image.size, Image.AFFINE, coefficients, resample=Image.NEAREST, fillcolor=0)


def hue(image: Image.Image, turn: float) -> Image.Image:
    if image.mode == "L":
        return image
    hsv = np.array(image.convert("HSV"))
    hsv[..., 0] += np.array(int(turn * 255)).astype(np.uint8)  # wraps around, as the hue circle does
    return Image.fromarray(hsv, mode="HSV").convert("RGB")


def resize_crop(image: Image.Image, box: tuple[int, ...]) -> Image.Image:
    left, top, width, height = box
    return image.crop((left, top, left + width, top + height)).resize(image.size, Image.BICUBIC)


def pad_and_crop(image: Image.Image, box: tuple[int, ...]) -> Image.Image:
    canvas = Image.new(image.mode, image.size)
    canvas.paste(image, (-box[0], -box[1]))
    return canvas


def cutout(image: Image.Image, box: tuple[int, ...], fill: tuple[int, ...] = BLACK) -> Image.Image:
    left, top, width, height = box
    pixels = np.array(image)
    pixels[max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)] = colour(image, fill)
    return Image.fromarray(pixels)


PIXELS: dict[str, Callable[..., Image.Image]] = {
    "Identity": lambda image, _: image,
    "ShearX": lambda image, v: affine(image, 1, v, 0, 0, 1, 0),
    "ShearY": lambda image, v: affine(image, 1, 0, 0, v, 1, 0),
    "TranslateX": lambda image, v: affine(image, 1, 0, v * image.width, 0, 1, 0),
    "TranslateY": lambda image, v: affine(image, 1, 0, 0, 0, 1, v * image.height),
    "Rotate": lambda image, v: image.rotate(v, resample=Image.NEAREST),
    "AutoContrast": lambda image, _: ImageOps.autocontrast(image),
    "Equalize": lambda image, _: ImageOps.equalize(image),
    "Invert": lambda image, _: ImageOps.invert(image),
    "Grayscale": lambda image, _: ImageOps.grayscale(image).convert(image.mode),
    "Solarize": lambda image, v: ImageOps.solarize(image, v),
    "Posterize": lambda image, v: ImageOps.posterize(image, round(v)),
    "Contrast": lambda image, v: ImageEnhance.Contrast(image).enhance(1 + v),
    "Color": lambda image, v: ImageEnhance.Color(image).enhance(1 + v),
    "Brightness": lambda image, v: ImageEnhance.Brightness(image).enhance(1 + v),
    "Sharpness": lambda image, v: ImageEnhance.Sharpness(image).enhance(1 + v),
    "Hue": hue,
    "Cutout": cutout,
    "RandomCrop": pad_and_crop,
    "RandomResizeCrop": resize_crop,
}


# --- a composite: strengths, windows and the order (App. B.2) ---------------------------------------------------------

STRENGTH = {  # at the magnitudes 0 and 1
    "ShearX": (0, 1), "ShearY": (0, 1), "TranslateX": (0, 0.75), "TranslateY": (0, 0.75), "Rotate": (0, 90),
    "Solarize": (255, 0), "Posterize": (8, 2), "Contrast": (0, 0.99), "Color": (0, 0.99), "Brightness": (0, 0.99),
    "Sharpness": (0, 0.99), "Hue": (0, 0.5), "Cutout": (0, 1), "RandomCrop": (0, 0.5), "RandomResizeCrop": (1, 0.05),
}  # fmt: skip
SIGNED = set(STRENGTH) - {"Solarize", "Posterize", "Cutout", "RandomCrop", "RandomResizeCrop"}


def strength(name: str, magnitude: float, u: float) -> float:
    """The strength at a magnitude; the direction is backwards where u < 1/2."""
    start, end = STRENGTH.get(name, (0, 0))
    value = start + (end - start) * min(max(magnitude, 0.0), 1.0)
    return -value if name in SIGNED and u < 0.5 else value


def aspect_range(area: float, height: int, width: int) -> tuple[float, float]:
    """Where the aspect of RandomResizeCrop lies: [3/4, 4/3] as far as a window of that area fits."""
    ratio = width / height
    low, high = area * ratio, ratio / area
    if high < 3 / 4:
        return high, high
    if low > 4 / 3:
        return low, low
    return max(low, 3 / 4), min(high, 4 / 3)


def crop_box(pad: float, u: list[float], height: int, width: int) -> tuple[int, int, int, int]:
    pad_x, pad_y = round(pad * width), round(pad * height)
    left, top = math.floor(u[0] * (2 * pad_x + 1)), math.floor(u[1] * (2 * pad_y + 1))  # in the padded image
    return left - pad_x, top - pad_y, width, height


def cutout_box(part: float, u: list[float], height: int, width: int) -> tuple[int, int, int, int]:
    side = round(part * width)
    return math.floor(u[0] * width) - side // 2, math.floor(u[1] * height) - side // 2, side, side


def resize_box(area: float, u: list[float], height: int, width: int) -> tuple[int, int, int, int]:
    low, high = aspect_range(area, height, width)
    aspect = low * (high / low) ** u[0]  # log-uniform
    box_width = min(max(round(math.sqrt(area * height * width * aspect)), 1), width)
    box_height = min(max(round(math.sqrt(area * height * width / aspect)), 1), height)
    left, top = math.floor(u[1] * (width - box_width + 1)), math.floor(u[2] * (height - box_height + 1))
    return left, top, box_width, box_height


BOXES = {"RandomCrop": crop_box, "Cutout": cutout_box, "RandomResizeCrop": resize_box}


def argument(name: str, magnitude: float, u: list[float], height: int, width: int) -> float | tuple[int, ...]:
    """What PIXELS[name] takes beside the image: u is the direction, then what a window needs."""
    value = strength(name, magnitude, u[0])
    return BOXES[name](value, u[1:], height, width) if name in BOXES else value


def augment_one(image: Image.Image, drawn: list[tuple[str, float, list[float]]], flip: bool, fill: tuple[int, ...]):
    """RandomResizeCrop first, then the positions in order, the mirror flip, and Cutout last."""

    def take(image: Image.Image, wanted: Callable[[str], bool], *extra: tuple[int, ...]) -> Image.Image:
        for name, magnitude, u in drawn:
            if wanted(name):
                image = PIXELS[name](image, argument(name, magnitude, u, image.height, image.width), *extra)
        return image

    image = take(image, lambda name: name == "RandomResizeCrop")
    image = take(image, lambda name: name not in ("RandomResizeCrop", "Cutout"))
    if flip:
        image = ImageOps.mirror(image)
    return take(image, lambda name: name == "Cutout", fill)


def augment(images: Tensor, parameters, fill: tuple[int, ...] = BLACK) -> Tensor:
    """A loop over the images."""
    (op, magnitude, active, space), u, flip = parameters
    out = []
    for i, pixels in enumerate(images):
        positions = [k for k in range(op.shape[1]) if active[i, k]]
        drawn = [(space.names[op[i, k]], magnitude[i, k].item(), u[i, k].tolist()) for k in positions]
        out.append(to_pixels(augment_one(to_pil(pixels), drawn, bool(flip[i]), fill)))
    return torch.stack(out) if out else images


# --- densities and the policy -----------------------------------------------------------------------------------------


def grid(low: float = -1.5, high: float = 2.5, n: int = 20_001) -> tuple[Tensor, Tensor]:
    """Points and weights of the trapezoidal rule, which for a smooth density that vanishes at both ends is exact."""
    points = torch.linspace(low, high, n, dtype=torch.float64)
    return points, torch.full((n,), (high - low) / (n - 1), dtype=torch.float64)


def integrate(log_density: Callable[[Tensor], Tensor]) -> float:
    points, weights = grid()
    return float((log_density(points).exp() * weights).sum())


def smoothed_uniform_log_prob(m: float, high: float, scale: float) -> float:
    """The density of Sec. 3.1, word for word, with 400 digits: enough to subtract what agrees in the first 100."""
    with mpmath.workdps(400):
        m, high, scale = mpmath.mpf(m), mpmath.mpf(high), mpmath.mpf(scale)
        return float(mpmath.log((mpmath.ncdf((high - m) / scale) - mpmath.ncdf(-m / scale)) / high))


def every_tau(n: int, k: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(n), repeat=k)


def smoothed_uniform_prob(m: Tensor, high: Tensor, scale: float) -> Tensor:
    """The same formula in torch, differentiable in the bound; good near [0, high]."""
    return (torch.special.ndtr((high - m) / scale) - torch.special.ndtr(-m / scale)) / high


# --- Algorithm 1: one round of the search, by torch.optim -------------------------------------------------------------


def slack_round(model, pi: Tensor, mu: Tensor, space, config, draw_step: Callable, fill: tuple[int, ...], norm):
    """A round from the model and phi as they are; yields (pi, mu) after every step, changing the model in place.

    `draw_step(pi, mu)` gives what chance decides: the train images, their labels, for each composite its op (K,),
    magnitude (K,) and the parameters of its images, and the val images with their labels. Written down once more from
    Algorithm 1, with lists, loops, Pillow, torch.optim and the densities above.
    """
    ranged = torch.tensor([name in STRENGTH for name in space.names])
    anchor = pi.detach().clone()
    pi, mu = pi.clone().requires_grad_(), mu.clone().requires_grad_()
    n_steps = config.n_retrain + config.n_unrolled
    rate = config.model_lr
    of_theta = torch.optim.SGD(
        model.parameters(), rate, momentum=config.momentum, weight_decay=config.weight_decay
    )  # decay on all parameters
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(of_theta, n_steps)  # to 0, no warm-up
    of_phi = torch.optim.SGD([pi, mu], config.policy_lr, momentum=config.momentum)
    for step in range(n_steps):
        drawn = draw_step(pi.detach(), mu.detach())
        clipped = []  # g_a, a list of tensors each
        model.train()
        for parameters in drawn.parameters:
            pixels = augment(drawn.images, parameters, fill)
            model.zero_grad()
            torch.nn.functional.cross_entropy(model(norm(pixels)), drawn.labels).backward()
            if config.clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            clipped.append([p.grad.clone() for p in model.parameters()])
        for i, p in enumerate(model.parameters()):
            p.grad = sum(g[i] for g in clipped) / len(clipped)
        of_theta.step()
        schedule.step()
        if step >= config.n_retrain:
            v = val_gradient(model, norm(drawn.val_images), drawn.val_labels)
            if config.val_clip is not None:
                v = [g * min(1.0, config.val_clip / max(g.norm().item(), 1e-12)) for g in v]
            objective = config.kl_weight * categorical_kl(pi, anchor)
            for a, g in enumerate(clipped):
                w = sum((x.double() * y.double()).sum() for x, y in zip(v, g, strict=True))
                log_p = torch.zeros((), dtype=torch.float64)
                for k, (n, m) in enumerate(zip(drawn.op[a].tolist(), drawn.magnitude[a], strict=True)):
                    log_p = log_p + pi[k].log_softmax(-1)[n]
                    if ranged[n]:
                        log_p = log_p + smoothed_uniform_prob(m, mu[n], 0.1).log()
                objective = objective - config.model_lr / len(clipped) * w * log_p
            of_phi.zero_grad()
            objective.backward()
            mu.grad = torch.zeros_like(mu) if mu.grad is None else mu.grad / config.mu_divisor
            of_phi.step()
            with torch.no_grad():
                mu.clamp_(0.1, 1.0)
        yield pi.detach().clone(), mu.detach().clone()


def val_gradient(model, floats: Tensor, labels: Tensor) -> list[Tensor]:
    """Train-mode batch-norm, on a copy, so that the statistics of the model itself cannot change."""
    twin = copy.deepcopy(model).train()
    twin.zero_grad()
    torch.nn.functional.cross_entropy(twin(floats), labels).backward()
    return [p.grad for p in twin.parameters()]


def categorical_kl(pi: Tensor, anchor: Tensor) -> Tensor:
    Categorical = torch.distributions.Categorical
    return torch.distributions.kl_divergence(Categorical(logits=pi), Categorical(logits=anchor)).sum()

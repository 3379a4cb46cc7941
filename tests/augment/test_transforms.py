"""How magnitudes become strengths and windows (App. B.2 of the paper)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oracles
from slackaug.augment.functional import crop_window, cutout_window
from slackaug.augment.resize import resize_window
from slackaug.augment.space import Stage
from slackaug.augment.transforms import TRANSFORMS, custom

UNIT = st.floats(0, 1, exclude_max=True)
MAGNITUDE = st.floats(-0.5, 1.5) | st.sampled_from([0.0, 1.0])


def f64(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- the table --------------------------------------------------------------------------------------------------------


def test_the_table_is_the_spec():
    stages = {name: t.stage for name, t in TRANSFORMS.items() if t.stage is not Stage.POSITION}
    assert stages == {"RandomResizeCrop": Stage.FIRST, "Cutout": Stage.LAST}
    assert TRANSFORMS.keys() == oracles.PIXELS.keys()
    assert {name for name, t in TRANSFORMS.items() if t.span} == oracles.STRENGTH.keys()
    assert {name for name, t in TRANSFORMS.items() if t.signed} == oracles.SIGNED
    assert {name for name, t in TRANSFORMS.items() if t.window} == oracles.BOXES.keys()
    assert all(name == t.name for name, t in TRANSFORMS.items())


@pytest.mark.parametrize("name", TRANSFORMS)
@given(m=MAGNITUDE, u=UNIT)
@settings(max_examples=15)
def test_strength_follows_the_spec(name, m, u):
    """Magnitudes outside [0, 1] are clamped where they are applied."""
    strength = TRANSFORMS[name].strength(f64(m), f64(u)).item()
    assert strength == pytest.approx(oracles.strength(name, m, u), abs=1e-12)


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", oracles.BOXES)
@given(m=st.floats(0, 1), u=st.tuples(UNIT, UNIT, UNIT, UNIT), height=st.integers(1, 300), width=st.integers(1, 300))
@settings(max_examples=100)
def test_windows_follow_the_spec(name, m, u, height, width):
    window = TRANSFORMS[name].argument(f64(m), f64(*u).view(1, 4), height, width)
    assert tuple(window[0].tolist()) == oracles.argument(name, m, list(u), height, width)


@given(area=st.floats(0.05, 1), u=st.tuples(UNIT, UNIT, UNIT), height=st.integers(1, 300), width=st.integers(1, 300))
@settings(max_examples=200)
def test_resize_window_has_the_area_and_the_aspect_and_fits(area, u, height, width):
    """Each side is the exact one, rounded, at least 1; the exact ones have the area, and an aspect in [3/4, 4/3] cut
    with [aR, R/a], or the nearest end where they do not meet."""
    left, top, w, h = resize_window(f64(area), f64(*u).view(1, 3), height, width)[0].tolist()
    assert 0 <= left <= width - w < width
    assert 0 <= top <= height - h < height
    low, high = oracles.aspect_range(area, height, width)
    narrowest, widest = area * width / height, width / height / area
    assert narrowest * (1 - 1e-12) <= low <= high <= widest * (1 + 1e-12)
    assert low == high if widest < 3 / 4 or narrowest > 4 / 3 else 3 / 4 <= low <= high <= 4 / 3
    aspect = low * (high / low) ** u[0]
    exact_w, exact_h = math.sqrt(area * height * width * aspect), math.sqrt(area * height * width / aspect)
    assert w == 1 or abs(w - exact_w) <= 0.5 + 1e-9
    assert h == 1 or abs(h - exact_h) <= 0.5 + 1e-9


@pytest.mark.parametrize(
    ("window", "strength", "size", "axis", "low", "high"),
    [
        (crop_window, 0.5, (10, 12), 0, -6, 6),  # padding of 6 and 5 pixels
        (crop_window, 0.5, (10, 12), 1, -5, 5),
        (cutout_window, 0.4, (9, 12), 0, -2, 9),  # a side of round(0.4 x 12), centred in the image
        (cutout_window, 0.4, (9, 12), 1, -2, 6),
        (resize_window, 0.2, (12, 12), 1, 0, 7),  # those that are 5 high
    ],
)
def test_windows_are_uniform_over_their_offsets(window, strength, size, axis, low, high):
    """Chi-square; each fails a fair draw with probability 1e-3."""
    u = torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = window(torch.full((20_000,), strength, dtype=torch.float64), u, *size)
    offsets = found[found[:, 3] == (10 if window is crop_window else 5), axis]
    counts = torch.bincount((offsets - low).long())
    assert (len(offsets) == 20_000 or window is resize_window, len(counts)) == (True, high - low + 1)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_custom_keeps_what_it_is_given_and_needs_a_function():
    blur = custom("Blur", lambda images, value: images, span=(1, 5), signed=True, unit="pixels")
    found = blur.name, blur.span, blur.signed, blur.unit, blur.stage
    assert found == ("Blur", (1, 5), True, "pixels", Stage.POSITION)
    with pytest.raises(ValueError, match="Blur needs a batched kernel or a function of a PIL image"):
        custom("Blur")

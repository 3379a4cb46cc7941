"""The three executions of one draw against a loop over the images written down once more (oracles)."""

import pytest
import torch
import torch._dynamo.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from torch import Tensor

import oracles
from drawn import FILL, noise, random_parameters
from slackaug import Policy
from slackaug.augment import apply, pil
from slackaug.augment.apply import Composites, Parameters
from slackaug.augment.space import Space
from slackaug.augment.transforms import SPACES, TRANSFORMS, custom

EVERYTHING = SPACES["domainnet"]


def composites(space: Space, *drawn: list[tuple[str, float]]) -> Composites:
    """One composite per list of (name, magnitude)."""
    op = torch.tensor([[space.index(name) for name, _ in positions] for positions in drawn])
    magnitude = torch.tensor([[m for _, m in positions] for positions in drawn], dtype=torch.float64)
    return Composites(op, magnitude, torch.ones_like(op, dtype=torch.bool), space)


def on_pil(images: Tensor, parameters: Parameters, fill: tuple[int, ...] = (0, 0, 0)) -> Tensor:
    (op, magnitude, active, space), u, flip = parameters
    done = []
    for i in range(len(images)):
        rows = slice(i, i + 1)
        one = Parameters(Composites(op[rows], magnitude[rows], active[rows], space), u[rows], flip[rows])
        done.append(pil.to_tensor(apply.on_pil(pil.from_tensor(images[i]), one, fill)))
    return torch.stack(done) if done else images


EXECUTIONS = {"grouped": apply.grouped, "branch_free": apply.branch_free, "on_pil": on_pil}
executions = pytest.mark.parametrize("execute", EXECUTIONS.values(), ids=EXECUTIONS.keys())


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_same_generator_gives_the_same_pixels(images):
    tau = random_parameters(EVERYTHING, 4, 3, seed=1).composites
    first, second = (apply.augment(images, tau, torch.Generator().manual_seed(3), flip=True) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, apply.augment(images, tau, torch.Generator().manual_seed(4), flip=True))


def test_augment_is_draw_and_execute(images):
    tau = random_parameters(EVERYTHING, 4, 3, seed=1).composites
    out = apply.augment(images, tau, torch.Generator().manual_seed(3), flip=True, fill=FILL)
    parameters = apply.draw(tau, torch.Generator().manual_seed(3), flip=True)
    assert torch.equal(out, oracles.augment(images, parameters, FILL))


def test_switching_flips_off_changes_nothing_else():
    tau = random_parameters(EVERYTHING, 64, 3, seed=1).composites
    on, off = (apply.draw(tau, torch.Generator().manual_seed(3), flip=flip) for flip in (True, False))
    assert torch.equal(on.u, off.u)
    assert not off.flip.any()
    assert 16 < on.flip.sum() < 48  # a fair coin fails this with probability 3e-5


def test_each_image_has_its_own_draws():
    tau = composites(EVERYTHING, [("Rotate", 0.5)]).repeat(64)
    out = apply.augment(noise(1, 3, 9, 9).expand(64, -1, -1, -1), tau, torch.Generator().manual_seed(0))
    assert len(out.unique(dim=0)) == 2  # both directions; all 64 the same has probability 1e-19


def test_repeat_gives_each_composite_to_images_in_a_row():
    tau = composites(EVERYTHING, [("Rotate", 0.5)], [("Hue", 0.1)]).repeat(2)
    assert [EVERYTHING.names[n] for n in tau.op[:, 0]] == ["Rotate", "Rotate", "Hue", "Hue"]
    assert tau.magnitude[:, 0].tolist() == [0.5, 0.5, 0.1, 0.1]


# --- executing --------------------------------------------------------------------------------------------------------


@executions
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_equals_the_loop(execute, channels, length, space):
    images = noise(48, channels, 13, 17)
    parameters = random_parameters(space, 48, length, seed=10 * length + channels)
    before = images.clone()
    out = execute(images, parameters, FILL)
    assert (out.shape, out.dtype) == (images.shape, torch.uint8)
    assert torch.equal(out, oracles.augment(images, parameters, FILL))
    assert torch.equal(images, before)


@given(
    n=st.integers(1, 6),
    channels=st.sampled_from([1, 3]),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    length=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_the_executions_agree_on_any_size(n, channels, height, width, length, seed):
    images = noise(n, channels, height, width, seed=seed)
    parameters = random_parameters(EVERYTHING, n, length, seed)
    expected = oracles.augment(images, parameters, FILL)
    for name, execute in EXECUTIONS.items():
        assert torch.equal(execute(images, parameters, FILL), expected), name


@pytest.mark.parametrize("execute", [apply.grouped, apply.branch_free])
def test_batch_of_none(execute):
    images = noise(0, 3, 8, 9)
    assert torch.equal(execute(images, random_parameters(EVERYTHING, 0, 3, seed=5), FILL), images)


@executions
def test_inactive_positions_do_nothing(execute, images):
    op, magnitude, active, space = composites(EVERYTHING, *[[("Invert", 0.0), ("Cutout", 1.0)]] * 4)
    tau = Composites(op, magnitude, torch.zeros_like(active), space)
    out = execute(images, apply.draw(tau, torch.Generator().manual_seed(0), flip=False))
    assert torch.equal(out, images)
    assert out.data_ptr() != images.data_ptr()


def one(execute, images: Tensor, *drawn: tuple[str, float], flip: bool = False, seed: int = 0) -> Tensor:
    """All images through one composite, flipped or not."""
    tau = composites(EVERYTHING, list(drawn)).repeat(len(images))
    parameters = apply.draw(tau, torch.Generator().manual_seed(seed), flip=False)
    return execute(images, parameters._replace(flip=torch.full((len(images),), flip)), FILL)


@executions
def test_drawn_twice_is_applied_twice(execute, images):
    assert torch.equal(one(execute, images, ("Invert", 0), ("Invert", 0)), images)
    twice = one(execute, one(execute, images, ("Posterize", 0.9)), ("Posterize", 0.3))
    assert torch.equal(one(execute, images, ("Posterize", 0.9), ("Posterize", 0.3)), twice)


@executions
def test_positions_act_in_order(execute, images):
    there = one(execute, images, ("Invert", 0), ("Solarize", 0.3))
    assert torch.equal(there, one(execute, one(execute, images, ("Invert", 0)), ("Solarize", 0.3)))
    assert not torch.equal(there, one(execute, images, ("Solarize", 0.3), ("Invert", 0)))


@executions
def test_cutout_is_last_wherever_it_was_drawn(execute, images):
    """Invert would change the painted colour; Cutout drawn before it must not let it."""
    out = one(execute, images, ("Cutout", 0.9), ("Invert", 0))
    assert (out == torch.tensor(FILL, dtype=torch.uint8).view(3, 1, 1)).all(1).flatten(1).any(1).all()


@executions
def test_cutout_is_after_the_flip(execute):
    """The hole lies where its window says, flipped or not."""
    images = torch.zeros(8, 3, 16, 16, dtype=torch.uint8)
    plain, flipped = (one(execute, images, ("Cutout", 0.3), flip=flip) for flip in (False, True))
    assert torch.equal(plain, flipped)
    assert not torch.equal(plain, plain.flip(3))


@executions
def test_random_resize_crop_is_first_wherever_it_was_drawn(execute, images):
    """Drawn second, with the same noise, it gives the pixels of: crop, then rotate."""
    tau = composites(EVERYTHING, [("Rotate", 0.4), ("RandomResizeCrop", 0.6)]).repeat(4)
    parameters = apply.draw(tau, torch.Generator().manual_seed(0), flip=False)
    crop, rotate = (parameters._replace(u=parameters.u[:, k : k + 1]) for k in (1, 0))
    crop = crop._replace(composites=composites(EVERYTHING, [("RandomResizeCrop", 0.6)]).repeat(4))
    rotate = rotate._replace(composites=composites(EVERYTHING, [("Rotate", 0.4)]).repeat(4))
    assert torch.equal(execute(images, parameters), execute(execute(images, crop), rotate))
    assert not torch.equal(execute(images, parameters), execute(execute(images, rotate), crop))


@executions
def test_grey_images_are_painted_with_the_luma(execute):
    out = one(execute, torch.zeros(8, 1, 9, 9, dtype=torch.uint8), ("Cutout", 0.5))
    assert set(out.unique().tolist()) == {0, (299 * 125 + 587 * 200 + 114 * 3 + 500) // 1000}


# --- compiled ---------------------------------------------------------------------------------------------------------


def compiled_equals_loop(space: Space, images: Tensor, length: int) -> None:
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(apply.branch_free, fullgraph=True, backend=counter)  # fullgraph: a break is an error
    for seed in range(3):
        parameters = random_parameters(space, len(images), length, seed)
        assert torch.equal(compiled(images, parameters, FILL), oracles.augment(images, parameters, FILL))
    assert counter.frame_count == 1, "other parameters made it compile again"
    torch._dynamo.reset()


def test_branch_free_compiles_once_without_a_break():
    """All 20 transformations, at one position."""
    compiled_equals_loop(EVERYTHING, noise(24, 3, 12, 14), length=1)


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_branch_free_compiles_for_every_space(space, channels):
    compiled_equals_loop(space, noise(24, channels, 12, 14), length=3)


# --- a user's own -----------------------------------------------------------------------------------------------------


def fade(images: Tensor, value: Tensor) -> Tensor:
    return (images * value.view(-1, 1, 1, 1).abs()).to(torch.uint8)


def pil_fade(image, value: float):
    return image.point(lambda level: int(level * abs(value)))


def mirror(image, value: float):
    assert value == 0.0
    return ImageOps.mirror(image)


OWN = {
    "kernel": custom("Fade", fade, span=(1, 0)),
    "pil": custom("Fade", pil_function=pil_fade, span=(1, 0)),
    "both": custom("Fade", fade, pil_function=pil_fade, span=(1, 0)),
    "signed": custom("Fade", fade, pil_function=pil_fade, span=(1, 0), signed=True),
}


@pytest.mark.parametrize(
    ("execution", "own"),
    [(execution, own) for execution in EXECUTIONS for own in OWN if (execution, own) != ("branch_free", "pil")],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_own_transformation_is_applied(execution, own, channels):
    space, execute = SPACES["cifar"].add(OWN[own]), EXECUTIONS[execution]
    images = noise(3, channels, 6, 7)
    tau = composites(space, [("Fade", 0.0)], [("Fade", 0.5)], [("Fade", 2.0)])
    out = execute(images, apply.draw(tau, torch.Generator().manual_seed(0), flip=False))
    assert torch.equal(out, torch.stack([images[0], images[1] // 2, torch.zeros_like(images[2])]))


def test_signed_own_transformation_gets_both_directions():
    seen = []

    def record(images: Tensor, value: Tensor) -> Tensor:
        seen.extend(value.tolist())
        return images

    space = SPACES["cifar"].add(custom("Record", record, span=(0, 4), signed=True))
    apply.augment(noise(32, 1, 4, 4), composites(space, [("Record", 0.5)]).repeat(32), torch.Generator().manual_seed(0))
    assert set(seen) == {-2.0, 2.0}


@pytest.mark.parametrize("execute", [apply.grouped, on_pil], ids=["grouped", "on_pil"])
def test_parameter_free_own_transformation(execute, images):
    space = SPACES["cifar"].add(custom("Mirror", pil_function=mirror, span=None))
    assert not space.has_magnitude[-1]
    tau = composites(space, [("Mirror", 0.7), ("Invert", 0.0)]).repeat(4)
    out = execute(images, apply.draw(tau, torch.Generator().manual_seed(0), flip=False))
    assert torch.equal(out, 255 - images.flip(3))


def test_augment_takes_own_pil_functions(images):
    space = SPACES["cifar"].add(OWN["pil"])
    assert not apply.is_branch_free(space)
    assert torch.equal(apply.augment(images, composites(space, [("Fade", 0.5)]).repeat(4)), images // 2)


def test_a_kernel_that_writes_into_its_input_spoils_nothing(generator):
    def blacken(images, value):
        return images.zero_()

    space = Space("test", (custom("Black", blacken), TRANSFORMS["Invert"]))
    images = torch.randint(0, 256, (8, 3, 5, 5), dtype=torch.uint8, generator=generator)
    parameters = apply.draw(Policy.uniform(space).sample(8, generator), generator, flip=False)
    before = images.clone()
    assert torch.equal(apply.branch_free(images, parameters), apply.grouped(images, parameters))
    assert torch.equal(images, before)


def test_a_composite_for_each_image_or_none(generator):
    images = torch.zeros(8, 3, 5, 5, dtype=torch.uint8)
    parameters = apply.draw(Policy.uniform("cifar").sample(4, generator), generator, flip=False)
    for execute in (apply.grouped, apply.branch_free):
        with pytest.raises(ValueError, match=r"4 composites for 8 images; Composites\.repeat shares one among several"):
            execute(images, parameters)


@pytest.mark.parametrize("images", [torch.zeros(2, 3, 5, 5), torch.zeros(2, 4, 5, 5, dtype=torch.uint8)])
def test_augment_takes_uint8_images_of_one_or_three_channels(images, generator):
    with pytest.raises(ValueError, match="expected images"):
        apply.augment(images, Policy.uniform("cifar").sample(2, generator), generator)


@pytest.mark.parametrize("spoil", [lambda x: x.float(), lambda x: x[:, :1], lambda x: x[:1], lambda x: x[..., 1:]])
@pytest.mark.parametrize("execute", [apply.grouped, apply.branch_free])
def test_a_foreign_kernel_must_return_what_it_was_given(spoil, execute, generator):
    space = Space("test", (custom("Mine", lambda images, value: spoil(images)),))
    images = torch.zeros(4, 3, 5, 5, dtype=torch.uint8)
    with pytest.raises(ValueError, match="Mine returned"):
        execute(images, apply.draw(Policy.uniform(space).sample(4, generator), generator, flip=False))


def test_a_foreign_pil_function_spoils_neither_input_nor_mode(generator):
    def redden(image, value):
        image.paste((255, 0, 0), (0, 0, *image.size))
        return image

    picture = Image.new("RGB", (4, 4))
    space = Space("test", (custom("Red", pil_function=redden),))
    out = apply.on_pil(picture, apply.draw(Policy.uniform(space).sample(1, generator), generator, flip=False))
    assert (picture.getpixel((0, 0)), out.getpixel((0, 0))) == ((0, 0, 0), (255, 0, 0))
    grey = Space("test", (custom("Grey", pil_function=lambda image, value: image.convert("L")),))
    with pytest.raises(ValueError, match="Grey returned an image L"):
        apply.on_pil(picture, apply.draw(Policy.uniform(grey).sample(1, generator), generator, flip=False))

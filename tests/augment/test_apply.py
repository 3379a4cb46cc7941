"""The three executions of one draw against a loop over the images written down once more (oracles)."""

import pytest
import torch
import torch._dynamo.testing
from hypothesis import given
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


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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


def test_augment_is_draw_and_execute(images):
    tau = random_parameters(EVERYTHING, 4, 3, seed=1).composites
    out, other = (apply.augment(images, tau, generator(seed), flip=True, fill=FILL) for seed in (3, 4))
    assert torch.equal(out, oracles.augment(images, apply.draw(tau, generator(3), flip=True), FILL))
    assert not torch.equal(out, other)


def test_switching_flips_off_changes_nothing_else():
    tau = random_parameters(EVERYTHING, 64, 3, seed=1).composites
    on, off = (apply.draw(tau, generator(3), flip=flip) for flip in (True, False))
    assert torch.equal(on.u, off.u)
    assert not off.flip.any()
    assert 16 < on.flip.sum() < 48  # a fair coin fails this with probability 3e-5


def test_repeat_gives_each_composite_to_images_in_a_row_with_draws_of_their_own():
    tau = composites(EVERYTHING, [("Rotate", 0.5)]).repeat(64)
    out = apply.augment(noise(1, 3, 9, 9).expand(64, -1, -1, -1), tau, generator(0))
    assert len(out.unique(dim=0)) == 2  # both directions; all 64 the same has probability 1e-19
    tau = composites(EVERYTHING, [("Rotate", 0.5)], [("Hue", 0.1)]).repeat(2)
    assert [EVERYTHING.names[n] for n in tau.op[:, 0]] == ["Rotate", "Rotate", "Hue", "Hue"]
    assert tau.magnitude[:, 0].tolist() == [0.5, 0.5, 0.1, 0.1]


# --- executing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@given(
    n=st.integers(1, 12),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    length=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_execution_equals_the_loop(space, channels, n, height, width, length, seed):
    """What is drawn twice is applied twice, positions act in order, but for those that are first or last."""
    images, parameters = noise(n, channels, height, width, seed=seed), random_parameters(space, n, length, seed)
    before, expected = images.clone(), oracles.augment(images, parameters, FILL)
    for name, execute in EXECUTIONS.items():
        out = execute(images, parameters, FILL)
        assert (out.shape, out.dtype) == (images.shape, torch.uint8)
        assert torch.equal(out, expected), name
        assert torch.equal(images, before), name


@pytest.mark.parametrize("execute", [apply.grouped, apply.branch_free])
def test_batch_of_none(execute):
    images = noise(0, 3, 8, 9)
    assert torch.equal(execute(images, random_parameters(EVERYTHING, 0, 3, seed=5), FILL), images)


@executions
def test_inactive_positions_do_nothing(execute, images):
    op, magnitude, active, space = composites(EVERYTHING, *[[("Invert", 0.0), ("Cutout", 1.0)]] * 4)
    tau = Composites(op, magnitude, torch.zeros_like(active), space)
    out = execute(images, apply.draw(tau, generator(0), flip=False))
    assert torch.equal(out, images)
    assert out.data_ptr() != images.data_ptr()


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
    expected = torch.stack([images[0], images[1] // 2, torch.zeros_like(images[2])])
    assert torch.equal(execute(images, apply.draw(tau, generator(0), flip=False)), expected)
    assert torch.equal(apply.augment(images, tau, generator(0)), expected)  # in the way that can
    assert apply.is_branch_free(space) == (own != "pil")


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
    out = execute(images, apply.draw(tau, generator(0), flip=False))
    assert torch.equal(out, 255 - images.flip(3))


def test_a_kernel_that_writes_into_its_input_spoils_nothing(images):
    space = Space("test", (custom("Black", lambda images, value: images.zero_()), TRANSFORMS["Invert"]))
    parameters = apply.draw(Policy.uniform(space).sample(4, generator(0)), generator(0), flip=False)
    before = images.clone()
    assert torch.equal(apply.branch_free(images, parameters), apply.grouped(images, parameters))
    assert torch.equal(images, before)


def test_a_composite_for_each_image_or_none():
    images = torch.zeros(8, 3, 5, 5, dtype=torch.uint8)
    parameters = apply.draw(Policy.uniform("cifar").sample(4, generator(0)), generator(0), flip=False)
    for execute in (apply.grouped, apply.branch_free):
        with pytest.raises(ValueError, match=r"4 composites for 8 images; Composites\.repeat shares one among several"):
            execute(images, parameters)


@pytest.mark.parametrize("images", [torch.zeros(2, 3, 5, 5), torch.zeros(2, 4, 5, 5, dtype=torch.uint8)])
def test_augment_takes_uint8_images_of_one_or_three_channels(images):
    with pytest.raises(ValueError, match="expected images"):
        apply.augment(images, Policy.uniform("cifar").sample(2, generator(0)))


@pytest.mark.parametrize("spoil", [lambda x: x.float(), lambda x: x[:, :1], lambda x: x[:1], lambda x: x[..., 1:]])
@pytest.mark.parametrize("execute", [apply.grouped, apply.branch_free])
def test_a_foreign_kernel_must_return_what_it_was_given(spoil, execute, images):
    space = Space("test", (custom("Mine", lambda images, value: spoil(images)),))
    with pytest.raises(ValueError, match="Mine returned"):
        execute(images, apply.draw(Policy.uniform(space).sample(4, generator(0)), generator(0), flip=False))


def test_a_foreign_pil_function_spoils_neither_input_nor_mode():
    def redden(image, value):
        image.paste((255, 0, 0), (0, 0, *image.size))
        return image

    def by(function):
        tau = Policy.uniform(Space("test", (custom("Mine", pil_function=function),))).sample(1, generator(0))
        return apply.on_pil(picture, apply.draw(tau, generator(0), flip=False))

    picture = Image.new("RGB", (4, 4))
    assert (by(redden).getpixel((0, 0)), picture.getpixel((0, 0))) == ((255, 0, 0), (0, 0, 0))
    with pytest.raises(ValueError, match="Mine returned an image L"):
        by(lambda image, value: image.convert("L"))

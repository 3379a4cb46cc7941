"""Exported files: what is in them, what may not be, and the one that needs torch alone."""

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import exported
import made_up
import slackaug
from slackaug import Policy, export
from slackaug.augment.policy import NEVER
from slackaug.augment.transforms import TRANSFORMS, custom, get_space
from slackaug.export import ExportError, fidelity, sources
from slackaug.export.fidelity import FIDELITY, TESTED

targets = pytest.mark.parametrize("target", FIDELITY)
POLICIES = {
    "domainnet": lambda: exported.uneven("domainnet"),
    "cifar without flips": lambda: exported.uneven("cifar", flip=False),
    "one position": lambda: exported.uneven("imagenet", n_composed=1),
    "sixteen positions": lambda: exported.uneven("cifar", n_composed=16),
    "one transformation": lambda: Policy.uniform(get_space("cifar").exclude(*get_space("cifar").names[1:])),
    "without windows": lambda: Policy.uniform(get_space("cifar").exclude("Cutout", "RandomCrop", "Rotate")),
    "reranged": lambda: Policy.uniform(get_space("cifar").rerange(Rotate=(5, 30), Solarize=(256, 128))),
}


def imported(text: str) -> set[str]:
    return set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))


def entries(text: str, table: str) -> set[str]:
    """The transformations of a dictionary in a file."""
    return set(dict(sources.ENTRY.findall(text.partition(f"\n{table}: ")[2].partition("\n}")[0])))


@targets
def test_every_transformation_has_a_kernel_of_whom_it_says(target):
    skeleton = entries((sources.PACKAGE / f"export/skeletons/for_{target}.py").read_text(), "KERNELS")
    assert entries(export.render(exported.uneven(), target), "KERNELS") - {"Flip"} == TRANSFORMS.keys()
    special = {"Identity", "Cutout", "Flip"}  # nothing, a colour beside the box, no transformation
    assert skeleton - special == {name for name, entry in FIDELITY[target].items() if entry.by == target} - special
    assert FIDELITY[target].keys() == TRANSFORMS.keys()


@pytest.mark.parametrize("target", ["python", "timm"])
def test_every_transformation_with_a_window_has_its_window(target):
    windows = entries(export.render(exported.uneven(), target), "WINDOWS")
    assert windows == {name for name, transform in TRANSFORMS.items() if transform.window}


@pytest.mark.parametrize("name", POLICIES)
def test_files_are_clean(name, tmp_path):
    """They compile, import what they say and not slackaug, and ruff finds nothing, by our rules or its own."""
    for target in FIDELITY:
        text = export.render(POLICIES[name](), target, "policy.json")
        (tmp_path / f"for_{target}.py").write_text(text)
        foreign = imported(text) - sys.stdlib_module_names
        assert foreign <= {target, "PIL", "numpy" if target == "albumentations" else "torch"}
        assert ("torch" in foreign) == (target != "albumentations")
    ours = ["--config", str(Path(__file__).parents[2] / "pyproject.toml")]
    for words in (["check", "--isolated"], ["check", *ours], ["format", "--check", *ours]):
        done = subprocess.run([sys.executable, "-m", "ruff", *words, str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@targets
def test_the_docstring_has_the_bounds_and_the_comment_the_origin(target):
    policy = replace(
        exported.uneven(), dataset="pets 1f3a", learned={"preset": "quick", "won": False, "more": {"a": 1}}
    )
    text = export.render(policy, target, "runs/pets/policy.json")
    docstring = ast.get_docstring(ast.parse(text))
    for name, entry in FIDELITY[target].items():
        line = next(line for line in docstring.splitlines() if line.split()[:1] == [name])
        assert entry.text in line
        assert entry.why in line
    assert TESTED[target] in docstring
    for remark in (
        "'runs/pets/policy.json'",
        "'pets 1f3a'",
        'learned: "preset": "quick"\n',
        'learned: "won": false\n',
        "slackaug " + slackaug.__version__,
    ):
        assert remark in text
    long = replace(policy, mean=(0.60224330129187, 0.55803525837418, 1 / 3), std=(2 / 3, 0.26708321, 0.33901))
    text = export.render(long, target, "x")
    assert "mean (0.60224, 0.55804, 0.33333), std (0.66667, 0.26708, 0.33901)\n" in text


@targets
def test_the_table_has_what_can_be_drawn(target):
    policy = exported.uneven("cifar", n_composed=2)
    pi = policy.pi.clone()
    pi[:, 3], pi[0, 4] = NEVER, NEVER
    listed = [line.split()[0] for line in fidelity.table(target, replace(policy, pi=pi)).splitlines()[1:]]
    assert listed == [name for name in policy.space.names if name != policy.space.names[3]]


@pytest.mark.parametrize(("flip", "says"), [(True, "mirror flips only"), (False, "no mirror flips")])
def test_no_augmentation_has_no_table(flip, says, answered, command_ok, tmp_path):
    run = answered("none")
    learned = Policy.load(run / "policy.json")
    replace(learned.with_composed(0), flip=flip).save(run / "policy.json")
    out = command_ok("export", run, "--to", "python", "-o", tmp_path / "none.py").splitlines()
    assert out[:2] == [f"no transformations; {says}", "this is the answer: no augmentation"]
    assert out[2].startswith("wrote ")
    docstring = ast.get_docstring(ast.parse((tmp_path / "none.py").read_text()))
    assert "images stay as they are" in docstring
    assert f"no transformations; {says}" in docstring


def test_only_what_a_policy_needs_is_in_the_file():
    text = export.render(POLICIES["without windows"](), "python")
    assert "def rotate" not in text
    assert "WINDOWS: dict[str, Window] = {}" in text
    assert "def hsv" not in text
    assert "def shear_x" in text


# --- torch alone ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_seed_gives_the_same_pixels(name, tmp_path, generator):
    policy = POLICIES[name]()
    theirs, ours = exported.module(policy, "python", tmp_path).SlackAugment(), slackaug.SlackAugment(policy)
    for shape in ((48, 3, 24, 32), (5, 1, 17, 9), (3, 20, 20), (1, 8, 8), (0, 3, 8, 8)):
        images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        before = images.clone()
        torch.manual_seed(7)
        expected = ours(images)
        torch.manual_seed(7)
        found = theirs(images)
        assert torch.equal(found, expected)
        assert torch.equal(images, before)


def test_it_is_off_in_eval_mode_unless_it_is_always_on(tmp_path, generator):
    module = exported.module(exported.uneven(), "python", tmp_path)
    images = torch.randint(0, 256, (8, 3, 16, 16), generator=generator, dtype=torch.uint8)
    assert module.SlackAugment().eval()(images) is images
    for augment in (module.SlackAugment().eval().train(), module.SlackAugment(always=True).eval()):
        assert not torch.equal(augment(images), images)


def test_numbers_are_those_of_the_policy(tmp_path):
    policy = exported.uneven()
    module = exported.module(policy, "python", tmp_path)
    assert list(module.POLICY) == policy.space.names
    assert torch.equal(torch.tensor([c.p for c in module.POLICY.values()], dtype=torch.float64).T, policy.probabilities)
    assert (policy.sigma, policy.flip, policy.fill) == (module.SIGMA, module.FLIP, module.FILL)
    for transform, mu in zip(policy.space, policy.mu.tolist(), strict=True):
        choice = module.POLICY[transform.name]
        if transform.span:
            assert (choice.mu, choice.span, choice.signed) == (mu, transform.span, transform.signed)


def test_it_runs_where_slackaug_is_not_installed(tmp_path):
    (tmp_path / "augment.py").write_text(export.render(exported.uneven(), "python"))
    script = (
        "import sys; sys.modules['slackaug'] = None; import torch; from augment import SlackAugment; "
        "out = SlackAugment()(torch.zeros(4, 3, 8, 8, dtype=torch.uint8)); assert out.shape == (4, 3, 8, 8)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "images",
    [torch.zeros(3, 8, 8), *(torch.zeros(n, dtype=torch.uint8) for n in ((8, 8), (2, 4, 8, 8))),
     Image.new("RGB", (8, 8))],
)  # fmt: skip
def test_it_says_what_it_takes(images, tmp_path):
    says = r"got Image: v2.PILToTensor\(\)" if isinstance(images, Image.Image) else r"expected uint8 \(C, H, W\) or \(B"
    with pytest.raises(TypeError, match=says):
        exported.module(exported.uneven(), "python", tmp_path).SlackAugment()(images)


# --- what a policy file may try ---------------------------------------------------------------------------------------

EVIL = ('"""\nimport os\nos.abort()\n"""', "x\rimport os", "# -*- coding: rot13 -*-", "\u2028import os\u2029", "\\",
        "\x00", "'''", "\x0cimport os", "{POLICY}", "y" * 190)  # fmt: skip


@targets
@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_texts_of_a_policy_stay_texts(target, text):
    policy = exported.uneven()
    space = replace(policy.space, name=text)
    named = replace(policy, space=space, dataset=text, learned={text: text, "b": text, "c": 10**400})
    harmless, evil = export.render(policy, target, "x"), export.render(named, target, text)
    assert ast.dump(ast.parse(evil)) == ast.dump(ast.parse(harmless))


def test_your_own_transformations_are_refused():
    def fog(images, value):
        return images

    mine = Policy.uniform(get_space("cifar").add(custom("Fog", fog)))
    with pytest.raises(ExportError, match=r"'Fog': not among slackaug's.*SlackAugment.*--exclude"):
        export.render(mine, "python")
    disguised = Policy.uniform(get_space("cifar").exclude("Rotate").add(custom("Rotate", fog)))
    with pytest.raises(ExportError, match="'Rotate'"):
        export.render(disguised, "python")


def test_negative_factors_are_refused_where_a_library_takes_none():
    policy = Policy.uniform(get_space("cifar").rerange(Color=(0, 1.5)))
    for target in ("torchvision", "albumentations", "kornia"):
        with pytest.raises(ExportError, match=r"Color reaches the factor -0.5.*--to python"):
            export.render(policy, target)
    export.render(policy, "python")
    export.render(policy, "timm")


# --- the command ------------------------------------------------------------------------------------------------------


@targets
def test_command_writes_the_file_and_prints_the_table(target, command_ok, tmp_path):
    exported.uneven().save(tmp_path / "policy.json")
    out = command_ok("export", tmp_path / "policy.json", "--to", target, "-o", tmp_path / "augment.py")
    text = (tmp_path / "augment.py").read_text()
    assert text == export.render(Policy.load(tmp_path / "policy.json"), target, str(tmp_path / "policy.json"))
    for name, entry in FIDELITY[target].items():
        assert any(line.split()[:1] == [name] and entry.text in line for line in out.splitlines())
    assert "from augment import SlackAugment" in out


@pytest.fixture
def command_ok(command):
    def run(*arguments):
        done = command(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("name", "says"), [("my augment-2.py", "give it a name"), ("class.py", "give it a name"), ("ä.py", "from ä import")]
)
def test_it_says_only_what_python_can_import(name, says, command_ok, tmp_path):
    assert says in command_ok("export", "uniform:cifar", "--to", "python", "-o", tmp_path / name).splitlines()[-1]
    assert "uniform:cifar" in (tmp_path / name).read_text()


def test_command_overwrites_only_when_told(command, command_ok, tmp_path):
    (tmp_path / "mine.py").write_text("my work")
    words = ("export", "uniform:cifar", "--to", "python", "-o", tmp_path / "mine.py")
    done = command(*words)
    assert (done.returncode, "exists" in done.stderr, "--overwrite" in done.stderr) == (2, True, True)
    assert (tmp_path / "mine.py").read_text() == "my work"
    command_ok(*words, "--overwrite")
    assert "SlackAugment" in (tmp_path / "mine.py").read_text()


@targets
def test_it_says_so_where_the_library_is_not_installed(target, command_ok, installed, tmp_path):
    installed(False)
    out = command_ok("export", "uniform:cifar", "--to", target, "-o", tmp_path / "augment.py")
    missing = "" if target == "python" else f"{target} is not installed here; the file needs it\n"
    assert out.endswith(f"augment.py: from augment import SlackAugment\n{missing}")
    installed(True)
    assert "not installed" not in command_ok("export", "uniform:cifar", "--to", target, "-o", tmp_path / "other.py")


FAST_AA = (
    '{"kind": "subpolicies (op,prob,level in [0,1] of op range)", "source": "a test", '
    '"subpolicies": [[["Rotate", 0.5, 1.0]]]}'
)


@pytest.mark.parametrize(
    ("policy", "to", "out", "says"),
    [
        ("uniform:cifar", "tochvision", "a.py", "unknown target 'tochvision'; did you mean 'torchvision'?"),
        ("uniform:cifar", "tensorflow", "a.py", "unknown target 'tensorflow'"),
        ("uniform:cifar", "torch", "a.py", "unknown target 'torch'; did you mean python (torch alone)?"),
        ("uniform:cifar", "PyTorch", "a.py", "unknown target 'PyTorch'; did you mean python (torch alone)?"),
        ("uniform:cifr", "python", "a.py", "expected one of uniform:cifar"),
        ("nowhere.json", "python", "a.py", "nowhere.json: cannot be read (No such file or directory)"),
        ("fast.json", "python", "a.py", "a SubPolicies of another method, which has no pi and mu"),
        ("fog.json", "python", "a.py", "'Fog': not among slackaug's transformations"),
        ("empty.json", "python", "a.py", "so it is not a policy"),
        ("uniform:cifar", "python", "a.txt", "a.txt: expected a name that ends in .py"),
        ("uniform:cifar", "python", "no/where/a.py", "there is no folder"),
        ("uniform:cifar", "python", "folder.py", "folder.py: exists; choose another -o"),
        ("uniform:cifar", "kornia", "kornia.py", "kornia.py: would hide the module kornia"),
        ("uniform:cifar", "python", "random.py", "random.py: would hide the module random"),
    ],
)
def test_bad_input_is_one_message(command, tmp_path, monkeypatch, policy, to, out, says):
    monkeypatch.chdir(tmp_path)
    Path("fast.json").write_text(FAST_AA)
    Path("empty.json").write_text("{}")
    Path("folder.py").mkdir()
    fog = get_space("cifar").add(custom("Fog", lambda images, value: images))
    Policy.uniform(fog).save("fog.json")
    done = command("export", policy, "--to", to, "-o", out)
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert not Path("a.py").exists()


# --- the answer of a run ----------------------------------------------------------------------------------------------


@pytest.fixture
def answered(tmp_path):
    """Make a run whose race has this answer, on images of this size."""

    def answered(use, side=40):
        source = made_up.images(tmp_path / f"data{side}", ("cat", "dog"), side)
        return made_up.raced(
            made_up.run(tmp_path / use, source, n_rounds=2), use, is_policy=use in ("none", "learned", "uniform-2")
        )

    return answered


@pytest.mark.parametrize("file", ["", "policy.json"])
def test_it_writes_the_answer_of_a_run_and_not_what_was_learned(answered, file, command_ok, tmp_path, installed):
    installed(True)
    run = answered("default")
    out = command_ok("export", run / file, "--to", "python", "-o", tmp_path / "augment.py")
    assert "this is the answer: the usual crops" in out
    assert out.endswith("augment.py: from augment import SlackAugment\n")
    assert '"RandomCrop": Choice(p=(1.0, 0.0), ' in (tmp_path / "augment.py").read_text()
    out = command_ok("export", answered("trivialaugment-wide"), "--to", "torchvision", "-o", tmp_path / "ta.py")
    assert out.endswith("ta.py: from ta import transform\n")
    assert "    v2.TrivialAugmentWide(),\n    SlackAugment(),\n" in (tmp_path / "ta.py").read_text()
    learned = run / "policies" / "round_02.json"  # what was learned, by its own file
    command_ok("export", learned, "--to", "python", "-o", tmp_path / "learned.py")
    assert '"Rotate": Choice(' in (tmp_path / "learned.py").read_text()


@pytest.mark.parametrize(
    ("use", "side", "to", "says"),
    [
        ("uniformaugment", 40, "torchvision", "torchvision does not have its answer, UniformAugment"),
        ("trivialaugment-wide", 40, "timm", "its answer, TrivialAugment (Wide); --to torchvision does"),
        ("default", 96, "python", "--to torchvision does"),
        ("default", 0, "python", "depends on the size of its images."),
    ],
)
def test_an_answer_that_a_library_does_not_have_is_refused_with_what_to_type(
    answered, use, side, to, says, command, tmp_path
):
    run = answered(use, side or 40)
    if not side:
        shutil.rmtree(tmp_path / "data40")
    done = command("export", run, "--to", to, "-o", tmp_path / "augment.py")
    train = f"slackaug evaluate {tmp_path}/data{side or 40}/data.csv --baselines {use} --save-models models"
    instead = f"To export the learned policy: give {run}/policies/round_02.json"
    assert (done.returncode, [fact for fact in (says, train, instead) if fact not in done.stderr]) == (2, [])
    assert not (tmp_path / "augment.py").exists()
    assert "did you mean 'kornia'?" in command("export", run, "--to", "kornai", "-o", tmp_path / "augment.py").stderr


def test_in_python_what_is_not_the_answer_is_refused(answered, tmp_path):
    with pytest.raises(ExportError, match=r"not its answer, which is TrivialAugment .* in policies/"):
        export.write(str(answered("trivialaugment-wide")), "python", tmp_path / "augment.py")


@pytest.mark.parametrize("use", ["learned", "uniform-2", "default"])
def test_what_is_drawn_of_a_run_is_called_what_it_is(answered, use, command, tmp_path):
    run = answered(use)
    says = {
        "learned": "",
        "uniform-2": "this is the answer of the search, 2 random",
        "default": "this is what the search learned, and not its answer, which is",
    }
    drawn = command("figure", "pie", run, "-o", tmp_path / "x.svg")
    seen = command("preview", run, tmp_path / "data40" / "0.png", "-o", tmp_path / "x.png")
    beside = command("show", "uniform:cifar", run)
    for done, text in ((drawn, drawn.stderr), (seen, seen.stdout), (beside, beside.stdout)):
        assert done.returncode == 0
        assert ("not its answer" in text) is (use == "default")
        assert says[use] in text
    assert drawn.stdout == f"{tmp_path / 'x.svg'}\n"
    assert ("B: this is what the search learned" in beside.stdout) is (use == "default")

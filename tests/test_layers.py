"""Each folder is a room, and an import goes only to a room further down. The core is read in one order and imported in
that order; it does no I/O, and nothing draws from a global stream."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import slackaug

PACKAGE = Path(slackaug.__file__).parent
LOOSE = {"cli", "models", "rng", "schema", "messages", "torchvision", "exits", "files", "foreign", "machine"}
ROOMS = ({"cli", "__main__", "torchvision"}, {"commands"}, {"auto"}, {"report"}, {"judge"}, {"config"}, {"methods"},
         {"engine"}, {"runs"}, {"export"}, {"data"}, {"augment"},
         LOOSE - {"cli", "torchvision"} | {"_version"})  # fmt: skip
FRONT_DOOR = "slackaug"  # its __init__ offers what users call, wherever it lies
CORE = ("augment.functional", "augment.space", "augment.apply", "augment.policy", "engine.state", "engine.chance",
        "engine.passes", "methods.slack", "methods.budget")  # fmt: skip
# What it stands on, as pure as it
BELOW = ("rng", "schema", "augment.display", "augment.pil", "augment.hue", "augment.resize", "augment.transforms",
         "augment.branch_free", "augment.policy_file", "augment.prepare", "augment.samplers")  # fmt: skip
DATA = {"data", "_version"}  # which it may import, too
LENGTHS = {"methods.slack": 200, "cli": 100}  # lines, at most
CORE_MAY_USE = {"torch", "numpy", "PIL"}  # and of the standard library all but:
NOT_IN_THE_CORE = {"argparse", "builtins", "io", "logging", "multiprocessing", "random", "secrets", "shutil", "socket",
                   "subprocess", "sys", "tempfile", "threading", "time", "urllib"}  # fmt: skip
FILE_ACCESS = {("augment.policy", "Policy.save", "write_text"), ("schema", "read_json", "open")}  # the core's only two
IO_CALLS = {"open", "print", "input", "write_text", "write_bytes", "read_text", "read_bytes", "mkdir", "unlink",
            "touch", "getenv", "torch.save", "torch.load", "np.load", "np.save"}  # fmt: skip
FORKED = {"torch.random.fork_rng", "torch.random"}  # foreign models know no generator: a copy of the stream is theirs
ALLOWED = {
    "models.py": FORKED,
    "passes.py": FORKED,
    "for_albumentations.py": {"np.random", "np.random.Generator", "np.random.default_rng"},  # one of its own, seeded
}
DRAWS = {"rand", "randn", "randint", "randperm", "multinomial", "bernoulli", "normal", "rand_like", "randn_like",
         "randint_like", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"}  # fmt: skip


def source(module: str) -> Path:
    return PACKAGE / f"{module.replace('.', '/')}.py"


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


pure = pytest.mark.parametrize("module", [*CORE, *BELOW])
files = pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))


def dotted(node: ast.expr) -> str:
    """The name of `a.b.c`, as far as it is one: `x().c` is '.c'."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def imports(tree: ast.Module, package: str = "slackaug") -> Iterator[str]:
    """Absolute names of all that a module in `package` imports, also inside functions and for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(part for part in (origin, node.module or "") if part)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def module_of(name: str) -> str | None:
    """The module of ours that an imported name is, or stands in."""
    return next((module for module in (name, name.rpartition(".")[0]) if module in MODULES), None)


@cache
def names_imported(module: str) -> set[str]:
    path = MODULES[module]
    return set(imports(parse(path), module if path.name == "__init__.py" else module.rpartition(".")[0]))


def imported(module: str) -> set[str]:
    """The modules of ours that a module imports."""
    return {found for name in names_imported(module) if (found := module_of(name))} - {module}


def height(module: str) -> int:
    """Of the room, as a place in ROOMS: what is higher may use what is lower."""
    room = module.removeprefix("slackaug.").partition(".")[0]
    return next(i for i, rooms in enumerate(ROOMS) if room in rooms)


def calls(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Every call with the function or method it stands in."""
    for node in ast.iter_child_nodes(tree):
        here = inside
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            here = f"{inside}.{node.name}" if inside else node.name
        if isinstance(node, ast.Call):
            yield inside, node
        yield from calls(node, here)


# --- the rooms --------------------------------------------------------------------------------------------------------


def test_an_import_goes_only_to_a_room_further_down():
    wrong = {f"{module} imports {other}" for module in MODULES.keys() - {FRONT_DOOR}
             for other in imported(module) - {FRONT_DOOR} if height(other) < height(module)}  # fmt: skip
    assert sorted(wrong) == []


# Modules whose imports are not statements: those that load a room's own modules, or others' packages, when asked
BY_NAME = {"slackaug", "slackaug.cli", "slackaug.data", "slackaug.foreign"}
UPWARDS = {"slackaug.augment.display"}  # how a policy is drawn in a notebook, which `report` knows


def test_what_is_imported_by_its_name_is_known():
    found = {module for module, path in MODULES.items()
             if any(dotted(call.func).endswith("import_module") for _, call in calls(parse(path)))}  # fmt: skip
    assert found == BY_NAME | UPWARDS


def test_nothing_but_the_version_is_taken_from_the_front_door():
    found = {(module, name) for module in MODULES.keys() - {FRONT_DOOR} for name in names_imported(module)
             if module_of(name) == FRONT_DOOR and name != "slackaug.__version__"}  # fmt: skip
    assert found == set()


def test_no_modules_import_each_other():
    """No cycle, however long, in a room or across rooms."""
    TopologicalSorter({one: imported(one) - {FRONT_DOOR} for one in MODULES.keys() - {FRONT_DOOR}}).prepare()


def test_few_modules_lie_loose_at_the_top():
    assert {path.stem for path in PACKAGE.glob("*.py")} <= LOOSE | {"__init__", "__main__", "_version"}
    assert len(LOOSE) <= 10


# --- names ------------------------------------------------------------------------------------------------------------


def own_modules() -> list[str]:
    """All but twins: parts of what is exported, and `torchvision.SlackAugment`."""
    return [module for module in MODULES if "skeletons" not in module and module != "slackaug.torchvision"]


def test_no_class_name_is_used_for_two_things():
    found: dict[str, list[str]] = {}
    for module in own_modules():
        for node in ast.walk(parse(MODULES[module])):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def test_no_two_modules_have_confusable_names():
    """Such as engine and engines: nobody remembers which is which."""
    names = {part for module in own_modules() for part in module.split(".")}
    assert sorted(name for name in names if f"{name}s" in names or f"{name}es" in names) == []


# --- the core ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", CORE)
def test_core_imports_only_backwards(module):
    earlier = {f"slackaug.{name}" for name in {*CORE[: CORE.index(module)], *BELOW, *DATA}}
    assert imported(f"slackaug.{module}") <= earlier


def test_nothing_is_below_the_core_that_it_does_not_use():
    used = {module for name in (*CORE, *BELOW) for module in imported(f"slackaug.{name}")}
    assert {name for name in BELOW if f"slackaug.{name}" not in used} == set()


@pytest.mark.parametrize(("module", "longest"), LENGTHS.items())
def test_the_algorithm_and_the_command_line_are_short(module, longest):
    assert len(source(module).read_text().splitlines()) <= longest


@pure
def test_core_uses_only_its_dependencies(module):
    outside = {name.split(".")[0] for name in imports(parse(source(module)))} - {"slackaug"}
    assert outside <= (sys.stdlib_module_names - NOT_IN_THE_CORE) | CORE_MAY_USE


def test_core_does_no_io():
    """But the named accesses, and an exception that nobody uses any more must go."""
    found = {
        (module, inside, forbidden)
        for module in (*CORE, *BELOW)
        for inside, call in calls(parse(source(module)))
        for forbidden in IO_CALLS & {dotted(call.func), dotted(call.func).rpartition(".")[2]}
    }
    assert found == FILE_ACCESS


@pure
def test_core_reads_no_environment_and_names_no_device(module):
    for node in ast.walk(parse(source(module))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("environ", "getenv", "cuda", "argv"), f"line {node.lineno}: .{node.attr}"
        if isinstance(node, ast.Constant):
            assert node.value not in ("cuda", "cuda:0", "mps"), f"line {node.lineno}: {node.value!r}"


@files
def test_nothing_draws_from_a_global_stream(path):
    tree = parse(path)
    assert "random" not in {name.split(".")[0] for name in imports(tree)}
    names = {dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)} - ALLOWED.get(path.name, set())
    wrong = ("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed", "torch.random", "np.random", "numpy.random")
    assert not {name for name in names if name.startswith(wrong)}
    for _, call in calls(tree):  # every draw names its generator
        owner, _, name = dotted(call.func).rpartition(".")
        if name in DRAWS and (owner == "torch" or name.endswith("_")):
            assert "generator" in {keyword.arg for keyword in call.keywords}, f"line {call.lineno}: {name}"


def test_the_checks_can_fail():
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"c"}, "c": {"b"}}).prepare()
    assert height("slackaug.judge.results") < height("slackaug.config.parse") < height("slackaug.rng")
    bad = ast.parse("import random\nfrom .cli import main\ndef f():\n  print(1)\n  p.open('x')\n  torch.rand(3)")
    assert {"random", "slackaug.cli.main"} == set(imports(bad))
    assert [(inside, dotted(call.func)) for inside, call in calls(bad)] == [
        ("f", "print"), ("f", "p.open"), ("f", "torch.rand")]  # fmt: skip

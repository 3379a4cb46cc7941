"""Mutation testing: which small changes of a file do its tests not notice?

    PYTHONPATH=src python research/mutate.py [FILE ...]

The files, and the tests that must notice, are in pyproject.toml, `[tool.mutants]`. The changes are those of mutmut
(another operator or number, an argument that is None or missing, nothing assigned ...) and four more: a condition is
negated, a statement or an error is dropped, nothing is returned. mutmut itself leaves out what has a decorator or
stands outside functions; this does not, and it imports torch once: each mutant is a fork. These stay as they are:
annotations, imports, decorators, sentences, and `strict=` of zip, which only our own mistakes can trip.
"""

import difflib
import gc
import importlib
import os
import re
import resource
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

import hypothesis
import libcst as cst
import libcst.matchers as m
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

ENOUGH = 0.95
SECONDS = 60  # of processor time for the tests of a mutant, and on the clock for each test; then it counts as killed
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where os.fsync costs nothing
WARM = (
    "torch.distributions", "torch.func", "torch.utils.flop_counter", "scipy.stats", "mpmath", "statistics", "jinja2",
    "typer.testing", "rich.live", "yaml", "safetensors.torch", "PIL.ImageDraw", "PIL.ImageEnhance", "PIL.ImageOps",
    "multiprocessing.forkserver", "pytest_timeout", "_hypothesis_pytestplugin", "hypothesis.strategies",
)  # fmt: skip
LANES = "slow or gpu or data or torchvision or ray or exports or figures or browser"
OPTIONS = f"-x -q -p no:cacheprovider -p no:xdist -W ignore::pytest.PytestAssertRewriteWarning --timeout={SECONDS}"
AS_THEY_ARE = cst.Annotation | cst.Import | cst.ImportFrom | cst.Decorator
TYPE = m.Assign(value=m.Subscript(value=m.Name()) | m.Call(func=m.Name("TypeVar")))


def change_word(node: cst.BaseString) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.SimpleString) and not re.search(r"\s", node.value):  # keys and names, no sentences
        yield from list(operator_string(node))[:1]


def negate(node: cst.If | cst.While | cst.CompIf) -> Iterator[cst.CSTNode]:
    if not isinstance(node.test, cst.Comparison):  # which gets another operator
        test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))


def drop(node: cst.Expr | cst.Raise) -> Iterator[cst.CSTNode]:
    if not m.matches(node, m.Expr(value=m.SimpleString())):  # a docstring
        yield cst.Pass()


def return_nothing(node: cst.Return) -> Iterator[cst.CSTNode]:
    if node.value is not None and not m.matches(node.value, m.Name("None")):
        yield node.with_changes(value=cst.Name("None"), whitespace_after_return=cst.SimpleWhitespace(" "))


OPERATORS = [(kind, operator) for kind, operator in mutation_operators if operator is not operator_string]
OPERATORS += [(cst.BaseString, change_word), (cst.If | cst.While | cst.CompIf, negate)]
OPERATORS += [(cst.Expr | cst.Raise, drop), (cst.Return, return_nothing)]


def nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if not isinstance(node, AS_THEY_ARE) and not m.matches(node, TYPE):
        yield node
        for child in node.children:
            yield from nodes(child)


def mutants(source: str) -> dict[str, str]:
    """Changed sources, and where and what was changed."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions, module = wrapper.resolve(PositionProvider), wrapper.module
    pieces = [module.code_for_node(statement) for statement in module.body]
    header, footer = source.split("".join(pieces))
    found: dict[str, str] = {}
    for i, statement in enumerate(module.body):
        for node in nodes(statement):
            for new in (new for kind, operator in OPERATORS if isinstance(node, kind) for new in operator(node)):
                piece = module.code_for_node(statement.deep_replace(node, new))
                changed = "".join((header, *pieces[:i], piece, *pieces[i + 1 :], footer))
                if is_a_change(pieces[i], piece, changed):
                    found.setdefault(changed, f"{positions[node].start.line}\n{difference(pieces[i], piece)}")
    return found


def is_a_change(old: str, new: str, source: str) -> bool:
    """Of more than `strict=`, and one that Python can read."""
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    without = (re.sub(r",\s*(strict=(True|False|None))?\s*\)", ")", piece) for piece in (old, new))
    return len(set(without)) == 2


def difference(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return "\n".join(f"    {line[0]}{line[1:].strip()}" for line in lines if not line.startswith(("---", "+++", "@@")))


class Brief:
    """One failing example is enough, not the smallest; and at the end nothing is tidied up."""

    def pytest_configure(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("mutants")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        os._exit(exitstatus)


def notice(tests: list[str], path: Path, source: str) -> bool:
    """Whether one of the tests fails, in a fork where the file has this source."""
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        child = os.fork()
        if child:
            return os.waitpid(child, 0)[1] != 0
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            for stream in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), stream)
            original = SourceFileLoader.get_code
            SourceFileLoader.get_code = lambda loader, name: (
                compile(source, path, "exec") if path.samefile(loader.path) else original(loader, name)
            )
            pytest.main([*tests, *OPTIONS.split(), "-m", f"not ({LANES})", f"--basetemp={folder}/t"], [Brief()])
        finally:
            os._exit(1)


def check(tests: list[str], path: Path) -> None:
    if notice(tests, path, path.read_text()):
        sys.exit(f"{path}: its tests fail as it is; python -m pytest {' '.join(tests)}")


def main(names: list[str]) -> int:
    targets = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutants"]
    for module in WARM:
        importlib.import_module(module)
    gc.freeze()  # so that forks share what is there
    shares = []
    for name in names or targets:
        path, tests, start = Path(name), targets[name], time.monotonic()
        found = mutants(path.read_text())
        killed = len(found)
        check(tests, path)
        for source, change in found.items():
            if not notice(tests, path, source):
                killed -= 1
                print(f"{name}:{change}", flush=True)
        check(tests, path)  # nor did anything else kill them
        shares.append(killed / len(found))
        seconds = time.monotonic() - start
        print(f"{name}: {killed} of {len(found)} killed, {shares[-1]:.1%}, in {seconds:.0f} s", flush=True)
    return int(min(shares) < ENOUGH)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

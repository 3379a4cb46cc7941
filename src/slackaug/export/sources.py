"""Cutting out of this package's own modules just the definitions that an exported file needs.

Nothing is imported: modules are read as text, so a skeleton for a library can be used where that library is missing.
"""

import ast
import builtins
import re
import sys
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent
TABLES = ("KERNELS", "WINDOWS")  # dictionaries by transformation: only the entries that a policy needs are kept


class Definition(NamedTuple):
    """One statement of a module, with the comment above it."""

    module: str
    line: int
    node: ast.stmt
    text: str


class Module(NamedTuple):
    """What the names of a module stand for."""

    defined: dict[str, Definition]
    own: dict[str, str]  # names that come from other modules of this package, and from which
    modules: dict[str, str]  # imported modules of this package: their paths
    foreign: dict[str, tuple[str, str, str]]  # other imported names: (module or "", name, alias)
    docstring: str


@lru_cache(maxsize=32)
def read(module: str) -> Module:
    """`module` is its path in the package, such as export/skeletons/for_timm."""
    path = PACKAGE / f"{module}.py"
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, str(path))
    found = Module({}, {}, {}, {}, ast.get_docstring(tree) or "")
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.foreign.update(
                {alias.asname or alias.name: ("", alias.name, alias.asname or "") for alias in node.names}
            )
        elif isinstance(node, ast.ImportFrom) and node.level:
            origin = Path(module).parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for alias in node.names:
                if (PACKAGE / origin).is_dir():
                    found.modules[alias.name] = str(origin / alias.name)
                else:
                    found.own[alias.name] = str(origin)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found.foreign[alias.asname or alias.name] = (node.module or "", alias.name, alias.asname or "")
        else:
            definition = Definition(module, node.lineno, node, cut(source.splitlines(), node))
            found.defined.update(dict.fromkeys(bound(node), definition))
    return found


def cut(lines: list[str], node: ast.stmt) -> str:
    """The lines of a statement, from the comment that touches it on."""
    first = node.lineno - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return "\n".join(lines[first : node.end_lineno])


def bound(node: ast.stmt) -> list[str]:
    """The names that a statement of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]


def used(node: ast.AST) -> set[str]:
    """The names that a definition takes from around it."""
    if isinstance(node, ast.ClassDef):  # a scope for each method
        return set().union(*map(used, (*node.bases, *node.decorator_list, *node.body)))
    leaves = list(ast.walk(node))
    names = [leaf for leaf in leaves if isinstance(leaf, ast.Name)]
    local = {leaf.arg for leaf in leaves if isinstance(leaf, ast.arg)}
    local |= {leaf.name for leaf in leaves if isinstance(leaf, ast.FunctionDef) and leaf is not node}
    if isinstance(node, ast.FunctionDef):
        local |= {leaf.id for leaf in names if isinstance(leaf.ctx, ast.Store)}
    return {leaf.id for leaf in names if isinstance(leaf.ctx, ast.Load)} - local - set(dir(builtins))


def members(node: ast.AST, modules: Mapping[str, str]) -> set[tuple[str, str]]:
    """What a definition takes from other modules of this package, as in `functional.rotate`."""
    return {
        (modules[leaf.value.id], leaf.attr)
        for leaf in ast.walk(node)
        if isinstance(leaf, ast.Attribute) and isinstance(leaf.value, ast.Name) and leaf.value.id in modules
    }


def without(modules: Collection[str], text: str) -> str:
    """The text where all that it takes from them stands beside it."""
    return re.sub(rf"\b({'|'.join(modules)})\.(?=\w)", "", text) if modules else text


def table(definition: Definition, names: Collection[str]) -> tuple[str, list[ast.expr]]:
    """A dictionary by transformation with the entries of `names` alone: its text, and the values kept."""
    node = definition.node
    assert isinstance(node, ast.AnnAssign)
    assert isinstance(node.value, ast.Dict)
    head = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)} = {{"
    kept = {key.value: value for key, value in zip(node.value.keys, node.value.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value in names}  # fmt: skip
    lines = definition.text.splitlines()
    offset = definition.line - sum(line.startswith("#") for line in lines)
    rows = [f'    "{key}": {span(lines, offset, value)},' for key, value in kept.items()]
    return ("\n".join([head, *rows, "}"]) if rows else f"{head}}}"), list(kept.values())


def span(lines: list[str], offset: int, node: ast.expr) -> str:
    """The text of an expression that stands on one line."""
    assert node.lineno == node.end_lineno, f"entries of a table stand on one line: {ast.unparse(node)}"
    return lines[node.lineno - offset][node.col_offset : node.end_col_offset]


class Cutting:
    """All that a target's skeleton needs, for the transformations of one policy."""

    def __init__(self, names: Collection[str], values: Mapping[str, str]):
        self.names, self.values = names, values
        self.texts: dict[tuple[str, int], str] = {}  # by module and line
        self.origin: dict[str, tuple[str, int]] = {}
        self.imports: set[tuple[str, str, str]] = set()

    def need(self, module: str, name: str) -> None:
        """Take a definition, and then all that it uses."""
        found = read(module)
        if name in found.own:
            return self.need(found.own[name], name)
        if name in found.foreign:
            self.imports.add(found.foreign[name])
            return None
        assert name in found.defined, f"{module} uses {name}, which it neither defines nor imports"
        definition = found.defined[name]
        place = (module, definition.line)
        if place not in self.texts:
            assert self.origin.setdefault(name, place) == place, f"{name} is defined twice"
            text, parts = self.take(name, definition)
            self.texts[place] = without(found.modules, text)
            for other in sorted(set().union(*map(used, parts)) - found.modules.keys()):
                self.need(module, other)
            for origin, other in sorted(set().union(*(members(part, found.modules) for part in parts))):
                self.need(origin, other)
        return None

    def take(self, name: str, definition: Definition) -> tuple[str, list[ast.AST]]:
        """The text of a definition in the file, and the parts of it that use other names."""
        if name in TABLES:
            assert isinstance(definition.node, ast.AnnAssign)
            text, values = table(definition, self.names)
            return text, [definition.node.annotation, *values]
        if name in self.values:
            return self.values[name], [ast.parse(self.values[name])]
        return definition.text, [definition.node]


def import_block(imports: Collection[tuple[str, str, str]]) -> str:
    """Sorted as ruff sorts them: the standard library first; `import x` before `from x import`."""
    groups = []
    for standard in (True, False):
        mine = {i for i in imports if ((i[0] or i[1]).partition(".")[0] in sys.stdlib_module_names) == standard}
        lines = [f"import {renamed(name, alias)}" for module, name, alias in sorted(mine) if not module]
        for module in sorted({module for module, *_ in mine if module}, key=str.lower):
            members = sorted(((name, alias) for origin, name, alias in mine if origin == module), key=member_order)
            lines += [f"from {module} import {name} as {alias}" for name, alias in members if alias]
            if plain := [name for name, alias in members if not alias]:
                lines.append(f"from {module} import {', '.join(plain)}")
        groups.append("\n".join(lines))
    return "\n\n".join(group for group in groups if group)


def renamed(name: str, alias: str) -> str:
    return f"{name} as {alias}" if alias else name


def member_order(member: tuple[str, str]) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    name = member[0]
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name.lower()

"""Cutting out of this package's own modules just the definitions that an exported file needs.

Nothing is imported: modules are read as text, so a skeleton for a library can be used where that library is missing.
"""

import ast
import builtins
import re
import symtable
import sys
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent
ENTRY = re.compile(r'^    "(\w+)": (.+),$', re.MULTILINE)  # of a dictionary by transformation: each on one line


class Module(NamedTuple):
    """What the names of a module stand for."""

    docstring: str
    defined: dict[str, tuple[int, str]]  # the line of the statement, and its text with the comment above it
    own: dict[str, str]  # names that come from other modules of this package, and from which
    foreign: dict[str, tuple[str, str, str]]  # other imported names: (module or "", name, alias)


@lru_cache(maxsize=32)
def read(module: str) -> Module:
    """`module` is its path in the package, such as export/skeletons/for_timm."""
    source = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    found = Module(ast.get_docstring(tree) or "", {}, {}, {})
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            origin = Path(module).parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found.own.update({alias.name: str(origin) for alias in node.names})
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                place = getattr(node, "module", "")
                found.foreign[alias.asname or alias.name] = (place, alias.name, alias.asname or "")
        else:
            text = cut(source.splitlines(), node)
            bound = (
                name.get_name() for name in symtable.symtable(text, "", "exec").get_symbols() if name.is_assigned()
            )
            found.defined.update(dict.fromkeys(bound, (node.lineno, text)))
    return found


def cut(lines: list[str], node: ast.stmt) -> str:
    """The lines of a statement, from the comment that touches it on."""
    first = node.lineno - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return "\n".join(lines[first : node.end_lineno])


def used(text: str) -> set[str]:
    """The names that a statement takes from around it."""
    scopes, names = [symtable.symtable(text, "", "exec")], set()
    for scope in scopes:
        names |= {name.get_name() for name in scope.get_symbols() if name.is_referenced() and name.is_global()}
        scopes += scope.get_children()
    return names - set(dir(builtins))


def table(module: str, name: str, keys: Collection[str], more: Mapping[str, str]) -> str:
    """A dictionary of a module, cut down to some of its keys, with more entries where it has none."""
    _, text = read(module).defined[name]
    entries = dict(ENTRY.findall(text))
    assert len(entries) == text.count('\n    "'), f"entries of {name} stand on one line each"
    rows = "".join(f'    "{key}": {entry},\n' for key in keys if (entry := entries.get(key, more.get(key))))
    return text.partition("{")[0] + (f"{{\n{rows}}}" if rows else "{}")


class Cutting:
    """All that a definition needs, and what that needs."""

    def __init__(self, values: dict[str, str], lent: dict[str, str]):
        self.values = values  # what stands in the place of some definitions
        self.lent = lent  # names that those use and their modules do not import: where they are defined
        self.texts: dict[tuple[str, int], str] = {}  # by module and line
        self.origin: dict[str, tuple[str, int]] = {}
        self.imports: set[tuple[str, str, str]] = set()

    def need(self, module: str, name: str) -> None:
        """Take a definition, and then all that it uses."""
        found = read(module)
        own = self.lent | found.own
        if name in found.defined:
            line, text = found.defined[name]
            assert self.origin.setdefault(name, (module, line)) == (module, line), f"{name} is defined twice"
            if (module, line) not in self.texts:
                self.texts[module, line] = text = self.values.get(name, text)
                for other in sorted(used(text)):
                    self.need(module, other)
        elif name in own:
            self.need(own[name], name)
        else:
            self.imports.add(found.foreign[name])


def import_block(imports: Collection[tuple[str, str, str]]) -> str:
    """Sorted as ruff sorts them: the standard library first; `import x` before `from x import`, new names alone."""
    lines: dict[tuple[bool, bool, str, str], list[str]] = {}
    for module, name, alias in sorted(imports):
        is_foreign = (module or name).partition(".")[0] not in sys.stdlib_module_names
        key = (is_foreign, bool(module), (module or name).lower(), name if alias else "~")
        lines.setdefault(key, [f"from {module} import " if module else "import "]).append(
            f"{name} as {alias}" if alias else name
        )
    groups = [[line[0] + ", ".join(line[1:]) for key, line in sorted(lines.items()) if key[0] == f] for f in (0, 1)]
    return "\n\n".join("\n".join(group) for group in groups if group)

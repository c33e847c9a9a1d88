"""Import cycles inside the Python package: between modules of a package, and between packages.

Each package is looked at by itself: its modules and packages are the nodes, and an import
anywhere below a node is an arrow of that node.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from layers.graph import components

# Imports inside functions that close a cycle, each with the reason why it stays.
KNOWN_LATE = {
    ("floodmark", "floodmark.integrations.ipython"): (
        "`%load_ext floodmark` calls a function of the package itself"
    ),
}


class Import(NamedTuple):
    """One module of ours that another imports."""

    user: str
    used: str
    is_late: bool
    """Whether the import is inside a function."""


def module_name(path: str, package: str) -> str:
    """The dotted name of a file, by its path inside the package."""
    parts = path.removesuffix("i").removesuffix(".py").split("/")
    return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def imports(sources: dict[str, str], package: str) -> Iterator[Import]:
    """Every import between the modules of a package. A package stands for its `__init__`."""
    modules = {module_name(path, package): path for path in sources}
    for name, path in sorted(modules.items()):
        folder = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        tree = ast.parse(sources[path])
        late = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            for used in _imported(node, folder, modules):
                if used != name:
                    yield Import(name, used, id(node) in late)


def _imported(node: ast.AST, folder: str, modules: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = folder.split(".")
            above = above[: len(above) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            if whole in modules:
                yield whole
            elif base in modules:
                yield base


def cycle_problems(
    sources: dict[str, str], package: str, known: dict[tuple[str, str], str]
) -> Iterator[str]:
    """The cycles of each package, one line each with the imports that make it."""
    found = list(imports(sources, package))
    edges = {(edge.user, edge.used) for edge in found}
    late = {(edge.user, edge.used) for edge in found if edge.is_late}
    for user, used in sorted(known.keys() - late):
        yield f"KNOWN_LATE lists `{user}` → `{used}`, which no function imports"
    modules = {module_name(path, package): path for path in sources}
    folders = {name for name, path in modules.items() if path.endswith("__init__.py")}
    folders |= {name.rpartition(".")[0] for name in modules if "." in name}
    for folder in sorted(folders):
        graph: dict[str, set[str]] = {}
        arrows: dict[tuple[str, str], list[str]] = {}
        for user, used in sorted(edges - known.keys()):
            here, there = _node(user, folder), _node(used, folder)
            if here is None or there is None or here == there:
                continue
            graph.setdefault(here, set()).add(there)
            graph.setdefault(there, set())
            mark = " (in a function)" if (user, used) in late else ""
            arrows.setdefault((here, there), []).append(f"{user} → {used}{mark}")
        for cycle in components(graph):
            inside = [
                line
                for (here, there), lines in sorted(arrows.items())
                if here in cycle and there in cycle
                for line in lines
            ]
            yield f"import cycle in `{folder}` of {', '.join(cycle)}: " + "; ".join(inside)


def _node(module: str, folder: str) -> str | None:
    """The member of `folder` that has the module; `__init__` for the folder itself."""
    if module == folder:
        return "__init__"
    if not module.startswith(f"{folder}."):
        return None
    return module[len(folder) + 1 :].split(".")[0]

"""Keeps the private names of torch in `torch_private.py` and its neighbours in `python/floodmark`.

A name is private where it begins with one underscore, and `torch.__version__` counts as one: what
depends on a version is decided there too. Found are attributes of torch and of its modules,
imports, and the names in strings (`getattr(torch, "_x")`, `sys.modules["torch._C"]`). An attribute
of any other object is reported where nothing of ours defines that name.

Sees: the sources of both Python packages, as syntax trees. Does not import them. Exit status 0 when
all is in order, 1 with one line per problem.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = "python/floodmark"
FOLDERS = (FOLDER, "python/floodmark_compat")
HOME = f"{FOLDER}/torch_private.py"
#: Files of private names begin so; each further one has those of one part of torch.
HOMES = HOME.removesuffix(".py")

#: Variables that hold torch or one of its modules in our sources.
TORCH = {"torch", "c10d", "cuda", "dist"}
#: Calls with an object and the name of one of its attributes.
BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "replace", "replace_everywhere"}
#: Private attributes of Python's own modules.
PYTHONS = {
    "_bootstrap_inner",
    "_current_frames",
    "_exit",
    "_getframe",
    "_initializing",
    "_run_exitfuncs",
    "_run_module_as_main",
}
MODULE = re.compile(r"torch(\.\w+)*\._(?!_)\w+")

#: Private names of other libraries, by the file that needs them, and why it does.
ALLOWED = {
    "changes/attention.py": (
        {"_attn_implementation"},
        "how a model of transformers computes its attention, which nothing else says",
    ),
    "changes/kv_cache.py": (
        {"_supports_default_dynamic_cache"},
        "whether a model of transformers has the usual cache, which nothing else says",
    ),
    "estimate/phantom/autotuning.py": ({"_bench"}, "measures one configuration in Triton"),
    "plugins/_te_casts.py": (
        {"_data", "_transpose", "_transpose_invalid", "_INNER_TENSORS"},
        "parts of Transformer Engine's tensors, which its compiled functions fill",
    ),
    "pytest_plugin.py": ({"_setupstate"}, "fixtures of pytest that a child process has set up"),
}


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def own_names(trees: list[ast.Module]) -> set[str]:
    """The private names that our own sources define."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                    found.add(node.attr)
            elif isinstance(node, ast.alias):
                found.add(node.asname or node.name)
    return set(filter(is_private, found))


def chain_of(node: ast.expr) -> list[str]:
    """`a.b.c` as `["a", "b", "c"]`; other expressions as their last names."""
    if isinstance(node, ast.Attribute):
        return [*chain_of(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


def is_of_torch(chain: list[str]) -> bool:
    """Whether the expression is torch, a module of it, or something in one."""
    names = chain[1:] if chain[:1] == ["self"] else chain
    return bool(names) and names[0].lstrip("_") in TORCH


def is_operator(chain: list[str]) -> bool:
    """Whether it is an operator: an underscore is part of the name that its schema has."""
    return "aten" in chain or "ops" in chain


def private_names(tree: ast.Module, own: set[str]) -> Iterator[tuple[int, str]]:
    """Each private name of others that a source has, with its line."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            chain = chain_of(node)
            if is_operator(chain[:-1]):
                continue
            if chain[0] == "torch" and node.attr == "__version__":
                yield node.lineno, "torch.__version__"
            elif _is_foreign(chain[:-1], node.attr, own):
                yield node.lineno, ".".join(chain)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if MODULE.match(name):
                    yield node.lineno, name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if MODULE.match(alias.name):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.Call):
            yield from _by_name(node, own)
        elif (
            isinstance(node, ast.Constant)
            and id(node) not in docstrings
            and MODULE.fullmatch(str(node.value))
        ):
            yield node.lineno, str(node.value)


def _is_foreign(chain: list[str], name: str, own: set[str]) -> bool:
    """Whether an attribute is private and not our own."""
    if not is_private(name) or name in PYTHONS:
        return False
    return is_of_torch(chain) or name not in own


def _by_name(call: ast.Call, own: set[str]) -> Iterator[tuple[int, str]]:
    called = chain_of(call.func)
    if not called or called[-1] not in BY_NAME or len(call.args) < 2:
        return
    name = call.args[1]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        chain = chain_of(call.args[0])
        if _is_foreign(chain, name.value, own):
            yield call.lineno, ".".join([*chain, name.value])


def problems(sources: dict[str, str]) -> list[str]:
    """All that is wrong with the sources, by their paths; one line each."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    own = own_names(list(trees.values()))
    found = []
    for path, tree in sorted(trees.items()):
        if path == HOME or path.startswith(f"{HOMES}_"):
            continue
        allowed, _why = ALLOWED.get(path.removeprefix(f"{FOLDER}/"), (set(), ""))
        for line, name in sorted(set(private_names(tree, own))):
            if name.rpartition(".")[2] not in allowed:
                found.append(f"{path}:{line}: `{name}` is private: ask for it in `{HOME}`")
    return found


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    found = problems({str(path.relative_to(root)): path.read_text("utf-8") for path in paths})
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if not found:
        print(f"private names: {len(paths)} files, those of torch in `{HOMES}*.py` alone")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

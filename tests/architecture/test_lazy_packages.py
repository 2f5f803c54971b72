"""Packages that load names on first use give type checkers the same names, and have all of them."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAZY = [
    path.parent.relative_to(ROOT)
    for room in ("schema", "bus", "subscribers", "export", "workers", "server", "cli")
    for path in sorted((ROOT / room).rglob("__init__.py"))
    if "on_first_use(" in path.read_text("utf-8")
]


def for_type_checkers(package: Path) -> dict[str, set[str]]:
    """The names of each module that a package imports where only type checkers look."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text("utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        node.module or "": {alias.name for alias in node.names}
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }


def test_there_are_some() -> None:
    assert len(LAZY) > 5


@pytest.mark.parametrize("package", LAZY, ids=str)
def test_names_are_those_of_type_checkers_and_are_there(package: Path) -> None:
    module = import_module(".".join(("ackbus", *package.parts)))
    assert {home: set(names.split()) for home, names in module._NAMES.items()} == (
        for_type_checkers(package)
    )
    names = {name for there in module._NAMES.values() for name in there.split()}
    assert names <= set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)

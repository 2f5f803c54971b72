"""Locals and arguments say what they are: names that stand for anything are refused."""

import ast
from pathlib import Path

import pytest

from .rooms import Module, read_modules
from .shape import VAGUE, local_names

ROOT = Path(__file__).parents[2]


def vague_names(module: Module) -> list[str]:
    """List the vague names of a module, as `bus/keys.py:12: found`, where each is first bound."""
    return [module.at(node, name) for name, node in local_names(module.tree) if name in VAGUE]


def test_locals_and_arguments_of_the_product_say_what_they_are() -> None:
    assert [name for module in read_modules(ROOT) for name in vague_names(module)] == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(found): ...",
        "def f(*found): ...",
        "async def f(*, found=1): ...",
        "def f():\n    found = 1",
        "def f():\n    for found in []: ...",
        "def f():\n    return [found for found in []]",
        "def f():\n    with open('x') as found: ...",
        "def f():\n    if (found := 1): ...",
        "def f():\n    try: ...\n    except OSError as found: ...",
        "def f(x):\n    match x:\n        case [found]: ...",
        "f = lambda found: 1",
    ],
)
def test_a_vague_name_is_found_however_it_is_bound(source: str) -> None:
    module = Module(Path("bus/log/log.py"), source, ast.parse(source))
    assert [line.rsplit(": ", 1)[1] for line in vague_names(module)] == ["found"]


@pytest.mark.parametrize("source", ["found = 1", "def f():\n    return found", "x.found = 1"])
def test_other_uses_of_the_words_are_not_complained_of(source: str) -> None:
    module = Module(Path("bus/log/log.py"), source, ast.parse(source))
    assert vague_names(module) == []

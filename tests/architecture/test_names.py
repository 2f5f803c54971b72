"""Locals and arguments say what they are: names that stand for anything are refused."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .rooms import Module, read_modules

ROOT = Path(__file__).parents[2]

#: Words that say nothing of a value: a noun of the field does.
VAGUE = {
    "told",
    "found",
    "each",
    "given",
    "said",
    "one",
    "that",
    "such",
    "held",
    "made",
    "kept",
    "seen",
    "known",
    "wanted",
    "gone",
    "left",
    "had",
}

#: Rooms whose names are still to be mended.
NOT_MENDED = {
    "blobs",
    "bus",
    "cli",
    "demo",
    "doctor",
    "export",
    "git",
    "schema",
    "server",
    "setup",
    "subscribers",
    "torture",
    "wake",
    "workers",
}

_Place = ast.expr | ast.arg | ast.excepthandler | ast.pattern
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def vague_names(module: Module) -> Iterator[str]:
    """Yield the vague names of a module, as `bus/bus.py:12: found`, where each is first bound."""
    for function in ast.walk(module.tree):
        if isinstance(function, _Function):
            names: dict[str, _Place] = {}
            for bound, node in _bound_in(function):
                names.setdefault(bound, node)
            yield from (module.at(node, name) for name, node in names.items() if name in VAGUE)


def _bound_in(function: _Function) -> Iterator[tuple[str, _Place]]:
    """Yield the arguments of a function and the names that its own body binds."""
    arguments = function.args
    several = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    several += filter(None, (arguments.vararg, arguments.kwarg))
    yield from ((argument.arg, argument) for argument in several)
    body = function.body if isinstance(function.body, list) else [function.body]
    nodes: list[ast.AST] = [*body]
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, _Function | ast.ClassDef):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node
        nodes.extend(ast.iter_child_nodes(node))


def test_locals_and_arguments_of_the_product_say_what_they_are() -> None:
    modules = [module for module in read_modules(ROOT) if module.room not in NOT_MENDED]
    assert [name for module in modules for name in vague_names(module)] == []


def test_rooms_that_are_mended_are_not_excused() -> None:
    modules = read_modules(ROOT)
    vague = {module.room for module in modules if any(vague_names(module))}
    assert vague >= NOT_MENDED


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
    assert list(vague_names(module)) == []

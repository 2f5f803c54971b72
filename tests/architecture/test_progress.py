"""Loops over stored positions go through the one helper, or prove by `further` that they go on.

A loop pages by itself where a `while` runs a statement, or calls something from a position on, or
goes on after a lost part of the archive.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .rooms import read_modules

ROOT = Path(__file__).parents[2]

#: The names of positions, as arguments.
POSITIONS = {"after", "after_seq", "after_key", "before", "before_seq", "last", "last_seq", "upto"}

#: What runs a statement.
STATEMENTS = {"rows", "row", "value", "execute", "change", "count_changes"}

#: What proves that a loop goes on.
PROOFS = {"further", "NoProgress"}

#: Loops that end for another reason, by file and function.
OTHERS = {
    "automation/service.py _prune": "each round deletes what it counts",
    "bus/local_bus.py _follow": "it waits for what comes, and its position never falls",
    "bus/in_thread.py follow": "the same",
    "bus/log/catalog.py catch_up": "the position that is stored next is computed, and larger",
    "bus/log/log.py find": "it goes on only where the archive has grown",
    "bus/verification.py missing_below": "it takes from an iterator",
    "demo/run.py _watch": "it looks until its agents have ended",
    "doctor/recovery/pages.py _read": "each frame begins behind the one before",
    "server/feed.py _follow": "it waits for what comes",
    "server/feed.py stream": "it waits for what comes",
}


def loops(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.While]]:
    """Each `while`, with the function that it is in."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else name
        if isinstance(node, ast.While):
            yield inner, node
        yield from loops(node, inner)


def called(node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            yield ast.unparse(each.func).rpartition(".")[2], each


def is_from_position(call: ast.Call) -> bool:
    by_name = any(each.arg in POSITIONS for each in call.keywords)
    return by_name or any(isinstance(each, ast.Name) and each.id in POSITIONS for each in call.args)


def pages_by_itself(loop: ast.While) -> bool:
    calls = list(called(loop))
    if any(name in PROOFS for name, _ in calls):
        return False
    lost = any(
        isinstance(each, ast.Attribute)
        and each.attr == "last_seq"
        and isinstance(each.ctx, ast.Load)
        for node in ast.walk(loop)
        if isinstance(node, ast.Assign)
        for each in ast.walk(node.value)
    )
    runs = any(name in STATEMENTS and is_from_position(call) for name, call in calls)
    in_tuple = any(
        isinstance(each, ast.Name) and each.id in POSITIONS
        for name, call in calls
        if name in STATEMENTS
        for argument in call.args
        for each in ast.walk(argument)
    )
    reads = any(
        is_from_position(call) for name, call in calls if name not in ("range", "max", "min")
    )
    return lost or runs or in_tuple or reads


def found() -> set[str]:
    return {
        f"{module.path.as_posix()} {name}"
        for module in read_modules(ROOT)
        for name, loop in loops(module.tree)
        if pages_by_itself(loop)
    }


def test_no_loop_pages_by_itself() -> None:
    """Use `pages` of schema/paging.py, or `further` where a page is no list of rows."""
    assert found() - OTHERS.keys() - {"schema/paging.py pages"} == set()


def test_the_exceptions_are_needed() -> None:
    assert OTHERS.keys() <= found()


@pytest.mark.parametrize(
    ("text", "is_bare"),
    [
        ("while rows := engine.rows(SQL['walk'], (after, 10)):\n  after = rows[-1][0]", True),
        ("while True:\n  page = read(after_seq=after)\n  after = page[-1].seq", True),
        ("while True:\n  try:\n    look()\n  except Lost as lost:\n    at = lost.last_seq", True),
        (
            "while page := inbox.poll_after(after, 5):\n  after = further('x', after, page[-1])",
            False,
        ),
        ("while not stopped:\n  wait(1)", False),
    ],
)
def test_a_bare_loop_is_told_from_others(text: str, is_bare: bool) -> None:
    ((_, loop),) = loops(ast.parse(text))
    assert pages_by_itself(loop) is is_bare

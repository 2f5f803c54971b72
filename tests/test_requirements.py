"""Every requirement that is in scope is shown by a test whose docstring names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

#: The requirements of this version, by group: first and last number, both included.
#: M: the message layer.
#: C: the owner's card. P and K: the exchange, its worker host and its claim rules. D: jobs,
#: de-duplication, dispatch, timeouts, retries, state and the worker protocol, as far as a queue
#: and a worker have them (D-30 and D-83 are about manifests, which there are none of). U: the
#: control plane of agents on branches. X: the conflicts between documents that concern these.
#: Q: open questions that are answered here.
SCOPE = {
    "M": [(1, 97)],
    "C": [(1, 11)],
    "P": [(1, 95)],
    "K": [(1, 17)],
    "D": [(9, 29), (31, 34), (51, 52), (65, 73), (82, 82), (84, 97)],
    "U": [(1, 86)],
    "X": [(1, 19), (22, 22), (24, 25), (32, 34), (36, 42)],
    "Q": [(4, 4), (13, 13), (22, 26)],
}

#: The last number of each group that there is.
LAST = {"M": 97, "C": 11, "P": 95, "K": 17, "D": 154, "U": 86, "X": 42, "Q": 27}

_NAME = re.compile(r"\b([MCPKDUXQ])-(\d+)\b")


def in_scope() -> list[str]:
    return [
        f"{group}-{number:02}"
        for group, ranges in SCOPE.items()
        for first, last in ranges
        for number in range(first, last + 1)
    ]


def named_in(source: str) -> Iterator[str]:
    """The requirements that the docstrings of a module's tests name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_test = node.name.startswith("test_") or re.search(r"Test|Machine", node.name)
            if is_test and (text := ast.get_docstring(node)):
                yield from (match[0] for match in _NAME.finditer(text))


@pytest.fixture(scope="module")
def shown() -> dict[str, set[str]]:
    """The requirements that are named, each with the files that name it."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in named_in(path.read_text("utf-8")):
            found.setdefault(name, set()).add(path.relative_to(TESTS).as_posix())
    return found


@pytest.mark.slow
def test_every_requirement_in_scope_is_shown_by_a_test(shown: dict[str, set[str]]) -> None:
    assert [name for name in in_scope() if name not in shown] == []


def test_every_number_that_a_test_names_is_a_requirement(shown: dict[str, set[str]]) -> None:
    unknown = {
        name: sorted(files)
        for name, files in shown.items()
        if not 1 <= int(name[2:]) <= LAST[name[0]] or len(name) != len(f"D-{int(name[2:]):02}")
    }
    assert unknown == {}


def test_only_docstrings_of_tests_count() -> None:
    source = '''
"""M-01"""
def helper():
    """M-02"""
def test_it():
    """M-03, X-04: text; `C-05` too."""
    "M-06"  # M-07
async def test_that():
    """M-08"""
class LogMachine:
    """M-09"""
'''
    assert list(named_in(source)) == ["M-03", "X-04", "C-05", "M-08", "M-09"]

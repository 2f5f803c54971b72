"""The lines of the requirements that automation is about, and the tests that show each.

A test says which line it shows by its name, as `test_d_151_tampered_tokens_refuse_the_start`, or by
`@pytest.mark.requirement("D-151")`. `python tests/automation/requirements.py` lists each line with
its tests; with `--write` it takes the lines that are shown out of `not_yet.txt`.
"""

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
NOT_YET = Path(__file__).parent / "not_yet.txt"

#: The lines in scope, by group: first and last number, both included.
SCOPE = {
    "D": [(1, 154)],
    "R": [(1, 29)],
    "X": [(12, 35)],
    "Q": [(12, 21), (27, 27)],
}

_IN_NAME = re.compile(r"_([drxq])_(\d+)(?=_)")


def in_scope() -> list[str]:
    """Return the numbers of the lines in scope, in order."""
    return [
        f"{group}-{number:02}"
        for group, ranges in SCOPE.items()
        for first, last in ranges
        for number in range(first, last + 1)
    ]


def not_yet() -> list[str]:
    """Return the numbers of the lines that no test shows yet."""
    return NOT_YET.read_text("utf-8").split()


@cache
def shown() -> dict[str, list[str]]:
    """Return the tests that say that they show a line, by its number."""
    found = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for number in _named_by(node):
                    found[number].append(f"{path.relative_to(TESTS).as_posix()}::{node.name}")
    return dict(found)


def _named_by(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    numbers = set()
    if node.name.startswith("test_"):
        numbers = {f"{group.upper()}-{int(n):02}" for group, n in _IN_NAME.findall(node.name)}
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
            numbers |= {ast.literal_eval(argument) for argument in mark.args}
    return numbers


def main() -> None:
    tests = shown()
    if "--write" in sys.argv:
        listed = not_yet()  # also where git left both sides of a conflict in the file
        left = [number for number in in_scope() if number in listed and number not in tests]
        NOT_YET.write_text("".join(f"{number}\n" for number in left), "utf-8")
        return
    for number in in_scope():
        print(number, *tests.get(number, ["-"]), sep="\n    ")


if __name__ == "__main__":
    main()

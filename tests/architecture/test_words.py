"""Docstrings and comments are English that is read once: first words, and words to avoid."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

from .rooms import MAY_IMPORT, Module, read_modules

ROOT = Path(__file__).parents[2]

#: A docstring names its thing, or begins with the verb of what happens: it is no riddle, and no
#: command to let something be.
FIRST_WORDS = re.compile(r"(Let|What|Who|Whoever|Whatever|How|Where)\b")
#: Words that have a plain equivalent: again, without success, the thing that is meant.
ODD_WORDS = re.compile(r"\b(anew|in vain|so that nobody)\b", re.IGNORECASE)

#: A comment is a sentence or names its thing, too; questions such as "How long" name a quantity.
FIRST_WORDS_OF_COMMENTS = re.compile(r"(Let|What|Who|Whoever|Whatever)\b")
#: A line that is a comment, in Python, SQL and JavaScript.
COMMENT = re.compile(r"\s*(?:#:?|--|//|/?\*\*?) (?P<text>\S.*)")

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def odd_docstrings(modules: list[Module]) -> list[str]:
    """List the docstrings that break a rule, as `bus/keys.py:12: docstring begins with 'What'`."""
    broken = []
    for module in modules:
        for node in module.nodes:
            if not isinstance(node, _Documented):
                continue
            text = ast.get_docstring(node) or ""
            if first := FIRST_WORDS.match(text):
                broken.append(module.at(node.body[0], f"docstring begins with {first[0]!r}"))
            if odd := ODD_WORDS.search(text):
                broken.append(module.at(node.body[0], f"docstring has {odd[0]!r}"))
    return broken


def test_docstrings_of_the_product_name_things_and_acts() -> None:
    assert odd_docstrings(read_modules(ROOT)) == []


@pytest.mark.slow
def test_docstrings_of_the_tests_name_things_and_acts() -> None:
    assert odd_docstrings(read_modules(ROOT / "tests")) == []


def odd_comments(path: Path, text: str) -> list[str]:
    """List the comments that break a rule: the first line of each, and words in all lines."""
    broken = []
    in_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.match(line)
        if comment and not in_comment and (first := FIRST_WORDS_OF_COMMENTS.match(comment["text"])):
            broken.append(f"{path}:{number}: comment begins with {first[0]!r}")
        if comment and (odd := ODD_WORDS.search(comment["text"])):
            broken.append(f"{path}:{number}: comment has {odd[0]!r}")
        in_comment = comment is not None
    return broken


def test_comments_of_the_product_name_things_and_acts() -> None:
    rooms = [ROOT / name for name in MAY_IMPORT if name]
    paths = [path for room in rooms for path in room.rglob("*.*")]
    sources = [path for path in paths if path.suffix in (".py", ".sql", ".js")]
    assert len(sources) > 400
    found = [odd_comments(path.relative_to(ROOT), path.read_text("utf-8")) for path in sources]
    assert list(chain.from_iterable(found)) == []


@pytest.mark.parametrize("mark", ["#", "#:", "    #", "--", "//", "/**", " *"])
def test_an_odd_comment_is_found_in_each_language(mark: str) -> None:
    source = f"\n{mark} What it costs.\n{mark} What is in the midst\n{mark} is made anew.\n"
    assert odd_comments(Path("a.py"), source) == [
        "a.py:2: comment begins with 'What'",
        "a.py:4: comment has 'anew'",
    ]


@pytest.mark.parametrize("line", ["# Whether it is held.", "#: How many, in bytes.", "x = What()"])
def test_other_comments_are_not_complained_of(line: str) -> None:
    assert odd_comments(Path("a.py"), line) == []


def _module(source: str) -> Module:
    return Module(Path("bus/log/log.py"), source, ast.parse(source))


@pytest.mark.parametrize(
    ("docstring", "complaint"),
    [
        ("Let a lease last longer.", "begins with 'Let'"),
        ("What publishing returns.", "begins with 'What'"),
        ("Who may publish.", "begins with 'Who'"),
        ("Whoever asks.", "begins with 'Whoever'"),
        ("How long it takes.", "begins with 'How'"),
        ("Where a page begins.", "begins with 'Where'"),
        ("Write the file anew.", "has 'anew'"),
        ("Lock it, so that nobody writes.", "has 'so that nobody'"),
        ("A wait in vain.", "has 'in vain'"),
    ],
)
@pytest.mark.parametrize(
    "form",
    ['"""{}"""\n', 'class Log:\n    """{}"""\n', 'async def read():\n    """{}"""\n'],
    ids=["module", "class", "function"],
)
def test_an_odd_docstring_is_found_wherever_it_stands(
    form: str, docstring: str, complaint: str
) -> None:
    line = form.count("\n")
    found = odd_docstrings([_module(form.format(docstring))])
    assert found == [f"bus/log/log.py:{line}: docstring {complaint}"]


@pytest.mark.parametrize(
    "docstring", ["Extend a lease.", "Whether it is held.", "Letters of an id.", "However long."]
)
def test_other_docstrings_are_not_complained_of(docstring: str) -> None:
    assert odd_docstrings([_module(f'"""{docstring}"""\n')]) == []

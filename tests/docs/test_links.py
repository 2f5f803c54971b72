"""The targets of links in the documents exist."""

import ast
import re
from pathlib import Path

import pytest

from ..architecture.rooms import MAY_IMPORT
from .test_documents import DOCUMENTS, ROOT

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]+))?\)")

#: A path to a file of the sources, from the root of the repository.
SOURCE = re.compile(
    rf"(?<![\w./-])(?:{'|'.join(filter(None, MAY_IMPORT))}|tests|bench)(?:/\w+)+\.(?:py|sql|js)\b"
)
#: Names that stand for others: NNNN for a number of four digits, vN for a version.
STANDS_FOR_OTHERS = re.compile(r"NNNN|\bvN\b")


def anchors(text: str) -> set[str]:
    """The names by which the headings of a document are linked to."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_within_the_project_leads_somewhere(name: str) -> None:
    document = ROOT / name
    broken = []
    for target, anchor in LINK.findall(document.read_text("utf-8")):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        if not path.exists() or (anchor and anchor not in anchors(path.read_text("utf-8"))):
            broken.append(f"{target}#{anchor}" if anchor else target)
    assert broken == []


def test_list_of_documents_leads_to_each_page_once() -> None:
    listed = [target for target, _ in LINK.findall((ROOT / "docs/README.md").read_text("utf-8"))]
    linked = [
        str((ROOT / "docs" / target).resolve().relative_to(ROOT.resolve())) for target in listed
    ]
    assert len(linked) == len(set(linked))
    pages = {
        name
        for name in DOCUMENTS
        if name.startswith(("docs/", "examples/")) and not name.startswith("docs/adr/")
    }
    assert pages - set(linked) == {"docs/README.md"}


def missing_sources(text: str) -> list[str]:
    """The paths to sources in a text that are not there."""
    named = (path for path in SOURCE.findall(text) if not STANDS_FOR_OTHERS.search(path))
    return [path for path in named if not (ROOT / path).is_file()]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_source_that_a_document_names_is_there(name: str) -> None:
    assert missing_sources((ROOT / name).read_text("utf-8")) == []


def test_a_source_that_was_moved_is_found() -> None:
    text = "`bus/log.py` of old; now `bus/log/log.py`, as tests/migration/fixtures/vN.sql"
    assert missing_sources(text) == ["bus/log.py"]
    assert missing_sources("your src/bus/a.py, a/bus/b.py, bus/") == []


def test_every_promise_names_its_tests() -> None:
    """A promise without a test is none."""
    text = (ROOT / "docs/reliability.md").read_text("utf-8")
    promises = re.findall(r"^(\d+)\. \*\*.* \(([^()]*)\)$", text, re.MULTILINE)
    assert [int(number) for number, _ in promises] == list(range(1, 34))
    named = [re.findall(r"`([\w/]+)`", tests) for _, tests in promises]
    assert all(named)
    missing = [name for names in named for name in names if not has_tests(ROOT / "tests" / name)]
    assert missing == []


def test_every_test_that_is_named_exists() -> None:
    """A defect that a test is said to find is found by nobody once the test has another name."""
    text = (ROOT / "tests/defects.md").read_text("utf-8")
    assert len(re.findall(r"^\| \d+\. ", text, re.MULTILINE)) == 29
    files = set(re.findall(r"`(tests/[\w/]+\.py)(?:::\w+)?`", text))
    assert sorted(name for name in files if not (ROOT / name).is_file()) == []
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text))
    gone = [f"{file}::{test}" for file, test in named if test not in functions(ROOT / file)]
    assert sorted(gone) == []


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in ast.walk(tree) if isinstance(each, kinds)}


def has_tests(path: Path) -> bool:
    return (
        path.is_file()
        or any(path.glob("test_*.py"))
        or any(path.glob("*/test_*.py"))
        or (path / "run.py").is_file()
    )


def decisions() -> dict[int, Path]:
    """The page of each decision that is in force, by its number."""
    return {int(path.name[:4]): path for path in (ROOT / "docs/adr").glob("[0-9]*.md")}


def taken_in() -> dict[int, int]:
    """The decisions without a page, each with the one that took it in."""
    text = (ROOT / "docs/adr/README.md").read_text("utf-8")
    return {int(old): int(new) for old, new in re.findall(r"(\d+)→(\d+)", text)}


def test_decisions_are_numbered_without_gaps_and_have_their_parts() -> None:
    in_force = decisions()
    numbers = sorted([*in_force, *taken_in()])
    assert numbers == list(range(1, len(numbers) + 1))
    for number, path in in_force.items():
        text = path.read_text("utf-8")
        assert text.startswith(f"# {number:04} ")
        parts = ("**Context.**", "**Choice.**", "**Cost.**", "**Revisit when**")
        assert [part for part in parts if text.count(part) != 1] == [], path.name


def test_decision_without_a_page_names_a_later_one_in_force() -> None:
    for old, new in taken_in().items():
        assert old < new
        assert new in decisions()

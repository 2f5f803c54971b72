"""The source keeps to the architecture, and each rule is able to fail."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from . import rooms
from .rooms import Module, read_modules

ROOT = Path(__file__).parents[2]

Rule = Callable[[list[Module]], list[str]]
RULES: list[Rule] = [
    rooms.unknown_rooms,
    rooms.forbidden_arrows,
    rooms.arrows_between_folders,
    rooms.unknown_folders,
    rooms.circles,
    rooms.crowded_folders,
    rooms.imports_of_packages,
    rooms.packages_without_a_sentence,
    rooms.absolute_imports,
    rooms.long_modules,
    rooms.long_functions,
    rooms.swallowed_exceptions,
    rooms.opened_databases,
    rooms.opened_paths,
    rooms.unused_openings,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_source_keeps_the_rule(rule: Rule) -> None:
    assert rule(read_modules(ROOT)) == []


def test_every_package_is_listed_in_pyproject() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {module.path.parent.parts for module in read_modules(ROOT)}
    packages = {
        ".".join(("ackbus", *folder))
        for folder in folders
        if folder[:2] != ("automation", "shipped")  # programs that are copied: data of the wheel
    }
    assert set(setuptools["packages"]) == packages


def test_every_allowed_arrow_is_used() -> None:
    assert rooms.unused_arrows(read_modules(ROOT)) == []


def test_an_arrow_that_nobody_uses_is_found(tmp_path: Path) -> None:
    found = check(rooms.unused_arrows, {"blobs/store.py": "from ..schema import errors"}, tmp_path)
    assert "bus: imports nothing of blobs" in found
    assert "blobs: imports nothing of schema" not in found


def test_every_module_that_may_open_files_is_there() -> None:
    assert set(rooms.OPENING) <= {module.path.as_posix() for module in read_modules(ROOT)}


# Each rule on small trees: what it allows, and what it must find.


def check(rule: Rule, files: dict[str, str], root: Path) -> list[str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return rule(read_modules(root))


SCHEMA = {
    "schema/__init__.py": "'The message. Nothing here knows a room.'\n",
    "schema/sqlite/creation.py": "def create(): pass\n",
    "schema/message/message.py": "",
}

ALLOWED: list[tuple[Rule, dict[str, str]]] = [
    (rooms.unknown_rooms, {"bus/log/log.py": "", "tests/x.py": "", ".venv/x.py": ""}),
    (rooms.forbidden_arrows, {"__init__.py": "from .bus import Bus"}),
    (rooms.forbidden_arrows, {"cli/demo/x.py": "from ... import Bus\nfrom ...export import E"}),
    (rooms.forbidden_arrows, {"bus/log/log.py": "from ..schema import M\nfrom .x import y"}),
    (rooms.arrows_between_folders, {"bus/log/x.py": "from ..trust.chain import Chain"}),
    (rooms.arrows_between_folders, {"bus/log/x.py": "from ..statements import SQL"}),
    (rooms.arrows_between_folders, {"bus/local_bus.py": "from .log.log import Log"}),
    (rooms.unknown_folders, {"bus/log/log.py": "", "bus/local_bus.py": ""}),
    (
        rooms.circles,
        {"bus/a.py": "from .b import B", "bus/b.py": "if TYPE_CHECKING:\n from .a import A"},
    ),
    (rooms.crowded_folders, {f"cli/commands/c{n}.py": "" for n in range(30)}),
    (rooms.crowded_folders, {f"bus/log/c{n}.py": "" for n in range(16)}),
    (rooms.imports_of_packages, {"__init__.py": "from .bus.local_bus import LocalBus"}),
    (rooms.imports_of_packages, {"cli/__init__.py": "def main():\n    from .app import run"}),
    (rooms.packages_without_a_sentence, {"bus/__init__.py": "'The log. Nothing here prints.'"}),
    (rooms.packages_without_a_sentence, {"__init__.py": "'The package.'"}),
    (rooms.absolute_imports, {"bus/log/log.py": "import apsw\nfrom .x import y"}),
    (rooms.long_modules, {"bus/log/log.py": "x = 1\n" * 600}),
    (
        rooms.long_functions,
        {"bus/log/log.py": "def f():\n    '''A.\n\n    B.'''\n" + "    g()\n" * 59},
    ),
    (rooms.swallowed_exceptions, {"bus/log/log.py": "try: f()\nexcept KeyError: pass"}),
    (rooms.swallowed_exceptions, {"bus/log/log.py": "try: f()\nexcept Exception: g()\n"}),
    (
        rooms.opened_paths,
        {"schema/directory/folder.py": "os.open(name, 0)", "demo/x.py": "open(p)"},
    ),
    (rooms.opened_paths, {"bus/log/log.py": "files.rename(a, b)\nBus.open(d)\nos.fdopen(fd)"}),
    (rooms.opened_paths, {"bus/log/log.py": "apsw.Connection(':memory:')"}),
    (rooms.unused_openings, {"schema/sqlite/creation.py": "def create(): open(path)"}),
    (rooms.opened_databases, {"bus/log/log.py": "open(layout.jsonl)\nos.stat(layout.database)"}),
    (rooms.opened_databases, {"bus/log/log.py": "apsw.Connection(layout.database)"}),
]

FOUND: list[tuple[Rule, dict[str, str], str]] = [
    (rooms.unknown_rooms, {"utils/x.py": ""}, "utils/: not in"),
    (rooms.forbidden_arrows, {"schema/x.py": "from ..bus import Bus"}, "schema/x.py:1: may not"),
    (rooms.forbidden_arrows, {"schema/x.py": "def f():\n  from .. import bus"}, "x.py:2: may not"),
    (rooms.forbidden_arrows, {"export/x.py": "from ..subscribers import Inbox"}, "subscribers"),
    (rooms.forbidden_arrows, {"bus/x.py": "from .. import Bus"}, "the root package"),
    (rooms.forbidden_arrows, {"__init__.py": "from .cli import main"}, "import cli"),
    (
        rooms.arrows_between_folders,
        {"bus/log/x.py": "from ..search.text import marks"},
        "log/ may not",
    ),
    (rooms.arrows_between_folders, {"bus/log/x.py": "def f():\n from .. import search"}, "x.py:2"),
    (rooms.unknown_folders, {"bus/misc/x.py": ""}, "bus/misc/: not among"),
    (
        rooms.circles,
        {"bus/a.py": "from .b import B", "bus/b.py": "from . import a"},
        "bus.b -> bus.a",
    ),
    (
        rooms.circles,
        {"bus/a.py": "def f():\n from .a2.b import B", "bus/a2/b.py": "from ..a import A"},
        "bus.a -> bus.a2.b -> bus.a",
    ),
    (rooms.crowded_folders, {f"bus/c{n}.py": "" for n in range(17)}, "bus/: 17 files"),
    (rooms.imports_of_packages, {"bus/__init__.py": "from .bus import Bus"}, "bus/__init__.py:1"),
    (rooms.packages_without_a_sentence, {"bus/__init__.py": ""}, "bus/__init__.py: says nothing"),
    (rooms.packages_without_a_sentence, {"bus/__init__.py": "'Nothing here.'"}, "says nothing"),
    (rooms.packages_without_a_sentence, {"bus/x/__init__.py": "'The log.'"}, "what may not live"),
    (rooms.absolute_imports, {"bus/x.py": "import ackbus.schema"}, "ackbus.schema relatively"),
    (rooms.absolute_imports, {"bus/x.py": "from ackbus import Bus"}, "ackbus relatively"),
    (rooms.absolute_imports, {"bus/x.py": "from schema import M"}, "schema relatively"),
    (rooms.long_modules, {"bus/x.py": "x = 1\n" * 601}, "bus/x.py: 601 lines"),
    (rooms.long_functions, {"bus/x.py": "async def f():\n" + "    g()\n" * 60}, "f has 61 lines"),
    (rooms.swallowed_exceptions, {"bus/x.py": "try: f()\nexcept Exception: pass"}, "x.py:2:"),
    (rooms.swallowed_exceptions, {"bus/x.py": "try: f()\nexcept: ..."}, "x.py:2:"),
    (rooms.swallowed_exceptions, {"bus/x.py": "with suppress(Exception): f()"}, "x.py:1:"),
    (rooms.opened_databases, {"bus/x.py": "open(layout.database)"}, "open(layout.database)"),
    (rooms.opened_databases, {"bus/x.py": "os.open(path + '-wal', 0)"}, "x.py:1:"),
    (rooms.opened_databases, {"bus/x.py": "shutil.copyfile(d / 'bus.db', to)"}, "copyfile"),
    (rooms.opened_paths, {"bus/x.py": "open(layout.jsonl)"}, "open(layout.jsonl): open what is in"),
    (rooms.opened_paths, {"export/x.py": "os.replace(fresh, path)"}, "x.py:1: os.replace"),
    (rooms.opened_paths, {"cli/x.py": "shutil.rmtree(folder)"}, "rmtree"),
    (rooms.opened_paths, {"server/x.py": "Path(p).write_text('')"}, "write_text"),
    (rooms.opened_paths, {"bus/x.py": "apsw.Connection(layout.search)"}, "apsw.Connection"),
    (rooms.unused_openings, {}, "schema/sqlite/creation.py: opens nothing"),
    (rooms.opened_databases, {"bus/x.py": "Path(layout.database).read_bytes()"}, "read_bytes"),
]


@pytest.mark.parametrize(("rule", "files"), ALLOWED)
def test_rule_allows(rule: Rule, files: dict[str, str], tmp_path: Path) -> None:
    assert check(rule, SCHEMA | files, tmp_path) == []


@pytest.mark.parametrize(("rule", "files", "line"), FOUND)
def test_rule_finds(rule: Rule, files: dict[str, str], line: str, tmp_path: Path) -> None:
    (found,) = check(rule, SCHEMA | files, tmp_path)
    assert line in found


def test_every_rule_is_shown_to_fail() -> None:
    assert {rule for rule, *_ in FOUND} == set(RULES)

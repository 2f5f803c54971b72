"""The rooms run their statements through an engine, each in the class that owns the table."""

from pathlib import Path

import pytest

from ..performance.statements import NAMED
from . import seam
from .rooms import read_modules
from .test_rooms import Rule, check

ROOT = Path(__file__).parents[2]

RULES: list[Rule] = [
    seam.libraries_of_storage,
    seam.files_under_a_bus,
    seam.reached_engines,
    seam.contracts_at_run_time,
    seam.statements_of_others,
    seam.times_of_the_host,
    seam.unused_exceptions,
]

ALLOWED: list[tuple[Rule, dict[str, str]]] = [
    (
        seam.libraries_of_storage,
        {"schema/x.py": "import apsw", "bus/maintenance.py": "import apsw"},
    ),
    (seam.files_under_a_bus, {"bus/x.py": "from ..schema import Engine, engine_of"}),
    (seam.reached_engines, {"bus/x.py": "self._engine.rows(q)\nos.stat(self._layout.database)"}),
    (seam.reached_engines, {"workers/x.py": "from ..schema import engine_of"}),
    (
        seam.contracts_at_run_time,
        {"bus/x.py": "if TYPE_CHECKING:\n  from ..schema.engine import Engine"},
    ),
    (seam.statements_of_others, {"bus/x.py": "class Log:\n def f(self): self._engine.row(q)"}),
    (seam.statements_of_others, {"bus/x.py": "[].insert(0, 1)\nLiveness.DEAD.value()"}),
    (seam.statements_of_others, {"bus/x.py": "engine_of(bus).close_thread()"}),
    (seam.times_of_the_host, {"bus/x.py": "time.monotonic()\nself._bus.now_ms()"}),
    (seam.times_of_the_host, {"bus/signing.py": "from ..schema import now_ms"}),
    (seam.unused_exceptions, {"bus/signing.py": "from ..schema import now_ms"}),
]

FOUND: list[tuple[Rule, dict[str, str], str]] = [
    (seam.libraries_of_storage, {"bus/x.py": "import apsw"}, "x.py:1: imports apsw"),
    (seam.libraries_of_storage, {"bus/x.py": "def f():\n  from sqlite3 import connect"}, "x.py:2:"),
    (seam.files_under_a_bus, {"bus/x.py": "from ..schema import file_of"}, "takes file_of"),
    (seam.files_under_a_bus, {"cli/x.py": "from ..schema import Database"}, "takes Database"),
    (seam.reached_engines, {"bus/x.py": "queue._engine.rows(q)"}, "x.py:1: reaches for queue._en"),
    (seam.reached_engines, {"cli/x.py": "bus.database.rows(q)"}, "reaches for bus.database"),
    (seam.reached_engines, {"cli/x.py": "from ..schema import engine_of"}, "a door has no engine"),
    (seam.contracts_at_run_time, {"bus/x.py": "from ..schema.engine import Engine"}, "x.py:1:"),
    (seam.contracts_at_run_time, {"bus/x.py": "def f():\n  from ..schema.engine import E"}, "2:"),
    (seam.statements_of_others, {"bus/x.py": "def f(engine): engine.rows(q)"}, "a function runs"),
    (seam.statements_of_others, {"bus/x.py": "engine_of(bus).change(q)"}, "x.py:1: a function"),
    (
        seam.statements_of_others,
        {"bus/x.py": "class Looker:\n def f(self): self._engine.value(q)"},
        "x.py:2: Looker runs a statement",
    ),
    (seam.times_of_the_host, {"bus/x.py": "at = time.time()"}, "time.time: ask the bus"),
    (seam.times_of_the_host, {"bus/x.py": "datetime.now(UTC)"}, "datetime.now"),
    (seam.times_of_the_host, {"cli/x.py": "from ..schema import now_ms"}, "now_ms of the host"),
    (
        seam.unused_exceptions,
        {"bus/signing.py": "pass"},
        "bus/signing.py: needs no exception",
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_source_keeps_the_rule(rule: Rule) -> None:
    assert rule(read_modules(ROOT)) == []


@pytest.mark.parametrize(("rule", "files"), ALLOWED)
def test_rule_allows(rule: Rule, files: dict[str, str], tmp_path: Path) -> None:
    assert check(rule, files, tmp_path) == []


@pytest.mark.parametrize(("rule", "files", "line"), FOUND)
def test_rule_finds(rule: Rule, files: dict[str, str], line: str, tmp_path: Path) -> None:
    (found,) = check(rule, files, tmp_path)
    assert line in found


def test_every_rule_is_shown_to_fail() -> None:
    assert {rule for rule, *_ in FOUND} == set(RULES)


def test_every_exception_is_there() -> None:
    exceptions = {*seam.OF_ONE_FILE, *seam.CLOCKS}
    assert exceptions <= {module.path.as_posix() for module in read_modules(ROOT)}


#: Whose statements those of each file of SQL are; a repair mends the tables of others (`mending`).
ROOM_OF = {"inboxes": "subscribers", "work": "subscribers", "views": "subscribers"}
ROOM_OF |= {"records": "automation"}
STATEMENTS = [
    (ROOM_OF.get(file, file), name, sql)
    for (file, _, name), sql in ((key.partition("."), sql) for key, sql in NAMED.items())
    if file != "mending"
]


def test_each_table_is_written_by_the_class_that_owns_it() -> None:
    """As docs/tables.md says."""
    by_table: dict[str, set[str]] = {}
    for name, tables in seam.owners().items():
        for table in tables:
            by_table.setdefault(table, set()).add(name)
    written = seam.writers(read_modules(ROOT), STATEMENTS)
    del written["meta"]  # an entry each
    wrong = {
        table: classes
        for table, classes in written.items()
        if classes != seam.WRITTEN_BY_MORE.get(table, by_table.get(table))
    }
    assert wrong == {}
    assert len(written) > 20


def test_a_second_writer_of_a_table_is_found(tmp_path: Path) -> None:
    source = 'class Queues:\n    def f(self): self._engine.rows(SQL["add_job"])\n'
    (tmp_path / "subscribers").mkdir()
    (tmp_path / "subscribers" / "x.py").write_text(source)
    assert seam.writers(read_modules(tmp_path), STATEMENTS) == {"jobs": {"Queues"}}

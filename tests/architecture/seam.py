"""The rules of the seam between the rooms and the storage under them, as those of `rooms`.

Who runs statements is said in docs/tables.md; this has what a table of owners can't say.
"""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from .rooms import Module

#: The room of a statement, its name there, and its text.
Statement = tuple[str, str, str]

ROOT = Path(__file__).parents[2]

#: Classes that run statements and own no table: what of the tables of others they read or write.
BESIDE_OWNERS = {
    "Appender": "writes `messages` for `Log`",
    "MailReader": "reads `messages` by the cursors and deliveries of an inbox",
    "LiveReservations": "reads `reservations`, for a commit that waits for no more of their room",
    "ReplyJudge": "reads which groups a request has asked, and which queues take in their replies",
    "SessionBases": "reads `sessions`, for what messages mean, in the room below their owner",
    "Views": "reads `jobs` and `claims` for people",
}

#: Tables that more than one class writes.
WRITTEN_BY_MORE = {"messages": {"Appender", "Archive"}}

#: What knows that a bus is one file of SQLite, above `schema/`: nothing of it is for other engines.
OF_ONE_FILE = {
    "bus/local_bus.py": "opens it",
    "bus/maintenance.py": "compacts it",
    "bus/search/index.py": "the index of words: a file of its own, on every engine",
    "bus/verification.py": "checks its rows",
    "cli/commands/doctor.py": "tells the version of SQLite",
    "torture/proofs.py": "checks it after a torture",
    "export/backup.py": "copies it; checks the copy",
    "cli/arguments.py": "opens it for one look of the guard, without the rest of a bus",
    "cli/guard_check.py": "has that look",
    "subscribers/inboxes/unread_count.py": "opens it for one look, without the rest of a bus",
}

#: The rooms that know it as a whole: `schema/` has it, and `doctor/` examines and repairs it.
ROOMS_OF_ONE_FILE = ("schema", "doctor")

#: What asks the host for the time of day, and why that is not the time of a bus.
CLOCKS = {
    "automation/config/sources.py": "the seal of a configuration, which is of no bus",
    "blobs/store.py": "compares the times of files, which are the host's",
    "cli/commands/schedule.py": "shows the coming times of a rule, which need no bus",
    "cli/commands/webhook.py": "signs as a sender does, which has no bus",
    "bus/signing.py": "notes when a key of this user was made, outside of any bus",
    "wake/terminals.py": "compares the times of tmux, which are the host's",
    "torture/run.py": "measures whether the clock was set",
}

#: The rooms whose code is a door, or uses one: it has no engine.
DOORS = ("server", "cli", "setup", "demo", "torture")

_RUNNING = re.compile(
    r"((.*[._])?engine|engine_of\(.*\))"
    r"\.(rows?|value|one_number|change|insert|insert_many|run_many|count_changes)"
)
_CLOCK = re.compile(r"time\.time(_ns)?|(datetime\.)*(datetime|date)\.(now|utcnow|today)")
_WRITTEN = re.compile(r"\b(?:INSERT(?: OR \w+)? INTO|DELETE FROM|(?<!DO )UPDATE)\s+(\w+)")


def libraries_of_storage(modules: list[Module]) -> list[str]:
    """Only `schema/`, and what belongs to one file, knows SQLite's library."""
    return [
        module.at(node, f"imports {name}: run statements through the engine")
        for module in _above(modules, OF_ONE_FILE, ROOMS_OF_ONE_FILE)
        for node in module.nodes
        for name in _imported(node)
        if name.partition(".")[0] in ("apsw", "sqlite3")
    ]


def files_under_a_bus(modules: list[Module]) -> list[str]:
    """Only what belongs to one file asks for it, or opens it."""
    return [
        module.at(node, f"takes {name}: it is for what belongs to one file")
        for module in _above(modules, OF_ONE_FILE, ROOMS_OF_ONE_FILE)
        for node in module.nodes
        if isinstance(node, ast.ImportFrom)
        for name in _imported(node)
        if name in ("file_of", "without_triggers", "Database")
    ]


def reached_engines(modules: list[Module]) -> list[str]:
    """Nobody reaches for the engine of another object, and a door for none at all."""
    broken = []
    for module in _above(modules, ()):
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr in ("_engine", "_file", "database"):
                owner = ast.unparse(node.value)
                if owner != "self" and not (node.attr == "database" and _is_a_place(owner)):
                    broken.append(module.at(node, f"reaches for {owner}.{node.attr}"))
            if module.room in DOORS and "engine_of" in _imported(node):
                broken.append(module.at(node, "a door has no engine: call an owner"))
    return broken


def contracts_at_run_time(modules: list[Module]) -> list[str]:
    """The contract of the engine is imported for annotations only: starting costs nothing more."""
    return [
        module.at(node, "imports schema.engine at run time: it is for annotations")
        for module in modules
        for node in _at_run_time(module.tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("engine")
    ]


def statements_of_others(modules: list[Module]) -> list[str]:
    """A statement is run by a class that owns a table, or is known to work on those of others."""
    allowed = owners().keys() | BESIDE_OWNERS
    return [
        module.at(call, f"{name or 'a function'} runs a statement, and owns no table")
        for module in _above(modules, ())
        for name, call in _calls_of_engines(module.tree)
        if name not in allowed
    ]


def times_of_the_host(modules: list[Module]) -> list[str]:
    """Times come from the engine: `bus.now_ms()`."""
    broken = []
    for module in _above(modules, CLOCKS):
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and _CLOCK.fullmatch(ast.unparse(node)):
                broken.append(module.at(node, f"{ast.unparse(node)}: ask the bus for the time"))
            if isinstance(node, ast.ImportFrom) and "now_ms" in _imported(node):
                broken.append(module.at(node, "now_ms of the host: ask the bus for the time"))
    return broken


def unused_exceptions(modules: list[Module]) -> list[str]:
    """Every exception from these rules is needed."""
    there = [module.path.as_posix() for module in modules]
    return [
        f"{path}: needs no exception"
        for exceptions, rules in (
            (OF_ONE_FILE, (libraries_of_storage, files_under_a_bus)),
            (CLOCKS, (times_of_the_host,)),
        )
        for path in exceptions
        if path in there
        if not any(rule(_as_others(modules, path)) for rule in rules)
    ]


def writers(modules: list[Module], statements: list[Statement]) -> dict[str, set[str]]:
    """Return which classes write each table, by the names of statements that stand in them."""
    found: dict[str, set[str]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and any(_calls_of_engines(node)):
                texts = _texts(node)
                for room, name, sql in statements:
                    if room == module.room and name in texts:
                        for table in _WRITTEN.findall(sql):
                            found.setdefault(table, set()).add(node.name)
    return found


def owners() -> dict[str, set[str]]:
    """Return the tables of each class, as docs/tables.md says."""
    text = (ROOT / "docs" / "tables.md").read_text("utf-8")
    found: dict[str, set[str]] = {}
    for name, tables in re.findall(r"^  - `([A-Z]\w+)`: (.*)", text, re.MULTILINE):
        found[name] = set(re.findall(r"`(\w+)`", tables))
    return found


def _above(
    modules: list[Module], exceptions: Collection[str], rooms: Collection[str] = ("schema",)
) -> Iterator[Module]:
    """Yield the modules above some rooms that are no exceptions."""
    for module in modules:
        if module.room not in rooms and module.path.as_posix() not in exceptions:
            yield module


def _as_others(modules: list[Module], path: str) -> list[Module]:
    """Return one module under a name that is no exception."""
    return [
        Module(Path(module.room, "other.py"), module.text, module.tree)
        for module in modules
        if module.path.as_posix() == path
    ]


def _calls_of_engines(tree: ast.AST, holder: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls that run a statement on an engine, and the class that each stands in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and _RUNNING.fullmatch(ast.unparse(node.func)):
            yield holder, node
        inner = node.name if isinstance(node, ast.ClassDef) else holder
        yield from _calls_of_engines(node, inner)


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all of a module but what stands under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _at_run_time(node)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names]
        return [*names, node.module or ""] if isinstance(node, ast.ImportFrom) else names
    return []


def _is_a_place(owner: str) -> bool:
    return owner.endswith("ayout") or owner.startswith("Layout(") or owner == "workshop"


def _texts(node: ast.AST) -> set[str]:
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }

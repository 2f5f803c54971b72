"""The rules of the architecture, each a function that lists where a source tree breaks it.

The rules take the modules of a tree and return lines like ``bus/log/log.py:12: what is wrong``.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeGuard

#: What each room may import: the table of rooms in ARCHITECTURE.md. "" is the root package.
MAY_IMPORT: dict[str, set[str]] = {
    "schema": set(),
    "blobs": {"schema"},
    "bus": {"schema", "blobs"},
    "subscribers": {"schema", "bus"},
    "workers": {"schema", "bus", "subscribers"},
    "automation": {"schema", "bus", "subscribers", "workers"},
    "export": {"schema", "blobs", "bus"},
    "git": {"schema", "workers", "export"},
    "tasks": {"schema", "bus", "subscribers", "workers", "automation", "git"},
    "doctor": {"schema", "blobs", "bus", "subscribers", "automation", "export", "git", "tasks"},
    "setup": {"schema", "bus", "subscribers"},
    "wake": {"schema", "bus", "subscribers"},
    "server": {"schema", "blobs", "bus", "subscribers", "automation", "export", "tasks"},
    "torture": {"schema", "bus", "subscribers", "export", "doctor"},
    "demo": {"schema", "bus", "subscribers", "workers", "automation", "export", "git", "tasks"},
    "": {"schema", "blobs", "bus", "subscribers", "workers", "export", "git", "tasks"},
}
MAY_IMPORT["cli"] = set(MAY_IMPORT)

#: The folders of each room, in order: each imports only those before it. Files beside them are what
#: all of them share, or what stands upon them, as `bus/local_bus.py`.
FOLDERS: dict[str, list[str]] = {
    "schema": ["message", "directory", "sqlite"],
    "bus": ["log", "search", "presence", "reservations"],
    "subscribers": ["inboxes", "jobs", "queues", "overview"],
    "workers": ["processes"],
    "automation": ["shipped", "config", "plugins", "records", "jobs", "schedules", "routes"],
    "export": ["jsonl", "pictures"],
    "git": ["branches", "trees"],
    "tasks": ["records", "steps", "board", "control", "roles", "integrate"],
    "doctor": ["recovery", "checks", "repair"],
    "server": ["access", "api", "mcp", "page", "automation", "pushpals"],
    "cli": ["show", "options", "fast", "running", "top", "commands"],
}

#: The packages that offer names of their modules, for programs that use the library.
PUBLIC = {"__init__.py", "export/pictures/__init__.py"}

#: How many Python files a folder has at most, and the one that may have more.
MAX_FILES, CROWDED = 16, "cli/commands"

#: Folders at the root that are no rooms, and that no wheel contains.
BESIDE = {"bench", "build", "dist", "docs", "examples", "tests"}

#: Where files are opened, made, renamed or removed by their paths, and whose they are. All that is
#: in a bus directory goes through `schema/directory/folder.py`.
OPENING: dict[str, str] = {
    "cli/commands/completion.py": "a directory of manual pages that the user names",
    "schema/directory/folder.py": "the one way to what is in a bus directory",
    "schema/directory/enclosure.py": "the one way to write in a project or a home",
    "setup/record.py": "the package's own plugin of another program",
    "schema/sqlite/creation.py": "the package's own statements; the bus directory itself",
    "schema/sqlite/upgrade.py": "the package's own migrations",
    "schema/sqlite/versions.py": "the package's own migrations",
    "schema/queries.py": "the package's own statements",
    "schema/sqlite/hardening.py": "the package's own statements",
    "doctor/examination.py": "the null device",
    "doctor/recovery/records.py": "the package's own statements",
    "schema/directory/layout.py": "the list of mounts; the bus directory, and those above it",
    "schema/sqlite/sqlite_errors.py": "SQLite's own files, which are looked at before",
    "doctor/checks/directory.py": "the list of what is in a bus directory, none of which is opened",
    "schema/system_errors.py": "the bus directory itself, to hear why it can't be entered",
    "schema/directory/lock_holders.py": "what the kernel tells in /proc",
    "schema/bounded_read.py": "files that its callers name, once they are known to be plain ones",
    "schema/children.py": "a log that its callers name, of a run that they made",
    "schema/process_table.py": "what the kernel tells in /proc",
    "schema/directory/trust.py": "this user's list of trusted directories",
    "bus/signing.py": "this user's keys",
    "export/backup.py": "the directory of a backup itself, which its user names",
    "doctor/repair/files_beside.py": "the directories beside a bus, to look for backups",
    "automation/config/files.py": "the operator's configuration; the seal of a configuration",
    "git/sealed.py": "git's own files, and a folder of git's that it makes",
    "git/target_refs.py": "files of the target's work tree",
    "git/branches/forecast.py": "a temporary folder of its own",
    "git/trees/tree_state.py": "the folder of all work trees; git's own files",
    "git/trees/removal.py": "git's own files; git's own files, and the folders of a work tree",
    "git/trees/rescue.py": "git's own files",
    "git/trees/tree_list.py": "git's own files; locks, beside git's own files",
    "git/trees/work_trees.py": "the folder of all work trees",
    "git/work_tree.py": "git's own files",
    "git/guard.py": "git's own files",
    "git/repository.py": "git's own files",
    "tasks/roles/job_run.py": "a worker's scratch folder",
    "tasks/roles/worker_name.py": "a worker's scratch folder",
    "wake/terminals.py": "what the kernel tells in /proc; what a window of screen shows",
    "workers/processes/own_child.py": "what the kernel tells in /proc",
    "workers/processes/supervisor.py": "what the kernel tells in /proc",
    "server/page/files.py": "the package's own page",
    "server/mcp/stdio.py": "the package's own answers; the null device",
    "cli/commands/blob.py": "the file that its user names",
    "cli/fast/git_drivers.py": "the files that git hands over",
    "cli/options/payload.py": "the file that its user names",
    "cli/options/common.py": "the file that its user names",
    "cli/commands/graph.py": "the file that its user names",
    "cli/ending.py": "the null device",
    "cli/inherited.py": "the null device",
}
#: Parts of the command that work on other programs' files, or on a bus that they made themselves.
OPENING_ROOMS = ("demo/", "torture/", "cli/top/")

_OPENING_ANYTHING = re.compile(
    r"((builtins|io)\.)?open|shutil\.(copy|copy2|copyfile|copytree|move|rmtree)"
    r"|os\.(open|mkdir|makedirs|unlink|remove|removedirs|rename|renames|replace|rmdir|link|symlink"
    r"|mkfifo|mknod|chmod|chown|utime|truncate|listdir|scandir|walk)"
)

MAX_MODULE_LINES = 600
#: Of a function without its docstring.
MAX_FUNCTION_LINES = 60

# Names by which the code could mean a database file, and calls that would open it.
_DATABASE = re.compile(r"bus\.db|-wal\b|-shm\b|(?i:layout).*\.database\b")
_OPENING_FUNCTION = re.compile(r"((builtins|io|os)\.)?open|shutil\.(copy\w*|move)")
_OPENING_METHODS = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}


#: What has a line.
_Placed = ast.stmt | ast.expr | ast.excepthandler | ast.arg | ast.pattern


@dataclass(frozen=True)
class Module:
    """A parsed source file; ``path`` is relative to the root of its tree."""

    path: Path
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree: most rules look at each, and to find them takes longest."""
        return list(ast.walk(self.tree))

    @property
    def room(self) -> str:
        return self.path.parts[0] if len(self.path.parts) > 1 else ""

    def at(self, node: _Placed, what: str) -> str:
        return f"{self.path.as_posix()}:{node.lineno}: {what}"


@cache  # each rule reads the same tree
def read_modules(root: Path) -> list[Module]:
    """All modules of the package in a source tree, in order of their paths."""
    found = []
    rooms = [path for path in root.iterdir() if path.is_dir() and path.name not in BESIDE]
    within = [path for room in rooms if room.name[0] != "." for path in room.rglob("*.py")]
    for path in sorted([*root.glob("*.py"), *within]):
        text = path.read_text("utf-8")
        found.append(Module(path.relative_to(root), text, ast.parse(text)))
    return found


def unknown_rooms(modules: list[Module]) -> list[str]:
    """Every folder at the root that has code is a room of the table."""
    rooms = {module.room for module in modules} - MAY_IMPORT.keys()
    return [f"{room}/: not in the table of rooms" for room in sorted(rooms)]


def forbidden_arrows(modules: list[Module]) -> list[str]:
    """A room imports only the rooms that the table allows."""
    broken = []
    for module in modules:
        for node, target in _relative_imports(module):
            room = _room_of(target)
            if room not in {module.room} | MAY_IMPORT.get(module.room, set()):
                broken.append(module.at(node, f"may not import {room or 'the root package'}"))
    return broken


def unused_arrows(modules: list[Module]) -> list[str]:
    """Every arrow that the table allows is there: a room that needs less may import less."""
    used: dict[str, set[str]] = {}
    for module in modules:
        rooms = {_room_of(target) for _, target in _relative_imports(module)}
        used.setdefault(module.room, set()).update(rooms)
    return [
        f"{room}: imports nothing of {target or 'the root package'}"
        for room, targets in MAY_IMPORT.items()
        for target in sorted(targets - used.get(room, set()))
    ]


def arrows_between_folders(modules: list[Module]) -> list[str]:
    """A folder of a room imports only the folders that are named before it, but for types."""
    broken = []
    for module in modules:
        folders = FOLDERS.get(module.room, [])
        for_types = _for_types(module)
        for node, target in _relative_imports(module):
            if len(module.path.parts) < 3 or len(target) < 2 or target[0] != module.room:
                continue
            if id(node) in for_types:
                continue
            own, other = module.path.parts[1], target[1]
            if {own, other} <= set(folders) and folders.index(other) > folders.index(own):
                broken.append(module.at(node, f"{own}/ may not import {other}/"))
    return broken


def unknown_folders(modules: list[Module]) -> list[str]:
    """Every folder of a room that has an order is named in it."""
    inner = {module.path.parts[:2] for module in modules if len(module.path.parts) > 2}
    return [
        f"{room}/{folder}/: not among the folders of {room}"
        for room, folder in sorted(inner)
        if folder not in FOLDERS.get(room, [])
    ]


def circles(modules: list[Module]) -> list[str]:
    """No module is imported by what it imports, at whatever distance, or inside a function."""
    arrows = _arrows(modules)
    broken, open_, done = [], [], set()

    def walk(name: str) -> None:
        if name in open_:
            broken.append(" -> ".join([*open_[open_.index(name) :], name]))
        elif name not in done:
            open_.append(name)
            for each in sorted(arrows.get(name, ())):
                walk(each)
            open_.pop()
            done.add(name)

    for name in sorted(arrows):
        walk(name)
    return broken


def crowded_folders(modules: list[Module]) -> list[str]:
    """No folder has more files than a reader takes in at a look."""
    counts = Counter(module.path.parent.as_posix() for module in modules)
    return [
        f"{folder}/: {count} files, more than {MAX_FILES}"
        for folder, count in sorted(counts.items())
        if count > MAX_FILES and folder != CROWDED
    ]


def imports_of_packages(modules: list[Module]) -> list[str]:
    """A name is imported from the module that defines it: packages hold a sentence, no names."""
    return [
        module.at(node, "a package offers no names of its modules")
        for module in modules
        if module.path.name == "__init__.py" and module.path.as_posix() not in PUBLIC
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def packages_without_a_sentence(modules: list[Module]) -> list[str]:
    """Every package says what lives in it, and inside the root also what does not."""
    broken = []
    for module in modules:
        if module.path.name == "__init__.py":
            text, place = ast.get_docstring(module.tree) or "", module.path.as_posix()
            if not text or text.startswith("Nothing here"):
                broken.append(f"{place}: says nothing of what lives here")
            elif module.room and "othing here" not in text:
                broken.append(f"{place}: does not say 'Nothing here …': what may not live here")
    return broken


def absolute_imports(modules: list[Module]) -> list[str]:
    """The package imports itself relatively."""
    broken = []
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            for name in names:
                if name.partition(".")[0] in {"ackbus", *MAY_IMPORT}:
                    broken.append(module.at(node, f"import {name} relatively"))
    return broken


def long_modules(modules: list[Module]) -> list[str]:
    """No module is too long to keep in mind."""
    return [
        f"{module.path.as_posix()}: {lines} lines, more than {MAX_MODULE_LINES}"
        for module in modules
        if (lines := len(module.text.splitlines())) > MAX_MODULE_LINES
    ]


def long_functions(modules: list[Module]) -> list[str]:
    """No function is too long to read at once."""
    broken = []
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = _lines(node)
                if ast.get_docstring(node, clean=False) is not None:
                    lines -= _lines(node.body[0])
                if lines > MAX_FUNCTION_LINES:
                    much = f"{lines} lines, more than {MAX_FUNCTION_LINES}"
                    broken.append(module.at(node, f"{node.name} has {much}"))
    return broken


def swallowed_exceptions(modules: list[Module]) -> list[str]:
    """Nothing catches every exception and goes on as if there were none."""
    broken = []
    for module in modules:
        for node in module.nodes:
            if _is_blind_handler(node) or _is_blind_suppress(node):
                broken.append(module.at(node, "swallows every exception"))
    return broken


def opened_databases(modules: list[Module]) -> list[str]:
    """Only apsw opens a database file. database_guard checks the same at run time."""
    broken = []
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Call) and _DATABASE.search(_opened(node)):
                broken.append(module.at(node, f"opens a database file: {ast.unparse(node)}"))
    return broken


def opened_paths(modules: list[Module]) -> list[str]:
    """Only the folder of a bus opens, makes, renames and removes what is in it.

    Elsewhere a file is of somebody else, as the table says. directory_guard checks the same at run
    time.
    """
    broken = []
    for module in modules:
        name = module.path.as_posix()
        if name not in OPENING and not name.startswith(OPENING_ROOMS):
            for node in module.nodes:
                if isinstance(node, ast.Call) and _opens(node):
                    told = f"{ast.unparse(node)}: open what is in a bus by its Folder"
                    broken.append(module.at(node, told))
    return broken


def unused_openings(modules: list[Module]) -> list[str]:
    """Every module in the table of those that open files does."""
    used = {
        module.path.as_posix()
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Call) and _opens(node)
    }
    there = {module.path.as_posix() for module in modules}
    return [f"{name}: opens nothing" for name in OPENING if name in there - used]


def _opens(call: ast.Call) -> bool:
    """Whether a call is given the path of a file, or opens a database by itself."""
    name = ast.unparse(call.func)
    if name == "apsw.Connection":
        return not call.args or ast.unparse(call.args[0]) != "':memory:'"
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    is_of_path = method in _OPENING_METHODS - {"open"}
    return is_of_path or _OPENING_ANYTHING.fullmatch(name) is not None


def _relative_imports(module: Module) -> Iterator[tuple[ast.ImportFrom, tuple[str, ...]]]:
    """Each name that a module imports relatively, as a path from the root package."""
    package = module.path.parent.parts
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            source = node.module.split(".") if node.module else []
            for alias in node.names:
                yield node, (*base, *source, alias.name)


def _room_of(target: tuple[str, ...]) -> str:
    return target[0] if target[0] in MAY_IMPORT else ""


def _arrows(modules: list[Module]) -> dict[str, set[str]]:
    """The modules that each module imports when it runs."""
    names = {_name_of(module) for module in modules}
    arrows: dict[str, set[str]] = {}
    for module in modules:
        for_types = _for_types(module)
        for node, target in _relative_imports(module):
            inner, outer = ".".join(target), ".".join(target[:-1])
            found = inner if inner in names else outer
            if id(node) not in for_types and found in names and found != _name_of(module):
                arrows.setdefault(_name_of(module), set()).add(found)
    return arrows


def _name_of(module: Module) -> str:
    parts = module.path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _for_types(module: Module) -> set[int]:
    """The ids of the nodes that only a checker of types reads."""
    return {
        id(inner)
        for node in module.nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_blind_handler(node: ast.AST) -> TypeGuard[ast.ExceptHandler]:
    return (
        isinstance(node, ast.ExceptHandler)
        and _is_any(node.type)
        and all(map(_does_nothing, node.body))
    )


def _is_blind_suppress(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "suppress"
        and any(map(_is_any, node.args))
    )


def _is_any(caught: ast.expr | None) -> bool:
    """Whether what is caught is everything: ``except:``, Exception or BaseException."""
    if isinstance(caught, ast.Tuple):
        return any(map(_is_any, caught.elts))
    return caught is None or ast.unparse(caught) in {"Exception", "BaseException"}


def _does_nothing(node: ast.stmt) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant or isinstance(node, ast.Pass | ast.Continue)


def _opened(call: ast.Call) -> str:
    """The source text of what a call opens, "" when it opens nothing."""
    if _OPENING_FUNCTION.fullmatch(ast.unparse(call.func)):
        return ", ".join(map(ast.unparse, call.args))
    if isinstance(call.func, ast.Attribute) and call.func.attr in _OPENING_METHODS:
        return ast.unparse(call.func.value)
    return ""

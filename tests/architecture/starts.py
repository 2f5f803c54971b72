"""The places where programs, connections, signals and code begin, by what the source says.

`docs/starts.md` has a row for each such place. This finds the places, and reads the rows.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .rooms import Module

#: What starts a program, opens a connection, sends a signal or loads code, by its full name.
#: Names, constants and kinds of errors of the same modules start nothing.
STARTERS = re.compile(
    r"subprocess\.(Popen|run|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|os\.(exec\w+|spawn\w+|posix_spawnp?|system|popen|fork|forkpty|startfile)"
    r"|pty\.(spawn|fork)"
    r"|webbrowser\.\w+"
    r"|multiprocessing\..+"
    r"|concurrent\.futures\.(process\.)?ProcessPoolExecutor"
    r"|asyncio\.(create_subprocess_\w+|open_\w+|start_\w*server)"
    r"|socket\.(socket|socketpair|fromfd|create_\w+|getaddrinfo|gethostby\w+|SocketType)"
    r"|socketserver\.\w+"
    r"|(http\.server|urllib\.request|xmlrpc|ftplib|smtplib|poplib|imaplib)\.\w+"
    r"|http\.client\.HTTPS?Connection"
    r"|(httpx|requests|aiohttp|websockets|urllib3)\.\w+"
    r"|uvicorn\.(run|Server|Config)"
    r"|os\.(kill|killpg)"
    r"|signal\.(pidfd_send_signal|pthread_kill|raise_signal)"
    r"|importlib\.(import_module|reload|__import__)|importlib\.util\.(spec_\w+|module_from_spec)"
    r"|(exec|eval|compile|__import__)"
    r"|(runpy|cffi)\.\w+|ctypes\.(CDLL|PyDLL|cdll|pydll|pythonapi)"
    r"|(marshal|pickle|shelve)\.(loads?|open|\w*Unpickler)"
    r"|yaml\.(load|load_all|unsafe_load\w*|full_load\w*)"
)

#: Our own functions and classes that are told which program, repository or folder it is to be. The
#: class `Supervisors` is told nothing: it starts one program, and a command reaches that by
#: `run_process` alone.
OWN_STARTERS = re.compile(
    r"(?:.*\.)?(run_process|run_guarded|run_child|ReapedChild|PythonProcesses|OwnChild|Repository|repository_at"
    r"|repository_of"
    r"|SealedRepository|sealed_around|sealed_tree|TrustedRepositories|named_repository|TaskRepositories"
    r"|(?:RepositoryPlace|WorkTree)\.around)"
)

#: Methods of objects whose kind is not known here: of a process, a socket, an event loop.
METHODS = frozenset(
    {
        *("connect", "connect_ex", "sendto", "sendmsg", "bind"),
        *("create_connection", "create_server", "create_unix_connection", "create_unix_server"),
        *("subprocess_exec", "subprocess_shell", "connect_tcp", "connect_unix"),
        *("kill", "terminate", "send_signal", "run_guarded"),
        *("load_extension", "enable_load_extension"),
    }
)

#: The one method of these names that connects to nothing: a database is a file.
_OF_A_FILE = ("database.connect", "_database.connect")

_ROW = re.compile(r"^\| (?P<places>`[^|]+?\.py[^|]*) \| (?P<names>[^|]+) \|(?P<rest>.+)\|$", re.M)
_CODE = re.compile(r"`([^`]+)`")

#: A place: the path of a module, and the name of a function in it; "" is all others.
Place = tuple[str, str]


@dataclass(frozen=True)
class Site:
    """A place in the source that starts something.

    Attributes:
        path: of the module.
        function: the function it is in; "" at the top.
        line: its number.
        name: the starter.
    """

    path: str
    function: str
    line: int
    name: str


def sites(module: Module) -> Iterator[Site]:
    """Yield the places of a module that start something, or hand on what does."""
    names = imported(module.tree)
    for node, function in expressions(module.tree, ""):
        if (name := _starter(node, names)) is not None:
            yield Site(module.path.as_posix(), function, node.lineno, name)


def by_place(found: list[Site], rows: set[Place]) -> dict[Place, set[str]]:
    """Return the starters of each place: of a function that has a row, or else of the module."""
    places = defaultdict(set)
    for site in found:
        own = (site.path, site.function)
        places[own if own in rows else (site.path, "")].add(site.name)
    return dict(places)


def rows_of(text: str) -> dict[Place, set[str]]:
    """Return the places that the rows of a document name, each with its starters.

    Raises:
        ValueError: two rows name one place, or a row has an empty cell.
    """
    rows: dict[Place, set[str]] = {}
    for row in _ROW.finditer(text):
        cells = [cell.strip() for cell in row["rest"].split("|")]
        if len(cells) != 2 or not all(cells):
            raise ValueError(f"a row needs what feeds it, and why it is safe: {row[0]}")
        for place in _CODE.findall(row["places"]):
            path, _, function = place.partition(":")
            if (path, function) in rows:
                raise ValueError(f"{place} has two rows")
            rows[path, function] = set(_CODE.findall(row["names"]))
    return rows


def differences(
    modules: list[Module], text: str, sites_of: Callable[[Module], Iterable[Site]] = sites
) -> list[str]:
    """Return where source and document disagree about places of a kind, a line each."""
    rows = rows_of(text)
    found = [site for module in modules for site in sites_of(module)]
    there = by_place(found, set(rows))
    wrong = []
    for site in found:
        place = (site.path, site.function)
        row = place if place in rows else (site.path, "")
        if site.name not in rows.get(row, ()):
            wrong.append(f"{site.path}:{site.line}: `{site.name}` is in no row of its place")
    for place, names in rows.items():
        for name in sorted(names - there.get(place, set())):
            wrong.append(f"{':'.join(filter(None, place))}: there is no `{name}`: take it out")
    return wrong


def imported(tree: ast.Module) -> dict[str, str]:
    """Return what the imported names of a module stand for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.partition(".")[0]
                names[each.asname or first] = each.name if each.asname else first
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                origin = each.name if node.level else f"{node.module}.{each.name}"
                names[each.asname or each.name] = origin
    return names


def expressions(node: ast.AST, function: str) -> Iterator[tuple[ast.expr, str]]:
    """Yield the expressions of a tree, each with its function; annotations start nothing."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr):
                yield child, function
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from expressions(child, child.name if is_function else function)


def _starter(node: ast.expr, names: dict[str, str]) -> str | None:
    """Return the starter that an expression is, or None."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    full, is_of_module = dotted(node, names)
    if (is_of_module or isinstance(node, ast.Name)) and STARTERS.fullmatch(full):
        return full
    if isinstance(node, ast.Attribute) and node.attr in METHODS and not full.endswith(_OF_A_FILE):
        return f".{node.attr}"
    own = OWN_STARTERS.fullmatch(full)
    return own[1] if own else None


def dotted(node: ast.expr, names: dict[str, str]) -> tuple[str, bool]:
    """Return the full name of an expression, and whether it begins with an imported name."""
    if isinstance(node, ast.Attribute):
        before, is_of_module = dotted(node.value, names)
        return f"{before}.{node.attr}", is_of_module
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id), node.id in names
    return "?", False

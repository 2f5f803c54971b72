"""docs/http.md names every operation of the server with its scopes, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

from ackbus import AckbusError, Bus
from ackbus.server import problems
from ackbus.server.access.access import BusAccess
from ackbus.server.running import create_app

from ..server.scope_table import PAGE, page

ROOT = Path(__file__).parents[2]


def documented() -> set[tuple[str, str, frozenset[str]]]:
    """The methods, paths and scopes in the list of the page, where each operation stands once."""
    text = (ROOT / "docs/http.md").read_text("utf-8").partition("\n## Operations\n")[2]
    found = [
        (method, path, frozenset(re.findall(r"`(\S+)`", scopes)))
        for scopes, operations in re.findall(r"^- (none|`[^/]*`): (.*)$", text, re.MULTILINE)
        for method, paths in re.findall(r"([A-Z]+) ([^;]*)", operations)
        for path in re.findall(r"`(/[^`]*)`", paths)
    ]
    assert len(found) == len(set(found))
    return set(found)


def test_every_operation_is_documented(bus: Bus) -> None:
    paths = create_app(bus, BusAccess(bus)).openapi()["paths"]
    served = {
        (
            method.upper(),
            path,
            frozenset(s for each in operation.get("security", []) for s in each.get("token", ())),
        )
        for path, operations in paths.items()
        for method, operation in operations.items()
    }
    reading = frozenset(["messages:ro"])
    sockets = {("WS", "/v1/ws", reading), ("WS", "/v1/sessions/{session}/ws", reading)}
    assert documented() == served | sockets


def test_the_page_of_scopes_is_the_table_of_the_doors() -> None:
    """`python tests/server/scope_table.py --write` writes it again."""
    assert PAGE.read_text("utf-8") == page()


def test_operations_have_names_of_their_own(bus: Bus) -> None:
    """Generated clients make functions of them."""
    paths = create_app(bus, BusAccess(bus)).openapi()["paths"]
    names = [each["operationId"] for operations in paths.values() for each in operations.values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


def kinds(of: type[AckbusError] = AckbusError) -> Iterator[type[AckbusError]]:
    """Every error of the package that is loaded."""
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_errors_have_the_status_that_the_page_gives_them() -> None:
    text = (ROOT / "docs/http.md").read_text("utf-8").partition("\n## Problems\n")[2]
    documented = {
        name: int(status)
        for status, names in re.findall(r"^- (\d+) ([^:]+):", text, re.MULTILINE)
        for name in re.findall(r"`([a-z-]+)`", names)
    }
    found = {
        re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower(): next(
            status for each, status in problems._STATUSES if issubclass(kind, each)
        )
        for kind in kinds()
    }
    del documented["timed-out"]  # `/healthz` makes it; no operation raises the error of that name
    shown = found.keys() & documented.keys()
    assert {"queue-stuck", "bus-busy", "id-conflict", "bus-moved"} <= shown
    assert {name: found[name] for name in shown} == {name: documented[name] for name in shown}

"""docs/protocol.md names everything that the file has, and the values that connections have."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.message import names as limits
from ackbus.schema.queries import file_of

ROOT = Path(__file__).parents[2]
PROTOCOL = (ROOT / "docs/protocol.md").read_text("utf-8")


def section(title: str) -> str:
    """The text from a heading to the next heading of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}$", PROTOCOL, re.MULTILINE)
    assert found, f"docs/protocol.md has no section {title!r}"
    rest = PROTOCOL[found.end() :]
    following = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: following.start()] if following else rest


def values(text: str) -> dict[str, str]:
    """The value that stands between each name that begins an item of a list, and its colon."""
    return dict(re.findall(r"^- `(\w+)` ([^:]*):", text, re.MULTILINE))


def words(text: str) -> Iterator[str]:
    """The words of a text, and those that one with braces stands for, as in a shell."""
    found = re.search(r"{([\w,]*)}", text)
    if found is None:
        yield from re.findall(r"\w+", text)
        return
    for choice in found[1].split(","):
        yield from words(text[: found.start()] + choice + text[found.end() :])


def schema(bus: Bus, kind: str) -> list[str]:
    found = file_of(bus).rows(
        "SELECT name FROM sqlite_schema WHERE type = ? AND name NOT LIKE 'sqlite_%'", (kind,)
    )
    assert found
    return [name for (name,) in found]


def columns(bus: Bus, table: str) -> dict[str, str]:
    """Each column of a table, with its definition as the document writes it: ? for NULL."""
    found = file_of(bus).rows(
        'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,)
    )
    keys = sum(pk > 0 for *_, pk in found)
    return {
        name: type
        + (" PRIMARY KEY" if pk and keys == 1 else "" if not_null else "?")
        + (f" DEFAULT {default}" if default else "")
        for name, type, not_null, default, pk in found
    }


def defined(text: str) -> dict[str, str]:
    """Each column of the first list of a section, with its definition."""
    items = re.search(r"(^- .*\n)+", text, re.MULTILINE)
    assert items
    return {
        name: typed(definition)
        for name, definition in re.findall(r"^- `(\w+)`([^:\n]*)", items[0], re.MULTILINE)
    }


def typed(definition: str) -> str:
    """A definition with its type, which is INTEGER where none stands."""
    definition = definition.strip()
    if re.match(r"TEXT|REAL|BLOB", definition):
        return definition
    is_mark = definition.startswith("?")
    return f"INTEGER{'' if is_mark or not definition else ' '}{definition}"


def documented_columns(bus: Bus) -> dict[str, dict[str, str]]:
    """The columns of each table but those that are the automation service's alone.

    A table has a section of its own, or an item among the tables that other programs don't write.
    """
    automation = set(re.findall(r"`(\w+)`", section("Automation")))
    listed = {
        table: {
            name: typed(definition) for name, definition in re.findall(r"`(\w+)`([^,]*)", columns)
        }
        for table, columns in re.findall(
            r"^- `(\w+)` \(([^)]*)\):", section("Tables of ackbus alone"), re.MULTILINE
        )
    }
    return {
        table: listed[table] if table in listed else defined(section(table))
        for table in schema(bus, "table")
        if table not in automation
    }


def test_columns_are_those_of_the_file(bus: Bus) -> None:
    """M-14, M-17, M-18, M-19, M-20, M-21: exactly these columns, with these types."""
    documented = documented_columns(bus)
    assert {"messages", "catalog"} <= documented.keys()
    assert documented == {table: columns(bus, table) for table in documented}


@pytest.mark.parametrize("kind", ["table", "view", "index", "trigger"])
def test_every_object_of_the_schema_is_named(bus: Bus, kind: str) -> None:
    """M-16, U-80: indexes differ from the source document where a plan says so, and are listed."""
    named = {word for text in re.findall(r"[\w{},]+", PROTOCOL) for word in words(text)}
    names = [name for name in schema(bus, kind) if name not in named]
    assert names == []


def test_limits_are_those_of_the_code() -> None:
    """X-19: limits are named constants, and documented."""
    documented = {name: int(value) for name, value in values(section("Limits")).items()}
    public = {name for name in vars(limits) if name.isupper() and not name.startswith("_")}
    assert documented == {name: getattr(limits, name) for name in public}


def test_pragmas_are_those_of_a_connection(bus: Bus) -> None:
    """M-25: every connection has the documented pragmas."""
    documented = {name: value.strip("`") for name, value in values(section("Connections")).items()}
    spelling = {"0": "OFF", "1": "ON", "wal": "WAL"}
    levels = {"1": "NORMAL", "2": "FULL"}
    found = {}
    for name in documented:
        value = str(file_of(bus).value(f"PRAGMA {name}"))
        found[name] = (levels if name == "synchronous" else spelling).get(value, value)
    assert len(documented) == 4
    assert found == documented


def test_schema_version_is_documented(bus: Bus) -> None:
    """M-20: meta holds the schema version."""
    version = file_of(bus).value("SELECT value FROM meta WHERE key = 'schema_version'")
    assert f"`schema_version` is `{version}`." in section("meta")
    assert f"Schema version {version}." in PROTOCOL


def test_every_exit_code_of_an_error_is_documented() -> None:
    """The list of exit codes in the page of commands has those of every error of the package."""
    from ackbus.schema import errors

    codes = {
        str(error.exit_code)
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.AckbusError)
    }
    commands = (ROOT / "docs/cli.md").read_text("utf-8")
    listed = re.findall(r"^- (\d+): ", commands, re.MULTILINE)
    of_configurations, of_signals = ["78"], ["130", "141"]
    assert listed == sorted(codes | {"0"}) + of_configurations + of_signals

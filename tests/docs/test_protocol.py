"""docs/protocol.md names everything that the file has, and the values that connections have."""

import re
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.message import limits
from ackbus.schema.queries import file_of

PROTOCOL = (Path(__file__).parents[2] / "docs/protocol.md").read_text("utf-8")


def section(title: str) -> str:
    """The text from a heading to the next heading of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}$", PROTOCOL, re.MULTILINE)
    assert found, f"docs/protocol.md has no section {title!r}"
    rest = PROTOCOL[found.end() :]
    following = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: following.start()] if following else rest


def rows(text: str) -> dict[str, str]:
    """The first two cells of each row of a Markdown table whose first cell is one name."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", text, re.MULTILINE))


def schema(bus: Bus, kind: str) -> list[str]:
    found = file_of(bus).rows(
        "SELECT name FROM sqlite_schema WHERE type = ? AND name NOT LIKE 'sqlite_%'", (kind,)
    )
    assert found
    return [name for (name,) in found]


def columns(bus: Bus, table: str) -> dict[str, str]:
    """Each column of a table, with its definition as the document writes it."""
    found = file_of(bus).rows(
        'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,)
    )
    keys = sum(pk > 0 for *_, pk in found)
    return {
        name: type
        + (" PRIMARY KEY" if pk and keys == 1 else " NOT NULL" * not_null)
        + (f" DEFAULT {default}" if default else "")
        for name, type, not_null, default, pk in found
    }


def sections_of_columns(bus: Bus) -> dict[str, str]:
    """The section of each table with a list of its columns.

    The catalog's tables share one, and those that are the automation service's alone are named.
    """
    automation = set(re.findall(r"`(\w+)`", section("Automation")))
    tables = [
        name
        for name in schema(bus, "table")
        if not name.startswith("catalog") and name not in automation
    ]
    assert "messages" in tables
    return {table: section(table) for table in tables}


def test_columns_are_those_of_the_file(bus: Bus) -> None:
    """M-14, M-17, M-18, M-19, M-20, M-21: exactly these columns, with these types."""
    documented = {
        table: {
            name: re.sub(" (UNIQUE|AUTOINCREMENT)", "", definition)
            for name, definition in rows(text).items()
        }
        for table, text in sections_of_columns(bus).items()
    }
    assert documented == {table: columns(bus, table) for table in documented}


def test_columns_of_the_catalog_are_named(bus: Bus) -> None:
    """The catalog's three tables share a section, which names their columns."""
    text = section("catalog, catalog_blocks, catalog_state")
    tables = [name for name in schema(bus, "table") if name.startswith("catalog")]
    described = {table: re.findall(r"`(\w+)`", rows(text)[table]) for table in tables}
    for table, names in described.items():
        assert set(columns(bus, table)) <= set(names), table


@pytest.mark.parametrize("kind", ["table", "view", "index", "trigger"])
def test_every_object_of_the_schema_is_named(bus: Bus, kind: str) -> None:
    """M-16: indexes differ from the source document where a query plan says so, and are listed."""
    names = [name for name in schema(bus, kind) if name not in re.findall(r"\w+", PROTOCOL)]
    assert names == []


def test_limits_are_those_of_the_code() -> None:
    """X-19: limits are named constants, and documented."""
    documented = {name: int(value) for name, value in rows(section("Limits")).items()}
    assert documented == {name: value for name, value in vars(limits).items() if name.isupper()}


def test_pragmas_are_those_of_a_connection(bus: Bus) -> None:
    """M-25: every connection has the documented pragmas."""
    documented = {name: value.strip("`") for name, value in rows(section("Connections")).items()}
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
    """The table of exit codes has the codes of every error of the package."""
    from ackbus.schema import errors

    codes = {
        str(error.exit_code)
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.AckbusError)
    }
    table = re.findall(r"^\| (\d) \|", section("Exit codes"), re.MULTILINE)
    assert set(table) == codes | {"0"}

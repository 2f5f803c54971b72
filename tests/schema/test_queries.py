"""Statements live in files: each is named once, and each can be prepared on a fresh bus."""

from pathlib import Path

import apsw
import apsw.ext
import pytest

import ackbus
from ackbus import Bus
from ackbus.schema.queries import Queries, file_of
from ackbus.server.access.tokens import SQL as TOKENS

from ..performance.statements import NAMED

PACKAGE = Path(ackbus.__file__).parent
FILES = [
    file
    for file in PACKAGE.rglob("*.sql")  # tables, and checks of them, are run by their own tests
    if not {"schema", "tests"} & set(file.relative_to(PACKAGE).parts)
]


def load(text: str, folder: Path) -> Queries:
    (folder / "queries.sql").write_text(text)
    return Queries(beside=str(folder / "statements.py"))


def test_statements_are_found_by_name(tmp_path: Path) -> None:
    text = "-- A file.\n\n-- name: one\n-- What it does.\nSELECT 1;\n\n-- name: two\nSELECT 2;\n"
    queries = load(text, tmp_path)
    assert dict(queries) == {"one": "SELECT 1", "two": "SELECT 2"}


def test_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    """M-12: the second would silently replace the first."""
    with pytest.raises(ValueError, match="one stands twice"):
        load("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n", tmp_path)


def test_statement_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="text before the first"):
        load("SELECT 1;\n-- name: two\nSELECT 2;\n", tmp_path)


def test_rooms_keep_their_statements_in_files() -> None:
    assert {"bus", "inboxes", "jobs"} <= {path.parent.name for path in FILES}


def test_every_statement_is_prepared_by_sqlite(bus: Bus) -> None:
    """M-14, M-17, M-18, M-19, M-21: the tables and columns that statements name are there."""
    connection = file_of(bus).connection
    of_tokens = {f"server.{name}": sql for name, sql in TOKENS.items()}
    statements = NAMED | of_tokens
    assert len(statements) >= sum(map(count_of_names, FILES))
    for name, sql in statements.items():
        prepared = apsw.ext.query_info(connection, sql)
        assert not prepared.query_remaining, f"{name} is more than one statement"


def count_of_names(file: Path) -> int:
    return file.read_text().count("-- name: ")

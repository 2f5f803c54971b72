"""The evidence that is looked at after the harm was done."""

from pathlib import Path
from typing import Any

from ..programs import raw_sql


def raw_rows(bus_dir: Path) -> list[Any]:
    """[seq, id, payload, payload_ref] of all messages, by raw SQLite, which finds it whole."""
    assert raw_sql(bus_dir, "PRAGMA integrity_check") == [["ok"]]
    return raw_sql(bus_dir, "SELECT seq, id, payload, payload_ref FROM messages ORDER BY seq")

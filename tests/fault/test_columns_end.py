"""Every command comes to an end, with any value in any column.

The commands run in a process of their own. The time that it has is no measure: a command that has
not ended by then would never end.
"""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ..sizes import sampled
from .test_every_column import columns, used_bus

assert used_bus  # a fixture

HANGS_S = 100

#: SQL for values that order or decode otherwise than what a bus writes.
VALUES = [
    "CAST(x'ff' || substr(CAST({column} AS BLOB), 2) AS TEXT)",
    "CAST(x'ff' AS TEXT)",
    "-9223372036854775808",
    "4611686018427387904",
    "9007199254740991",
    "CAST(CAST({column} AS BLOB) || x'00ff' AS TEXT)",
    "''",
]

COMMANDS = """
import os, sys
from ackbus.cli import main
directory = sys.argv[1]
for words in (
    ["doctor", "--full"], ["doctor", "--repair", "--dry-run"], ["backup", directory + ".copy"],
    ["read"], ["tail", "--last", "5"], ["search", "a"], ["trace", "1"], ["graph", "1"],
    ["export", "--once"], ["stats"], ["queue", "list"], ["verify"], ["archive", "--status"],
    ["doctor", "--repair"],
):
    sys.argv = ["bus", *words, "--dir", directory]
    print(*words, flush=True)
    if (child := os.fork()) == 0:
        sys.exit(main())
    os.waitpid(child, 0)
"""

CASES = [
    (table, column, VALUES[(number + shift) % len(VALUES)])
    for number, (table, column) in enumerate(columns())
    for shift in (0, 2)
]


def change(directory: Path, table: str, column: str, value: str) -> None:
    """Put a value into the middle row, past the rules and the triggers."""
    with closing(apsw.Connection(str(directory / "bus.db"))) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        raw.execute("PRAGMA ignore_check_constraints = 1")
        keys = ", ".join(row[1] for row in raw.execute(f"PRAGMA table_info({table})") if row[5])
        rows = f"SELECT {keys} FROM {table} ORDER BY {keys}"
        middle = f"({keys}) = ({rows} LIMIT 1 OFFSET (SELECT count(*) / 2 FROM {table}))"
        try:
            raw.execute(
                f"UPDATE {table} SET {column} = {value.format(column=column)} WHERE {middle}"
            )
        except (apsw.ConstraintError, apsw.MismatchError):
            pytest.skip("the column takes no such value")


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column", "value"), sampled(CASES, every=194))
def test_every_command_ends(
    table: str, column: str, value: str, used_bus: Path, tmp_path: Path
) -> None:
    directory = tmp_path / ".worker-state"
    shutil.copytree(used_bus, directory)
    change(directory, table, column, value)
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, str(directory)],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr

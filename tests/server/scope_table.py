"""The page of the table of scopes; `python tests/server/scope_table.py --write` writes it again."""

# ruff: noqa: E501

import sys
from pathlib import Path

from ackbus.schema.message.patterns import ACTED_TYPES
from ackbus.server.access.table import (
    AUTOMATION,
    PUSHPALS,
    SERVER,
    TOOLS,
    AccessRule,
    ActsAs,
    FurtherDemand,
)

PAGE = Path(__file__).parents[2] / "docs/scopes.md"

HEAD = """# Scopes

What each operation of each door asks of a token. This page is made from the table that the doors are built from
(`server/access/table.py`). `bus token create NAME --scope S` grants a scope; `admin` has all in it, and `…:rw` has `…:ro`.
A bus without tokens asks for none, and tools over stdio have the rights of their user. Hooks are signed instead.

A message of a type that is acted upon needs the scope of its type too:

"""

DOORS = {"Server": SERVER, "Tools": TOOLS, "PushPals": PUSHPALS, "Automation": AUTOMATION}


def page() -> str:
    """The whole page."""
    types = "".join(
        f"- `{each.pattern}`, which {each.acts}: `{each.scope}`\n" for each in ACTED_TYPES
    )
    doors = "".join(
        f"\n## {name}\n\n| operation | scopes | name | and |\n|---|---|---|---|\n"
        + "".join(_line(operation, row) for operation, row in door.items())
        for name, door in DOORS.items()
    )
    names = "".join(f"- {each.name.lower()}: {each}\n" for each in ActsAs)
    also = "".join(
        f"- {each.name.lower()}: {each}\n"
        for each in FurtherDemand
        if each is not FurtherDemand.NOTHING
    )
    return f"{HEAD}{types}\nThe name under which it acts:\n\n{names}\nWhat it asks besides:\n\n{also}{doors}"


def _line(operation: str, row: AccessRule) -> str:
    scopes = "no token" if row.scopes is None else "any token"
    if row.scopes:
        scopes = " and ".join(f"`{scope}`" for scope in sorted(row.scopes))
    if row.under_claim is not None:
        scopes += f", or `{row.under_claim}` under a claim of its own"
    also = "" if row.also is FurtherDemand.NOTHING else row.also.name.lower()
    return f"| `{operation}` | {scopes} | {row.names.name.lower()} | {also} |\n"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(page(), "utf-8")

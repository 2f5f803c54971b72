"""Reading text that is not UTF-8, as a careless program may store it.

One such row must not block readers of the rows after it. Invalid bytes become escapes with a
backslash and an x, which no JSON text may contain: so a broken payload is recognized, and a broken
name can be shown.
"""

from __future__ import annotations

from apsw import ext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import apsw


def rows_with_broken_text(
    connection: apsw.Connection, sql: str, values: tuple[object, ...]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query, with escapes for the bytes that are no UTF-8."""
    count = len(ext.query_info(connection, sql).description)
    names = [f"c{number}" for number in range(count)]
    bytes_of = [f"iif(typeof({c}) = 'text', CAST({c} AS BLOB), {c})" for c in names]
    are_text = [f"typeof({c}) = 'text'" for c in names]  # a BLOB stays as it is stored
    columns = ", ".join([*bytes_of, *are_text])
    query = f"WITH broken ({', '.join(names)}) AS ({sql}) SELECT {columns} FROM broken"
    return [
        tuple(
            value.decode(errors="backslashreplace") if is_text else value
            for value, is_text in zip(row[:count], row[count:], strict=True)
        )
        for row in connection.execute(query, values)
    ]

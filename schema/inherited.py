"""Connections that the child of a fork has from its parent, and must be rid of before it opens one.

SQLite keeps account of its locks for each file and process. In the child that account still has the
parent's: a connection that the child opened itself would take none of its own, and others would
checkpoint and delete the write-ahead log under it. What it published then would be lost.
"""

from __future__ import annotations

import os

import apsw

from .errors import WrongProcess

#: What was open when this process was forked.
_inherited: list[apsw.Connection] = []


def _note_inherited() -> None:
    _inherited[:] = apsw.connections()


os.register_at_fork(after_in_child=_note_inherited)


def let_go(database: str) -> None:
    """Close what was inherited of a file, so that a connection to it takes locks of its own.

    The parent's locks are the parent's, and stay.

    Raises:
        WrongProcess: the parent was inside a transaction, which only it may end.
    """
    path = os.path.realpath(database)
    for connection in [each for each in _inherited if _file_of(each) == path]:
        if connection.in_transaction:
            raise WrongProcess(
                f"this process was forked inside a transaction on {database}, and can't use it;"
                " fork outside of one"
            )
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()
        _inherited.remove(connection)


def _file_of(connection: apsw.Connection) -> str | None:
    try:
        return os.path.realpath(connection.filename)
    except apsw.ConnectionClosedError:
        return None

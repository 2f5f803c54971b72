"""Forks beside SQLite: waiting in the parent, and closing inherited files in the child.

A thread that is inside SQLite when another thread forks holds locks of SQLite's memory that no
thread of the child would ever open: the child would hang. So a fork waits until none is inside.

SQLite records its locks on a file for each process. In the child that record still has the locks of
the parent: a connection that the child opened itself would take none, and other processes would
checkpoint and delete the write-ahead log under it. Messages that it published then would be lost.
So the child first closes the connections to a file that it inherited.
"""

from __future__ import annotations

import os
import sys
import time

import apsw

from ..errors import WrongProcess

#: How long a fork waits for threads inside, in seconds. One that stays longer reads a whole log.
_PATIENCE_S = 1.0

#: After what time Python lets another thread go on, in seconds, while a fork is prepared: no thread
#: may enter between the check and the fork.
_UNDISTURBED_S = 0.1

#: How many forks there are between the first process and this process: it differs between a child
#: and its parent, and costs less than asking the system for the process id.
count = 0

#: The connections that were open when this process was forked.
_inherited: list[apsw.Connection] = []

#: Python's own interval, to be put back.
_usual_s: list[float] = []


def _wait_for_those_inside() -> None:
    _usual_s.append(sys.getswitchinterval())
    sys.setswitchinterval(_UNDISTURBED_S)
    deadline = time.monotonic() + _PATIENCE_S
    while any(map(_is_inside, apsw.connections())) and time.monotonic() < deadline:
        time.sleep(0.0001)


def _is_inside(connection: apsw.Connection) -> bool:
    """Whether a thread is in a call of SQLite with a connection: apsw lets no other use it then."""
    try:
        _ = connection.in_transaction
    except apsw.ThreadingViolationError:
        return True
    except apsw.ConnectionClosedError:
        return False
    return False


def _go_on() -> None:
    if _usual_s:
        sys.setswitchinterval(_usual_s.pop())


def _note_inherited() -> None:
    global count
    count += 1
    del _usual_s[1:]  # of other threads that were about to fork; here they are not
    _go_on()
    _inherited[:] = apsw.connections()


os.register_at_fork(
    before=_wait_for_those_inside, after_in_parent=_go_on, after_in_child=_note_inherited
)


def close_inherited(database: str) -> None:
    """Close inherited connections to a file, so that a new connection takes locks of its own.

    The parent's locks are the parent's, and stay.

    Raises:
        WrongProcess: the parent was inside a transaction, which only it may end.
    """
    if not _inherited:
        return
    path = os.path.realpath(database)
    for connection in [inherited for inherited in _inherited if _file_of(inherited) == path]:
        if connection.in_transaction:
            raise WrongProcess(
                f"this process was forked inside a transaction on {database}, and can't use it;"
                " fork outside of a transaction"
            )
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()
        _inherited.remove(connection)


def _file_of(connection: apsw.Connection) -> str | None:
    try:
        return os.path.realpath(connection.filename)
    except apsw.ConnectionClosedError:
        return None

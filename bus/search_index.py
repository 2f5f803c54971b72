"""The index of words: a file of its own beside the bus, made of the log and nothing else.

It is not in the bus's own file, so building it never holds the lock that publishers need, and
publishers do nothing for it. Whoever searches brings it up to date first, from its own position.
Where it is missing, damaged, of another form or of another log, it is built again.
"""

from __future__ import annotations

import logging
import os
from contextlib import closing, suppress
from itertools import islice

import apsw

from ..schema import BUSY_TIMEOUT_MS, AckbusError, BusBusy, BusUnusable, keep_out_of_git
from .archive import SegmentMissing
from .search_text import payload_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..blobs import BlobStore
    from ..schema import Layout, Message
    from .log import Log

#: How many messages are indexed in one transaction.
PAGE_MESSAGES = 2000

#: The form of the index; one of another form is built again.
_FORM = 1

#: The text itself stays in the log: the index only has where its words are. And it has the id of
#: the last message, by which it shows whether it is of this log.
_DDL = f"""
DROP TABLE IF EXISTS words;
DROP TABLE IF EXISTS position;
CREATE VIRTUAL TABLE words USING fts5(
  text, type, agents, conversation, content = '', tokenize = 'unicode61 remove_diacritics 2');
CREATE TABLE position (seq INTEGER NOT NULL, id TEXT);
INSERT INTO position VALUES (0, NULL);
PRAGMA user_version = {_FORM};
"""

_ADD = "INSERT INTO words (rowid, text, type, agents, conversation) VALUES (?, ?, ?, ?, ?)"

#: To rate everything that has a common word would take half a second in a million messages; the
#: newest that have it are found at once.
_NEWEST = """
SELECT rowid, bm25(words, 1.0, 0.0, 0.0, 0.0) FROM words
 WHERE words MATCH ? AND rowid > ? AND rowid < ? ORDER BY rowid DESC LIMIT ?
"""

_log = logging.getLogger("ackbus.search")


class SearchIndex:
    """Where words are in the log. Opens its file for each call: threads may share it."""

    def __init__(self, layout: Layout, log: Log, blobs: BlobStore) -> None:
        self._layout = layout
        self._log = log
        self._blobs = blobs

    def newest(
        self,
        expression: str,
        after_seq: int,
        before_seq: int,
        limit: int,
        on_progress: Callable[[int], object] | None = None,
    ) -> list[tuple[int, float]]:
        """Bring the index up to date, and return the newest messages that fit an expression.

        What a lost segment of the archive had is left out, with a warning.

        Safe to repeat, and in several processes at once.

        Args:
            expression: in the language of FTS5, over `text`, `type`, `agents`, `conversation`.
            after_seq, before_seq: only messages between these two.
            limit: how many at most.
            on_progress: told now and then up to which seq the log is indexed.

        Returns:
            Pairs of a seq and a rating, the smaller the better; the newest message first.

        Raises:
            BusUnusable: the file can't be written.
            BusBusy: other processes kept it locked.
        """
        for is_last in (False, True):
            try:
                with closing(self._open()) as connection:
                    self._catch_up(connection, on_progress)
                    newest: list[Any] = connection.execute(
                        _NEWEST, (expression, after_seq, before_seq, limit)
                    ).fetchall()
                    return newest
            except (apsw.CorruptError, apsw.NotADBError) as error:
                if is_last:
                    raise self._translated(error) from error
                self._discard()
            except (apsw.Error, OSError) as error:
                raise self._translated(error) from error
        raise AssertionError("not reached")

    def position(self) -> int:
        """Return the seq up to which the log is indexed; 0 where there is no usable index."""
        with suppress(apsw.Error), closing(self._connect()) as connection:
            if self._is_usable(connection):
                return _position(connection)[0]
        return 0

    def _catch_up(
        self, connection: apsw.Connection, on_progress: Callable[[int], object] | None
    ) -> None:
        newest = self._log.newest_seq()
        while (position := _position(connection)[0]) < newest:
            page, last = self._page(position, newest)
            rows = [self._row(message) for message in page]
            with connection:
                if _position(connection)[0] == position:  # else another process has indexed them
                    connection.executemany(_ADD, rows)
                    connection.execute("UPDATE position SET seq = ?, id = ?", last)
            if on_progress is not None:
                on_progress(last[0])

    def _page(self, after: int, newest: int) -> tuple[list[Message], tuple[int, str | None]]:
        """Return some messages, and the seq and id up to which they go."""
        page: list[Message] = []
        try:
            page.extend(islice(self._log.read(after_seq=after, upto_seq=newest), PAGE_MESSAGES))
        except SegmentMissing as error:
            if not page:
                _log.warning("%s; what was in it is not found by searching", error)
                return [], (error.last_seq, None)
        return page, (page[-1].seq, page[-1].id) if page else (newest, None)

    def _row(self, message: Message) -> tuple[object, ...]:
        text = payload_text(message, self._blobs)
        agents = f"{message.from_agent}\n{message.to_agent or ''}"
        return (message.seq, text, message.type, agents, message.conversation)

    def _connect(self) -> apsw.Connection:
        """Open the file if it is there, whatever is in it."""
        connection = apsw.Connection(self._layout.search, flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.transaction_mode = "IMMEDIATE"
        return connection

    def _open(self) -> apsw.Connection:
        """Open the index; make it where there is none that is usable."""
        path = self._layout.search
        if not os.path.exists(path):
            keep_out_of_git(self._layout, "search.db*")
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = self._connect()
        try:
            connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL").fetchall()
            if not self._is_usable(connection):
                with connection:
                    if not self._is_usable(connection):  # nobody else has made it meanwhile
                        connection.execute(_DDL).fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_usable(self, connection: apsw.Connection) -> bool:
        """Whether the index has this form and is of this log, which may be one put back."""
        if connection.pragma("user_version") != _FORM:
            return False
        seq, id = _position(connection)
        if seq > self._log.newest_seq():
            return False
        message = None if id is None else self._log.at(seq)
        return id is None or (message is not None and message.id == id)

    def _discard(self) -> None:
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(self._layout.search + ending)

    def _translated(self, error: apsw.Error | OSError) -> AckbusError:
        path = self._layout.search
        if isinstance(error, apsw.BusyError):
            return BusBusy(f"another program has kept {path} locked; try again")
        return BusUnusable(f"the search index {path} can't be used: {error}")


def _position(connection: apsw.Connection) -> tuple[int, str | None]:
    """Return the seq of the last message that is indexed, and its id."""
    rows: list[Any] = connection.execute("SELECT seq, id FROM position").fetchall()
    ((seq, id),) = rows
    return seq, id

"""The index of words: a file of its own beside the bus, made of the log alone.

It is not in the bus's own file, so building it never holds the lock that publishers need, and
publishers do nothing for it. A search brings it up to date first, from its own position. An index
that is missing, damaged, of another form or of another log is built again.
"""

from __future__ import annotations

import errno
import math
from contextlib import closing, suppress
from itertools import islice

import apsw

from ...schema.directory.file_lock import FileLock
from ...schema.directory.ignoring import keep_out_of_git
from ...schema.errors import AckbusError, BusBusy, BusUnusable
from ...schema.paging import further
from ...schema.sqlite.database import BUSY_TIMEOUT_MS
from ...schema.sqlite.sqlite_errors import ENDINGS, make_file, open_file
from ...schema.system_errors import means_full, unwritable, why_not_opened
from ..errors import SegmentMissing
from .text import marks, payload_text, spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from ...blobs.store import BlobStore
    from ...schema.directory.layout import Layout
    from ...schema.message.message import Message
    from ..log.log import Log

    Result = TypeVar("Result")

# The rating of matches: bm25, with the rarity of words among the newest messages.
#
# The bm25 of SQLite first counts the messages of each phrase in the whole index, also the phrases
# of filters: for a common word that takes nearly all of the time. Here the newest messages are the
# sample.

#: The customary constants of bm25: how little each repetition of a word adds, and how much less a
#: word counts in a long text.
_K1, _B = 1.2, 0.75

#: From how many of the newest messages with a word its rarity is estimated.
_SAMPLE = 1000

_RATED_MESSAGES = """
SELECT count(*), min(rowid) FROM (
  SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?)
"""


def weights(connection: apsw.Connection, phrases: Sequence[str], upto_seq: int) -> list[float]:
    """Return the weight of each phrase: the rarer, the heavier.

    Args:
        connection: to the index.
        phrases: expressions, each for one phrase.
        upto_seq: up to where messages are indexed.
    """
    if len(phrases) == 1:
        return [1.0]  # there is nothing to weigh it against
    return [_weight(connection, phrase, upto_seq) for phrase in phrases]


def _weight(connection: apsw.Connection, phrase: str, upto_seq: int) -> float:
    rows: list[Any] = connection.execute(_RATED_MESSAGES, (phrase, _SAMPLE)).fetchall()
    ((having, first),) = rows
    among = upto_seq - first + 1 if having == _SAMPLE else upto_seq
    return math.log1p((among - having + 0.5) / (having + 0.5))


def rating(weights: Sequence[float]) -> Callable[..., float]:
    """Return a function for SQLite that rates a message: the smaller, the better the match.

    Args:
        weights: of the phrases with which the expression begins; what follows is not rated.
    """

    def rate(api: apsw.FTS5ExtensionApi, *_: object) -> float:
        length = api.column_size(0) / (api.column_total_size(0) / api.row_count)
        least = _K1 * (1 - _B + _B * length)
        times = (len(api.phrase_column_offsets(phrase, 0)) for phrase in range(len(weights)))
        return -sum(
            weight * count / (count + least) for weight, count in zip(weights, times, strict=True)
        )

    return rate


#: How many messages are indexed in one transaction.
PAGE_MESSAGES = 2000

#: The form of the index; an index of another form is built again.
_FORM = 4

#: The name of the file.
_NAME = "search.db"

#: Finds a trigger, a view or an index. SQLite stores the text of a table with this beginning,
#: however it was written.
_RUNS_SOMETHING = """
SELECT 1 FROM sqlite_schema
 WHERE sql NOT LIKE 'CREATE TABLE %' AND sql NOT LIKE 'CREATE VIRTUAL TABLE %' LIMIT 1
"""

#: The text itself stays in the log: the index only has where its words are. And it has the id of
#: the last message, by which it shows whether it is of this log, and the ranges (after, seq] of
#: messages that could not be had.
_DDL = """
DROP TABLE IF EXISTS words;
DROP TABLE IF EXISTS position;
DROP TABLE IF EXISTS lacking;
CREATE VIRTUAL TABLE words USING fts5(
  text, type, agents, conversation, content = '',
  tokenize = "unicode61 remove_diacritics 2 tokenchars '{marks}'");
CREATE TABLE lacking (seq INTEGER PRIMARY KEY, after INTEGER NOT NULL);
CREATE TABLE position (seq INTEGER NOT NULL, id TEXT);
INSERT INTO position VALUES (0, NULL);
PRAGMA user_version = {form};
"""

_ADD = "INSERT INTO words (rowid, text, type, agents, conversation) VALUES (?, ?, ?, ?, ?)"

_ADD_LACKING = "INSERT INTO lacking (seq, after) VALUES (?, ?) ON CONFLICT DO NOTHING"
_LACKING = "SELECT seq, after FROM lacking ORDER BY seq"
_DELETE_LACKING = "DELETE FROM lacking WHERE seq = ? AND after = ? RETURNING seq"

#: To rate everything that has a common word would take a second in a million messages; the newest
#: that have it are found at once.
_NEWEST = """
SELECT rowid, rating(words) FROM words
 WHERE words MATCH ? AND rowid > ? AND rowid < ? ORDER BY rowid DESC LIMIT ?
"""


class SearchIndex:
    """The index of words in the log. It opens its file for each call: threads may share it."""

    def __init__(self, layout: Layout, log: Log, blobs: BlobStore) -> None:
        self._layout = layout
        self._log = log
        self._blobs = blobs

    def catch_up(self, on_progress: Callable[[int], object] | None = None) -> int:
        """Index the new messages of the log. Safe to repeat, and in parallel.

        Args:
            on_progress: called now and then with the last indexed seq.

        Returns:
            The number of messages that can't be searched, counted as seqs: their segment of the
            archive, or their blob, is missing. They are indexed as soon as it is restored.

        Raises:
            BusUnusable: the file can't be written.
            BusBusy: other processes kept it locked.
        """
        return self._in_index(lambda connection: self._catch_up(connection, on_progress))

    def newest(
        self,
        phrases: Sequence[str],
        filters: Sequence[str],
        after_seq: int,
        before_seq: int,
        limit: int,
    ) -> list[tuple[int, float]]:
        """Return the newest messages that match expressions, after indexing new messages.

        Args:
            phrases: in the language of FTS5, over the column `text`; all must fit.
            filters: the same, over `type`, `agents`, `conversation`; these are not rated.
            after_seq, before_seq: only messages between these two.
            limit: how many at most.

        Returns:
            Pairs of a seq and a rating, the smaller the better; the newest message first.

        Raises:
            As for `catch_up`.
        """
        values = (" AND ".join([*phrases, *filters]), after_seq, before_seq, limit)

        def find(connection: apsw.Connection) -> list[Any]:
            connection.execute("BEGIN")  # its position and its content are of one moment
            # Another process may have emptied it since it was brought up to date.
            while (upto := _position(connection)[0]) < before_seq - 1:
                connection.execute("COMMIT")
                self._catch_up(connection, None)
                connection.execute("BEGIN")
            weighed = weights(connection, phrases, upto)
            connection.register_fts5_function("rating", rating(weighed))
            return connection.execute(_NEWEST, values).fetchall()

        return self._in_index(find)

    def position(self) -> int:
        """Return the seq up to which the log is indexed; 0 where there is no usable index."""
        with suppress(apsw.Error), closing(self._connect_to_look()) as connection:
            if self._is_usable(connection):
                return _position(connection)[0]
        return 0

    def damage(self, *, full: bool) -> str:
        """Return the damage of the file, in SQLite's words; "" when there is none.

        Args:
            full: read all of it.
        """
        try:
            with closing(self._connect_to_look()) as connection:
                if not full:
                    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                    return ""
                problem = str(connection.execute("PRAGMA integrity_check(1)").get)
                return "" if problem == "ok" else problem
        except apsw.Error as error:
            return str(error)

    def _in_index(self, call: Callable[[apsw.Connection], Result]) -> Result:
        """Call a function with the index; a damaged index is emptied first."""
        try:
            try:
                with closing(self._open()) as connection:
                    return call(connection)
            except (apsw.CorruptError, apsw.NotADBError):
                self._empty()
            except apsw.SQLError:
                pass  # another process has just emptied it: there is no table
            with closing(self._open()) as connection:
                return call(connection)
        except (apsw.Error, OSError) as error:
            raise self._translated(error) from error

    def _catch_up(
        self, connection: apsw.Connection, on_progress: Callable[[int], object] | None
    ) -> int:
        newest = self._log.newest_seq()
        while (position := _position(connection)[0]) < newest:
            page, last = self._page(position, newest)
            further("messages to index", position, last[0])
            rows = self._rows(page)
            with connection:
                if _position(connection)[0] == position:  # else another process has indexed them
                    _add(connection, rows)
                    if not page:
                        connection.execute(_ADD_LACKING, (last[0], position))
                    connection.execute("UPDATE position SET seq = ?, id = ?", last)
            if on_progress is not None:
                on_progress(last[0])
        lacking: list[Any] = connection.execute(_LACKING).fetchall()
        for seq, after in lacking:
            with suppress(SegmentMissing):
                self._make_up(connection, seq, after)
        ((count,),) = connection.execute("SELECT total(seq - after) FROM lacking").fetchall()
        return int(count or 0)

    def _page(self, after: int, newest: int) -> tuple[list[Message], tuple[int, str | None]]:
        """Return some messages, and their last seq and id; lost segments are left out."""
        page: list[Message] = []
        try:
            page.extend(islice(self._log.read(after_seq=after, upto_seq=newest), PAGE_MESSAGES))
        except SegmentMissing as error:
            if not page:
                return [], (error.last_seq, None)
        return page, (page[-1].seq, page[-1].id) if page else (newest, None)

    def _make_up(self, connection: apsw.Connection, seq: int, after: int) -> None:
        """Index the messages of a segment or a blob that was missing and is there again."""
        while after < seq:
            messages = self._log.read(after_seq=after, upto_seq=seq)
            page = list(islice(messages, PAGE_MESSAGES))
            upto = page[-1].seq if len(page) == PAGE_MESSAGES else seq
            rows = self._rows(page)
            if seq == after + 1 and rows and rows[0][1] is None:
                return  # a blob that is still missing
            with connection:
                deleted = connection.execute(_DELETE_LACKING, (seq, after)).fetchall()
                if not deleted:
                    return  # another process has made up for it
                _add(connection, rows)
                if upto < seq:
                    connection.execute(_ADD_LACKING, (seq, upto))
            after = further("messages to index", after, upto)

    def _rows(self, page: list[Message]) -> list[tuple[Any, ...]]:
        return [
            (
                message.seq,
                None if (text := payload_text(message, self._blobs)) is None else spread(text),
                message.type,
                f"{message.from_agent}\n{message.to_agent or ''}",
                message.conversation,
            )
            for message in page
        ]

    def clear(self) -> None:
        """Empty the index; the next search fills it again.

        Raises:
            BusUnusable: the file can't be written.
        """
        try:
            self._empty()
        except (apsw.Error, OSError) as error:
            raise self._translated(error) from error

    def _connect_to_look(self) -> apsw.Connection:
        """Open the file, and leave it and its log as they are, also at the end."""
        connection = open_file(self._layout.files, _NAME, apsw.SQLITE_OPEN_READONLY)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        return connection

    def _connect(self) -> apsw.Connection:
        """Open the file if it exists, without a look at its content."""
        connection = open_file(self._layout.files, _NAME)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.transaction_mode = "IMMEDIATE"
        return connection

    def _open(self) -> apsw.Connection:
        """Open the index; make it where there is none that is usable."""
        if self._layout.files.look(_NAME) is None:
            self._make()
        connection = self._connect()
        try:
            connection.execute("PRAGMA synchronous = NORMAL").fetchall()
            if not self._is_usable(connection):
                with connection:
                    if not self._is_usable(connection):  # no other process has made it meanwhile
                        connection.execute(_ddl()).fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self) -> None:
        """Make an empty index beside its place and move it there, unless another process has.

        Where several processes begin at once, none may find a file that is half made. Where the
        index was deleted, SQLite's files beside it are removed first: SQLite would apply them.
        """
        files, fresh = self._layout.files, _NAME + ".new"
        keep_out_of_git(self._layout, "search.db*")
        lock = FileLock(self._layout.search_lock)
        try:
            lock.acquire(BUSY_TIMEOUT_MS / 1000)
            if files.look(_NAME) is not None:
                return
            for ending in ENDINGS:
                files.remove(_NAME + ending)
            with closing(make_file(files, fresh)) as connection:
                with connection:
                    connection.execute(_ddl()).fetchall()
                # After that: nothing is left to be brought over when it is closed and renamed.
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            files.rename(fresh, _NAME)
        finally:
            lock.close()

    def _is_usable(self, connection: apsw.Connection) -> bool:
        """Whether the index has this form and is of this log, which may have been restored.

        The index has no trigger and no view, so a file with a trigger or a view is damaged.
        """
        if connection.execute(_RUNS_SOMETHING).fetchall():
            raise apsw.CorruptError("there is a trigger or a view in it")
        if connection.pragma("user_version") != _FORM:
            return False
        seq, id = _position(connection)
        if seq > self._log.newest_seq():
            return False
        try:
            message = None if id is None else self._log.at(seq)
        except SegmentMissing:
            return True  # unknown for now; the rest of the log can be searched
        return id is None or (message is not None and message.id == id)

    def _empty(self) -> None:
        """Empty a damaged file, under SQLite's locks.

        If it were unlinked, other processes would go on in a file without a name, or lose the
        write-ahead log of the next file. This way they notice it like any change.
        """
        with closing(self._connect()) as connection:
            with suppress(apsw.Error):  # where it can still be read, this keeps its journal mode
                connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
            connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
            connection.execute("VACUUM").fetchall()
            connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
            connection.execute("PRAGMA journal_mode = WAL").fetchall()

    def _translated(self, error: apsw.Error | OSError) -> AckbusError:
        path = self._layout.search
        if isinstance(error, apsw.BusyError):
            return BusBusy(f"another program has kept {path} locked; try again")
        if isinstance(error, OSError):
            return unwritable(path, error)
        if means_full(error, self._layout.directory):
            return unwritable(path, OSError(errno.ENOSPC, str(error)))
        why = why_not_opened(self._layout.directory)
        if why is not None:
            return why
        return BusUnusable(f"the search index {path} can't be used: {error}")


def _ddl() -> str:
    return _DDL.format(form=_FORM, marks=marks())


def _add(connection: apsw.Connection, rows: list[tuple[Any, ...]]) -> None:
    """Index rows; those without a text are noted as lacking."""
    connection.executemany(_ADD, [row for row in rows if row[1] is not None])
    lacking = [(row[0], row[0] - 1) for row in rows if row[1] is None]
    if lacking:
        connection.executemany(_ADD_LACKING, lacking)


def _position(connection: apsw.Connection) -> tuple[int, str | None]:
    """Return the seq of the last message that is indexed, and its id."""
    rows: list[Any] = connection.execute("SELECT seq, id FROM position").fetchall()
    ((seq, id),) = rows
    return seq, id

"""The log and its parts as one process has them open: what the public `Bus` is built upon."""

from __future__ import annotations

import warnings

from ..blobs.store import BlobStore
from ..schema.arguments import with_checked_arguments
from ..schema.directory.discovery import find_bus
from ..schema.errors import NotActedUponWarning, UnknownRecipientWarning
from ..schema.message.draft import ABSENT, Draft, Priority
from ..schema.message.patterns import not_acted_upon
from ..schema.sqlite.database import Database
from .doorbell import Doorbell, listen
from .log.archive_reader import Archive
from .log.catalog import Catalog
from .log.log import Criteria, Log
from .presence.known_agents import KnownAgents

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Self, Unpack

    from ..schema.directory.layout import Layout
    from ..schema.engine import Engine
    from ..schema.message.fields import MessageFields
    from ..schema.message.message import Message, Receipt
    from ..schema.sqlite.settings import Settings
    from .heartbeat_thread import Heart
    from .heartbeats import Heartbeats
    from .leases import Leases
    from .log.append import Parents
    from .log.records import Stats
    from .options import BusOptions, ReadFilters, SearchFilters
    from .reservations.reservations import Reservations
    from .search.search import Found
    from .verification import Chain
    from .waiting_limits import WaitingLimits

#: How old a blob that no message names must be before it is collected, in seconds: a day.
COLLECT_AFTER_S = 86_400.0

#: How many blobs are collected in one transaction, to keep it short for publishers.
_COLLECT_BATCH = 100


@with_checked_arguments
class LocalBus:
    """An open bus: its log, with leases, reservations, heartbeats, limits and chain.

    Attributes:
        blobs: the blob store.
    """

    # Further attributes are for the parts of this package: `layout`, the paths of the directory;
    # `log`; `archive`, the messages that have left the file; `agents`, the agents of the bus.

    def __init__(self, database: Database) -> None:
        self._engine: Engine = database
        self._file = database  # for what only SQLite has, such as settings
        self.layout: Layout = database.layout
        self.blobs = BlobStore(self.layout.blob_folder, may_write=database.require_writable)
        self._doorbell = Doorbell(self.layout.doorbell)
        self.archive = Archive(database, self.layout, self.blobs)
        catalog = Catalog(database)
        self.log = Log(database, self.blobs, catalog, self.archive, self._doorbell)
        self.agents = KnownAgents(database, self.log, catalog)

    @classmethod
    def init(cls, directory: str | os.PathLike[str], **options: Unpack[BusOptions]) -> Self:
        """Make a bus in a directory, unless it exists, and open it. Safe to repeat.

        Args:
            directory: the bus directory itself; made with mode 0700 when it is missing.
            options: as for `open`.

        Raises:
            BusUnusable: the directory can't be written or is on a network filesystem.
        """
        from ..schema.sqlite.creation import create

        create(directory)
        return cls.open(directory, **options)

    @classmethod
    def open(
        cls, directory: str | os.PathLike[str] | None = None, **options: Unpack[BusOptions]
    ) -> Self:
        """Open a bus.

        Args:
            directory: the bus directory; None finds it by `BUS_DIR`, or from the working
                directory upwards.
            options: `BusOptions`: `durability`, `write_timeout_s`, `clock`.

        Raises:
            InvalidInput: an option breaks its rule.
            BusNotFound: there is no bus.
            BusUnusable: there is a bus that this process can't use.
        """
        return cls(Database(find_bus() if directory is None else directory, **options))

    @property
    def directory(self) -> str:
        """The path of the bus directory."""
        return self.layout.directory

    @property
    def leases(self) -> Leases:
        """The leases of the bus."""
        from .leases import Leases

        return Leases(self._engine)

    @property
    def reservations(self) -> Reservations:
        """The reservations of files."""
        from .reservations.reservations import Reservations

        return Reservations(self._engine)

    @property
    def settings(self) -> Settings:
        """The settings that are stored in the bus: its durability, and whether it is a backup."""
        from ..schema.sqlite.settings import Settings

        return Settings(self._file)

    @property
    def heartbeats(self) -> Heartbeats:
        """The heartbeats of the agents."""
        from .heartbeats import Heartbeats

        return Heartbeats(self._engine)

    @property
    def limits(self) -> WaitingLimits:
        """The limits of waiting messages in queues and inboxes."""
        from .waiting_limits import WaitingLimits

        return WaitingLimits(self._engine)

    @property
    def chain(self) -> Chain:
        """The hash chain over the log."""
        from .verification import Chain

        return Chain(self._engine, self.log)

    @property
    def backup_made_at_ms(self) -> int | None:
        """When the bus was made, in epoch milliseconds, if it is a backup; None for one in use."""
        return self._engine.backup_made_at_ms

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds, by the clock of the bus."""
        return self._engine.now_ms()

    def heart(self, agent: str, *, interval_s: float = 10.0) -> Heart:
        """Return a heart for an agent, not yet started: `with bus.heart("me") as heart: …`."""
        from .heartbeat_thread import Heart

        return Heart(self, agent, interval_s=interval_s)

    def publish(
        self,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        to_agent: str | None = None,
        id: str | None = None,
        in_reply_to: str | None = None,
        correlation_id: str | None = None,
        priority: int = Priority.NORMAL,
        headers: Mapping[str, object] | None = None,
        payload_ref: str | None = None,
        strict: bool = False,
        wait_s: float = 0.0,
    ) -> Receipt:
        """Store one message. When this returns, it is committed, and waiters are woken.

        Repeating it with the same `id` and content stores nothing and returns the first seq.
        Waits up to 30 s for other writers, and some seconds more for a program that doesn't use
        the write lock.

        Args:
            type, payload, from_agent, to_agent, id, in_reply_to, correlation_id, priority,
                headers, payload_ref: as for `Draft`.
            strict: refuse a recipient that the bus has never seen, instead of warning.
            wait_s: how long to wait for room, in seconds, where a queue or an inbox is full; not
                inside a transaction.

        Raises:
            InvalidInput: a field breaks a rule.
            IdConflict: the id is taken by a message with other content.
            UnknownParent: `in_reply_to` is not in the log.
            BlobMissing: `payload_ref` is not in the blob store.
            UnknownRecipient: `to_agent` means several agents, a word for everyone or a list
                (`Draft.to_each` takes several names); or, with `strict`, the bus has never seen it.
            LimitReached: a queue or an inbox that it goes to is full; nothing was stored.
            BusBusy: other writers kept the bus for too long; nothing was stored.
        """
        draft = Draft(
            type,
            payload,
            from_agent=from_agent,
            to_agent=to_agent,
            id=id,
            in_reply_to=in_reply_to,
            correlation_id=correlation_id,
            priority=priority,
            headers=headers,
            payload_ref=payload_ref,
        )
        return self._publish([draft], strict, wait_s)[0]

    async def publish_async(
        self,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        **fields: Unpack[MessageFields],
    ) -> Receipt:
        """Publish as `publish` does; a cancelled call may have stored the message."""
        from functools import partial

        from .in_thread import in_thread

        return await in_thread(
            partial(self.publish, type, payload, from_agent=from_agent, **fields)
        )

    def publish_many(
        self, drafts: Iterable[Draft], *, strict: bool = False, wait_s: float = 0.0
    ) -> list[Receipt]:
        """Store messages in one transaction: all, or none when any is refused.

        Args:
            drafts: the messages.
            strict, wait_s: as for `publish`. With more drafts than a limit allows, no wait helps.

        Returns:
            A receipt for each draft, in order.

        Raises:
            As for `publish`.
        """
        return self._publish(list(drafts), strict, wait_s)

    def _publish(self, drafts: list[Draft], strict: bool, wait_s: float) -> list[Receipt]:
        for recipient in {d.to_agent for d in drafts if isinstance(d.to_agent, str)}:
            stranger = self.agents.check_recipient(recipient, strict=strict, repeat=False)
            if stranger is not None:  # attributed to the caller of publish or publish_many
                warnings.warn(UnknownRecipientWarning(str(stranger)), stacklevel=4)
        notable = [d for d in drafts if d.in_reply_to is not None or not_acted_upon(d.type)]
        parents = self._parents_after_warnings(notable) if notable else {}
        if not wait_s or self._engine.writing:  # waiting would keep those out who make room
            return self.log.append(drafts, parents=parents)
        from .waiting_limits import publish_when_there_is_room

        return publish_when_there_is_room(lambda: self.log.append(drafts, parents=parents), wait_s)

    def _parents_after_warnings(self, drafts: list[Draft]) -> Parents:
        """Warn of types that nothing acts upon when they are published, and of second answers.

        Returns:
            The messages that the drafts reply to, in the form of `Log.parents`.
        """
        for words in {w for d in drafts if (w := not_acted_upon(d.type)) is not None}:
            warnings.warn(NotActedUponWarning(words), stacklevel=5)
        replies = [draft for draft in drafts if draft.in_reply_to is not None]
        if not replies:
            return {}
        from .own_answers import warn_of_second_answers

        parents = self.log.parents(replies)
        warn_of_second_answers(self, replies, parents, stacklevel=5)
        return parents

    def transaction(self) -> AbstractContextManager[object]:
        """Run all calls of this thread inside the block in one transaction.

        It commits at the end, and rolls back when the block raises. Other writers wait meanwhile:
        keep it short, and never wait or work inside it.
        """
        return self._engine.write()

    def get(self, key: int | str) -> Message | None:
        """Return a message by its seq (a number) or its id (text), or None."""
        return self.log.at(key) if isinstance(key, int) else self.log.get(key)

    def read(
        self,
        *,
        after_seq: int = 0,
        upto_seq: int | None = None,
        **filters: Unpack[ReadFilters],
    ) -> Iterator[Message]:
        """Yield the messages that match every given filter, in order, a page in memory at a time.

        Args:
            after_seq: only messages after this seq.
            upto_seq: the last seq; None ends where the log ends now.
            filters: `ReadFilters`: `type`, `conversation`, `agent`, `from_agent`, `to_agent`,
                `since_ms`, `until_ms`.
        """
        return self.log.read(after_seq=after_seq, upto_seq=upto_seq, **filters)

    def follow(
        self, *, after_seq: int | None = None, **filters: Unpack[ReadFilters]
    ) -> Iterator[Message]:
        """Yield messages for ever, each as soon as it is committed; blocks between them.

        Args:
            after_seq: only messages after this seq; None: after the newest.
            filters: `ReadFilters`, as for `read`.
        """
        # Settled here, not at the first step: messages may come between the two.
        after = self.log.newest_seq() if after_seq is None else after_seq
        return self._follow(after, Criteria(**filters))

    def _follow(self, after: int, criteria: Criteria) -> Iterator[Message]:
        with listen(self) as listener:
            while True:
                newest = listener.wait_for(self.log.newest_seq, after.__lt__)
                yield from self.log.find(criteria, after_seq=after, upto_seq=newest)
                after = newest

    def follow_async(
        self, *, after_seq: int | None = None, **filters: Unpack[ReadFilters]
    ) -> AsyncIterator[Message]:
        """Yield messages as `follow` does; the event loop never waits for the bus."""
        from .in_thread import follow

        after = self.log.newest_seq() if after_seq is None else after_seq
        return follow(self, after, Criteria(**filters))

    def search(self, *words: str, **filters: Unpack[SearchFilters]) -> list[Found]:
        """Find the messages whose payloads have all these words, the best matches first.

        The first search after many messages indexes them, which takes some 20 s for a million;
        later searches index only new messages. Publishers don't wait for it. More than 1,000
        matches come in batches of 1,000, the newest batch first, and the best first in each.

        Args:
            words: words, as `timeout`; phrases, as `disk full`; beginnings, as `migrat*`.
            filters: `SearchFilters`: the filters of `read`, and `limit`.

        Raises:
            InvalidInput: there is no word, or a filter breaks a rule.
            BusUnusable: the index can't be written.
            BusBusy: other processes kept it locked.
        """
        from .search.search import Search

        return Search(self).find(words, **filters)

    def stats(self) -> Stats:
        """Count the messages by type and by sender.

        The first call after many messages counts them, in short transactions; later calls count
        only new messages.
        """
        from .log.records import Stats

        return Stats.of(self)

    def collect_blobs(self, *, older_than_s: float = COLLECT_AFTER_S) -> tuple[int, int]:
        """Delete the blobs that no message names and that were not used for long. Safe to repeat.

        Returns:
            How many were deleted, and how many bytes they had.
        """
        self.blobs.sweep(older_than_s)
        old = self.blobs.older_than(older_than_s)
        count = size = 0
        for start in range(0, len(old), _COLLECT_BATCH):
            # Publishers look for their blobs under the same lock, so none is taken from them.
            with self._engine.write():
                for ref in old[start : start + _COLLECT_BATCH]:
                    if not self.log.names_blob(ref):
                        size += self.blobs.remove(ref)
                        count += 1
        return count, size

    def close(self) -> None:
        """Close the bus in this process; more than once does nothing."""
        self._engine.close()
        self._doorbell.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

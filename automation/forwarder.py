"""Forwarding: messages of a subscription, posted to a URL as signed CloudEvents, in order.

| answer | about | what follows |
|---|---|---|
| 2xx | | the message is acknowledged |
| 400, 409, 413, 415, 422, 500, 501 | the message | a failed delivery: it is parked after some |
| 410 | the subscription | it ends; the cursor stays |
| any other, or none | the target | the message waits, and those behind it; after 3 h a failure |
"""

from __future__ import annotations

import io
import logging
import random
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import OK, HTTPConnection, HTTPException, HTTPResponse
from itertools import count, islice
from select import select
from time import monotonic
from typing import cast
from urllib.parse import quote

import orjson

from ..bus.log.log import Criteria
from ..schema.errors import AckbusError, MailArchived, Refused
from ..schema.message.draft import PRIORITY_NAMES, TRACE_PARENT, TRACE_STATE
from ..schema.message.patterns import TypePattern
from ..schema.message.times import format_ts
from ..subscribers.inboxes.delivery import RETRY_MAX_S, retry_pause_s
from ..subscribers.inboxes.failed_deliveries import Deliveries
from ..subscribers.inboxes.inbox import MAX_DELIVERIES, Inbox
from ..subscribers.inboxes.mail import POLL_LIMIT, InboxView, MailReader
from ..subscribers.starts import BEGINNING
from ..workers.processes.own_child import StopSwitch
from .forwarding_targets import Unreachable, words_of
from .webhooks import standard_signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message
    from ..subscribers.inboxes.failed_deliveries import Cursors
    from ..subscribers.options import Start
    from .forwarding_targets import Target

# Subscriptions: readers that follow the whole log by types, each with a cursor of its own.

#: After how many messages of other types the cursor is moved past them.
_STEP = 500

_log = logging.getLogger("ackbus.forward")


class Subscription(Inbox):
    """An inbox of all messages of some types, to any recipient, work included.

    Args:
        bus: an open bus.
        name: of the subscription, a reader as agents are: it needs a name of its own.
        types: type patterns; none are all types.
        max_deliveries, retry_pause_s: as for `Inbox`.
    """

    def __init__(
        self,
        bus: LocalBus,
        name: str,
        types: Sequence[str] = (),
        *,
        max_deliveries: int = MAX_DELIVERIES,
        retry_pause_s: float = 1.0,
    ) -> None:
        super().__init__(bus, name, max_deliveries=max_deliveries, retry_pause_s=retry_pause_s)
        self._mail = _MatchingMessages(bus, name, self._cursors, Criteria(tuple(types) or None))

    def join(self, *, start: Start = BEGINNING) -> None:
        """Become a reader, as `Inbox.join` does.

        Raises:
            Refused: the name is an agent's, whose cursor this would move past its mail.
        """
        name = self.agent
        is_alive = self.bus.heartbeats.get(name) is not None
        if is_alive or next(self.bus.read(from_agent=name), None) is not None:
            raise Refused(f"{name!a} is the name of an agent, which would miss mail; take another")
        super().join(start=start)

    def fail(self, message: Message, error: str) -> bool:
        """Record a failure, as `Inbox.fail` does, and log that a message is parked."""
        is_parked = self._count(message, error, self.max_deliveries)
        if is_parked:
            see = f"see 'bus parked list {self.agent}'"
            _log.error("message %s is parked: %s; %s", message.seq, error, see)
        return is_parked

    def _look(self, limit: int = POLL_LIMIT, pattern: TypePattern | None = None) -> InboxView:
        """Look, and move the cursor past what is of other types, now and then."""
        newest = self.bus.log.newest_seq()  # before the look, which goes at least as far
        look = super()._look(limit, pattern)
        if not look.messages and newest - look.cursor >= _STEP:
            self.ack(newest)
        return look

    def _begin(self) -> None:
        """Begin to deliver, alone; a message on which the last process died counts as a failure."""
        with self.bus.transaction():
            self.join()
            other = self._deliveries.begin_loop(self.agent)
            if other is not None and other[1]:
                raise Refused(f"process {other[0]} delivers for {self.agent!a} already")
        for message in self.poll(limit=1) if other is not None else ():
            self._count(message, "the process that handled it died", max(2, self.max_deliveries))

    def _leave(self, message: Message) -> None:
        """Leave a message as it is: its delivery was broken off by a stop, and has not failed."""


class _MatchingMessages(MailReader):
    """The messages of some types after a cursor, in place of an agent's mail."""

    def __init__(self, bus: LocalBus, name: str, cursors: Cursors, types: Criteria) -> None:
        deliveries = Deliveries.of(bus)
        super().__init__(bus, name, cursors, deliveries, own_broadcasts=True, with_work=True)
        self._types = types

    def look(self, limit: int, pattern: TypePattern | None) -> InboxView:
        """Return up to `limit` messages, requeued ones too, and how the subscription stands.

        Raises:
            MailArchived: some after the cursor were discarded.
        """
        cursor = self._cursors.position(self._agent)
        messages = self._requeued(limit) + self.after(cursor, limit)
        discarded = self._cursors.discarded_upto()  # now: they may have gone meanwhile
        if cursor < discarded:
            raise MailArchived(self._agent, cursor, discarded, discarded)
        if pattern is not None:
            messages = [message for message in messages if pattern.matches(message.type)]
        return InboxView(messages[:limit], cursor, has_failures=True)

    def after(self, seq: int, limit: int) -> list[Message]:
        """Return up to `limit` messages after a seq, without requeued ones."""
        return list(islice(self._log.find(self._types, after_seq=seq), limit))


# Messages as CloudEvents 1.0, in structured mode: one JSON object each.

#: The media type of an event.
MEDIA_TYPE = "application/cloudevents+json"


def event_of(message: Message) -> bytes:
    """Return a message as a CloudEvent.

    Attributes that the specification has no name for are the words of `bus.jsonl`, without `_`,
    which it does not allow; `seq` is text, as its integers have 32 bits. A payload that can't be
    had stays the name of its blob, `dataref`.
    """
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": message.id,
        "source": f"/agents/{quote(message.from_agent, safe='')}",
        "type": message.type,
        "time": format_ts(message.ts_ms),
        "seq": str(message.seq),
        "conversation": message.conversation,
        "priority": PRIORITY_NAMES[message.priority],
    }
    beside = {
        "to": message.to_agent,
        "inreplyto": message.in_reply_to,
        "traceparent": message.headers.get(TRACE_PARENT),
        "tracestate": message.headers.get(TRACE_STATE),
    }
    event |= {name: value for name, value in beside.items() if isinstance(value, str) and value}
    if message.payload_error is not None:
        event["dataref"] = message.payload_ref
    elif message.has_payload:
        event |= {"datacontenttype": "application/json", "data": message.payload}
    return orjson.dumps(event)


# One POST and the head of its answer, within a time and a number of bytes, whatever comes.

#: The most that is read of an answer, in bytes: its status decides, so its body is not read.
MAX_ANSWER_BYTES = 65_536

#: How much is sent at a time, in bytes.
_PIECE_BYTES = 65_536

#: The longest pause that an answer may ask for, in seconds: an hour.
MAX_RETRY_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class TargetResponse:
    """The answer of a target.

    Attributes:
        status: of HTTP.
        retry_after: the pause that it asks for, as its header has it.
    """

    status: int
    retry_after: str = ""

    def pause_s(self, now_s: float) -> float:
        """Return that pause in seconds, up to an hour; 0 for none.

        Args:
            now_s: the time, in seconds of the epoch.
        """
        text = self.retry_after.strip()
        if text.isdecimal() and text.isascii():
            seconds = float(text[:9])
        else:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - now_s
            except (ValueError, OverflowError, OSError):
                return 0.0
        return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def post(
    target: Target, headers: Mapping[str, str], body: bytes, *, within_s: float
) -> TargetResponse:
    """Post a body, and return the answer. No redirect is followed.

    Args:
        target: where to.
        headers: beside those of every request.
        body: the bytes.
        within_s: how long all of it may take, in seconds.

    Raises:
        Unreachable: there was no connection, or no whole head of an answer in time.
    """
    deadline = monotonic() + within_s
    refused: OSError | None = None
    with target.connect(deadline) as connection:
        wire = _Wire(connection, deadline)
        request = HTTPConnection(target.authority)
        request.sock = cast("socket.socket", wire)  # so it does not connect by itself
        fixed = {"User-Agent": "ackbus", "Connection": "close"}
        try:
            try:
                request.request("POST", target.path, body, {**fixed, **headers})
            except TimeoutError:
                raise
            except OSError as error:  # it takes no more, and may have answered
                refused = error
            return _answer(wire)
        except TimeoutError as error:
            raise Unreachable(f"{target} took longer than {within_s:g} s") from error
        except (OSError, ValueError, HTTPException) as error:
            why = refused or error
            raise Unreachable(f"{target} gave no answer: {words_of(why)}") from error


def _answer(wire: _Wire) -> TargetResponse:
    """Read the head of the answer; interim answers (1xx) only say that another follows."""
    responses: list[HTTPResponse] = []  # kept, since the end of each would close the stream
    while not responses or responses[-1].status < OK:
        responses.append(HTTPResponse(cast("socket.socket", wire), method="POST"))
        responses[-1].begin()
    return TargetResponse(responses[-1].status, responses[-1].getheader("Retry-After", ""))


class _Wire(io.RawIOBase):
    """A connection, in place of a socket for `http.client`: within a time and a number of bytes."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline
        self._room = MAX_ANSWER_BYTES
        self._stream = io.BufferedReader(self)

    def makefile(self, mode: str) -> io.BufferedIOBase:
        return self._stream

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._connection.settimeout(_left_s(self._deadline))
            rest = rest[self._connection.send(rest[:_PIECE_BYTES]) :]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._room:
            raise ValueError(f"the head of the answer is longer than {MAX_ANSWER_BYTES} bytes")
        self._connection.settimeout(_left_s(self._deadline))
        count = self._connection.recv_into(memoryview(buffer)[: self._room])
        if not count:
            raise ValueError("the connection ended before the head of the answer did")
        self._room -= count
        return count


def _left_s(deadline: float) -> float:
    left_s = deadline - monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


#: How long a request may take, in seconds, from the connection to the head of the answer.
TIMEOUT_S = 30.0

#: How long one delivery waits for an unavailable target, in seconds, before it counts as failed.
#: Later messages wait behind it; most of them would fail too.
PATIENCE_S = 10_800.0

#: The statuses that are about the message: the target takes others.
_OF_MESSAGE = frozenset({400, 409, 413, 415, 422, 500, 501})

#: The status of a target that takes no more messages.
_GONE = 410


class NotDelivered(AckbusError):
    """A delivery has failed."""


class _LeftUndelivered(BaseException):
    """The current message stays undelivered; no error of the handler, so no failure is counted."""


class _Stopped(_LeftUndelivered):
    """The forwarder was stopped."""


class _TargetGone(_LeftUndelivered):
    """The target answered 410: it takes no more messages."""


class Forwarder:
    """Posts the messages of a subscription to a target, signed by Standard Webhooks.

    At least once, in order. A message has one `webhook-id` however often it is posted.

    Args:
        subscription: what is posted.
        target: where to.
        keys: of the signatures, one for each key; receivers may know any of them.
        timeout_s: how long a request may take, in seconds.
        patience_s: how long a delivery waits for an unavailable target, in seconds.
        longest_pause_s: the longest pause between two requests, but for one that is asked for.
    """

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        keys: Sequence[bytes],
        *,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        longest_pause_s: float = RETRY_MAX_S,
    ) -> None:
        self._subscription = subscription
        self._target = target
        self._keys = keys
        self._timeout_s, self._patience_s = timeout_s, patience_s
        self._longest_pause_s = longest_pause_s
        self._switch = StopSwitch()

    def run(self, *, drain: bool = False) -> None:
        """Forward until it is stopped, or with `drain` until nothing is left; blocks.

        Raises:
            Refused: another process forwards for the subscription, or the target is gone.
        """
        try:
            self._subscription.run(self._deliver, drain=drain)
        except _Stopped:
            return
        except _TargetGone as error:
            raise Refused(str(error)) from None

    def stop(self) -> None:
        """End after the request that is under way; safe from a signal handler."""
        self._switch.stop()
        self._subscription.stop()

    def _deliver(self, message: Message) -> None:
        """Post a message until the target takes it.

        Raises:
            NotDelivered: the target does not take this message, or has taken none for long.
        """
        id, body = quote(message.id, safe="!#$&'*+/:;=?@^_`|~-"), event_of(message)
        deadline = monotonic() + self._patience_s
        for failures in count():
            if self._switch.is_set:
                raise _Stopped
            answer = self._post(id, body)
            if isinstance(answer, TargetResponse):
                if 200 <= answer.status <= 299:
                    return
                if answer.status == _GONE:
                    raise _TargetGone(self._gone_text(message))
                if answer.status in _OF_MESSAGE:
                    raise NotDelivered(f"{self._target} answered {answer.status}")
            self._wait(message, failures, answer, deadline)

    def _post(self, id: str, body: bytes) -> TargetResponse | Unreachable:
        """Post a message, signed at this time."""
        time = str(self._subscription.bus.now_ms() // 1000)
        headers = {
            "Content-Type": MEDIA_TYPE,
            "webhook-id": id,
            "webhook-timestamp": time,
            "webhook-signature": standard_signature(self._keys, id, time, body),
        }
        try:
            return post(self._target, headers, body, within_s=self._timeout_s)
        except Unreachable as error:
            return error

    def _wait(
        self, message: Message, failures: int, answer: TargetResponse | Unreachable, deadline: float
    ) -> None:
        """Wait for an unavailable target: longer after each failure, or as long as it asks for.

        Raises:
            NotDelivered: it has been so for too long.
        """
        wished_s = 0.0
        trouble = str(answer)
        if isinstance(answer, TargetResponse):
            trouble = f"{self._target} answered {answer.status}"
            wished_s = answer.pause_s(self._subscription.bus.now_ms() / 1000)
        # Spread, so that the clients of a server that comes back do not all come at once.
        doubled_s = retry_pause_s(self._subscription.retry_pause_s, failures)
        own_s = min(doubled_s, self._longest_pause_s) * random.uniform(0.5, 1)
        pause_s = max(own_s, wished_s)
        if monotonic() + pause_s > deadline:
            raise NotDelivered(trouble)
        _log.warning("message %s: %s; again in %.1f s", message.seq, trouble, pause_s)
        select([self._switch], [], [], pause_s)

    def _gone_text(self, message: Message) -> str:
        name = self._subscription.agent
        return (
            f"{self._target} answered 410: it takes no more messages. Message {message.seq} and"
            f" those after it wait for {name}; forward them elsewhere, or end the subscription by"
            f" 'bus agents forget {name}'"
        )

"""Posts the messages of a subscription, one after the other, each until it is taken.

| answer | about | what follows |
|---|---|---|
| 2xx | | the message is acknowledged |
| 400, 409, 413, 415, 422, 500, 501 | the message | a failed delivery: it is parked after some |
| 410 | the subscription | it ends; the cursor stays |
| any other, or none | the target | the message waits, and those behind it; after 3 h a failure |
"""

from __future__ import annotations

import logging
import random
from itertools import count
from select import select
from time import monotonic
from urllib.parse import quote

from ...schema.errors import AckbusError, Refused
from ...subscribers.inboxes.retry_pause import RETRY_MAX_S, retry_pause_s
from ...workers.processes.stop_switch import StopSwitch
from ..webhooks.signatures import standard_signature
from .cloud_events import MEDIA_TYPE, event_of
from .exchange import Answer, post
from .targets import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...schema.message.message import Message
    from .subscription import Subscription
    from .targets import Target

#: How long a request may take, in seconds, from the connection to the head of the answer.
TIMEOUT_S = 30.0

#: How long one delivery waits for a target that takes nothing, in seconds, before it has failed.
#: Other messages wait meanwhile; most of them would fare no better.
PATIENCE_S = 10_800.0

#: The statuses that are about the message: the target takes others.
_OF_MESSAGE = frozenset({400, 409, 413, 415, 422, 500, 501})

#: The status of a target that wants no message any more.
_GONE = 410

_log = logging.getLogger("ackbus.forward")


class NotDelivered(AckbusError):
    """A delivery has failed."""


class _Left(BaseException):
    """The message at hand is left as it is; no handler's error, so that it counts as none."""


class _Stopped(_Left):
    """The forwarder was stopped."""


class _Gone(_Left):
    """The target wants no message any more."""


class Forwarder:
    """Posts the messages of a subscription to a target, signed by Standard Webhooks.

    At least once, in order. A message has one `webhook-id` however often it is posted.

    Args:
        subscription: what is posted.
        target: where to.
        keys: of the signatures, one for each key; receivers may know any of them.
        timeout_s: how long a request may take, in seconds.
        patience_s: how long a delivery waits for a target that takes nothing, in seconds.
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
        except _Gone as error:
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
            if self._switch.is_thrown:
                raise _Stopped
            answer = self._post(id, body)
            if isinstance(answer, Answer):
                if 200 <= answer.status <= 299:
                    return
                if answer.status == _GONE:
                    raise _Gone(self._told_gone(message))
                if answer.status in _OF_MESSAGE:
                    raise NotDelivered(f"{self._target} answered {answer.status}")
            self._wait(message, failures, answer, deadline)

    def _post(self, id: str, body: bytes) -> Answer | Unreachable:
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
        self, message: Message, failures: int, answer: Answer | Unreachable, deadline: float
    ) -> None:
        """Wait for a target that takes nothing, longer after each failure, or as it asks for.

        Raises:
            NotDelivered: it has been so for too long.
        """
        wished_s = 0.0
        trouble = str(answer)
        if isinstance(answer, Answer):
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

    def _told_gone(self, message: Message) -> str:
        name = self._subscription.agent
        return (
            f"{self._target} answered 410: it wants no message any more. Message {message.seq} and"
            f" those after it wait for {name}; forward them elsewhere, or end the subscription by"
            f" 'bus agents forget {name}'"
        )

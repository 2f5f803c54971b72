"""How far what a worker publishes may have come, from job to job, and when people are told."""

from __future__ import annotations

import warnings

from ..schema import InvalidInput
from ..subscribers import HopsWarning, hops_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..schema import Message, Receipt

#: Of how many conversations a worker remembers that it has warned.
_MAX_REMEMBERED = 1000


class HopLimits:
    """The limits of one worker, and which conversations it has warned of.

    Args:
        warn_from: from how many hops on it warns.
        most: how many are refused.

    Raises:
        InvalidInput: one of them is less than 1.
    """

    def __init__(self, warn_from: int, most: int) -> None:
        if warn_from < 1 or most < 1:
            raise InvalidInput("warn_hops and max_hops must be at least 1")
        self.most = most
        self._warn_from = warn_from
        self._warned: dict[str, None] = {}

    def look_at(self, message: Message, receipts: Iterable[Receipt]) -> None:
        """Warn if what has followed from a message has come far; once for its conversation.

        Args:
            message: whose job has ended.
            receipts: of what was published then, which may be conversations of their own.
        """
        hops = hops_of(message) + 1
        if hops < self._warn_from:
            return
        is_known = message.conversation in self._warned
        self._remember(message.conversation, *(receipt.id for receipt in receipts))
        if is_known:
            return
        warnings.warn(
            f"conversation {message.conversation}: what followed from message {message.seq} has"
            f" come {hops} hops; {self.most} are refused. See whether an answer, or an event,"
            " feeds the queue that it came from",
            HopsWarning,
            stacklevel=2,
        )

    def _remember(self, *conversations: str) -> None:
        self._warned |= dict.fromkeys(conversations)
        while len(self._warned) > _MAX_REMEMBERED:
            del self._warned[next(iter(self._warned))]

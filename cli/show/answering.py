"""The command that answers a request from a shell, to be run with the answer on stdin."""

from __future__ import annotations

from .. import hints
from . import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message


def how_to_answer(message: Message, agent: str | None = None) -> str | None:
    """Return how a request is answered, for people and agents; None for other messages.

    Args:
        message: the message.
        agent: who answers; None: the agent that it is for, or the one that BUS_AGENT names.
    """
    if not message.type.endswith(".request"):  # most are none, and what follows takes its time
        return None
    from shlex import join

    from ...subscribers.conversations.reply_types import ReplyTypes

    types, sender = ReplyTypes.of(message.type), agent or message.to_agent
    words = ["bus", "publish", str(types.success), *(("--from", sender) if sender else ())]
    words += ["--to", message.from_agent, "--reply-to", str(message.seq), "--file", "-"]
    how = hints.completed(f"'{output.visible(join(words))}'")
    return f"{how}; after a failure by {output.visible(str(types.failure))}"

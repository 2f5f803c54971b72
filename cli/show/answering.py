"""The answer to a request: the command that gives it from a shell, or the one that was given."""

from __future__ import annotations

from .. import hints
from . import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.message import Message


def about_answer(bus: Bus, message: Message, agent: str) -> str | None:
    """Return the line about the answer to a request; None for other messages.

    Args:
        bus: an open bus.
        message: the message.
        agent: the agent that reads it.
    """
    how = how_to_answer(message, agent)
    if how is None:
        return None
    from ...bus.own_answers import ANSWERED_AS

    answer = answer_of(bus, message, agent)
    return f"Answer it by {how}." if answer is None else f"Note: {ANSWERED_AS} [{answer.seq}]."


def answer_of(bus: Bus, message: Message, agent: str | None) -> Message | None:
    """Return the answer of an agent to a request; None for other messages, and for nobody's."""
    if agent is None or not message.type.endswith(".request"):
        return None
    from ...bus.own_answers import own_answer

    return own_answer(bus, message, agent)


def how_to_answer(message: Message, agent: str | None = None) -> str | None:
    """Return how a request is answered, for people and agents; None for other messages.

    Args:
        message: the message.
        agent: who answers; None: the agent that it is for, or the one that BUS_AGENT names.
    """
    if not message.type.endswith(".request"):  # most are none, and what follows takes its time
        return None
    from shlex import join

    from ...schema.message.reply_types import ReplyTypes

    types, sender = ReplyTypes.of(message.type), agent or message.to_agent
    words = ["bus", "publish", str(types.success), *(("--from", sender) if sender else ())]
    words += ["--to", message.from_agent, "--reply-to", str(message.seq), "--file", "-"]
    how = hints.completed(f"'{output.visible(join(words))}'")
    return f"{how}; after a failure by {output.visible(str(types.failure))}"

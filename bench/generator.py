"""Makes logs of any length: 500 agents, a tenth of the messages to all, texts as agents write them.

The same count gives the same messages, but for their ids and times. Texts are those that agents
once wrote, where that traffic lies beside the clone, and else made up in the same lengths. None is
so long that it becomes a blob: blobs are files beside the log.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from measure import tell

from ackbus import Bus, Draft

AGENTS = 500

#: Every how many messages one is to all.
BROADCAST_EVERY = 10

#: How many messages a conversation has.
CONVERSATION = 20

#: The types, each as often as the others; the first are work.
TYPES = ("review.request", "review.done", "note", "task.assign")

#: Real messages of agents, one JSON object a line, where they lie beside the clone.
REAL = Path(__file__).parents[2] / "shared/data/h5i-messages.jsonl"

#: How long the texts of that traffic are, in characters: the tenths.
LENGTHS = (20, 127, 276, 448, 620, 831, 1184, 1500, 1935, 2799)

#: The longest text that surely stays in the row.
_MAX_CHARS = 3500

#: How many messages a transaction has.
_BATCH = 5000


def texts() -> list[str]:
    """Return the texts that messages say, one after the other."""
    if REAL.is_file():
        with REAL.open(encoding="utf-8") as lines:
            return [json.loads(line)["body"][:_MAX_CHARS] for line in lines]
    noise = random.Random(1)
    words = ["".join(noise.choices("aeinorstl", k=noise.randint(2, 9))) for _ in range(3000)]
    return [" ".join(noise.choices(words, k=length // 6 + 1))[:length] for length in LENGTHS * 30]


def agent(number: int) -> str:
    """Return the name of an agent."""
    return f"agent-{number % AGENTS:03}"


def conversation(number: int) -> str:
    """Return the conversation of a message; several go on at a time."""
    return f"conversation-{number // (CONVERSATION * 10)}-{number % 10}"


def drafts(start: int, end: int, said: list[str]) -> Iterator[Draft]:
    """Yield the messages of a part of the log."""
    for number in range(start, end):
        yield Draft(
            TYPES[number % len(TYPES)],
            said[number * 7 % len(said)],
            from_agent=agent(number * 31),
            to_agent=None if number % BROADCAST_EVERY == 0 else agent(number * 17 + number // 499),
            correlation_id=conversation(number),
        )


def generate(directory: Path, count: int) -> None:
    """Make a bus with a log of so many messages, all of them counted in its catalog."""
    said = texts()
    with Bus.init(directory) as bus:
        for number in range(AGENTS):
            bus.heartbeats.beat(agent(number))  # so that all recipients are known
        for start in range(0, count, _BATCH):
            bus.publish_many(drafts(start, min(count, start + _BATCH), said))
            if (start + _BATCH) % 1_000_000 == 0:
                tell(f"{start + _BATCH:,} of {count:,} messages")
        bus.stats()

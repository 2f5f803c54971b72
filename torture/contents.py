"""The texts of messages: each follows from the message's id, so that the proof can check it."""

from __future__ import annotations

import random
from functools import cache
from zlib import crc32

#: The sizes of texts in characters, and how often each is taken, of 100. Agents mostly say little;
#: the last becomes a blob.
SIZES = {40: 40, 300: 42, 4000: 15, 8000: 3}

#: The types of messages: a note, a question that its reader answers, a job, and what comes of them;
#: and what a holder of a lease writes under it.
NOTE, ASK, ANSWER = "note", "ask", "answer"
JOB, JOB_DONE, JOB_FAILED = "job", "job.done", "job.failed"
TURN = "turn"

#: The queue that workers share.
QUEUE = "jobs"

_WORDS = 4096


def text_of(id: str, size: int) -> str:
    """Return the text of a message, of `size` characters: its id, then words chosen by it."""
    words = _words()
    start = crc32(id.encode()) % (len(words) - size)
    return f"{id} {words[start : start + size]}"[:size]


@cache
def _words() -> str:
    """Return a long text; the same in every process."""
    chance = random.Random(0)
    return " ".join(
        "".join(chance.choices("abcdefghiklmnoprstu", k=chance.randint(3, 9)))
        for _ in range(_WORDS)
    )

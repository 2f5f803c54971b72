"""The payloads that every contender is given: four sizes, real texts where there are any.

Real traffic is looked for beside the clone, as the tests do. Without it texts are made up, always
the same ones, of the alphabet and line lengths that such messages have.
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass
from pathlib import Path

import orjson

#: Real messages of agents, one JSON object a line, where they lie beside the clone.
REAL = Path(__file__).parents[2] / "shared/data/h5i-messages.jsonl"

#: The sizes that are asked about, in bytes of the payload's JSON text, which is what is stored.
SIZES = {"40 bytes": 40, "300 bytes": 300, "4 KB": 4096, "8 KB": 8192}

#: The size of most messages, for questions that are asked of one size only.
USUAL = "300 bytes"

_numbers = itertools.count()


def as_stored(text: str) -> str:
    """Return the JSON of a text, as it stands in a row."""
    return orjson.dumps(text).decode()


@dataclass(frozen=True)
class Payload:
    """A text to send.

    Attributes:
        size: the name of the size that it stands for.
        text: the text itself.
        real: whether somebody wrote it, or it was made up.
    """

    size: str
    text: str
    real: bool

    def texts(self, count: int) -> list[str]:
        """Return it so many times, each time another text: equal ones would share a blob."""
        return [f"{next(_numbers):08x}{self.text[8:]}" for _ in range(count)]

    def described(self) -> dict[str, object]:
        """Return what a record says of it: never the text."""
        source = "real" if self.real else "made up"
        return {"size": self.size, "bytes": len(as_stored(self.text).encode()), "source": source}


def payloads() -> dict[str, Payload]:
    """Return one payload for each size, by the name of the size."""
    if not REAL.is_file():
        return {name: Payload(name, _made_up(size), False) for name, size in SIZES.items()}
    with REAL.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["body"] for line in lines]
    found = {}
    for name, size in SIZES.items():
        nearest = min(texts, key=lambda text: (abs(len(as_stored(text).encode()) - size), text))
        found[name] = Payload(name, nearest, True)
    return found


def _made_up(size: int) -> str:
    """Return words and line ends whose JSON has exactly that many bytes."""
    letters = random.Random(size)
    text = ""
    while len(as_stored(text).encode()) < size:
        text += "".join(letters.choices("etaoinshrdlu", k=letters.randint(2, 9)))
        text += "\n" if letters.random() < 0.1 else " "
    while len(as_stored(text).encode()) > size:
        text = text[:-1]
    return text + "." * (size - len(as_stored(text).encode()))

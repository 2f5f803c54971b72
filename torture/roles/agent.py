"""The process of one agent: `python -m … DIRECTORY HISTORIES AGENTS NAME LIFE SEED`."""

from __future__ import annotations

import logging
import random
import sys
import warnings
from importlib import import_module

from ...bus.bus import Bus
from ..history import History
from ..lifeline import Lifeline
from ..plan import cast_of, named
from .protocol import BEAT_EVERY_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")


class Me:
    """The state of an agent's process.

    Attributes:
        bus: the bus, open.
        history: its own history.
        name: its name.
        lifeline: tells when to end.
        chance: its own random numbers, others in each life.
    """

    def __init__(
        self, bus: Bus, history: History, lifeline: Lifeline, agents: int, seed: int
    ) -> None:
        self.bus = bus
        self.history = history
        self.name = history.agent
        self.lifeline = lifeline
        self.chance = random.Random(f"{seed}/{history.agent}/{history.life}")
        self._cast = cast_of(agents)

    def any_of(self, role: str) -> str:
        """Return some agent that has a role."""
        return self.chance.choice(named(self._cast, role))

    def choose(self, weights: Mapping[T, int]) -> T:
        """Return one of some things, each as often as its weight says."""
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def pause(self, most_s: float) -> None:
        """Sleep for a random time."""
        self.lifeline.wait(self.chance.random() * most_s)


def main(directory: str, histories: str, agents: str, name: str, life: str, seed: str) -> None:
    """Play the role that the name begins with until the parent says that it is over."""
    history = History(histories, name, int(life))
    _write_down_troubles(history)
    with history.attempt("open") as attempt:
        bus = Bus.open(directory)
        attempt.told()
    with bus:
        me = Me(bus, history, Lifeline(), int(agents), int(seed))
        with bus.heart(name, interval_s=BEAT_EVERY_S):
            import_module(f".{name.partition('-')[0]}", __package__).play(me)


def _write_down_troubles(history: History) -> None:
    """Record warnings, and the library's log, in the history, for the proof."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            history.trouble(f"{record.name}: {record.getMessage()}")

    logging.getLogger("ackbus").addHandler(Handler(logging.WARNING))

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        history.trouble(f"warning: {message}")

    warnings.showwarning = show


if __name__ == "__main__":
    main(*sys.argv[1:])

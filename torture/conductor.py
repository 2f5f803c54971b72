"""The conductor: kills and suspends agents at random for a set time, and measures meanwhile."""

from __future__ import annotations

import os
import random
import time

from .history import is_in_act
from .measures import MEASURE_EVERY_S
from .plan import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .crew import Crew
    from .measures import Measures
    from .plan import Plan

#: How many kills there are for each suspension.
KILLS_A_SUSPENSION = 5

#: How long a process is suspended at most, in seconds: longer than its leases last.
MAX_SUSPENSION_S = 2.5

#: How long is waited, in seconds, until the victim is in the middle of an act; and how much longer
#: at most. Else most kills would find it at rest, and prove little.
WAIT_FOR_ACT_S, MAX_INTO_ACT_S = 0.1, 0.0002

#: How often its history is looked at meanwhile, in seconds.
LOOK_FOR_ACT_S = 0.0001

#: After how many agents that ended by themselves the run is cut short: the disk may be full.
MAX_FALLEN = 50

#: How often the conductor looks whether something is due, in seconds.
LOOK_EVERY_S = 0.01


class Conductor:
    """Conducts one run.

    Args:
        plan: the run.
        crew: its agents.
        measures: takes the measurements.
        progress: told how many seconds of the run are over.
    """

    def __init__(
        self, plan: Plan, crew: Crew, measures: Measures, progress: Callable[[int], object]
    ) -> None:
        self._plan = plan
        self._crew = crew
        self._measures = measures
        self._progress = progress
        self._chance = random.Random(plan.seed)
        self._roles = sorted(set(crew.cast.values()))
        self._to_kill: list[str] = []
        self._began = time.monotonic()
        self._measure_at = self._began
        self._resume_at: dict[str, float] = {}

    def conduct(self) -> None:
        """Run the agents for the time of the plan, killing some, then end them in good order."""
        self._crew.start()
        end = self._began + self._plan.minutes * 60
        kill_at = self._began + self._gap_s()
        suspend_at = self._began + self._gap_s(KILLS_A_SUSPENSION)
        while (now := time.monotonic()) < end and len(self._crew.fell) < MAX_FALLEN:
            if now >= kill_at:
                self._kill()
                kill_at += self._gap_s()
            if now >= suspend_at:
                self._suspend()
                suspend_at += self._gap_s(KILLS_A_SUSPENSION)
            self._tick()
            self._crew.replace_fallen()
            time.sleep(LOOK_EVERY_S)
        self._crew.end(self._tick)

    def _gap_s(self, times: int = 1) -> float:
        """Return the time to the next event of a kind that happens once in so many kills."""
        every_s = self._plan.kill_every_s * times
        return self._chance.expovariate(1 / every_s) if every_s else float("inf")

    def _any_of(self, role: str) -> str:
        return self._chance.choice(named(self._crew.cast, role))

    def _kill(self) -> None:
        """Kill an agent, in the middle of an act if possible; each kind in turn.

        One that has not begun is left to begin: on a busy machine none would come to do anything.
        """
        self._to_kill = self._to_kill or self._chance.sample(self._roles, len(self._roles))
        for role in self._to_kill:
            name = self._any_of(role)
            path = self._crew.history_of(name)
            if os.path.exists(path):
                break
        else:
            return
        self._to_kill.remove(role)
        deadline = time.monotonic() + WAIT_FOR_ACT_S
        while not is_in_act(path) and time.monotonic() < deadline:
            time.sleep(LOOK_FOR_ACT_S)
        time.sleep(self._chance.random() * MAX_INTO_ACT_S)
        self._crew.kill(name)

    def _suspend(self) -> None:
        name = self._any_of(self._chance.choice(self._roles))
        if name not in self._resume_at:
            self._crew.suspend(name)
            self._resume_at[name] = time.monotonic() + self._chance.random() * MAX_SUSPENSION_S

    def _tick(self) -> None:
        now = time.monotonic()
        for name in [name for name, at in self._resume_at.items() if now >= at]:
            del self._resume_at[name]
            self._crew.resume(name)
        if now >= self._measure_at:
            self._measure_at = now + MEASURE_EVERY_S
            self._measures.take(self._crew.pids)
            self._progress(int(now - self._began))

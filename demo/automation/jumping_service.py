"""The service of the demo in a thread of its own, on a clock that jumps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...automation.log import ServiceLog
from ...automation.schedules.tables import Schedules
from ...automation.service import Service
from ...automation.snapshots import examine_folder
from ...bus.bus import Bus
from ...bus.doorbell import ring
from ...schema.processes import start_thread
from ..stage import PATIENCE_S, wait_until
from .proof import jobs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread
    from types import TracebackType
    from typing import TextIO


@dataclass
class Clock:
    """A clock that goes on as another does, and jumps when it is told to."""

    base: Callable[[], int]
    ahead_ms: int = 0

    def __call__(self) -> int:
        """Return the time, in epoch milliseconds."""
        return self.base() + self.ahead_ms

    def jump(self, seconds: float) -> None:
        """Go forward at once."""
        self.ahead_ms += round(seconds * 1000)


@dataclass
class _Ending:
    """The end of the service: whether it is ready, and what has ended it too early."""

    is_ready: bool = False
    errors: list[BaseException] = field(default_factory=list)


class JumpingService:
    """A running service; leaving the `with` block ends it.

    Args:
        folder: of its configuration.
        directory: of its bus, which is made.

    Attributes:
        bus: the bus, by the clock of the demo.
        config: the configuration.
        plugins: the names of its plugins.
    """

    def __init__(self, folder: Path, directory: str) -> None:
        self._folder = folder
        self._directory = directory
        self._ending = _Ending()

    def jump(self, seconds: float) -> None:
        """Move the clock forward; what is due then is done."""
        self._clock.jump(seconds)
        ring(self.bus)

    def next_time_of(self, plugin: str) -> None:
        """Move the clock to when a schedule is due, and wait until that is decided, and done."""
        schedules = Schedules.of(self.bus)

        def due_ms() -> int | None:
            schedule = schedules.get(plugin, "default")
            return None if schedule is None else schedule.due_ms

        due = due_ms()
        assert due is not None
        self.jump(max(0, due - self._clock()) / 1000)
        self.wait(lambda: due_ms() != due, f"it is decided about a time of {plugin}")
        self.wait(lambda: not self.has_live_jobs(plugin), f"a job of {plugin} ends")

    def has_live_jobs(self, plugin: str) -> bool:
        """Whether a job of a plugin waits or runs."""
        return any(job.ended_at_ms is None for job in jobs_of(self.bus, plugin))

    def wait(self, is_done: Callable[[], bool], what: str) -> None:
        """Wait until something has happened.

        Raises:
            AckbusError: it does not happen.
        """
        wait_until(is_done, f"{what} (see {self._log_path})", lambda: self._ending.errors)

    @property
    def ahead_s(self) -> float:
        """The seconds by which the clock is ahead."""
        return self._clock.ahead_ms / 1000

    @property
    def _log_path(self) -> Path:
        return self._folder / "service.jsonl"

    def __enter__(self) -> JumpingService:
        self._by_the_host = Bus.init(self._directory)
        self._clock = Clock(self._by_the_host.now_ms)
        self.bus = Bus.open(self._directory, clock=self._clock)
        snapshot = examine_folder(self._folder, {})
        self.config, self.plugins = snapshot.config, tuple(snapshot.plugins)
        self._log_file: TextIO = self._log_path.open("w", encoding="utf-8")
        self._log = ServiceLog(self._log_file)
        self._log.__enter__()
        self._log.take(self.config.service)
        self._thread: Thread = start_thread(self._run, "service of the demo")
        self.wait(lambda: self._ending.is_ready, "the service begins")
        return self

    def _run(self) -> None:
        def ready() -> None:
            self._ending.is_ready = True

        try:
            with Bus.open(self._directory, clock=self._clock) as bus:
                self._service = Service(bus, lambda: examine_folder(self._folder, {}))
                self._service.run(ready)
        except BaseException as error:
            self._ending.errors.append(error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._service.stop()
        if error is not None:
            self._service.stop()  # at once
        self._thread.join(PATIENCE_S)
        self.bus.close()
        self._by_the_host.close()
        self._log.__exit__()
        self._log_file.close()

"""The service: one process that decides what is due, runs it, and stores what came of it.

One thread does all that, and sleeps until something is due or the bell rings; the programs of
plugins, and what they print live, have threads of their own.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import time

from ..bus.doorbell import listen
from ..schema.errors import AckbusError, BusMoved, InvalidInput, NotFound, Refused
from ..schema.message.times import format_ts
from ..schema.queries import engine_of
from ..subscribers.jobs.claims import Claims
from ..subscribers.jobs.jobs import Jobs
from ..workers.processes.own_child import GRACE_S
from ..workers.processes.supervisors import Supervisors
from .active_config import activate
from .attention import Watch
from .config.values import ConfigFaults
from .jobs import submission
from .jobs.dispatcher import Dispatcher, recover
from .jobs.endings import TIMES_MISSED, Alarms, JobEndings
from .jobs.plugin_run import LiveOutput
from .jobs.submission import Submission, queues_of_plugins
from .records.breakers import Breakers
from .records.facts import Activations, Facts, Fence, JobLog, ServiceFenced
from .routes.flow import Contexts
from .schedules.scheduler import Scheduler
from .schedules.tables import Decisions
from .service_lock import Notifier, ServiceControl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ..bus.doorbell import Listener
    from ..bus.local_bus import LocalBus
    from .active_config import ConfigSnapshot
    from .config.models import Config, ScheduleEntry, ServiceConfig
    from .schedules.tables import Decision

    class Records(Protocol):
        """A table whose old rows are pruned."""

        def prune(self, before: str, limit: int) -> int:
            """Delete rows of before a time, at most so many; return how many went."""

# Contexts of runs that have ended, which go when they are old; those of live runs stay.


class EndedRuns:
    """The contexts of runs of which no job waits or runs."""

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._contexts = Contexts.of(bus)

    def prune(self, before: str, limit: int) -> int:
        """Delete contexts of before a time, at most so many; return how many went."""
        if not self._contexts.has_older(before):
            return 0
        with self._bus.transaction():  # no run goes on meanwhile
            live = self._contexts.runs_of(self._live())
            return self._contexts.delete(before, limit, live)

    def _live(self) -> list[int]:
        """Return the seqs of all jobs of plugins that wait or run."""
        jobs, claims = Jobs.of(self._bus), Claims.of(self._bus)
        seqs = []
        for info in queues_of_plugins(self._bus):
            seqs += jobs.queued_seqs(info)
            seqs += [seq for _, seq in claims.active(info)]
        return seqs


# Housekeeping: what a service does from time to time beside its jobs.

#: Seconds between two heartbeats of the service.
_BEAT_S = 60.0

#: How many rows of old records one statement deletes.
_PRUNED_AT_ONCE = 500


class Housekeeping:
    """Writes the heartbeats of the service, and deletes old records.

    Args:
        bus: the bus; its clock counts.
        records: the tables that are pruned.
        beat: writes a heartbeat.
    """

    def __init__(self, bus: LocalBus, records: Sequence[Records], beat: Callable[[], None]) -> None:
        self._bus = bus
        self._records = records
        self._beat = beat
        self._next_prune = self._next_beat = 0.0

    def step(self, service: ServiceConfig) -> None:
        """Do what is due."""
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + _BEAT_S
            self._beat()
        if now >= self._next_prune:
            self._next_prune = now + service.tick_interval_s
            self._prune(service.job_log_retention_s)

    def _prune(self, kept_s: float) -> None:
        before = format_ts(max(0, self._bus.now_ms() - round(kept_s * 1000)))
        for records in self._records:
            while records.prune(before, _PRUNED_AT_ONCE) == _PRUNED_AT_ONCE:
                pass


#: The longest sleep between two checks for new messages, in seconds: not every writer rings the
#: doorbell.
_RECHECK_S = 0.25

#: How long running jobs have to end by themselves when the service is to stop, in seconds.
STOP_S = 20.0

#: How long the ends of killed jobs may take to be stored, in seconds: a stop takes less than
#: `STOP_LIMIT_S`.
_STORE_S = 2.0

#: For how many programs at most there is a supervisor before the first begins.
_PREPARED = 4

#: Pause of the service after a failed step, in seconds.
_PAUSE_S = 1.0

_log = logging.getLogger("ackbus.automation.service")


class Service:
    """The service of a bus; `run` blocks until `stop` is called.

    Args:
        bus: an open bus.
        load: reads the configuration whole, and makes a snapshot of it.
        notifier: tells the service manager.
        control: requests to stop and to reload, some of which may have come already.
        on_taken: is called with each configuration as it comes into force.
        on_reloaded: is called when a configuration that was taken again is in force, with None, or
            is refused, with the reason.

    Attributes:
        submission: takes jobs in.
        breakers: of scheduled commands.
        scheduler: decides what is due.
    """

    def __init__(
        self,
        bus: LocalBus,
        load: Callable[[], ConfigSnapshot],
        *,
        notifier: Notifier | None = None,
        control: ServiceControl | None = None,
        on_taken: Callable[[Config], None] = lambda _: None,
        on_reloaded: Callable[[AckbusError | None], None] = lambda _: None,
    ) -> None:
        self.bus = bus
        self._load = load
        self._notifier = notifier or Notifier()
        self._control = control or ServiceControl()
        self._on_taken = on_taken
        self._on_reloaded = on_reloaded
        self.submission = Submission(bus)
        self.breakers = Breakers.of(bus)
        self.alarms = Alarms(bus, self.submission)
        engine = engine_of(bus)
        self._fence, self._token = Fence(engine), 0
        self._activations = Activations(engine)
        self.scheduler = Scheduler(
            bus, self.submission, self.breakers, on_missed=self._tell_missed, check=self._check
        )
        records = (
            *(JobLog(engine), Facts(engine), self.breakers, Decisions(engine)),
            EndedRuns(bus),
        )
        self._watch = Watch(bus, self.alarms, self._check)
        self._house = Housekeeping(bus, records, self._beat)
        self._reload_at = math.inf

    def run(
        self, ready: Callable[[], None] = lambda: None, first: ConfigSnapshot | None = None
    ) -> None:
        """Load the configuration, recover interrupted jobs, and work until `stop`.

        Args:
            ready: is called once, as soon as jobs can run.
            first: the configuration to begin with; None reads it.

        Raises:
            ConfigFaults: the configuration is refused; nothing was changed.
            ServiceFenced: another service has begun.
        """
        snapshot = self._load() if first is None else first
        self._token = self._fence.begin(snapshot.config.directory, snapshot.config.hash)
        output = LiveOutput(self.bus)
        self._endings = JobEndings(
            self.bus, self._token, self.submission, self.breakers, self.alarms
        )
        name = f"automation-{os.getpid()}-{secrets.token_hex(4)}"
        with listen(self.bus, self._control.wakeup) as listener, Supervisors() as supervisors:
            self._dispatcher = Dispatcher(
                self.bus, name, self._endings, output, supervisors, listener.wake
            )
            self._take(snapshot)
            if count := recover(self.bus, self._endings):
                _log.warning("%s jobs were running when the last service ended", count)
            output.start()
            if snapshot.plugins:
                supervisors.prepare(min(snapshot.config.service.max_workers, _PREPARED))
            try:
                self._settle()
                _log.info("ready, with %s", self._active_config)
                self._notifier.ready(str(self._active_config))
                ready()
                self._loop(listener)
            finally:
                self._wind_up(listener)
                output.close()
        self._fence.end(self._token)

    def stop(self) -> None:
        """Begin nothing more, let running jobs end for a while, and return from `run`.

        Called again it ends them at once. Safe from any thread and from a signal handler.
        """
        self._control.stop()

    def reload(self) -> None:
        """Reload the configuration soon; one that is refused changes nothing.

        Safe from any thread and from a signal handler.
        """
        self._control.reload()

    @property
    def snapshot(self) -> ConfigSnapshot:
        """The configuration in force; there is one as soon as jobs can run."""
        return self._active_config.snapshot

    def _check(self) -> None:
        self._fence.check(self._token)

    def _beat(self) -> None:
        self._fence.beat(self._token)
        self._watch.step()

    def _tell_missed(self, entry: ScheduleEntry, decision: Decision) -> None:
        record = decision.record()
        payload = {name: record[name] for name in ("nominal", "until", "count")}
        self.alarms.tell(TIMES_MISSED, entry.plugin, {"schedule": entry.id, **payload})

    # The configuration -------------------------------------------------------------------------

    def _take(self, snapshot: ConfigSnapshot) -> None:
        """Activate a configuration; after an error the previous one stays in force."""
        active_config = activate(self.bus, snapshot, self.scheduler, self.submission, self._check)
        # Nothing from here on can fail.
        config = snapshot.config
        self._active_config = active_config
        self.breakers.use_rules(
            {name: settings.circuit_breaker for name, settings in config.plugins.items()}
        )
        self.alarms.use_config(config, snapshot.plugins)
        self._endings.use_config(config, active_config.router)
        self._dispatcher.use_rules(active_config.rules, active_config.queues)
        self.scheduler.use_config(config, snapshot.registry)
        self._on_taken(config)
        snapshot.tell()

    def _settle(self) -> None:
        """Finish the activation of a configuration. Safe to repeat."""
        submission.bury_removed(self.bus, self._active_config.in_use)
        snapshot = self._active_config.snapshot
        with self.bus.transaction():
            self._check()
            self._activations.taken(snapshot.left_out)
            self._fence.ready(self._token, snapshot.config.hash)

    def _reload(self) -> None:
        """Reload the configuration; if it can't be stored yet, try again soon."""
        self._reload_at = math.inf
        self._notifier.reloading()
        try:
            self._take(self._load())
            self._settle()
            _log.info("the configuration was taken, with %s", self._active_config)
            self._on_reloaded(None)
        except (ServiceFenced, BusMoved):
            raise
        except ConfigFaults as error:
            for fault in error.faults:
                _log.error("the configuration is refused: %s", fault)
            self._refuse(error)
        except (InvalidInput, NotFound, Refused) as error:
            _log.error("the configuration is refused: %s", error)
            self._refuse(error)
        except AckbusError as error:  # the disk is full, another writer holds the bus
            _log.error("the configuration can't be taken yet: %s", error)
            self._reload_at = time.monotonic() + _PAUSE_S
        self._notifier.ready(str(self._active_config))

    def _refuse(self, error: AckbusError) -> None:
        """Tell all that wait for a reload that the configuration is refused."""
        try:
            with self.bus.transaction():
                self._check()
                self._activations.refused(str(error))
        except (ServiceFenced, BusMoved):
            raise
        except AckbusError as unwritten:  # those that wait find it in the log
            _log.warning("that could not be stored: %s", unwritten)
        finally:
            self._on_reloaded(error)

    # The loop ----------------------------------------------------------------------------------

    def _loop(self, listener: Listener) -> None:
        engine = engine_of(self.bus)
        while not self._control.is_stopping:
            self._watchdog()  # where the store can't be written, too: a new start would not help
            try:
                version = engine.version()  # before the step: it may have looked already
                due_ms = self._step()
            except (ServiceFenced, BusMoved):
                raise
            except AckbusError as error:  # the disk is full, another writer holds the bus
                _log.error("the service can't go on yet: %s", error)
                listener.wait(_PAUSE_S)
            else:
                self._wait(listener, due_ms, version)

    def _step(self) -> int | None:
        """Do all that is due, and return when something is due next, in epoch milliseconds."""
        if self._control.take_reload() or time.monotonic() >= self._reload_at:
            self._reload()
        try:
            scheduled_ms = self.scheduler.tick()  # before the jobs: one that is due begins at once
        finally:
            self._dispatcher.step()  # jobs end and begin, whatever becomes of the schedules
        if self.scheduler.give_turns():  # what waited for one that has ended
            self._dispatcher.step()
        self._house.step(self._settings)
        dues = [ms for ms in (scheduled_ms, self._dispatcher.next_due_ms) if ms is not None]
        return min(dues, default=None)

    @property
    def _settings(self) -> ServiceConfig:
        return self._active_config.snapshot.config.service

    def _wait(self, listener: Listener, due_ms: int | None, version: int) -> None:
        """Sleep until something is due, the bell rings, or another process has stored anything."""
        engine = engine_of(self.bus)
        longest_s = _PAUSE_S if self._dispatcher.is_held_up else self._settings.tick_interval_s
        end = min(time.monotonic() + longest_s, self._reload_at)
        now_ms = self.bus.now_ms()
        while not (self._control.is_stopping or self._control.is_to_reload):
            self._watchdog()
            nap_s = min(_RECHECK_S, end - time.monotonic())
            before_ms, now_ms = now_ms, self.bus.now_ms()
            if now_ms < before_ms:  # the clock was set back
                return
            if due_ms is not None:
                nap_s = min(nap_s, (due_ms - now_ms) / 1000)
            if nap_s <= 0 or listener.wait(nap_s) or engine.version() != version:
                return

    def _watchdog(self) -> None:
        sign_every_s, now = self._notifier.sign_every_s, time.monotonic()
        if sign_every_s is not None and now >= self._next_alive:
            self._next_alive = now + sign_every_s
            self._notifier.alive()

    _next_alive = 0.0

    def _wind_up(self, listener: Listener) -> None:
        """Wait for running jobs, end those that go on, and store what came of them."""
        self._notifier.stopping()
        deadline = time.monotonic() + STOP_S
        has_ended_all = False
        while self._dispatcher.running and time.monotonic() < deadline + GRACE_S + _STORE_S:
            if not has_ended_all and (self._control.is_in_a_hurry or time.monotonic() >= deadline):
                has_ended_all = True
                self._dispatcher.end_all(GRACE_S)
            listener.wait(_RECHECK_S)
            self._watchdog()
            self._dispatcher.step(may_begin=False)

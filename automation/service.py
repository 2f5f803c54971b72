"""The service: one process that decides what is due, runs it, and stores what came of it.

One thread does all that, and sleeps until something is due or the bell rings; the programs of
plugins, and what they print live, have threads of their own.
"""

from __future__ import annotations

import logging
import os
import secrets
import time

from ..bus.doorbell import listen
from ..schema.errors import AckbusError, BusMoved
from ..schema.message.times import format_ts
from ..schema.queries import engine_of
from ..workers.processes.end_deadlines import GRACE_S
from ..workers.processes.supervisors import Supervisors
from .config.faults import ConfigFaults
from .jobs import plugin_queues
from .jobs.alarms import TIMES_MISSED, Alarms
from .jobs.dispatcher import Dispatcher, Rules
from .jobs.endings import Endings
from .jobs.job_request import JobRequest
from .jobs.live_output import LiveOutput
from .jobs.recovery import recover
from .jobs.submission import Submission
from .notify import Notifier
from .records.breakers import Breakers
from .records.facts import Facts
from .records.fence import Fence, ServiceFenced
from .records.inits import Inits
from .records.job_log import JobLog
from .routes.contexts import Contexts
from .routes.router import Router
from .schedules.scheduler import Scheduler
from .status import status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..bus.bus import Bus
    from ..bus.doorbell import Listener
    from .config.snapshot import ScheduleEntry
    from .schedules.tables import Decision
    from .snapshots import Snapshot


#: The longest sleep without a look whether others have stored anything, in seconds: what a writer
#: that never rings the bell has to wait.
_RECHECK_S = 0.25

#: How long running jobs have to end by themselves when the service is told to stop, in seconds.
STOP_S = 20.0

#: For how many programs at most there is a supervisor before the first begins.
_PREPARED = 4

#: How long the service waits after something that it could not store, in seconds.
_PAUSE_S = 1.0

#: Seconds between two notes that the service is there.
_BEAT_S = 60.0

#: How many rows of old records one statement deletes.
_PRUNED_AT_ONCE = 500

_log = logging.getLogger("ackbus.automation.service")


class Service:
    """The service of a bus; `run` blocks until it is told to stop.

    Args:
        bus: an open bus.
        load: reads the configuration whole, and makes a snapshot of it.
        notifier: tells the service manager.

    Attributes:
        submission: takes jobs in.
        breakers: of scheduled commands.
        scheduler: decides what is due.
    """

    def __init__(
        self,
        bus: Bus,
        load: Callable[[], Snapshot],
        *,
        notifier: Notifier | None = None,
    ) -> None:
        self.bus = bus
        self._load = load
        self._notifier = notifier or Notifier()
        self.started_at_ms = bus.now_ms()
        self.submission = Submission(bus)
        self.breakers = Breakers.of(bus)
        self.alarms = Alarms(bus, self.submission)
        engine = engine_of(bus)
        self._fence, self._inits = Fence(engine), Inits(engine)
        self._contexts = Contexts(engine)
        self._records = (JobLog(engine), Facts(engine), self.breakers, self._contexts)
        self.scheduler = Scheduler(
            bus,
            self.submission,
            self.breakers,
            on_missed=self._tell_missed,
            check=lambda: self._fence.check(self._token),
        )
        self._snapshot: Snapshot | None = None
        self._token = 0
        self._is_stopping = self._is_to_reload = self._is_in_a_hurry = False
        self._listener: Listener | None = None

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Take the configuration, recover what was running, and work until `stop`.

        Args:
            ready: is called once, as soon as jobs can run.

        Raises:
            ConfigFaults: the configuration is refused; nothing was changed.
            ServiceFenced: another service has begun.
        """
        snapshot = self._load()
        self._token = self._fence.begin(snapshot.config.directory, snapshot.config.hash)
        output = LiveOutput(self.bus)
        endings = Endings(self.bus, self._token, self.submission, self.breakers, self.alarms)
        name = f"automation-{os.getpid()}-{secrets.token_hex(4)}"
        with listen(self.bus) as self._listener, Supervisors() as supervisors:
            self._endings = endings
            self._dispatcher = Dispatcher(
                self.bus, name, endings, output, supervisors, self._listener.wake
            )
            self._take(snapshot, recover_first=True)
            output.start()
            if snapshot.plugins:
                supervisors.prepare(min(snapshot.config.service.max_workers, _PREPARED))
            try:
                self._announce(snapshot, ready)
                self._loop(self._listener)
            finally:
                self._wind_up(self._listener)
                output.close()
                self._listener = None
        self._fence.end(self._token)

    def stop(self) -> None:
        """Begin nothing more, let running jobs end for a while, and return from `run`.

        Called again it ends them at once. Safe from any thread and from a signal handler.
        """
        self._is_in_a_hurry = self._is_stopping
        self._is_stopping = True
        self._wake()

    def reload(self) -> None:
        """Take the configuration again, soon; one that is refused changes nothing.

        Safe from any thread and from a signal handler.
        """
        self._is_to_reload = True
        self._wake()

    @property
    def snapshot(self) -> Snapshot:
        """The configuration in force; there is one as soon as jobs can run."""
        assert self._snapshot is not None
        return self._snapshot

    def status(self) -> dict[str, Any]:
        """Return the state of the service and its jobs, as JSON."""
        return status_of(self.bus)

    # The configuration -------------------------------------------------------------------------

    def _take(self, snapshot: Snapshot, *, recover_first: bool = False) -> None:
        """Go by a configuration; all that can fail has been done before.

        Args:
            snapshot: the configuration.
            recover_first: look after the jobs of a predecessor: what of them is queued again may be
                of a plugin that was removed meanwhile.
        """
        config = snapshot.config
        for plugin in snapshot.plugins.values():
            plugin_queues.follow(self.bus, plugin, config.service)
        self.breakers.take({n: each.circuit_breaker for n, each in config.plugins.items()})
        self.alarms.take(config, snapshot.plugins)
        self._endings.take(config, Router(self.bus, config, snapshot.plugins))
        if recover_first and (count := recover(self.bus, self._endings)):
            _log.warning("%s jobs were running when the last service ended", count)
        in_use = {name for name, plugin in config.plugins.items() if plugin.enabled}
        plugin_queues.bury_removed(self.bus, in_use | set(snapshot.plugins))
        self._dispatcher.take(Rules(snapshot.plugins, config.service, self._contexts.values))
        self.scheduler.take(config, snapshot.registry)
        self._snapshot = snapshot
        self._begin_inits(snapshot)

    def _tell_missed(self, entry: ScheduleEntry, decision: Decision) -> None:
        record = decision.record()
        told = {name: record[name] for name in ("nominal", "until", "count")}
        self.alarms.tell(TIMES_MISSED, entry.plugin, {"schedule": entry.id, **told})

    def _begin_inits(self, snapshot: Snapshot) -> None:
        """Submit `init` for each plugin that is new, or has changed with its configuration."""
        known = self._inits.all()
        for name in known.keys() - snapshot.plugins.keys():
            self._inits.forget(name)
        for plugin in snapshot.plugins.values():
            init = known.get(plugin.name)
            is_known = init is not None and init.fingerprint == plugin.fingerprint
            if not is_known and "init" in plugin.manifest.commands:
                request = JobRequest(
                    plugin=plugin.name,
                    command="init",
                    submitted_by="scheduler",
                    dedupe_key=plugin.fingerprint,
                    dedupe_ttl_s=0,  # while one waits or runs there is no second
                )
                self.submission.submit(request)

    def _reload(self) -> None:
        self._is_to_reload = False
        self._notifier.reloading()
        try:
            snapshot = self._load()
        except ConfigFaults as error:
            for fault in error.faults:
                _log.error("the configuration is refused: %s", fault)
        except AckbusError as error:
            _log.error("the configuration can't be read: %s", error)
        else:
            self._take(snapshot)
            self._fence.ready(self._token, snapshot.config.hash)
            _log.info("the configuration was taken, with %s plugins", len(snapshot.plugins))
        assert self._snapshot is not None
        self._notifier.ready(_said(self._snapshot))

    def _announce(self, snapshot: Snapshot, ready: Callable[[], None]) -> None:
        for warning in snapshot.config.warnings:
            _log.warning("%s", warning)
        self._fence.ready(self._token, snapshot.config.hash)
        self._notifier.ready(_said(snapshot))
        _log.info("ready, with %s", _said(snapshot))
        ready()

    # The loop ----------------------------------------------------------------------------------

    def _loop(self, listener: Listener) -> None:
        self._next_prune = self._next_beat = 0.0
        while not self._is_stopping:
            try:
                due_ms = self._step()
            except (ServiceFenced, BusMoved):
                raise
            except AckbusError as error:  # the disk is full, another writer holds the bus
                _log.error("the service can't go on yet: %s", error)
                listener.wait(_PAUSE_S)
            else:
                self._wait(listener, due_ms)

    def _step(self) -> int | None:
        """Do all that is due, and return when a schedule is due next, in epoch milliseconds."""
        if self._is_to_reload:
            self._reload()
        due_ms = self.scheduler.tick()
        self._dispatcher.step()
        self._keep_house()
        return due_ms

    def _keep_house(self) -> None:
        """Do what is due from time to time: notes that the service is there, old records."""
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + _BEAT_S
            self._fence.beat(self._token)
        if now >= self._next_prune:
            self._next_prune = now + self._tick_interval_s
            self._prune()

    def _prune(self) -> None:
        assert self._snapshot is not None
        kept_ms = round(self._snapshot.config.service.job_log_retention_s * 1000)
        before = format_ts(max(0, self.bus.now_ms() - kept_ms))
        for records in self._records:
            while records.prune(before, _PRUNED_AT_ONCE) == _PRUNED_AT_ONCE:
                pass

    @property
    def _tick_interval_s(self) -> float:
        assert self._snapshot is not None
        return self._snapshot.config.service.tick_interval_s

    def _wait(self, listener: Listener, scheduled_ms: int | None) -> None:
        """Sleep until something is due, the bell rings, or another process has stored anything."""
        dues = [ms for ms in (scheduled_ms, self._dispatcher.next_due_ms()) if ms is not None]
        due_ms = min(dues, default=None)
        engine = engine_of(self.bus)
        longest_s = _PAUSE_S if self._dispatcher.has_unwritten else self._tick_interval_s
        version, end = engine.version(), time.monotonic() + longest_s
        while not (self._is_stopping or self._is_to_reload):
            self._watchdog()
            nap_s = min(_RECHECK_S, end - time.monotonic())
            if due_ms is not None:
                nap_s = min(nap_s, (due_ms - self.bus.now_ms()) / 1000)
            if nap_s <= 0 or listener.wait(nap_s) or engine.version() != version:
                return

    def _watchdog(self) -> None:
        every_s, now = self._notifier.every_s, time.monotonic()
        if every_s is not None and now >= self._next_alive:
            self._next_alive = now + every_s
            self._notifier.alive()

    _next_alive = 0.0

    def _wind_up(self, listener: Listener) -> None:
        """Wait for running jobs, end those that go on, and store what came of them."""
        self._notifier.stopping()
        deadline = time.monotonic() + STOP_S
        has_ended_all = False
        while self._dispatcher.running and time.monotonic() < deadline + GRACE_S + STOP_S:
            if not has_ended_all and (self._is_in_a_hurry or time.monotonic() >= deadline):
                has_ended_all = True
                self._dispatcher.end_all(GRACE_S)
            listener.wait(_RECHECK_S)
            self._watchdog()
            self._dispatcher.step(may_begin=False)

    def _wake(self) -> None:
        listener = self._listener
        if listener is not None:
            listener.wake()


def _said(snapshot: Snapshot) -> str:
    config = snapshot.config
    return f"{len(snapshot.plugins)} plugins and {len(config.pipelines)} pipelines"

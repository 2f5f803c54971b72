"""The state of the service and its jobs, as anybody who opens the bus can see it."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from ..schema.message.times import format_ts
from ..schema.queries import engine_of
from ..subscribers.jobs import jobs as states
from ..subscribers.jobs.errors import QueueNotFound
from ..subscribers.jobs.jobs import Jobs
from ..subscribers.jobs.json_records import plugin_job_record
from ..subscribers.queues.queue import Queue
from ..subscribers.queues.statistics import SATURATED_AFTER_S, QueueStats
from ..subscribers.views import list_jobs
from .attention import starving_schedules
from .jobs.submission import PREFIX, queues_of_plugins
from .records.breakers import CLOSED, Breaker, Breakers
from .records.facts import Activations, Facts, Fence, Inits, JobLog, LogEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..bus.local_bus import LocalBus

#: The states of jobs that are not over.
_LIVE = (states.QUEUED, states.RUNNING)
#: The keys of `Jobs.counts` for live jobs: the three gates of queued jobs, and running.
_COUNTED_LIVE = (states.OPEN, states.TIME, states.KEY, states.RUNNING)

#: How many of the last attempts are returned.
LAST_RUNS = 10


def status_of(bus: LocalBus) -> dict[str, Any]:
    """Return the state of the service and its jobs, as JSON.

    `is_saturated` is set when jobs have waited for over a minute while others ran. `left_out` has
    the configured plugins that can't be loaded, each with the reason, and `refused` why the last
    reload was refused, or None.
    """
    engine = engine_of(bus)
    queues = [_queue_record(bus, info.name) for info in queues_of_plugins(bus)]
    breakers = _breakers(bus)
    inits = Inits(engine).all()
    activation = Activations(engine).last()
    waits_s = max((queue["oldest_wait_s"] or 0.0 for queue in queues), default=0.0)
    running = sum(queue["running"] for queue in queues)
    return {
        "service": service_of(bus),
        "queue_depth": sum(queue["queued"] for queue in queues) + running,
        "running": running,
        "oldest_wait_s": waits_s,
        "is_saturated": waits_s > SATURATED_AFTER_S and running > 0,
        "dead": sum(queue["dead"] for queue in queues),
        "plugins": {
            queue["plugin"]: queue
            | {
                "init": inits[queue["plugin"]].state if queue["plugin"] in inits else None,
                "init_error": inits[queue["plugin"]].error if queue["plugin"] in inits else None,
            }
            for queue in queues
        },
        "left_out": activation.left_out,
        "refused": activation.refused,
        "starving_schedules": [schedule.record() for schedule in starving_schedules(bus)],
        "breakers": [_breaker_record(breaker) for breaker in breakers],
        "plugins_circuit_open": _open_circuits(breakers),
        "states": [
            {"plugin": plugin, "keys": sorted(state), "updated_at": at}
            for plugin, state, at in Facts(engine).states()
        ],
        "last_runs": [_run_record(run) for run in JobLog(engine).newest(LAST_RUNS)],
    }


def health_of(bus: LocalBus, plugins_loaded: int, uptime_s: float) -> dict[str, Any]:
    """Return the health of a service that runs, as its HTTP listeners answer it without a token.

    It costs a few index walks, where `status_of` asks for statistics of each queue.
    """
    jobs = Jobs.of(bus)
    counts = [jobs.counts(info) for info in queues_of_plugins(bus)]
    return {
        "status": "ok",
        "uptime_seconds": int(uptime_s),
        "queue_depth": sum(
            by_state.get(state, 0) for by_state in counts for state in _COUNTED_LIVE
        ),
        "plugins_loaded": plugins_loaded,
        "plugins_circuit_open": _open_circuits(_breakers(bus)),
    }


def plugin_of(bus: LocalBus, name: str) -> dict[str, Any]:
    """Return the stored state of one plugin, as JSON: the keys of its state, never the values."""
    engine = engine_of(bus)
    facts = Facts(engine)
    init = Inits(engine).all().get(name)
    try:
        jobs = _queue_record(bus, PREFIX + name)
    except QueueNotFound:  # the service has not begun with it yet
        jobs = {}
    return {
        "jobs": jobs,
        "init": None if init is None else {"state": init.state, "error": init.error},
        "state_keys": sorted(facts.state(name)),
        "facts": [
            {"id": fact.id, "seq": fact.seq, "type": fact.fact_type, "at": fact.created_at}
            for fact in facts.newest(name, LAST_RUNS)
        ],
        "breakers": [
            _breaker_record(breaker) for breaker in _breakers(bus) if breaker.plugin == name
        ],
        "last_runs": [_run_record(run) for run in JobLog(engine).newest(LAST_RUNS, plugin=name)],
    }


def breaker_history(bus: LocalBus, plugin: str) -> dict[str, Any]:
    """Return the breakers of a plugin, and how they came to their states, as JSON."""
    breakers = Breakers.of(bus)
    return {
        "plugin": plugin,
        "breakers": [
            _breaker_record(breaker) for breaker in breakers.states() if breaker.plugin == plugin
        ],
        "history": [asdict(change) for change in breakers.history(plugin)],
    }


def reset_breakers(bus: LocalBus, plugin: str, *, dry_run: bool = False) -> int:
    """Close the breakers of a plugin by hand; return how many were open or half-open."""
    breakers = Breakers.of(bus)
    if not dry_run:
        return breakers.reset(plugin)
    return sum(
        breaker.plugin == plugin and breaker.state != CLOSED for breaker in breakers.states()
    )


def live_jobs(bus: LocalBus, limit: int) -> list[dict[str, object]]:
    """Return the jobs of plugins that wait or run, in the order of their requests, as JSON."""
    records = []
    for info in queues_of_plugins(bus):
        for job in list_jobs(Queue(bus, info), _LIVE, limit):
            message = bus.log.readable(job.seq)
            if message is not None:
                records.append({"seq": job.seq} | plugin_job_record(job, message))
    return sorted(records, key=lambda job: cast("int", job["seq"]))[:limit]


def logged(bus: LocalBus, limit: int, plugin: str | None = None) -> list[dict[str, Any]]:
    """Return the newest attempts, oldest first, with what they printed."""
    entries = JobLog(engine_of(bus)).newest(limit, plugin=plugin)
    return [asdict(entry) for entry in reversed(entries)]


def _breakers(bus: LocalBus) -> list[Breaker]:
    return Breakers.of(bus).states()


def _open_circuits(breakers: list[Breaker]) -> int:
    """Return how many plugins have a breaker that is not closed."""
    return len({breaker.plugin for breaker in breakers if breaker.state != CLOSED})


def _breaker_record(breaker: Breaker) -> dict[str, Any]:
    return {
        "plugin": breaker.plugin,
        "command": breaker.command,
        "state": breaker.state,
        "failure_count": breaker.failure_count,
        "opened_at": breaker.opened_at,
    }


def _run_record(run: LogEntry) -> dict[str, Any]:
    return {
        "job_id": run.id.rpartition("-")[0],
        "plugin": run.plugin,
        "command": run.command,
        "status": run.status,
        "attempt": run.attempt,
        "completed_at": run.completed_at,
        "error": run.last_error,
    }


def _queue_record(bus: LocalBus, name: str) -> dict[str, Any]:
    stats = QueueStats.of(Queue.open(bus, name))
    wait_ms = stats.oldest_wait_ms
    return {
        "plugin": name.removeprefix(PREFIX),
        "queued": stats.waiting + stats.delayed + stats.held,
        "running": stats.running,
        states.DEAD: stats.dead,
        "parallelism": stats.info.policy.max_running,
        "oldest_wait_s": None if wait_ms is None else wait_ms / 1000,
        "median_wait_s": None if stats.wait.p50_ms is None else stats.wait.p50_ms / 1000,
        "jobs_a_day": stats.ended,  # the attempts in the usual window, a day
    }


def service_of(bus: LocalBus) -> dict[str, Any]:
    """Return the last service of the bus, as JSON."""
    row = Fence(engine_of(bus)).row()
    times = {
        "started_at": row.started_at_ms,
        "ready_at": row.ready_at_ms,
        "beat_at": row.beat_at_ms,
    }
    return {
        "pid": row.pid,
        "host": row.host,
        "directory": row.directory,
        "config_hash": row.config_hash,
        **{name: None if ms is None else format_ts(ms) for name, ms in times.items()},
    }

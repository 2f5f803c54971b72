"""Schedules: list, next, history, pause, resume, run, backfill."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Annotated

import typer

from ...schema.errors import BusNotFound, InvalidInput, NotFound, Refused
from ...schema.message.times import format_ts, parse_ts
from ..definition import Commands, optional, optional_word
from ..options.service import SERVICE, ServicePlace
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.active_config import ConfigSnapshot
    from ...automation.config.models import ScheduleEntry
    from ...automation.schedules.firing import ScheduleControl
    from ...automation.schedules.tables import Schedule
    from ...bus.local_bus import LocalBus

commands = Commands()
schedule = commands.group("schedule", help="Schedules: when commands of plugins are due.")

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The plugin, or plugin.id where it has several schedules."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; print what would be done.")
]
Count = Annotated[int, typer.Option("--count", metavar="N", min=1, help="At most so many.")]


@schedule.command("list", example="bus schedule list")
def show_list(place: ServicePlace = SERVICE) -> int:
    """List the schedules, and when each is due next.

    Exit code 4 when there are none.
    """
    from ...automation.schedules.tables import Schedules

    entries = _entries(place.look())
    with place.open() as bus:
        stored = {(row.plugin, row.id): row for row in Schedules.of(bus).all()}
    records = []
    for key, entry in entries.items():
        there = stored.get(key)
        record = {"plugin": entry.plugin, "id": entry.id} if there is None else there.record()
        records.append(record | {"command": entry.command, "times": _times(entry)})
    rows = [
        (
            record["plugin"],
            record["id"],
            record["command"],
            record["times"],
            "paused" if record.get("paused_at") else record.get("due") or "never again",
            record.get("last_fired"),
        )
        for record in records
    ]
    return place.output.results(records, rows, ("plugin", "id", "command", "times", "next", "last"))


@schedule.command("next", example="bus schedule next --cron '0 9 * * 1-5' --timezone Europe/Berlin")
def show_next(
    name: Annotated[
        str | None, optional_word("NAME", "The plugin, or plugin.id, of a schedule.")
    ] = None,
    cron: Annotated[str | None, optional("EXPR", "Five fields of cron.", "--cron")] = None,
    every: Annotated[str | None, optional("D", "An interval, like 5m or daily.", "--every")] = None,
    timezone: Annotated[
        str | None, optional("Z", "A zone like Europe/Berlin. Default: the schedule's.")
    ] = None,
    begin: Annotated[
        str | None, optional("TIME", "Only times after this one. Default: now.", "--from")
    ] = None,
    count: Count = 5,
    place: ServicePlace = SERVICE,
) -> int:
    """Print the coming times of a schedule or a rule.

    Each is shown in UTC and by the clocks of its time zone. Times outside of its days and windows
    are left out. An interval of a schedule is counted from where the service stands with it.
    Exit code 4 when there are none.
    """
    from ...automation.schedules.recurrence import upcoming, zone_of
    from ...schema.message.times import now_ms

    if sum(choice is not None for choice in (name, cron, every)) != 1:
        raise InvalidInput("give one of NAME, --cron and --every; see 'bus schedule next --help'")
    from_ms = now_ms() if begin is None else parse_ts(begin)
    entry = _rule(cron, every) if name is None else _named(place.look(), name)
    stored = None if name is None else _stored(place, entry)
    if stored is not None and stored.paused_at_ms is not None:
        place.output.note(
            f"{name} is paused: none of these runs before 'bus schedule resume {name}'"
        )
    first_ms = stored.next_nominal_ms if stored is not None and begin is None else None
    if timezone is not None:
        zone_of(timezone)
        entry = entry.model_copy(update={"timezone": timezone})
    times = [asdict(time) for time in islice(upcoming(entry, from_ms, first_ms), count)]
    if len(times) < count and (entry.cron is not None or entry.every_s is not None):
        place.output.note("no later times were found; those after the year 9998 are not looked at")
    return place.output.results(
        times, [(time["at"], time["local"]) for time in times], ("at", "local")
    )


@schedule.command("history", example="bus schedule history feed --count 20")
def history(name: Name, count: Count = 50, place: ServicePlace = SERVICE) -> int:
    """Print the decisions about a schedule's times, the newest first.

    Each nominal time is decided once: fired, skipped or missed, with the reason. One that did not
    fire while the clock was ahead is reopened when that is set back. Decisions go after
    job_log_retention, but for the last. Exit code 4 when nothing is decided yet.
    """
    from ...automation.schedules.tables import Decisions

    entry = _named(place.look(), name)
    with place.open() as bus:
        decisions = Decisions.of(bus).about(entry.plugin, entry.id, limit=count)
    records = [decision.record() for decision in decisions]
    rows = [
        (record["nominal"], record["count"], record["decision"], record["reason"], record["job_id"])
        for record in records
    ]
    return place.output.results(records, rows, ("nominal", "count", "decision", "reason", "job"))


@schedule.command("pause", example="bus schedule pause feed")
def pause(name: Name, dry_run: DryRun = False, place: ServicePlace = SERVICE) -> int:
    """Pause a schedule: none of its times is run. Safe to repeat."""
    return _change(place, name, "paused", dry_run)


@schedule.command("resume", example="bus schedule resume feed")
def resume(name: Name, dry_run: DryRun = False, place: ServicePlace = SERVICE) -> int:
    """Resume a schedule with its next time; missed ones are not run."""
    return _change(place, name, "resumed", dry_run)


@schedule.command("run", example="bus schedule run feed")
def run(name: Name, dry_run: DryRun = False, place: ServicePlace = SERVICE) -> int:
    """Begin a job of a schedule at once, in addition to its times."""
    snapshot = place.snapshot()
    entry = _named(snapshot, name)
    with place.open() as bus:
        by_hand = _by_hand(bus, snapshot)
        if dry_run:
            by_hand.check(entry.plugin, entry.id)
            return _would(place.output, f"run {entry.plugin} {entry.command}")
        decision = by_hand.run_now(entry.plugin, entry.id)
    place.output.result(decision.record(), str(decision.job_id))
    return 0


@schedule.command("backfill", example="bus schedule backfill feed --from 2026-01-10T00:00:00Z")
def backfill(
    name: Name,
    begin: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="The first nominal time.", show_default=False),
    ],
    end: Annotated[
        str | None, optional("TIME", "The last nominal time. Default: now.", "--to")
    ] = None,
    dry_run: DryRun = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Begin the jobs of past times that have none, 100 at most.

    Safe to repeat: a time that has a job gets no other. Exit code 4 when there are none.
    """
    snapshot = place.snapshot()
    entry = _named(snapshot, name)
    with place.open() as bus:
        to_ms = bus.now_ms() if end is None else parse_ts(end)
        done = _by_hand(bus, snapshot).backfill(
            entry.plugin, entry.id, parse_ts(begin), to_ms, dry_run=dry_run
        )
    begun = [(at_ms, job) for at_ms, job in done if dry_run or job is not None]
    records = [{"nominal": format_ts(at_ms), "job_id": job} for at_ms, job in begun]
    rows = [(record["nominal"], record["job_id"]) for record in records]
    return place.output.results(records, rows, ("nominal", "job"))


def _change(place: ServicePlace, name: str, done: str, dry_run: bool) -> int:
    snapshot = place.snapshot()
    entry = _named(snapshot, name)
    with place.open() as bus:
        by_hand = _by_hand(bus, snapshot)
        if dry_run:
            by_hand.check(entry.plugin, entry.id)
            verb = "pause" if done == "paused" else "resume"
            return _would(place.output, f"{verb} {entry.plugin} {entry.id}")
        act = by_hand.pause if done == "paused" else by_hand.resume
        act(entry.plugin, entry.id)
    place.output.result({"plugin": entry.plugin, "id": entry.id, done: True}, f"{done} {name}")
    return 0


def _would(output: Output, act: str) -> int:
    output.result({"would": act, "dry_run": True}, f"would {act}; nothing was changed")
    return 0


def _by_hand(bus: LocalBus, snapshot: ConfigSnapshot) -> ScheduleControl:
    from ...automation.jobs.submission import Submission
    from ...automation.schedules.firing import ScheduleControl

    return ScheduleControl(bus, Submission(bus), snapshot.config)


def _entries(snapshot: ConfigSnapshot) -> dict[tuple[str, str], ScheduleEntry]:
    """Return the schedules of the plugins that can run, by plugin and id."""
    schedules = snapshot.config.schedules()
    return {key: entry for key, entry in schedules.items() if entry.plugin in snapshot.plugins}


def _named(snapshot: ConfigSnapshot, name: str) -> ScheduleEntry:
    """Return the schedule that a plugin, or a plugin and an id, name."""
    from ...automation.config.values import near

    entries = _entries(snapshot)
    plugin, _, id = name.partition(".")
    fitting = [
        entry for entry in entries.values() if entry.plugin == plugin and id in ("", entry.id)
    ]
    if len(fitting) == 1:
        return fitting[0]
    names = [f"{plugin}.{id}" for plugin, id in entries]
    if fitting:
        several = ", ".join(f"{entry.plugin}.{entry.id}" for entry in fitting)
        raise InvalidInput(f"plugin {plugin!r} has several schedules: {several}")
    hint = near(name, [*names, *{plugin for plugin, _ in entries}])
    raise NotFound(f"there is no schedule {name!r}{hint}; see 'bus schedule list'")


def _stored(place: ServicePlace, entry: ScheduleEntry) -> Schedule | None:
    """Return where the service stands with a schedule; None where it does not know its rule."""
    from ...automation.schedules.tables import Schedules

    try:
        with place.open() as bus:
            stored = Schedules.of(bus).get(entry.plugin, entry.id)
    except (BusNotFound, Refused):  # no service has begun, or the configuration was only found
        return None
    return stored if stored is not None and stored.config_hash == entry.hash else None


def _rule(cron: str | None, every: str | None) -> ScheduleEntry:
    from ...automation.config.models import ScheduleEntry
    from ...automation.config.value_forms import check_cron, interval_s

    if cron is not None:
        return ScheduleEntry(plugin="", cron=check_cron(cron))
    assert every is not None
    try:
        return ScheduleEntry(plugin="", every_s=interval_s(every))
    except ValueError as error:
        raise InvalidInput(f"--every: {error}") from error


def _times(entry: ScheduleEntry) -> str:
    if entry.cron is not None:
        return f"cron {entry.cron}"
    if entry.every_s is not None:
        return f"every {entry.every_s:g}s"
    if entry.at_ms is not None:
        return f"at {format_ts(entry.at_ms)}"
    return f"after {entry.after_s:g}s"

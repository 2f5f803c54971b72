"""Checks of tasks: their messages against the table, lost holders, questions, landings."""

from __future__ import annotations

from ...bus.errors import SegmentMissing
from ...git.repository import GitFailed
from ...schema.errors import TimedOut
from ...schema.findings import ok, warn
from ...tasks.board.difference import difference, task_of
from ...tasks.board.past import messages_of_tasks
from ...tasks.records.landings import Landings
from ...tasks.records.task import lease_of_target
from ...tasks.records.task_table import TaskTable
from ...tasks.trees.leftovers import leftovers_of, not_looked_into
from ..recovery.damage import ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ...bus.bus import Bus
    from ...schema.findings import Finding
    from ...tasks.board.difference import Difference

#: How many tasks a finding names.
_NAMED = 10


def checks_of_tasks(bus: Bus, *, full: bool = False) -> dict[str, Callable[[], Finding]]:
    """Return the checks of tasks; the full ones read all their messages."""
    return {
        "tasks": lambda: _messages(bus, full),
        "task holders": lambda: _holders(bus),
        "task trees": lambda: _trees(bus),
        "landings": lambda: _landings(bus),
    }


def _messages(bus: Bus, full: bool) -> Finding:
    """Compare the table with the messages, which only show: no row is changed to what they say."""
    if not full:
        return ok("--full compares tasks with their messages")
    if bus.archive.discarded():
        return ok("not compared with their messages, of which some may be discarded")
    try:
        found = difference(bus)
    except SegmentMissing:
        if not TaskTable.of(bus).names():
            return ok("none")
        return warn("not compared with their messages: not all can be read", "see the archive")
    told = [*_lost(bus, found), *_unproven(bus), *_differing(bus, found), *_foreign(found)]
    if found.unknown:
        told.append((f"the log lacks messages of {_named(list(found.unknown))}", "look at them"))
    if told:
        return warn("; ".join(text for text, _ in told), told[0][1])
    return ok(f"all add up: {found.count}")


def _lost(bus: Bus, found: Difference) -> Iterator[tuple[str, str]]:
    """Yield what the log says of tasks without a row, and who sent it."""
    if found.lost:
        names = {task.task for task in found.lost}
        yield (
            f"only messages tell of {_named(sorted(names))}, from {_senders(bus, names)}:"
            " their rows are lost, or never were",
            "see 'bus read --type state_change'; --repair keeps such tasks as unproven, for a"
            " person to confirm or cancel",
        )


def _senders(bus: Bus, names: Collection[str]) -> str:
    """Return who sent messages about some tasks."""
    return _named(
        sorted({each.from_agent for each in messages_of_tasks(bus) if task_of(each) in names})
    )


def _differing(bus: Bus, found: Difference) -> Iterator[tuple[str, str]]:
    """Yield the tasks of which row and log differ; nobody can tell which messages are forged."""
    if found.differs:
        by = _senders(bus, found.differs)
        yield (
            f"messages, from {by}, say something else than the rows of"
            f" {_named(list(found.differs))}, which stand",
            "compare 'bus task log' and 'bus task show'",
        )


def _unproven(bus: Bus) -> Iterator[tuple[str, str]]:
    """Yield the tasks that a repair made of messages, and that nobody has confirmed."""
    names = [task.task for task in TaskTable.of(bus).find() if task.unproven]
    if names:
        text = f"unproven, so that nothing goes on with them: {_named(names)}"
        yield text, "'bus task confirm' shows what would be believed; or 'bus task cancel'"


def _foreign(found: Difference) -> Iterator[tuple[str, str]]:
    """Yield the messages that are no step of a task, and who sent them."""
    if found.foreign:
        seqs = ranges([message.seq for message in found.foreign])
        by = _named(sorted({message.from_agent for message in found.foreign}))
        yield (
            f"messages that are no step of a task, and change none: {seqs}, from {by}",
            "ask them to use 'bus task'",
        )


def _holders(bus: Bus) -> Finding:
    """Look for tasks whose holder was lost, and for questions whose time is over."""
    now_ms = bus.now_ms()
    held = {lease.name for lease in bus.leases.list()}
    live = TaskTable.of(bus).live()
    lost = [
        task.task
        for task in live
        if task.state == "WORKING" and task.blocked is None and task.lease_name not in held
    ]
    overdue = [
        task.task
        for task in live
        if task.blocked is not None and (task.blocked.deadline_ms or now_ms + 1) <= now_ms
    ]
    found = [
        f"{what}: {_named(names)}"
        for what, names in (("lost by their holders", lost), ("unanswered in time", overdue))
        if names
    ]
    if found:
        return warn("; ".join(found), "'bus task settle' ends these attempts")
    return ok(f"none lost, no question overdue; live tasks: {len(live)}")


def _trees(bus: Bus) -> Finding:
    """Look for work trees, branches and locks that tasks left behind."""
    try:
        found = leftovers_of(bus)
    except (GitFailed, TimedOut) as error:
        return warn(f"not looked at: {error}", "look there, then try again")
    if not found:
        elsewhere = not_looked_into(bus)
        aside = f"; not looked into: {_named(elsewhere)}" if elsewhere else ""
        return ok(f"nothing left behind{aside}")
    return warn("; ".join(each.says for each in found[:_NAMED]), _more(len(found)))


def _more(count: int) -> str:
    return f"there are {count}" if count > _NAMED else "'bus task clean' keeps what it removes"


def _landings(bus: Bus) -> Finding:
    """Look for commits that were about to land when their integrator ended."""
    held = {lease.name for lease in bus.leases.list()}
    undecided = Landings.of(bus).undecided()
    left = [
        f"{each.task or each.branch} on {each.target}"
        for each in undecided
        if each.state == "intended" and lease_of_target(each.repository, each.target) not in held
    ]
    if left:
        return warn(f"intended, and not decided: {_named(left)}", "'bus integrate' decides it")
    return ok(f"none left undecided; under way or proposed: {len(undecided)}")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more

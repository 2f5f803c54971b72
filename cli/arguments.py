"""The bus, the agent and the durations that a command line names."""

from __future__ import annotations

import os

from ..schema.directory.discovery import find_bus
from ..schema.directory.layout import BUS_DIR_VARIABLE, expand_home, user_bus
from ..schema.errors import AckbusError, InvalidInput
from ..schema.message.times import parse_duration_ms
from ..schema.sqlite.database import WRITE_TIMEOUT_S, Database
from .hints import AGENT_VARIABLE
from .show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.local_bus import LocalBus

#: How `find` says that no option or variable named the bus.
_UPWARDS = "looking upwards from here"
BY_MAIN_TREE = "looking upwards from the main work tree of git"


def open_bus(
    output: Output,
    directory: str | None,
    user: bool,
    *,
    write_timeout_s: float = WRITE_TIMEOUT_S,
    lives_long: bool = False,
    exports_all: bool = False,
) -> LocalBus:
    """Open the bus that --dir, --user, BUS_DIR or the working directory name.

    Args:
        output: of the command line.
        directory, user: the options --dir and --user.
        write_timeout_s: how long a write waits for others, in seconds.
        lives_long: exports the bus in a thread as long as the command runs; else a command that
            has published exports at its end.
        exports_all: exports all at its end, however long it takes; else for some milliseconds.
    """
    from .exporting import CommandBus  # for the guard most often `open_file` is enough

    bus = CommandBus(open_file(output, directory, user, write_timeout_s=write_timeout_s))
    bus.export_after(output, exports_all=exports_all)
    if lives_long:
        bus.export_beside()
    return bus


def open_file(
    output: Output, directory: str | None, user: bool, *, write_timeout_s: float = WRITE_TIMEOUT_S
) -> Database:
    """Open the file of the bus that `open_bus` opens, and no more."""
    database = Database(find(directory, user)[0], write_timeout_s=write_timeout_s)
    output.detail(f"the bus is in {database.layout.directory}")
    if database.backup_made_at_ms is not None:
        _note_backup(
            output, database.layout.directory, database.backup_made_at_ms, database.now_ms()
        )
    return database


def _note_backup(output: Output, directory: str, made_at_ms: int, now_ms: int) -> None:
    """Note at the end that this bus is a backup, and read-only."""
    from ..schema.sqlite.settings import age_of_backup

    backup_age = age_of_backup(made_at_ms, now_ms)
    output.note_at_end(f"note: {directory} is a backup, {backup_age}; it is read-only")


def find(directory: str | None, user: bool) -> tuple[str, str]:
    """Return the directory of the bus, and the option or place that named it."""
    if (named := named_by(directory, user)) is not None:
        return named, "--user" if user else "--dir"
    bus_directory = find_bus()
    if os.environ.get(BUS_DIR_VARIABLE):
        return bus_directory, BUS_DIR_VARIABLE
    project = os.path.dirname(bus_directory)
    is_above = os.path.commonpath([project, os.getcwd()]) == project
    return bus_directory, _UPWARDS if is_above else BY_MAIN_TREE


def named_by(directory: str | None, user: bool) -> str | None:
    """Return the directory that --dir or --user name, or None."""
    if directory is not None and user:
        raise InvalidInput("give --dir or --user, not both")
    if user:
        return user_bus()
    return None if directory is None else os.path.abspath(expand_home(directory))


def sender(name: str | None, option: str = "--from") -> str:
    """Return the agent that acts: the option's, or the one that BUS_AGENT names."""
    name = name or os.environ.get(AGENT_VARIABLE)
    if not name:
        raise InvalidInput(f"no agent is named: give {option} AGENT, or set {AGENT_VARIABLE}")
    return name


def reader(name: str | None) -> str:
    """Return the agent whose inbox is read: the named one, or the one of BUS_AGENT."""
    name = name or os.environ.get(AGENT_VARIABLE)
    if not name:
        raise InvalidInput(f"no agent is named: give AGENT, or set {AGENT_VARIABLE}")
    return name


def actor(name: str | None) -> str | None:
    """Return the actor for the record: the option's, or the agent that BUS_AGENT names, or None."""
    return name or os.environ.get(AGENT_VARIABLE) or None


def seconds(duration: str, option: str) -> float:
    """Return the seconds of a duration such as `30`, `1.5s` or `10m`, which an option gave."""
    try:
        return parse_duration_ms(duration) / 1000
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error}") from error


# Types of messages that a line names: one that differs from a type of the bus in its spelling alone
# is most often that type, mistyped.

#: Types are known from the catalog, which may be behind; and from this many of the newest messages.
_NEWEST = 500

#: The characters in which other programs spell types differently: task_done, task.done, task-done.
_JOINTS = str.maketrans("", "", "._-")


def known_types(bus: LocalBus) -> set[str]:
    """Return the types of a bus that can be read at once, and the patterns of its queues."""
    from ..bus.log.catalog import Catalog
    from ..subscribers.queues.queues import Queues

    newest = (message.type for message in bus.log.newest(_NEWEST))
    return {*Catalog.of(bus).counts("type"), *newest, *(q.pattern for q in Queues(bus).list())}


def note_other_form(output: Output, bus: LocalBus, type: str) -> None:
    """Note that a type, which no message has, is another spelling of one that some have.

    Spellings differ in case, dots, dashes and underscores.
    """
    form = _form(type)
    try:
        types = known_types(bus)
    except AckbusError:  # of damage, which the command itself may not come upon
        return
    others = sorted(name for name in types if _form(name) == form)
    if others and type not in types:
        output.note(f"note: no message has the type {type!a}; did you mean {others[0]}?")


def _form(type: str) -> str:
    return type.translate(_JOINTS).casefold()

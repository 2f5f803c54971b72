"""The bus itself: init, where, stats, restore, upgrade, trust."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, cast

import typer

from ...bus.local_bus import LocalBus
from ...export.jsonl.exporter import Exporter, ExportState
from ...schema.directory.discovery import find_bus, refuse_foreign, refuse_led_away
from ...schema.directory.ignoring import ALL, default_text
from ...schema.directory.layout import BUS_DIR_VARIABLE, BUS_DIRECTORY, Layout
from ...schema.directory.trust import (
    EVERY,
    add_safe_directory,
    contents,
    fault_of_list,
    remove_safe_directory,
    safe_directories,
    safe_list,
)
from ...schema.errors import BusNotFound, BusUnusable, InvalidInput, NotFound, Refused, shown
from ...schema.sqlite.creation import create
from ...schema.sqlite.settings import DURABILITIES, age_of_backup
from ...schema.sqlite.upgrade import upgrade
from ..arguments import BY_MAIN_TREE, find
from ..definition import Commands, optional
from ..options.common import HERE, BusPlace, Json, Verbose
from ..show.output import NOTHING, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.fields import Durability

commands = Commands()


@commands.command("init", example="bus init")
def init(
    durability: Annotated[
        str | None,
        optional(
            "D",
            "full: a power loss takes no published message, but writes are slower; normal: it may"
            " take the newest ones. Kept in the bus, for all programs. Default:"
            " normal for a new bus; an existing one stays as it is.",
        ),
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Make a bus, unless it exists.

    It is made in --dir, in $BUS_DIR, or in .worker-state/ of the working directory; not where
    that is a link, unless it is named. A linked work tree of git uses the bus of its main one.
    Exit code 3 for both. --durability also changes an existing bus; programs that have it open go
    on as before, until they open it again.
    """
    if durability not in (None, *DURABILITIES):
        raise InvalidInput(f"--durability must be normal or full, not {shown(durability)}")
    named = place.named() or os.environ.get(BUS_DIR_VARIABLE)
    if not named:
        _refuse_beside_main_tree()
        refuse_foreign(os.path.abspath(BUS_DIRECTORY))  # an existing bus is found, not made
        _refuse_by_link()
    is_new = create(named or BUS_DIRECTORY)
    with LocalBus.open(named or BUS_DIRECTORY) as bus:
        where = bus.layout.directory
        if durability is not None:
            bus.settings.set_durability(cast("Durability", durability))
        durability_now = bus.settings.durability()
    place.output.result(
        {"dir": where, "made": is_new, "durability": durability_now},
        f"made a bus in {where}" if is_new else f"there is a bus in {where} already",
        *([] if durability is None else [f"its durability is {durability_now}"]),
        *(_seen_by_git(bus.layout) if is_new else ()),
    )
    return 0


def _seen_by_git(layout: Layout) -> list[str]:
    """Return what git sees of a new bus, for people; nothing outside of every repository."""
    folder = os.path.dirname(layout.directory)
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return []
        folder = os.path.dirname(folder)
    what = "it" if ALL in default_text(layout).splitlines() else "its files"
    return [
        "bus.db there is the log and all else, and bus.jsonl the log as lines, for people",
        f"git sees nothing of {what}, by the .gitignore there; 'bus setup git' shares bus.jsonl",
    ]


def _refuse_beside_main_tree() -> None:
    """Refuse a bus in a linked work tree, which uses the main one's, unless it is named."""
    try:
        directory, found_by = find(None, False)
    except (BusNotFound, BusUnusable):  # none, or one of somebody else, which is not used either
        return
    if found_by == BY_MAIN_TREE:
        raise Refused(
            f"this linked work tree uses the bus in {directory}, whose reservations its guard looks"
            f" at; to have one of its own all the same, name it: --dir {BUS_DIRECTORY}"
        )


def _refuse_by_link() -> None:
    """Refuse to make a bus where a link leads, which may have come with a clone."""
    if not os.path.islink(BUS_DIRECTORY):
        return
    if os.path.exists(Layout(BUS_DIRECTORY).database):
        refuse_led_away(os.path.abspath(BUS_DIRECTORY))
        return
    raise Refused(
        f"{BUS_DIRECTORY} is a link, which may have come with a clone, to"
        f" {shown(os.readlink(BUS_DIRECTORY))}; to have the bus there all the same, name it:"
        f" --dir {BUS_DIRECTORY}"
    )


@commands.command("upgrade", example="bus upgrade")
def upgrade_bus(place: BusPlace = HERE) -> int:
    """Upgrade a bus of an older ackbus to this version.

    End all programs that use the bus first. The file as it was stays beside it, as bus.db.v13 of
    version 13. That copy is the only way back.
    """
    named = place.named()
    done = upgrade(find_bus() if named is None else named)
    record = {
        "dir": done.directory,
        "from_version": done.from_version,
        "version": done.version,
        "backup": done.backup,
        "put_right": [asdict(repair) for repair in done.mended],
    }
    backup_note = " already" if done.backup is None else f"; the file as it was is {done.backup}"
    place.output.result(
        record,
        f"the bus in {done.directory} is at version {done.version}{backup_note}",
        *(f"put right: {repair.text}" for repair in done.mended),
    )
    return 0


@commands.command("where", example='cd "$(bus where)"')
def where(place: BusPlace = HERE) -> int:
    """Print the directory of the bus that commands use here.

    With -v or --json also how it was found, its durability, the time of a backup, and which process
    exports, up to which message.
    """
    directory, found_by = place.find()
    with place.open() as bus:  # there is one, and it can be used
        durability, made_at_ms = bus.settings.durability(), bus.backup_made_at_ms
        export_state = ExportState(bus)
    place.output.detail(f"its durability is {durability}")
    place.output.detail(f"it was found by {found_by}")
    place.output.detail(export_state.text())
    record = {
        "dir": directory,
        "found_by": found_by,
        "durability": durability,
        "backup_made_at_ms": made_at_ms,
        "export": export_state.record(),
    }
    place.output.result(record, directory)
    return 0


@commands.command("restore", example="bus restore --dir .worker-state")
def restore(place: BusPlace = HERE) -> int:
    """Turn a backup, where it is, into a bus that can be written.

    First move the damaged bus away, and put the backup, or a copy of it, in its place. Exit code 4
    when the directory is not a backup, or is in use already.
    """
    directory, _ = place.find()
    with LocalBus.open(directory) as bus:
        made_at_ms = bus.backup_made_at_ms
        bus.settings.take_into_use()
        now_ms = bus.now_ms()
    if made_at_ms is None:
        raise NotFound(f"{directory} is not a backup, or is in use already")
    summary = f"the backup in {directory} is in use; it was {age_of_backup(made_at_ms, now_ms)}"
    place.output.result({"dir": directory, "backup_made_at_ms": made_at_ms}, summary)
    return 0


@commands.command("stats", example="bus stats --json")
def stats(place: BusPlace = HERE) -> int:
    """Print counts and sizes of the bus.

    Messages by type and sender, sizes of files and blobs, messages that are not exported yet.
    """
    with place.open() as bus:
        record = _stats(place.output, bus)
    if place.output.is_json:
        place.output.json_line(record)
    else:
        place.output.table(("what", "value"), list(_rows(record)))
    return 0


def _stats(output: Output, bus: LocalBus) -> dict[str, object]:
    stats = bus.stats()
    exported = Exporter(bus).position
    sizes = [bus.blobs.size(ref) for ref in bus.blobs]
    return {
        "dir": bus.layout.directory,
        "messages": stats.messages,
        "newest_seq": stats.newest_seq,
        "by_type": stats.by_type,
        "by_from": stats.by_sender,
        "files": _sizes(bus.layout.directory),
        "archive": {
            "last_seq": bus.archive.upto(),
            "bytes": sum(segment.bytes for segment in bus.archive.segments()),
        },
        "blobs": {"count": len(sizes), "bytes": sum(sizes)},
        "export": {"last_seq": exported, "behind": stats.newest_seq - exported},
    }


def _sizes(directory: str) -> dict[str, int]:
    """Return the sizes of the files of a bus. They are never opened: SQLite has them."""
    sizes = {}
    for name in ("bus.db", "bus.db-wal", "bus.jsonl"):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            sizes[name] = os.stat(path).st_size
    return sizes


def _rows(record: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for name, value in record.items():
        if isinstance(value, dict):
            rows += _rows(value, f"{prefix}{name} ")
        else:
            rows.append((prefix + name, value))
    return rows


# The list of trusted directories: add, list, remove.

trust = commands.group(
    "trust", help="Trusted directories, whose files may act where they are found."
)

Trusted = Annotated[
    str,
    typer.Argument(metavar="DIR", help=f"The directory, or the folder of a bus; {EVERY} is all."),
]


@trust.command("add", example="bus trust add /srv/team/.worker-state")
def add(output: Output, directory: Trusted, json: Json = False, verbose: Verbose = False) -> int:
    """Trust a directory, so that what commands find there may act.

    It may hold a bus of another user, which is refused where it is found unless you or root own it;
    a configuration or a crew, which starts and contacts nothing where it is only found in the
    working directory; plugins, or a repository. What it holds is printed. What an option, $BUS_DIR
    or $BUS_CONFIG names needs no trust. $BUS_SAFE_DIRECTORIES lists more directories, as PATH does.
    Whoever owns one can change all that is in it.
    """
    is_new = add_safe_directory(directory)
    holds = [] if directory == EVERY else contents(directory)
    output.result(
        {"list": safe_list(), "added": is_new, "holds": holds},
        f"{'added to' if is_new else 'already in'} {safe_list()}",
    )
    for content in holds:
        output.note(f"trusted: {content}")
    return 0


@trust.command("list", example="bus trust list")
def show_list(output: Output, json: Json = False, verbose: Verbose = False) -> int:
    """List the trusted directories, one a line. Exit code 4 when there are none."""
    if fault := fault_of_list():
        output.note(f"warning: {fault}")
    directories = safe_directories()
    for directory in directories:
        holds = [] if directory == EVERY else contents(directory)
        output.result({"dir": directory, "holds": holds}, directory)
    return 0 if directories else NOTHING


@trust.command("remove", example="bus trust remove /srv/team/.worker-state")
def remove(output: Output, directory: Trusted, json: Json = False, verbose: Verbose = False) -> int:
    """Remove a directory from the list. Exit code 4 when it is not on it."""
    if not remove_safe_directory(directory):
        raise NotFound(f"{directory} is not in {safe_list()}; see 'bus trust list'")
    output.result({"list": safe_list(), "removed": True}, f"removed from {safe_list()}")
    return 0

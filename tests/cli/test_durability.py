"""Durability is a setting of the bus: it holds for every program that opens it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.errors import InvalidInput
from ackbus.schema.queries import file_of

from ..conftest import RunBus
from ..programs import raw_sql, run_program
from .conftest import assert_error

#: Runs a command of the hot way in, and counts for how often SQLite waited for the disk.
COUNTED = """
import apsw, os, sys
syncs = 0
class File(apsw.VFSFile):
    def xSync(self, flags):
        global syncs
        syncs += 1
        super().xSync(flags)
class Counting(apsw.VFS):
    def __init__(self):
        self.base = apsw.vfs_names()[0]
        super().__init__("counting", self.base, makedefault=True)
    def xOpen(self, name, flags):
        return File(self.base, name, flags)
counting = Counting()
from ackbus.cli.ending import guarded
from ackbus.cli.fast import hot
from ackbus.cli.show.output import Output
output = Output()
call = hot.parse(output, sys.argv[1:])
assert call is not None, "not a hot command"
assert guarded(output, call) == 0
print("syncs", syncs)
"""

#: `PRAGMA synchronous` as a number.
NORMAL, FULL = 1, 2


def synchronous(bus: Bus) -> object:
    return file_of(bus).value("PRAGMA synchronous")


def syncs_of(*arguments: object) -> int:
    return int(run_program(COUNTED, *arguments).rpartition("syncs ")[2])


@pytest.fixture
def full(run_bus: RunBus, project: Path) -> Path:
    """A bus that was made to lose nothing by a power loss; somebody has published in it."""
    done = run_bus("init", "--durability", "full")
    where = project / ".worker-state"
    assert done.out == f"made a bus in {where}\nits durability is full\n"
    run_bus("publish", "note", "--from", "ann")
    return where


@pytest.mark.slow
def test_each_write_of_a_hot_command_waits_for_the_disk_where_the_bus_says_so(
    full: Path, run_bus: RunBus
) -> None:
    """One wait for a publish, one for an acknowledgement, none for a poll."""
    publish = ("publish", "note", "hello", "--from", "ann", "--dir", full)
    run_bus("ack", "bob", "1")  # the first one of an agent also looks whether it is known
    assert (syncs_of(*publish), syncs_of("ack", "bob", "2", "--dir", full)) == (1, 1)
    assert syncs_of("poll", "carol", "--dir", full) == 0
    assert run_bus("init", "--durability", "normal").code == 0
    assert (syncs_of(*publish), syncs_of("ack", "bob", "3", "--dir", full)) == (0, 0)


def test_the_setting_holds_in_every_thread_and_can_only_be_made_stronger(full: Path) -> None:
    with Bus.open(full) as bus, ThreadPoolExecutor(1) as other:
        assert synchronous(bus) == FULL
        assert other.submit(synchronous, bus).result() == FULL
        other.submit(file_of(bus).close_thread).result()
    with Bus.open(full, durability="normal") as bus:
        assert (synchronous(bus), file_of(bus).durability) == (FULL, "full")
        bus.settings.set_durability("normal")
        assert bus.settings.durability() == "normal"
    with Bus.open(full) as bus:
        assert synchronous(bus) == NORMAL
        bus.settings.set_durability("full")  # this one does so at once
        assert synchronous(bus) == FULL
        with pytest.raises(InvalidInput, match="durability must be normal or full, not 'extra'"):
            bus.settings.set_durability("extra")
    with Bus.open(full, durability="full") as bus:
        assert synchronous(bus) == FULL


@pytest.mark.slow
def test_the_setting_is_shown_and_kept(full: Path, run_bus: RunBus, project: Path) -> None:
    assert json.loads(run_bus("where", "--json").out)["durability"] == "full"
    assert "its durability is full" in run_bus("where", "-v").err
    assert "settings: durability is full\n" in run_bus("doctor").out
    assert run_bus("init").out == f"there is a bus in {full} already\n"
    assert json.loads(run_bus("init", "--json").out)["durability"] == "full"
    run_bus("backup", "saved")
    assert json.loads(run_bus("where", "--json", "--dir", "saved").out)["durability"] == "full"
    assert_error(run_bus("init", "--durability", "Full"), 2, "must be normal or full, not 'Full'")


def test_a_value_that_is_none_takes_the_safer_side(full: Path) -> None:
    """A program wrote it: what it wanted, it was not less."""
    raw_sql(full, "UPDATE meta SET value = 'FULL' WHERE key = 'durability'")
    with Bus.open(full) as bus:
        assert synchronous(bus) == FULL
        assert bus.settings.durability() == "full"

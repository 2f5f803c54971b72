"""A fork while the bus is open: the child is refused whatever it inherited, and harms nobody."""

from pathlib import Path

import pytest

from ackbus import Bus

from ..programs import run_program
from .evidence import raw_rows

EVERYTHING = """
import io, os, sys
from ackbus.bus.maintenance import Maintenance
from ackbus import *
from ackbus.errors import WrongProcess
from ackbus.model import QueueStats, Trace
from ackbus.export.archive_writer import Archiver
from ackbus.bus.doorbell import listen
from ackbus.export.backup import back_up

where = sys.argv[1]
bus = Bus.open(where)
bus.publish("note", "before", from_agent="parent")
inbox, queue = Inbox(bus, "parent"), Queue.create(bus, "note", max_attempts=9)
(claim,) = queue.claim("parent")
lease = bus.leases.acquire("task", "parent")
exporter, archiver = Exporter(bus), Archiver(bus)
listener, rules, follower = listen(bus), inbox._new_delivery(), bus.follow(after_seq=0)
next(follower)
message = bus.get(1)
transaction = bus.transaction()


def archive():
    with archiver:
        archiver.archive(1)


def enter():
    with transaction:
        bus.publish("note", from_agent="child")


ACTS = {
    "publish": lambda: bus.publish("note", from_agent="child"),
    "publish a blob": lambda: bus.publish("note", "x" * 9000, from_agent="child"),
    "publish many": lambda: bus.publish_many([Draft("note", from_agent="child")]),
    "transaction": enter,
    "get": lambda: bus.get(1),
    "read": lambda: list(bus.read()),
    "follow": lambda: next(follower),
    "search": lambda: bus.search("before"),
    "stats": lambda: bus.stats(),
    "collect": lambda: bus.collect_blobs(older_than_s=0) and bus.publish("a", from_agent="c"),
    "agents": lambda: bus.agents.stranger("nobody", repeat=True),
    "poll": lambda: inbox.poll(),
    "ack": lambda: inbox.ack(1),
    "complete": lambda: inbox.complete(message),
    "fail": lambda: inbox.fail(message, "no"),
    "run": lambda: inbox.run(print, drain=True),
    "iterate": lambda: next(iter(inbox)),
    "claim": lambda: queue.claim("child"),
    "end a claim": lambda: queue.complete(claim),
    "renew a claim": lambda: queue.renew(claim),
    "dead letters": lambda: list(DeadLetters(queue).find()),
    "job control": lambda: JobControl(queue).cancel(1, "no"),
    "numbers": lambda: QueueStats.of(queue),
    "acquire": lambda: bus.leases.acquire("other", "child"),
    "renew": lambda: bus.leases.renew(lease),
    "release": lambda: bus.leases.release(lease),
    "reserve": lambda: bus.reservations.reserve(["a.py"], "child"),
    "beat": lambda: bus.heartbeats.beat("child"),
    "limits": lambda: bus.limits.list(),
    "export": lambda: exporter.export_once(),
    "rebuild": lambda: exporter.rebuild(),
    "an exporter's thread": lambda: exporter.start(),
    "archive": archive,
    "import": lambda: bus.import_jsonl(io.BytesIO(bytes(message.to_line()) + b"\\n")),
    "back up": lambda: back_up(bus, where + "-backup"),
    "checkpoint": lambda: Maintenance(bus).checkpoint(),
    "request": lambda: bus.request("note.request", from_agent="child"),
    "answer": lambda: bus.answer(message.id),
    "trace": lambda: Trace.of(bus, message.id),
    "work": lambda: Worker(bus, queue).run(print, drain=True),
}

reader, writer = os.pipe()
child = os.fork()
if child == 0:
    for name, act in ACTS.items():
        try:
            act()
            os.write(writer, f"{name}: not refused\\n".encode())
        except WrongProcess:
            continue
        except Exception as error:
            os.write(writer, f"{name}: {error!r}\\n".encode())
    with Bus.open(where) as own:
        own.publish("note", "of the child", from_agent="child")
    bus.close()
    sys.exit(0)
os.close(writer)
print(os.read(reader, 100_000).decode(), end="")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
bus.leases.renew(lease)
queue.complete(claim)
bus.publish("note", "after", from_agent="parent")
bus.close()
"""


@pytest.mark.slow
def test_every_part_of_a_bus_refuses_a_forked_child(bus_dir: Path) -> None:
    """M-26, PITFALLS 7: the parent's lease, claim and connection go on; the child opens its own."""
    assert run_program(EVERYTHING, bus_dir) == "0\n"
    assert [payload for _, _, payload, _ in raw_rows(bus_dir)] == [
        '"before"',
        '"of the child"',
        '"after"',
    ]


OUTLIVES = """
import os, sys
from ackbus import Bus
bus = Bus.open(sys.argv[1])
for number in range(300):  # so many that the last to close it brings them over, and deletes the log
    bus.publish("note", "x" * 500, from_agent="parent")
opened, closed = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    own = Bus.open(sys.argv[1])
    own.publish("child", "first", from_agent="child")
    os.write(opened[1], b"!")
    os.read(closed[0], 1)
    own.publish("child", "second", from_agent="child")
    os._exit(0)
os.read(opened[0], 1)
bus.close()
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-c", '''
import sys
from ackbus import Bus
with Bus.open(sys.argv[1]) as bus:
    bus.publish("other", from_agent="other")
''', sys.argv[1]])
os.wait()
os.write(closed[1], b"!")
os.wait()
"""


@pytest.mark.slow
def test_a_child_that_outlives_its_parent_loses_nothing(bus: Bus, bus_dir: Path) -> None:
    """PITFALLS 7, promise 1: SQLite in the child took the parent's locks for its own."""
    bus.close()
    run_program(OUTLIVES, bus_dir)
    rows = raw_rows(bus_dir)
    assert [payload for _, _, payload, _ in rows[300:]] == ['"first"', None, '"second"']
    assert [seq for seq, *_ in rows] == list(range(1, 304))


LEFT_BY_BOTH = """
import os, sys
from ackbus import Bus
from ackbus.errors import WrongProcess
bus = Bus.open(sys.argv[1])
for number in range(20):
    try:
        with bus.transaction():
            bus.publish("note", number, from_agent="parent")
            child = os.fork()
    except WrongProcess:
        os._exit(0)  # in the child
    if child == 0:
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end="")
"""


def test_a_transaction_in_which_a_fork_happens_is_its_parents(bus_dir: Path) -> None:
    """PITFALLS 7: a COMMIT of both would write the same pages twice, under one lock."""
    assert run_program(LEFT_BY_BOTH, bus_dir) == "0" * 20
    assert [payload for _, _, payload, _ in raw_rows(bus_dir)] == [str(n) for n in range(20)]


POOL = """
import multiprocessing, sys, threading
from ackbus import Bus
from ackbus.errors import WrongProcess

bus = Bus.open(sys.argv[1])
bus.publish("note", -1, from_agent="parent")


def work(number):
    try:
        bus.publish("note", number, from_agent="inherited")
    except WrongProcess:
        with Bus.open(sys.argv[1]) as own:
            return own.publish("note", number, from_agent="child").seq


going_on = threading.Event()


def publish():
    while not going_on.is_set():
        bus.publish("beside", -2, from_agent="parent")


thread = threading.Thread(target=publish)
with bus:
    thread.start()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        seqs = pool.map(work, range(40))
    going_on.set()
    thread.join()
    print(len(set(seqs)), None in seqs)
"""


@pytest.mark.slow
def test_a_pool_of_forked_processes_works_beside_its_parent(bus_dir: Path) -> None:
    """M-26, PITFALLS 7: no child finds SQLite locked by a thread of its parent, and hangs."""
    assert run_program(POOL, bus_dir) == "40 False\n"
    rows = raw_rows(bus_dir)
    assert sorted({int(payload) for _, _, payload, _ in rows}) == list(range(-2, 40))
    assert [seq for seq, *_ in rows] == list(range(1, len(rows) + 1))


AT_ONCE = """
import os, sys
from ackbus.schema.sqlite import forks

forks._wait_for_those_inside()  # a thread that is about to fork, and waits
before = forks._usual_s[0]
child = os.fork()
if child == 0:
    os._exit(sys.getswitchinterval() != before)
forks._go_on()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sys.getswitchinterval() == before)
"""


def test_child_has_pythons_own_interval_though_threads_forked_at_once(bus_dir: Path) -> None:
    """Of the thread that waits to fork there is nothing in the child, and nobody to put it back."""
    assert run_program(AT_ONCE, bus_dir) == "0 True\n"

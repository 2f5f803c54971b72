"""Connections and transactions: one way in, nothing shared, nothing half, waiting with a bound."""

import gc
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.bus.doorbell import listen
from ackbus.bus.log.catalog import Catalog
from ackbus.errors import AckbusError, BusBusy, BusUnusable, InvalidInput
from ackbus.export.archive_writer import Archiver
from ackbus.schema.queries import file_of

from ..conftest import RunBus, wait_until
from ..programs import connect, held_write_lock, raw_sql, run_program, run_program_to_sigkill

PRAGMAS = {"busy_timeout": 5000, "foreign_keys": 1, "journal_mode": "wal", "synchronous": 1}


def pragmas(bus: Bus) -> dict[str, object]:
    return {name: file_of(bus).value(f"PRAGMA {name}") for name in PRAGMAS}


def seqs(bus: Bus) -> list[int]:
    return [message.seq for message in bus.read()]


def test_every_connection_has_the_documented_pragmas(bus: Bus) -> None:
    """M-25: of this thread and of any other."""
    with ThreadPoolExecutor(1) as other:
        assert pragmas(bus) == PRAGMAS
        assert other.submit(pragmas, bus).result() == PRAGMAS


def test_full_durability_syncs_every_commit(bus_dir: Path) -> None:
    """X-36, promise 1: `normal` is synchronous=NORMAL (1), `full` is FULL (2)."""
    with Bus.open(bus_dir, durability="full") as bus:
        assert pragmas(bus) == PRAGMAS | {"synchronous": 2}
    with pytest.raises(ValueError, match="durability must be 'normal' or 'full'"):
        Bus.open(bus_dir, durability="extra")


def test_each_thread_has_a_connection_of_its_own(bus: Bus) -> None:
    """M-26: one for each thread, kept for the thread's life, never shared."""

    def two_looks() -> tuple[apsw.Connection, apsw.Connection]:
        return file_of(bus).connection, file_of(bus).connection

    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(two_looks).result()
        ours = two_looks()
    assert ours[0] is ours[1]
    assert theirs[0] is theirs[1]
    assert ours[0] is not theirs[0]


def test_bus_is_refused_after_a_fork(bus_dir: Path) -> None:
    """M-26: a connection that crosses a fork would share its locks; the parent goes on."""
    out = run_program(
        """
        import os, sys
        from ackbus import Bus
        from ackbus.errors import WrongProcess
        bus = Bus.open(sys.argv[1])
        bus.publish("before", from_agent="parent")
        child = os.fork()
        if child == 0:
            try:
                bus.publish("never", from_agent="child")
            except WrongProcess as error:
                print(error, flush=True)
            bus.close()
            with Bus.open(sys.argv[1]) as own:
                own.publish("child", from_agent="child")
            os._exit(0)
        os.waitpid(child, 0)
        bus.publish("after", from_agent="parent")
        print([message.type for message in bus.read()])
        """,
        bus_dir,
    )
    assert out.splitlines() == [
        "this bus was opened before a fork; open it again in the child process",
        "['before', 'child', 'after']",
    ]


#: A statement that writes; a comment may stand above it.
CHANGE = re.compile(r"^(INSERT|UPDATE|DELETE)\b", re.MULTILINE)


@pytest.fixture
def statements(bus: Bus) -> Iterator[list[str]]:
    """Every statement that this thread's connection runs, as SQLite saw it."""
    seen: list[str] = []
    connection = file_of(bus).connection
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
    yield seen
    connection.trace_v2(0, None)


def test_no_write_reads_before_it_has_the_write_lock(bus: Bus, statements: list[str]) -> None:
    """M-27, PITFALLS 4: a write is one statement by itself, or begins with BEGIN IMMEDIATE."""
    inbox = Inbox(bus, "alice")
    lease = None

    def acquire() -> None:
        nonlocal lease
        lease = bus.leases.acquire("t1", "alice")

    def renew_and_release() -> None:
        assert lease is not None
        bus.leases.renew(lease)
        bus.leases.release(lease)

    writes: list[Callable[[], object]] = [
        lambda: bus.publish("note", from_agent="bob"),
        lambda: inbox.ack(1),
        lambda: Inbox(bus, "carol").fail(bus.log.newest(1)[0], "error"),
        lambda: bus.heartbeats.beat("alice"),
        acquire,
        renew_and_release,
        lambda: Catalog.of(bus).catch_up(bus.log.newest_seq()),
    ]
    for write in writes:
        statements.clear()
        write()
        changes = [sql for sql in statements if CHANGE.search(sql)]
        begins = [sql for sql in statements if sql.startswith("BEGIN")]
        if len(changes) == 1 and not begins:
            continue
        assert changes
        assert set(begins) == {"BEGIN IMMEDIATE"}
        first_begin = statements.index("BEGIN IMMEDIATE")
        assert not any(sql in statements[:first_begin] for sql in changes)


@pytest.mark.slow
def test_no_transaction_is_open_while_a_handler_runs(bus: Bus, bus_dir: Path) -> None:
    """M-27: another program can write in the middle of a handler's work."""
    bus.publish("note", from_agent="bob")
    bus.publish("note", from_agent="bob")

    def handle(message: object) -> None:
        assert not file_of(bus).connection.in_transaction
        with connect(bus_dir) as other:  # a transaction, which would wait for ours
            other.execute("INSERT OR REPLACE INTO cursors VALUES ('other', 0, 1)")

    Inbox(bus, "alice").run(handle, drain=True)
    assert Inbox(bus, "alice").position == 2


def test_iterating_holds_no_transaction_between_messages(bus: Bus) -> None:
    """M-27: reading is by pages, whatever the reader does between two of them."""
    bus.publish_many([Draft("note", from_agent="bob") for _ in range(3)])
    for _ in bus.read():
        assert not file_of(bus).connection.in_transaction
    assert bus.log.newest_seq() == 3


@pytest.mark.slow
def test_everybody_outlasts_a_writer_of_twenty_seconds(
    bus: Bus, bus_dir: Path, run_bus: RunBus
) -> None:
    """M-28, PITFALLS 4: four times SQLite's busy timeout, in a program without our lock."""
    bus.publish("note", from_agent="bob")
    acts: list[Callable[[], object]] = [
        lambda: bus.publish("note", from_agent="bob"),
        lambda: bus.publish("note", "x" * 5000, from_agent="bob"),
        lambda: Inbox(bus, "ann").ack(1),
        lambda: bus.heartbeats.beat("ann"),
        lambda: run_bus("publish", "note", "text", "--from", "bob"),
        lambda: run_bus("ack", "cat", "1"),
    ]
    with ThreadPoolExecutor(len(acts)) as pool, held_write_lock(bus_dir) as holder:
        assert holder.stdin is not None
        started = time.monotonic()
        waiting = [pool.submit(act) for act in acts]
        threading.Timer(20.0, holder.stdin.close).start()
        ended = [act.result(timeout=60) for act in waiting]
        assert time.monotonic() - started >= 19.9
    assert [one.code for one in ended[-2:]] == [0, 0]  # type: ignore[attr-defined]
    assert seqs(bus) == [1, 2, 3, 4]
    assert Inbox(bus, "ann").position == Inbox(bus, "cat").position == 1


def test_write_that_cannot_get_in_raises_and_stores_nothing(bus_dir: Path) -> None:
    """M-28, M-29, promise 11: within its timeout, and trying again is safe."""
    with Bus.open(bus_dir, write_timeout_s=0.2) as bus, held_write_lock(bus_dir):
        started = time.monotonic()
        with pytest.raises(BusBusy, match=r"^another program has kept the bus in .* locked"):
            bus.publish("note", from_agent="bob", id="m1")
        assert time.monotonic() - started < 4.9  # below SQLite's own 5 s
        assert seqs(bus) == []
    with Bus.open(bus_dir) as bus:
        assert bus.publish("note", from_agent="bob", id="m1").seq == 1


def test_write_waits_for_another_thread_and_gives_up_in_time(bus_dir: Path) -> None:
    """M-28: the same bound where our own lock file is what is held."""
    with (
        Bus.open(bus_dir, write_timeout_s=0.2) as bus,
        ThreadPoolExecutor(1) as other,
        bus.transaction(),
    ):
        blocked = other.submit(bus.publish, "note", from_agent="bob")
        with pytest.raises(BusBusy, match=r"write\.lock"):
            blocked.result(timeout=60)
    with Bus.open(bus_dir) as bus:
        assert bus.publish("note", from_agent="bob").seq == 1


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_interrupted_wait_does_not_keep_the_write_lock(bus: Bus, bus_dir: Path) -> None:
    """M-28: Ctrl-C while waiting; the lock that is granted later is nobody's to keep."""
    waiting = threading.Event()
    before = threads()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def hold_until_interrupted() -> None:
        with bus.transaction():
            waiting.set()
            wait_until(lambda: any(t.name == "ackbus-lock" for t in threads() - before))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            interrupted.wait(60)

    interrupted = threading.Event()
    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(1) as other:
            holder = other.submit(hold_until_interrupted)
            waiting.wait(60)
            with pytest.raises(KeyboardInterrupt):
                bus.publish("interrupted", from_agent="bob")
            interrupted.set()
            holder.result(timeout=60)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    with Bus.open(bus_dir, write_timeout_s=20) as another:
        assert another.publish("next", from_agent="bob").seq == 1
    assert bus.publish("again", from_agent="bob").seq == 2


def test_reading_never_waits_for_a_writer(bus: Bus, bus_dir: Path) -> None:
    """M-25: the write-ahead log lets readers see the last commit meanwhile."""
    bus.publish("note", from_agent="bob")
    with held_write_lock(bus_dir):
        assert [message.seq for message in Inbox(bus, "alice").poll()] == [1]


# Transactions nest.


def test_outer_rollback_undoes_everything_and_rings_nobody(bus: Bus) -> None:
    """Promise 11: publish, ack and lease in one block stand or fall together."""

    def fail_at_the_end() -> None:
        with bus.transaction():
            bus.publish("note", from_agent="bob")
            Inbox(bus, "alice").ack(1)
            bus.leases.acquire("t1", "alice")
            raise RuntimeError

    bus.publish("note", from_agent="bob")
    with listen(bus) as listener:
        with pytest.raises(RuntimeError):
            fail_at_the_end()
        assert not listener.wait(0)
        assert seqs(bus) == [1]
        assert Inbox(bus, "alice").position == 0
        assert bus.leases.list() == []
        bus.publish("note", from_agent="bob")
        assert listener.wait(0)


def test_failed_part_leaves_the_rest_of_its_transaction(bus: Bus) -> None:
    """Promise 11: an error that the outer block handles undoes the inner part alone."""

    def fail_inside() -> None:
        with bus.transaction():
            bus.publish("inside", from_agent="bob")
            raise RuntimeError

    with bus.transaction():
        bus.publish("before", from_agent="bob")
        with pytest.raises(RuntimeError):
            fail_inside()
        bus.publish("after", from_agent="bob")
    assert [message.type for message in bus.read()] == ["before", "after"]


def test_reads_inside_a_transaction_see_it_and_others_do_not(bus: Bus) -> None:
    """Promise 2: nobody sees a message before its commit."""
    with ThreadPoolExecutor(1) as other:
        with bus.transaction():
            bus.publish("note", from_agent="bob")
            assert seqs(bus) == [1]
            assert other.submit(seqs, bus).result() == []
        assert other.submit(seqs, bus).result() == [1]


def test_failed_rows_of_a_batch_take_the_batch_with_them(bus: Bus) -> None:
    """M-44, promise 11."""
    good, bad = Draft("note", from_agent="bob"), Draft("no type", from_agent="bob")
    with pytest.raises(InvalidInput):
        bus.publish_many([good, bad])
    assert seqs(bus) == []


def test_failing_statement_raises_one_clear_line_and_rolls_back(bus: Bus, bus_dir: Path) -> None:
    """M-29, M-44: anything but a duplicate is an error, never swallowed."""
    file_of(bus).refuses_foreign_objects = False
    connect(bus_dir).execute("ALTER TABLE messages RENAME TO gone")
    with pytest.raises(AckbusError, match=r"^the bus in \S+ refused a statement: .*messages"):
        bus.publish("note", from_agent="bob")
    assert not file_of(bus).connection.in_transaction
    connect(bus_dir).execute("ALTER TABLE gone RENAME TO messages")
    assert bus.publish("note", from_agent="bob").seq == 1


def test_full_database_undoes_the_transaction_and_says_so(bus: Bus) -> None:
    """M-29, M-44, promise 11."""
    pages = file_of(bus).value("PRAGMA page_count")
    file_of(bus).connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    many = [Draft("note", "x" * 4000, from_agent="bob") for _ in range(100)]
    with pytest.raises(BusUnusable, match="is full; nothing was stored"):
        bus.publish_many(many)

    def beat_and_publish() -> None:
        with bus.transaction():
            bus.heartbeats.beat("alice")
            bus.publish_many(many)

    with pytest.raises(BusUnusable, match="is full"):
        beat_and_publish()
    assert seqs(bus) == []
    assert bus.heartbeats.list() == []


def test_transaction_that_sqlite_undid_takes_nothing_more(bus: Bus) -> None:
    """Promise 11: after some errors SQLite rolls back by itself; what follows must not stay."""

    def go_on_after_the_error() -> None:
        with bus.transaction():
            bus.publish("before", from_agent="bob")
            file_of(bus).connection.execute("ROLLBACK")
            with pytest.raises(AckbusError, match="an error has undone this transaction"):
                bus.publish("after", from_agent="bob")

    with pytest.raises(AckbusError, match="no transaction is active"):
        go_on_after_the_error()
    assert seqs(bus) == []
    assert bus.publish("next", from_agent="bob").seq == 1


def test_closed_bus_refuses_further_use(bus: Bus) -> None:
    """M-29."""
    bus.close()
    bus.close()
    with pytest.raises(AckbusError, match="this bus has been closed"):
        bus.publish("note", from_agent="bob")


def test_committed_message_survives_sigkill(bus: Bus, bus_dir: Path) -> None:
    """M-06, M-36, promise 1: the process dies right after publish, and in an open transaction."""
    run_program_to_sigkill(
        """
        import os, signal, sys
        from ackbus import Bus
        bus = Bus.open(sys.argv[1])
        bus.publish("kept", from_agent="bob")
        with bus.transaction():
            bus.publish("lost", from_agent="bob")
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        bus_dir,
    )
    assert raw_sql(bus_dir, "PRAGMA integrity_check") == [["ok"]]
    assert [message.type for message in bus.read()] == ["kept"]
    assert bus.publish("next", from_agent="bob").seq == 2


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_closed_bus_leaves_no_descriptor_open_whatever_was_done_with_it(bus_dir: Path) -> None:
    """PITFALLS 8: not even until Python looks for cycles; a server opens and closes many."""
    gc.collect()
    before = open_descriptors()
    gc.disable()
    try:
        for number in range(5):
            with Bus.open(bus_dir) as bus:
                large = bus.publish("note", "x" * 5000 + str(number), from_agent="bob")
                bus.publish("note", from_agent="bob")
                with Archiver(bus) as archiver:
                    archiver.archive(large.seq)
                assert bus.get(large.seq) is not None
        assert open_descriptors() == before
    finally:
        gc.enable()


def test_bus_that_is_refused_leaves_no_descriptor_open(bus_dir: Path) -> None:
    """PITFALLS 8: not even while somebody keeps the error."""
    (bus_dir / "bus.index.json").symlink_to("elsewhere")
    before = open_descriptors()
    kept = []
    for _ in range(5):
        with pytest.raises(BusUnusable, match="is a symbolic link") as refused:
            Bus.open(bus_dir)
        kept.append(refused.value)
    assert open_descriptors() == before


@pytest.mark.slow
def test_threads_that_end_give_their_descriptors_back(bus_dir: Path) -> None:
    """PITFALLS 8: thirty threads come and go, and as many descriptors are open as after one."""

    def work() -> None:
        bus.publish("note", from_agent="bob")
        Inbox(bus, "alice").poll()

    def run_thread() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        gc.collect()

    gc.collect()
    gc.freeze()  # else each thread's collection looks through all that was loaded for the tests
    before_opening = open_descriptors()
    with Bus.open(bus_dir) as bus:
        work()
        run_thread()
        after_one = open_descriptors()
        for _ in range(30):
            run_thread()
        assert open_descriptors() == after_one
        assert seqs(bus) == list(range(1, 33))
    assert open_descriptors() == before_opening
    gc.unfreeze()

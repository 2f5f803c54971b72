"""Work where processes fork, threads share, signals come, and handlers use the bus themselves."""

import contextlib
import json
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from threading import Event, Thread

import pytest

from ackbus import Bus, Message
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Claim, Claims
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.queues.queue import Queue
from ackbus.workers.worker import Worker

from ..programs import raw_sql, run_program
from .test_threads import in_threads

QUEUE = "x.request"


def publish(bus: Bus, count: int) -> None:
    bus.heartbeats.beat("boss")
    for number in range(count):
        bus.publish(QUEUE, number, from_agent="boss")


def rows(bus: Bus, sql: str) -> list[list[object]]:
    return raw_sql(Path(bus.layout.directory), sql)


def history(bus: Bus) -> list[list[object]]:
    """[seq, the state of its job, status of its claims, number of its answers] of the requests.

    Claims that were handed back are left out: on a busy machine a worker hands back what it has
    claimed together with a job that takes longer than it expected.
    """
    return rows(
        bus,
        "SELECT seq, state, (SELECT group_concat(status) FROM claims"
        "    WHERE seq = jobs.seq AND ifnull(error, '') NOT LIKE 'handed back%'),"
        "       (SELECT count(*) FROM messages AS answer JOIN messages AS asked"
        "           ON answer.in_reply_to = asked.id WHERE asked.seq = jobs.seq)"
        "  FROM jobs ORDER BY seq",
    )


# Forks ----------------------------------------------------------------------------------------


def test_queue_is_of_no_use_after_a_fork_until_it_is_opened_again(bus: Bus) -> None:
    """Pitfall 7: inherited connections wedged stores. The parent's queue is not harmed."""
    publish(bus, 2)
    told = run_program(
        """
        import os, sys
        from ackbus import Bus
        from ackbus.errors import WrongProcess
        from ackbus.subscribers.queues.job_control import JobControl
        from ackbus.subscribers.queues.queue import Queue
        bus = Bus.open(sys.argv[1])
        queue = Queue.create(bus, "x.request")
        (claim,) = queue.claim("parent")
        child = os.fork()
        if child == 0:
            for act in [
                lambda: queue.claim("child"),
                lambda: queue.renew(claim),
                lambda: queue.complete(claim),
                lambda: queue.fail(claim, "no"),
                lambda: queue.release(claim),
                queue.fill,
                queue.next_change_ms,
                lambda: JobControl(queue).cancel(1),
            ]:
                try:
                    act()
                except WrongProcess:
                    continue
                sys.exit(1)
            with Bus.open(sys.argv[1]) as own:
                queue = Queue.open(own, "x.request")
                queue.complete(*queue.claim("child"))
            sys.exit(0)  # an ordinary end, with all that it inherited
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        queue.complete(claim)
        print(len(queue.claim("parent")))
        """,
        bus.layout.directory,
    )
    assert told.split() == ["0", "0"]
    assert history(bus) == [[1, "succeeded", "completed", 0], [2, "succeeded", "completed", 0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(0)", 0),
        ("sys.exit(3)", 3),
        ("return 'from the child'", 1),  # WrongProcess ends the worker that woke up there
    ],
)
def test_child_of_a_handler_does_not_work_on(bus: Bus, end: str, code: int) -> None:
    """Pitfall 7: however it ends, the parent alone answers, once."""
    publish(bus, 3)
    told = run_program(
        f"""
        import os, sys
        from ackbus import Bus
        from ackbus.workers.worker import Worker
        def handle(message):
            child = os.fork()
            if child == 0:
                {end}
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with Bus.open(sys.argv[1]) as bus:
            print(Worker(bus, "x.request").run(handle, drain=True))
        """,
        bus.layout.directory,
    )
    assert told == "3\n"
    assert history(bus) == [[seq, "succeeded", "completed", 1] for seq in (1, 2, 3)]
    assert [m.payload for m in bus.read(type="x.done")] == [code] * 3


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4])
def test_handlers_may_start_processes(bus: Bus, concurrency: int) -> None:
    """Also from several threads, and what they start can be ended: it blocks no signal."""
    publish(bus, 20)
    told = run_program(
        """
        import signal, subprocess, sys
        from ackbus import Bus
        from ackbus.workers.worker import Worker
        def handle(message):
            sleep = subprocess.Popen(["sleep", "60"])
            sleep.terminate()
            return -sleep.wait(timeout=60)
        with Bus.open(sys.argv[1]) as bus:
            worker = Worker(bus, "x.request", concurrency=int(sys.argv[2]))
            print(worker.run(handle, drain=True))
        """,
        bus.layout.directory,
        concurrency,
    )
    assert told == "20\n"
    assert history(bus) == [[seq, "succeeded", "completed", 1] for seq in range(1, 21)]
    assert [m.payload for m in bus.read(type="x.done")] == [signal.SIGTERM] * 20


# Threads --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_16_threads_share_one_queue(bus: Bus) -> None:
    """P-27, K-11: no job is claimed by two of them, none is left, and each end is the owner's."""
    publish(bus, 400)
    queue = Queue.create(bus, QUEUE)

    def work(number: int) -> list[Claim]:
        mine: list[Claim] = []
        while claims := queue.claim(f"thread-{number}", limit=1 + number % 3):
            for claim in claims:
                queue.renew(claim)
                queue.complete(claim)
            mine += claims
        return mine

    claims = [claim for mine in in_threads(work) for claim in mine]
    assert sorted(claim.message.seq for claim in claims) == list(range(1, 401))
    assert len({claim.token for claim in claims}) == 400
    assert history(bus) == [[seq, "succeeded", "completed", 0] for seq in range(1, 401)]
    records = [Claims.of(queue.bus).get(claim.token) for claim in claims]
    assert [record and record.instance for record in records] == [one.instance for one in claims]


def test_two_workers_in_one_process_share_a_queue(bus: Bus) -> None:
    """Each in a thread of its own, with its own keeper, on one Queue."""
    publish(bus, 200)
    queue = Queue.create(bus, QUEUE)
    workers = [Worker(bus, queue, group=f"group-{n}", concurrency=1 + n) for n in range(2)]
    counts: list[int] = []
    threads = [
        Thread(target=lambda w=one: counts.append(w.run(lambda m: m.payload, drain=True)))
        for one in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 200
    assert history(bus) == [[seq, "succeeded", "completed", 1] for seq in range(1, 201)]


# Signals --------------------------------------------------------------------------------------

_STOPPED_BY_SIGTERM = """
    import json, os, signal, sys, threading, time
    from ackbus import Bus
    from ackbus.workers.worker import Worker
    begun = []
    def kill_this_thread():
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    def handle(message):
        begun.append(message.seq)
        if message.seq == 4:
            {kill}
            time.sleep(0.1)
        return message.payload
    with Bus.open(sys.argv[1]) as bus:
        worker = Worker(bus, "x.request", concurrency=int(sys.argv[2]))
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        count = worker.run(handle)
    print(json.dumps([count, begun]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize(
    "kill",
    [
        "os.kill(os.getpid(), signal.SIGTERM)",
        "threading.Thread(target=kill_this_thread).start()",
    ],
    ids=["from a handler", "to another thread"],
)
def test_sigterm_lets_the_worker_finish_what_runs(bus: Bus, concurrency: int, kill: str) -> None:
    """Issue 3, item 4: what was begun is answered; the rest is left, and nothing is held."""
    publish(bus, 5000)
    program = _STOPPED_BY_SIGTERM.format(kill=kill)
    count, begun = json.loads(run_program(program, bus.layout.directory, concurrency))
    assert count == len(begun) < 5000
    ended = [row for row in history(bus) if row[1] != "queued"]
    assert [[*row[:2], row[3]] for row in ended] == [[seq, "succeeded", 1] for seq in sorted(begun)]
    assert rows(bus, "SELECT count(*) FROM claims WHERE status = 'active'") == [[0]]


def test_idle_worker_ends_at_sigterm(bus: Bus) -> None:
    """Whichever thread the kernel gave it to: the longest wait is 250 ms."""
    told = run_program(
        """
        import signal, sys, threading, time
        from ackbus import Bus
        from ackbus.workers.worker import Worker
        def kill_later():
            while not any("keeper" in thread.name for thread in threading.enumerate()):
                time.sleep(0.001)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        with Bus.open(sys.argv[1]) as bus:
            worker = Worker(bus, "x.request")
            signal.signal(signal.SIGTERM, lambda *_: worker.stop())
            threading.Thread(target=kill_later).start()
            print(worker.run(print))
        """,
        bus.layout.directory,
    )
    assert told == "0\n"


# Handlers that use the bus --------------------------------------------------------------------


def work_off(bus: Bus, handler: Callable[[Message], object]) -> None:
    """All there is, one attempt each; in the worker's thread, and what fails is over."""
    Queue.create(bus, QUEUE, max_attempts=1)
    Worker(bus, QUEUE).run(handler, drain=True)


def test_what_a_handler_publishes_does_not_depend_on_its_end(bus: Bus) -> None:
    """It is committed at once; what the handler returns is what belongs to its end."""
    seen = Event()

    def handle(message: Message) -> None:
        bus.publish("step", message.payload, from_agent="x-worker")
        assert rows(bus, "SELECT count(*) FROM messages WHERE type = 'step'")
        seen.set()
        raise LookupError("after the step")

    publish(bus, 1)
    work_off(bus, handle)
    assert seen.is_set()
    assert [m.type for m in bus.read()] == [QUEUE, "step", "x.failed"]
    assert history(bus) == [[1, "dead", "failed", 1]]


def test_transaction_of_a_handler_that_raises_is_undone(bus: Bus) -> None:
    """The claim ends all the same, and the next one is worked on."""

    def handle(message: Message) -> None:
        with bus.transaction():
            bus.publish("step", message.payload, from_agent="x-worker")
            if message.payload == 0:
                raise LookupError("inside")

    publish(bus, 2)
    work_off(bus, handle)
    assert not file_of(bus).writing
    assert [(m.type, m.payload) for m in bus.read(after_seq=2) if m.type == "step"] == [("step", 1)]
    assert history(bus) == [[1, "dead", "failed", 1], [2, "succeeded", "completed", 1]]


@pytest.mark.parametrize("kind", ["inline", "threads", "tasks"])
def test_transaction_that_a_handler_leaves_open_is_undone_and_fails_it(bus: Bus, kind: str) -> None:
    """Pitfall 7: else it would keep all writers out, and the worker's own ends would be lost."""
    kept: list[Generator[None]] = []

    def inside() -> Generator[None]:
        with bus.transaction():
            bus.publish("step", from_agent="x-worker")
            yield

    def handle(message: Message) -> None:
        if message.payload == 0:
            kept.append(inside())
            next(kept[0])

    publish(bus, 2)
    queue = Queue.create(bus, QUEUE, max_attempts=1)
    worker = Worker(bus, queue, concurrency=2 if kind == "threads" else 1)
    if kind == "tasks":

        async def handle_async(message: Message) -> None:
            handle(message)

        worker.run(handle_async, drain=True)
    else:
        worker.run(handle, drain=True)
    assert not file_of(bus).writing
    assert history(bus) == [[1, "dead", "failed", 1], [2, "succeeded", "completed", 1]]
    assert "left a transaction open" in str(Jobs.of(queue.bus).get(queue.info, 1).error)
    assert not list(bus.read(type="step"))
    with contextlib.suppress(Exception):
        kept[0].close()  # which finds its connection gone


def test_generator_is_no_answer(bus: Bus) -> None:
    """A handler with a `yield` in it has not run: that is a failure, not a success."""

    def handle(message: Message) -> Generator[int]:
        with bus.transaction():
            yield 1

    publish(bus, 1)
    work_off(bus, lambda message: handle(message))  # as it is, it would be refused at the call
    assert not file_of(bus).writing
    assert history(bus) == [[1, "dead", "failed", 1]]

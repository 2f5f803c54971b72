"""All that a bus can do, on a log with contents as real ones have: what the plans are asked of."""

import io
import os
import warnings
from contextlib import suppress
from pathlib import Path

from ackbus import (
    Bus,
    DeadLetters,
    Draft,
    Exporter,
    Inbox,
    JobControl,
    Message,
    Queue,
    Request,
    Session,
    work_headers,
)
from ackbus.automation.config.models import Config, PluginConfig, ScheduleEntry
from ackbus.automation.config.values import Frozen
from ackbus.automation.jobs.submission import JobRequest, Submission
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.records.facts import (
    Activations,
    AttemptEnd,
    Facts,
    Fence,
    Inits,
    JobLog,
    LogFilter,
)
from ackbus.automation.routes.flow import Context, Contexts, id_of_time
from ackbus.automation.routes.runs import RunTree
from ackbus.automation.schedules.firing import ScheduleControl
from ackbus.automation.schedules.scheduler import Scheduler
from ackbus.automation.schedules.tables import Decisions, Schedules
from ackbus.automation.service import EndedRuns
from ackbus.bus.errors import SegmentMissing
from ackbus.bus.log.catalog import Catalog
from ackbus.bus.log.records import Segment
from ackbus.bus.own_answers import own_answer
from ackbus.bus.verification import Verification
from ackbus.doctor.checks.bus import checks_of_bus, checks_of_work
from ackbus.doctor.checks.directory import checks_of_file
from ackbus.doctor.checks.export import checks_of_export
from ackbus.doctor.repair.database import mend_work
from ackbus.doctor.repair.files_beside import read_segment
from ackbus.errors import AckbusError, AnsweredAgainWarning, LimitReached
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.export.jsonl.automatic import export_briefly
from ackbus.export.jsonl.writer import Automatic
from ackbus.model import QueueStats, Trace
from ackbus.schema.findings import examine
from ackbus.schema.message.patterns import TypePattern
from ackbus.schema.message.times import format_ts
from ackbus.schema.queries import engine_of, file_of
from ackbus.subscribers.inboxes.failed_deliveries import Cursors, Deliveries
from ackbus.subscribers.inboxes.seen_mail import SeenMailNotes, UnseenMail
from ackbus.subscribers.inboxes.session import FirstMail, inbox_of, passing
from ackbus.subscribers.inboxes.session_names import SessionNames
from ackbus.subscribers.jobs.claims import Claims, Outcome
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.jobs.outcomes import ManualActs
from ackbus.subscribers.overview.agents import forget_agent, take_over
from ackbus.subscribers.overview.retention import Retention
from ackbus.subscribers.overview.trace import Notices
from ackbus.subscribers.queues.clock_back import follow_clock_back, newest_ms
from ackbus.subscribers.queues.queue_set import QueueSet, QueueWorkers, change_policy, remove_queue
from ackbus.subscribers.queues.queues import Queues
from ackbus.subscribers.views import Views, list_jobs
from ackbus.workers.json_contract import WorkerStates

from ..subscribers.conftest import Clock
from .workload_of_control import use_control
from .workload_of_tasks import use_tasks

#: Enough for several blocks of the catalog, so that filters choose among them, and for a queue in
#: which nothing fits to note how far it has looked.
MESSAGES = 10_500
AGENTS = 50


def fill(bus: Bus) -> None:
    """Publishes conversations of requests and answers among many agents, a tenth to all."""
    bus.publish("note", "x" * 9000, from_agent="agent-1")
    bus.publish_many(map(_message, range(MESSAGES)))


def _message(number: int) -> Draft:
    return Draft(
        ("review.request", "review.done", "note", "task.assign")[number % 4],
        {"text": f"please look at file {number % 97}.py", "n": number},
        id=f"message-{number}",
        from_agent=f"agent-{number % AGENTS}",
        to_agent=None if number % 10 == 0 else f"agent-{(number * 7) % AGENTS}",
        correlation_id=f"conversation-{number // 20}",
    )


def use_the_log(bus: Bus) -> None:
    sent = bus.publish("note", "x" * 5000, from_agent="agent-1", to_agent="agent-2")
    bus.publish("note", "answer", from_agent="agent-2", to_agent="agent-1", in_reply_to=sent.id)
    bus.publish("note", "x" * 5000, from_agent="agent-1", to_agent="agent-2", id=sent.id)
    bus.get(sent.seq)
    list(bus.read(type="review.*"))
    list(bus.read(conversation="conversation-7"))
    list(bus.read(agent="agent-3"))
    list(bus.read(since_ms=bus.now_ms()))
    list(bus.read(after_seq=99, upto_seq=200))
    bus.log.newest(5, type="note")
    bus.log.newest(5, to_agent="agent-2")
    bus.log.between(10, 20, pattern=TypePattern("note"))
    Inbox(bus, "agent-2", with_work=True).poll()
    inbox = Inbox(bus, "agent-2")
    inbox.want("task.>")
    assert inbox.wants == ["task.>"]
    inbox.poll()
    inbox.want()
    Cursors.of(bus).receive("agent-2", sent.seq)
    bus.stats()
    bus.agents.names()
    bus.collect_blobs(older_than_s=0)


def use_the_chain(bus: Bus) -> None:
    bus.chain.switch_on()
    bus.publish("note", from_agent="agent-1")
    bus.chain.catch_up()
    assert list(Verification(bus).problems()) == []
    bus.chain.switch_off()


def use_sessions(bus: Bus) -> None:
    names = SessionNames.of(bus)
    one, two = (("a server", connection) for connection in ("one", "two"))
    names.take("agent-2", *one, id="1")
    own = names.take("agent-2", *two)
    names.leave("agent-2", *one)
    assert names.take("agent-2", *two).claims_base
    inbox = inbox_of(bus, own.name)
    inbox.poll()
    inbox.unread()
    passing(inbox, bus.log.newest_seq())
    bus.log.acquaintances(own.name, own.base)
    UnseenMail(bus, own.name, bus.log.newest_seq(), 1)
    SeenMailNotes(bus, own.name).note(upto=bus.log.newest_seq())
    FirstMail(bus, "newcomer").inbox.poll(3)
    request = bus.get(bus.publish("look.request", from_agent="agent-1", to_agent="agent-2").seq)
    assert request is not None
    own_answer(bus, request, own.name)
    names.take("agent-2", "another")
    names.leave("agent-2", *two)
    names.take("agent-2", "another", id="1", is_resumed=True)
    names.list()


def use_inboxes(bus: Bus) -> None:
    assert bus.agents.unseen("nobody") is not None
    deliveries = Deliveries.of(bus)
    inbox = Inbox(bus, "agent-2", max_deliveries=1, own_broadcasts=False)
    first, second, third = inbox.poll(3)
    inbox.ack(first)
    inbox.complete(second, Draft("note", from_agent="agent-2"))
    inbox.is_completed(second)
    inbox.fail(third, "why")
    Inbox(bus, "agent-2").poll(type="note")
    deliveries.parked()
    deliveries.count_parked(10)
    inbox.requeue(third.seq)
    inbox.poll()
    inbox.attempts(third)
    inbox.fail(third, "why")
    inbox.parked()
    inbox.drop(third.seq)
    patient = Inbox(bus, "agent-2")
    (fourth,) = patient.poll(1)
    patient.fail(fourth, "why")
    patient.ack(fourth)
    Cursors.of(bus).count_unread("agent-2", 100)
    Cursors.of(bus).passing("agent-2", fourth.seq + 100)
    UnseenMail(bus, "agent-2", fourth.seq + 100, 3)
    for seq in (fourth.seq, fourth.seq + 1):
        bus.read_receipts(str(seq))
    Inbox(bus, "agent-3").run(lambda message: None, drain=True)
    with Session(bus, "agent-4") as session:
        session.run(lambda message: None, drain=True)
    Cursors.of(bus).seen()
    deliveries.agents_in_loops()


def forget(bus: Bus) -> None:
    Inbox(bus, "visitor").ack(1)
    forget_agent(bus, "visitor")


def use_leases(bus: Bus, clock: Clock) -> None:
    lease = bus.leases.acquire("job", "agent-1")
    assert lease is not None
    bus.leases.acquire("job", "agent-2")
    bus.leases.check(bus.leases.renew(lease))
    bus.leases.list()
    bus.leases.release(lease)
    bus.leases.acquire("other", "agent-1", lease_s=1)
    clock.advance(2)
    bus.leases.acquire("other", "agent-2")
    bus.reservations.reserve(["docs"], "agent-1", session="process 1 since 1 on another.1")
    bus.reservations.reserve(["docs"], "agent-1", session="process 2 since 1 on another.1")
    SessionNames.of(bus).traces("agent-1")
    bus.reservations.ended_with_sessions("agent-1")
    (first,) = bus.reservations.reserve(["src/*.py"], "agent-1").reservations
    take_over(bus, ["src/*.py"], "agent-3", reason="away", by_hand=True)
    take_over(bus, ["src/*.py"], "agent-1", reason="back", by_hand=True)
    bus.reservations.reserve(["src/*.py"], "agent-1", shared=True)
    with suppress(AckbusError):  # it was granted anew, in the other mode
        bus.reservations.renew(first.token, "agent-1")
    bus.reservations.against(["src/a.py"], "agent-2")
    for held in bus.reservations.list():
        bus.reservations.renew(held.token, "agent-1")
        bus.reservations.release(held.token, "agent-1")
    bus.heartbeats.beat("agent-1")
    bus.heartbeats.get("agent-1")
    bus.heartbeats.list()


def use_limits(bus: Bus) -> None:
    bus.limits.set_for_inbox("agent-9", 1)
    queue = Queue.create(bus, "limited", "limited.work")
    JobControl(queue).limit(1)
    for type, to_agent in (("note", "agent-9"), ("limited.work", None)):
        with suppress(LimitReached):
            for _ in range(2):
                bus.publish(type, from_agent="agent-1", to_agent=to_agent)
    (claim,) = queue.claim("worker")
    queue.complete(claim)
    bus.limits.list()
    bus.limits.clear("inbox", "agent-9")
    bus.limits.clear("queue", "limited")


def use_queues(bus: Bus, clock: Clock) -> None:
    queue = Queue.create(bus, "review", "review.request", max_attempts=2)
    claims = queue.claim("worker", limit=6)
    queue.renew(claims[0])
    queue.complete(claims[0], Draft("note", from_agent="worker"), result="ok")
    queue.fail(claims[1], "again", retry=True)
    queue.fail(claims[2], "never", retry=False)
    queue.release(claims[3])
    queue.cancel(claims[4], "no more")
    clock.advance(100_000)  # the lease of the last runs out, and the delay of the second ends
    with suppress(AckbusError):
        queue.complete(claims[5])
    queue.status(claims[5])
    queue.claim("worker", limit=2)
    queue.next_change_ms()
    newest_ms(bus)
    follow_clock_back(bus)
    for key in ("a", "a", "b"):
        bus.publish("review.request", from_agent="x", headers=work_headers(dedupe_key=key))
    wanted = work_headers(dedupe_key="a", dedupe_window_s=60)
    bus.publish("review.request", from_agent="x", headers=wanted)
    bus.publish("review.request", from_agent="x", headers=work_headers(available_at_ms=2**40))
    queue.fill()
    control = JobControl(queue)
    _finish(queue, 3000)
    _look_at_jobs(bus, queue)
    dead = DeadLetters(queue)
    list(dead.requeue(dead.find(("dead", "failed"))))
    queues = Queues(bus)
    change_policy(bus, "review", ordering="priority", max_running=9, max_running_per_key=2)
    queues.pause("review")
    queue.claim("worker")
    queues.resume("review")
    assert [act.act for act in ManualActs.of(bus).of_queue(queue.info)][-2:] == ["pause", "resume"]
    for claim in queue.claim("worker", limit=3):
        control.cancel(claim.message.seq)
    control.purge()
    states = WorkerStates.of(bus)
    states.update("worker", {"n": 1})
    Queue.create(bus, "all", ">").claim("worker", limit=1000)
    Queue.create(bus, "none", "nothing.fits").claim("worker")
    remove_queue(bus, "none")


def use_several_queues(bus: Bus) -> None:
    """Claims as the host of several queues, and takes its jobs for lost."""
    for name in ("plugin.a", "plugin.b"):
        Queue.create(bus, name, f"{name}.*", hides="all", addressed="automation")
    some = QueueSet(bus, ["plugin.a", "plugin.b"])
    some.fill()
    with bus.transaction():
        draft = Draft("plugin.a.poll", from_agent="lead", to_agent="automation")
        Queue.open(bus, "plugin.a").take_in([each.seq for each in bus.log.append([draft])])
    some.claim("host", group="automation", limit=2)
    Queue.open(bus, "plugin.a").jobs.lose_running("the host ended")


def _finish(queue: Queue, count: int) -> None:
    """Ends most of what waits: well, badly, or with its key held for the next."""
    for number in range(0, count, 500):
        claims = queue.claim("worker", limit=500)
        ends = [Outcome(), Outcome(status="failed", retry=False), Outcome()]
        queue.end_many([(claim, ends[number % 3], ()) for claim in claims])


def _look_at_jobs(bus: Bus, queue: Queue) -> None:
    Claims.of(bus).worker_of(1)
    Claims.of(queue.bus).count_since(0)
    bus.publish_many(map(_message, range(MESSAGES, MESSAGES + 40)))
    (claim,) = queue.claim("worker")
    for states in ([], ["queued"], ["queued", "running"], ["dead"], ["succeeded"]):
        list_jobs(queue, states, 10)
        Views.of(bus).count(queue.info, states, 10)
    QueueStats.of(queue)
    Trace.of(bus, f"claim:{claim.token}")
    Jobs.of(bus).of_message(claim.message.seq)
    queue.complete(claim)


def use_conversations(bus: Bus) -> None:
    QueueWorkers(bus).note(Queue.create(bus, "others").info, "agent-2")
    request = Request.send(bus, "ask.request", from_agent="agent-1")
    bus.publish("ask.done", from_agent="agent-2", in_reply_to=request.id)
    request.wait()
    bus.answer(request.conversation)
    loose = Request.send(bus, "ask.request", from_agent="agent-1", to_agent="agent-2")
    bus.publish("note", from_agent="agent-2", in_reply_to=loose.id)
    loose.wait()
    list(Notices(bus).news(first_since_ms=0))
    with warnings.catch_warnings(action="ignore", category=AnsweredAgainWarning):
        bus.publish("ask.done", from_agent="agent-2", in_reply_to=request.id)
    list(Notices(bus).news(first_since_ms=0))


def use_search(bus: Bus) -> None:
    bus.search("please", "look")
    bus.search("please", agent="agent-1", conversation="conversation-3")


def use_files(bus: Bus, folder: Path) -> None:
    Automatic.of(bus).set(True)
    export_briefly(bus)
    Exporter(bus).export_once()
    Exporter(bus).rotate(100_000)
    Exporter(bus).rebuild()
    with open(bus.layout.jsonl, "rb") as lines:
        bus.import_jsonl(io.BytesIO(lines.read()))
    back_up(bus, folder / "backup")
    with Bus.init(folder / "imported") as other, open(bus.layout.jsonl, "rb") as lines:
        other.import_jsonl(lines)


def use_archive(bus: Bus, clock: Clock) -> None:
    clock.advance(90 * 86_400)  # nobody is waited for any longer
    retention = Retention(bus)
    plan = retention.plan(MESSAGES // 2, pass_over_idle=True)
    retention.pass_over(plan)
    with Archiver(bus) as archiver:
        (segment,) = archiver.archive(MESSAGES // 2)
    Deliveries.of(bus).forget_finished()
    bus.get("message-5")
    bus.publish("note", from_agent="agent-1", in_reply_to="message-5")
    list(bus.read(conversation="conversation-2"))
    bus.log.newest(MESSAGES)
    for agent in ("agent-30", *(hold.name for hold in plan.passed_over)):
        with suppress(AckbusError):
            Inbox(bus, agent).poll()
    bus.collect_blobs(older_than_s=0)
    _search_without(bus, segment)
    with suppress(_Undone), bus.transaction():  # as the others use this archive
        bus.archive.discard([segment], ["sha256-" + "0" * 64], bus.now_ms())
        bus.archive.discarded()
        raise _Undone


class _Undone(Exception):
    """Rolls a transaction back."""


def _search_without(bus: Bus, segment: Segment) -> None:
    """Indexes a log of which a segment is missing, or cut off, and makes up for it."""
    path = Path(bus.archive.path(segment))
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(bus.layout.search + ending)
    aside = path.rename(path.with_suffix(".aside"))
    bus.search("please")
    path.touch()
    with suppress(SegmentMissing):
        list(bus.read())
    aside.replace(path)
    bus.search("please")


def use_doctor(bus: Bus) -> None:
    checks = {
        **checks_of_file(file_of(bus), full=True),
        **checks_of_bus(bus, full=True),
        **checks_of_work(bus),
        **checks_of_export(bus, full=True),
    }
    findings = list(examine(checks))
    assert [finding for finding in findings if finding.state == "bad"] == []


def use_repair(bus: Bus) -> None:
    """The acts of a repair in a new file, once that is made."""
    (segment,) = bus.archive.segments()
    frames = read_segment(bus.archive.path(segment)).frames(segment.first_seq)
    bus.archive.note_again(segment, frames, bus.log.read(upto_seq=segment.last_seq))
    Catalog.of(bus).recount(bus.log)
    checks_of_work(bus, full=True)["work"]()
    list(mend_work(bus, {"jobs"}))


def use_numbers(bus: Bus) -> None:
    """Counts messages after numbers that another program has left out."""
    file_of(bus).rows(
        "INSERT INTO messages (seq, id, ts_ms, from_agent, type)"
        " SELECT max(seq) + 100000, 'far', 0, 'agent-1', 'note' FROM messages"
    )
    bus.stats()


def _attempt(message: Message, attempt: int) -> AttemptEnd:
    return AttemptEnd(
        message=message,
        plugin="a",
        command="poll",
        status="failed",
        attempt=attempt,
        token=attempt,
        stdout="x",
        stderr="",
        error="no",
    )


def use_records(bus: Bus, clock: Clock) -> None:
    """Keeps records of plugins and their jobs, looks at them, and deletes old ones."""
    engine, at = engine_of(bus), format_ts(clock())
    fence, facts, log = Fence(engine), Facts(engine), JobLog(engine)
    token = fence.begin(Path("config"), "h")
    fence.check(token)
    fence.ready(token, "h")
    fence.beat(token)
    fence.end(token)
    fence.row()
    activations = Activations(engine)
    activations.taken({"note": "its entrypoint is no program"})
    activations.last()
    inits = Inits(engine)
    inits.note("a", "f", None)
    inits.all()
    inits.forget("a")
    for number in range(300):
        facts.record("a", "a.snapshot", {"x": number}, "j", "poll")
    facts.merge("b", {"x": 1})
    facts.newest("a", 3)
    facts.states()
    message = next(bus.read(type="plugin.a.poll"))
    log.add_output([(1, "stdout", "x")])
    log.output(1)
    log.clear_output()
    for attempt in range(1, 301):
        log.add(_attempt(message, attempt))
    log.of_job(message.id)
    log.newest(3)
    log.newest(3, plugin="a")
    for wanted in (LogFilter(text="x"), LogFilter(job_id=message.id)):
        log.find(wanted, 3)
        log.count(wanted, 3)
    submission = Submission(bus)
    breakers = Breakers.of(bus)
    for _ in range(100):
        for _ in range(3):
            breakers.note("a", "poll", False, "j", "scheduler")
        breakers.reset("a")
    for _ in range(3):
        breakers.note("a", "poll", False, "j", "scheduler")
    clock.advance(1800)
    breakers.may_begin("a", "poll", submission)
    breakers.history("a")
    breakers.reset("a")
    request = JobRequest(
        plugin="a", command="poll", submitted_by="cli", dedupe_key="k", dedupe_ttl_s=60
    )
    submission.submit(request)
    submission.submit(request)
    for records in (facts, log, breakers):
        records.prune(at, 500)


def use_schedules(bus: Bus, clock: Clock) -> None:
    """Decides about times of schedules, missed ones too, and acts by hand."""
    entry = ScheduleEntry(plugin="a", every_s=300.0, catch_up="run_once", hash="h")
    once = ScheduleEntry(plugin="a", id="once", at_ms=clock() + 60_000, hash="o")
    submission = Submission(bus)
    scheduler = Scheduler(bus, submission, Breakers.of(bus))
    for entries in ((entry, once), (), (entry, once), (entry.model_copy(update={"hash": "h2"}),)):
        plugin = PluginConfig(name="a", uses="a", schedules=entries, max_outstanding_polls=9)
        config = Config(directory=Path("config"), plugins=Frozen({"a": plugin}))
        scheduler.store(config)
        scheduler.use_config(config)
        scheduler.tick()
        clock.advance(2_000_000)
        scheduler.tick()
    by_hand = ScheduleControl(bus, submission, config)
    stored = Schedules.of(bus)
    with bus.transaction():
        stored.remove_all_but([(each.plugin, each.id) for each in stored.all()])
    stored.starving(0, 10)
    by_hand.pause("a", "default")
    by_hand.resume("a", "default")
    by_hand.run_now("a", "default")
    decisions = Decisions.of(bus)
    decisions.about("a", "default", limit=10)
    decisions.missed_since(0, 10)
    for number in range(300):
        decisions.add(entry, number, "skipped")
    decisions.prune(format_ts(clock()), 500)


def use_routes(bus: Bus) -> None:
    contexts = Contexts.of(bus)
    for number in range(300):
        contexts.add(Context(id=f"{id_of_time(number)}8-{number}", pipeline="p", step="s"))
    EndedRuns(bus).prune(format_ts(10), 500)
    for message in bus.read(type="plugin.a.poll"):
        RunTree.of(bus, message.id)


def use_all(directory: Path, folder: Path) -> None:
    """Does everything that the product can do with a bus that is in `directory`."""
    clock = Clock()
    with Bus.open(directory, clock=clock) as bus:
        fill(bus)
        use_the_log(bus)
        use_the_chain(bus)
        use_inboxes(bus)
        use_sessions(bus)
        forget(bus)
        use_leases(bus, clock)
        use_limits(bus)
        use_queues(bus, clock)
        use_several_queues(bus)
        use_records(bus, clock)
        use_schedules(bus, clock)
        use_routes(bus)
        use_tasks(bus)
        use_control(bus, clock)
        use_conversations(bus)
        use_search(bus)
        use_files(bus, folder)
        use_archive(bus, clock)
        use_doctor(bus)
        use_repair(bus)
        use_numbers(bus)

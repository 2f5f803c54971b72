"""All that the control plane of tasks can do, for the plans of its statements."""

from ackbus import Bus
from ackbus.tasks.control.ingress import Posts
from ackbus.tasks.control.jobs import JobQueue, Sweep
from ackbus.tasks.control.requests import Completions, Requests
from ackbus.tasks.control.sessions import SERVICES, Sessions
from ackbus.tasks.control.status import WorkerTable, system_status
from ackbus.tasks.records.sessions import Autonomy, DispatchLock

from ..subscribers.conftest import Clock
from ..tasks.replay import replay


def use_control(bus: Bus, clock: Clock) -> None:
    """Uses every statement on the tables of the control plane."""
    requests, jobs = Requests(bus), JobQueue(bus)
    for _ in range(30):
        requests.enqueue({"sessionId": "s1", "prompt": "x"})
        jobs.enqueue({"taskId": "t", "kind": "k", "sessionId": "s1"})
    for _ in range(5):
        claimed = jobs.claim("w1")
        assert claimed is not None
        jobs.complete(claimed[0]["id"], {})
    claimed = jobs.claim("w1")
    assert claimed is not None
    for number in range(600):
        jobs.log(claimed[0]["id"], f"line {number}")
    for after in (None, 0):
        jobs.logs(claimed[0]["id"], after)
    WorkerTable(bus, jobs.entries).heartbeat({"workerId": "w1"})
    Completions(bus).enqueue({"jobId": "j", "sessionId": "s1", "message": "m"})
    for _ in range(2):
        system_status(bus)
        clock.advance(200)
        Sweep(bus, jobs).when_due()
    jobs.output.prune(bus.now_ms() - 1)
    _use_autonomy(bus)
    _use_sessions(bus)


def _use_sessions(bus: Bus) -> None:
    sessions = Sessions(bus)
    for name in ("s1", "s2"):
        sessions.create(name)
        call = {"toolCallId": name, "tool": "t", "args": {}, "requiresApproval": True}
        posts = Posts(sessions)
        posts.command(name, {"type": "tool_call", "payload": call}, sender="w1")
        posts.decide(name, "approve")
    for agent in SERVICES:
        sessions.emit("s1", "status", {"agentId": agent, "state": "idle"})
    with bus.transaction():
        seqs = [sessions.emit("s1", "done", {"ok": True}).seq for _ in range(600)]
    assert sessions.begin("s1", seqs[0]) == seqs[0]
    assert len(list(replay(sessions, "s1"))) > 600


def _use_autonomy(bus: Bus) -> None:
    lock, kept = DispatchLock.of(bus), Autonomy.of(bus)
    lock.acquire("s1", "run")
    for _ in range(600):
        made = kept.add_snapshot("s1", "run", {})
    lock.release("s1", "run")
    kept.snapshot(made.id)
    kept.set_state("s1", {})
    kept.state("s1")
    kept.prune(1)

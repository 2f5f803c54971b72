"""An answer that its asker has received is no mail of it any more: one rule at every door."""

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest

from ackbus import Bus, Inbox
from ackbus.server.access.access import BusAccess
from ackbus.server.access.tokens import Scope, Tokens
from ackbus.server.running import create_app
from ackbus.subscribers.requests import Request

from ..conftest import RunBus, wait_until
from .conftest import BUS, Serve, problem
from .mcp_clients import in_process

TYPE = "t.request"


@dataclass
class Asked:
    """A request of `asker` that has been answered, and all that a reader of the answer needs."""

    bus: Bus
    bus_dir: Path
    run_bus: RunBus
    serve: Serve
    conversation: str

    def http(self, path: str, **given: Any) -> str:
        """Reads an answer over HTTP; returns the state."""
        response = self.serve(**given).get(f"/v1/{path}")
        assert response.status_code == 200, response.text
        return str(response.json()["state"])

    def bearer(self, *scopes: Scope, agent: str | None = None) -> dict[str, str]:
        token = Tokens.of(self.bus).create(uuid4().hex, scopes, agent=agent)
        return {"Authorization": f"Bearer {token}"}

    def mcp(self, name: str) -> str:
        """Checks by the tool, as an agent."""
        given = {"conversation": self.conversation}
        return str(
            in_process(self.bus_dir, lambda me: me.call("bus_check", **given), name=name)["state"]
        )

    @property
    def request(self) -> str:
        return f"requests/{self.conversation}/answer"

    @property
    def thread(self) -> str:
        return f"conversations/{self.conversation}/answer"


@pytest.fixture
def asked(bus: Bus, bus_dir: Path, run_bus: RunBus, serve: Serve) -> Asked:
    bus.heartbeats.beat("asker")
    bus.heartbeats.beat("w")
    sent = bus.publish(TYPE, from_agent="asker", to_agent="w")
    bus.publish("t.done", "yes", from_agent="w", to_agent="asker", in_reply_to=sent.id)
    assert Inbox(bus, "asker").unread() == 1
    return Asked(bus, bus_dir, run_bus, serve, sent.id)


RECEIVED: dict[str, Callable[[Asked], object]] = {
    "command: check": lambda asked: asked.run_bus(
        "check", asked.conversation, env={"BUS_AGENT": "asker"}
    ).out.split()[1],
    "HTTP: request": lambda asked: asked.http(asked.request),
    "HTTP: request, with a token of the asker": lambda asked: asked.http(
        asked.request, headers=asked.bearer(Scope.MESSAGES_RW, agent="asker")
    ),
    "HTTP: conversation": lambda asked: asked.http(asked.thread + "?agent=asker"),
    "HTTP: conversation, with a token of the asker": lambda asked: asked.http(
        asked.thread, headers=asked.bearer(Scope.MESSAGES_RW, agent="asker")
    ),
    "MCP: check": lambda asked: asked.mcp("asker"),
}

LOOKED_AT: dict[str, Callable[[Asked], object]] = {
    "library: check": lambda asked: asked.bus.answer(asked.conversation).state,
    "command: check": lambda asked: asked.run_bus("check", asked.conversation).out.split()[1],
    "HTTP: request, by another": lambda asked: asked.http(asked.request + "?agent=w"),
    "HTTP: request, with a token of another": lambda asked: asked.http(
        asked.request, headers=asked.bearer(Scope.MESSAGES_RW, agent="w")
    ),
    "HTTP: request, with a token that only reads": lambda asked: asked.http(
        asked.request, headers=asked.bearer(Scope.MESSAGES_RO)
    ),
    "HTTP: conversation": lambda asked: asked.http(asked.thread),
    "MCP: check of another": lambda asked: asked.mcp("w"),
}


@pytest.mark.slow
@pytest.mark.parametrize("door", RECEIVED)
def test_answer_that_its_asker_reads_leaves_the_inbox(door: str, asked: Asked) -> None:
    """And is there when it is asked for again."""
    for _ in range(2):
        assert RECEIVED[door](asked) == "success"
        assert Inbox(asked.bus, "asker").unread() == 0
        assert Inbox(asked.bus, "asker").position == 0


@pytest.mark.parametrize("door", LOOKED_AT)
def test_answer_that_others_look_at_stays_in_the_inbox(door: str, asked: Asked) -> None:
    assert LOOKED_AT[door](asked) == "success"
    assert Inbox(asked.bus, "asker").unread() == 1


@pytest.mark.parametrize("command", ["check", "request"])
def test_answer_that_could_not_be_printed_stays_in_the_inbox(
    command: str, asked: Asked, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    given = [asked.conversation]
    if command == "request":  # the same once more finds the answer to the first
        given = [TYPE, "--to", "w", "--id", asked.conversation]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [BUS, command, *given, "--dir", bus_dir],
            stdout=full,
            stderr=subprocess.PIPE,
            env=bus_env | {"BUS_AGENT": "asker", "PYTHONUNBUFFERED": ""},  # as for most users
            timeout=60,
        )
    assert (done.returncode, b"No space left" in done.stderr) == (1, True), done.stderr
    assert Inbox(asked.bus, "asker").unread() == 1


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("path", ["requests/{}/answer", "conversations/{}/answer?agent=asker"])
def test_answer_for_a_client_that_is_gone_stays_in_the_inbox(
    path: str, is_there: bool, asked: Asked
) -> None:
    """The server sees the closed connection before it answers."""
    target, _, query = f"/v1/{path.format(asked.conversation)}".partition("?")
    sent = []

    async def receive() -> dict[str, Any]:
        if is_there:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        app = create_app(asked.bus, BusAccess(asked.bus))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 1),
        }
        async with app.router.lifespan_context(app):
            await app(scope, receive, send)

    asyncio.run(run())
    assert sent[0]["status"] == 200
    assert Inbox(asked.bus, "asker").unread() == (0 if is_there else 1)


def test_reader_of_an_answer_is_the_name_of_an_agent(asked: Asked) -> None:
    client = asked.serve()
    for path in (asked.request, asked.thread):
        for name in ("%20bad", "%00", ""):
            problem(client.get(f"/v1/{path}?agent={name}"), 422, "invalid-input")


@pytest.mark.slow
def test_answer_that_was_waited_for_is_received(bus: Bus, bus_dir: Path, serve: Serve) -> None:
    """By the library, over HTTP, and by the tool that asks and waits."""
    for agent in ("asker", "w"):
        bus.heartbeats.beat(agent)

    def answer() -> None:
        with Bus.open(bus_dir) as own:
            worker = Inbox(own, "w")
            wait_until(worker.poll)
            (asked,) = worker.poll()
            own.publish("t.done", from_agent="w", to_agent="asker", in_reply_to=asked.id)
            worker.ack(asked)

    sent = Request.send(bus, TYPE, from_agent="asker", to_agent="w")
    answer()
    assert sent.wait(30).state == "success"
    client: httpx.Client = serve()
    id = client.post("/v1/requests", json={"type": TYPE, "from": "asker", "to": "w"}).json()["id"]
    answer()
    found = client.get(f"/v1/requests/{id}/answer", params={"wait_s": 20}).json()
    assert found["state"] == "success"
    worker = Thread(target=answer)
    worker.start()
    given = {"type": TYPE, "to": "w", "wait_s": 20}
    told = in_process(bus_dir, lambda me: me.call("bus_request", **given), name="asker")
    worker.join()
    assert told["state"] == "success"
    assert Inbox(bus, "asker").unread() == 0


def test_backup_answers_who_checks_there(asked: Asked, tmp_path: Path, run_bus: RunBus) -> None:
    """It is read-only: nothing is noted, and nothing is withheld."""
    assert run_bus("backup", tmp_path / "copy").code == 0
    done = run_bus(
        "check", asked.conversation, "--dir", tmp_path / "copy", env={"BUS_AGENT": "asker"}
    )
    assert (done.code, done.out.split()[1]) == (0, "success")

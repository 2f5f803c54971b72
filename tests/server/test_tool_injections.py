"""In what tools say, the words of others are quoted, cut, and can end no quotation."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

from ackbus import Bus, Inbox, Queue
from ackbus.schema.errors import AckbusError
from ackbus.schema.message.names import PLAIN_CHARS
from ackbus.server.mcp.sdk_server import INSTRUCTIONS
from ackbus.server.mcp.tools.catalog import tools_of
from ackbus.server.mcp.tools.profiles import FULL
from ackbus.server.mcp.tools.tool import exact, named
from ackbus.tasks.steps.tasks import Tasks

from ..injections import INJECTIONS, MARK, disguise
from ..sizes import size
from ..tasks.conftest import new_task
from .mcp_clients import Agent, in_process, text_of

ALL = [disguise(number) for number in range(len(INJECTIONS))]

#: What the bus says in a record; all else are fields of a message, a task or an agent.
OURS = {"next", "warning", "notice", "more", "answer", "part", "state", "job"}

#: A quotation: nothing in it can end it.
QUOTATION = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')

#: A name that can't be taken for words, as it stands outside of quotations.
WORD = re.compile(r"[\w.:/@#+*-]{1,64}", re.ASCII)


def faults_of(text: str) -> list[str]:
    """The places where a text of the bus has a sender's words as if they were its own."""
    faults = [repr(char) for char in set(text) if not (char.isprintable() or char in "\n\t\u200d")]
    for line in text.split("\n"):
        if line.startswith("| "):
            continue
        for word in QUOTATION.sub(" ", line).split():
            word = word.strip("()[],;.:…")
            if MARK in word and not WORD.fullmatch(word):
                faults.append(line)
    return faults


def said_by_us(value: Any, name: str = "") -> Iterator[str]:
    """The texts of a record that are the bus's own."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from said_by_us(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from said_by_us(inner, name)
    elif name in OURS:
        yield str(value)


@pytest.fixture
def bus(bus: Bus) -> Bus:
    """A bus with all of them in each place that takes them."""
    bus.heartbeats.beat("me")
    Queue.create(bus, "build.request")
    for number, each in enumerate(ALL):
        bus.publish(
            each.type,
            each.body,
            from_agent=each.sender,
            to_agent=("me", None)[number % 2],
            id=each.id,
        )
        bus.publish("build.request", {each.line: each.body}, from_agent=each.sender)
        bus.publish(f"{each.type}.request", each.body, from_agent=each.sender, to_agent="me")
        asked = bus.publish("ask.request", from_agent="me", id=f"{each.id}?"[:250])
        bus.publish("ask.done", each.body, from_agent=each.sender, in_reply_to=asked.id)
        Inbox(bus, each.sender).ack(1)
        bus.heartbeats.beat(each.sender, each.line[:40], task=each.line[:200])
        bus.reservations.reserve([f"src/{number}"], each.sender, reason=each.line[:200])
        assign(bus, number, each.line, each.body, each.sender)
    return bus


def assign(bus: Bus, number: int, line: str, body: str, sender: str) -> None:
    """A task with a hostile prompt and question, and a hostile name where that may be one."""
    for name in (line[:60], f"task{number}"):
        task = new_task(name, worker="me", branch=f"me/{number}", prompt=body)
        try:
            made = Tasks(bus).assign(task, agent=sender)
        except AckbusError:
            continue
        if number % 2:
            Tasks(bus).start(name, agent="me", token=made.token)
            Tasks(bus).block(name, agent="me", token=made.token, question=body)
        return


async def every_result(me: Agent, bus: Bus) -> list[tuple[str, CallToolResult]]:
    """Results of all tools, whether the call was right or not."""
    results = []

    async def call(tool: str, **given: Any) -> dict[str, Any]:
        result = await me.try_to(tool, **given)
        results.append((tool, result))
        return result.structured_content or {}

    await call("bus_join", name="me", task="tests")
    for tool in ("bus_inbox", "bus_agents", "bus_search", "bus_thread"):
        more = {"bus_search": {"words": MARK}, "bus_thread": {"conversation": "1"}}.get(tool, {})
        cursor: Any = None
        while (page := await call(tool, cursor=cursor, **more)).get("next_cursor"):
            cursor = page["next_cursor"]
    await call("bus_ack", seq=bus.log.newest_seq())
    await call("bus_task")
    tasks = [task.task for task in Tasks(bus).list()]
    for number, each in enumerate(ALL):
        seq = bus.get(each.id).seq  # type: ignore[union-attr]
        await call("bus_thread", conversation=each.id)
        await call("bus_receipts", seq=seq)
        await call("bus_check", conversation=f"{each.id}?"[:250])
        await call("bus_reserve", paths=[f"src/{number}"])
        await call("bus_task", action="show", task=tasks[number])
        await call("bus_send", type=each.type, to=each.sender, in_reply_to=str(seq))
        await call("bus_send", type="t", to=f"{each.sender} x"[:128], id=each.id)
        token = (await call("bus_claim", queue="build.request")).get("token", 1)
        await call("bus_finish", token=token, outcome="failed", error=each.body)
    for each in ALL[:: size(sample=8, whole=1)]:  # what an agent could be led to give back
        for tool in tools_of(FULL).values():
            name = next(iter(tool.input_schema["properties"]), "x")
            await call(tool.name, **{name: each.body})
            await call(tool.name, **{each.line: 1})
        await call("bus_claim", queue=each.line)
        await call("bus_request", type=f"{each.type}.request", to=each.sender, wait_s=0)
        await call("bus_ack", seq=1, skip=True)
    await call("bus_status")
    return results


@pytest.mark.slow
def test_no_injection_ends_a_quotation_or_speaks_for_the_bus(bus: Bus, bus_dir: Path) -> None:
    """Issue 32, item 2: names, types, ids, bodies, prompts, questions, reasons, in every tool."""
    results = in_process(bus_dir, lambda me: every_result(me, bus))
    assert {tool for tool, _ in results} == set(tools_of(FULL))
    assert sum(MARK in text_of(result) for _, result in results) > 500
    for tool, result in results:
        assert faults_of(text_of(result)) == [], (tool, text_of(result))
        for said in said_by_us(result.structured_content):
            assert faults_of(said) == [], (tool, said)


def test_what_stands_above_the_conversation_is_the_same_for_every_bus() -> None:
    """Instructions of the server, and the list of tools, have no word from a bus."""
    above = INSTRUCTIONS + "".join(
        f"{tool.about}{tool.input_schema}" for tool in tools_of(FULL).values()
    )
    assert MARK not in above
    assert "{" not in INSTRUCTIONS


@pytest.mark.parametrize("text", INJECTIONS)
def test_quotation_ends_where_the_bus_ends_it(text: str) -> None:
    for name in (text, text * 20, text + "\\", text + '\\"'):
        for said in (named(name), exact(name)):
            assert QUOTATION.fullmatch(said) or WORD.fullmatch(said), said
        assert len(named(text * 20)) <= 10 * PLAIN_CHARS + 3

"""Results fit into what programs hand on, and a long message keeps nobody from the others."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

from ackbus import Bus, Draft, Inbox
from ackbus.server.mcp.session import DEFAULT_BYTES, ResultRoom
from ackbus.server.mcp.tools.common import HEAD_CHARS
from ackbus.server.mcp.tools.inbox import SKIPPED
from ackbus.tasks.steps.tasks import Tasks

from ..tasks.conftest import new_task
from .mcp_clients import Agent, in_process, text_of

#: Bodies whose bytes are more than their characters, in one form or in both.
HEAVY: dict[str, Any] = {
    "plain": "word ",
    "quotes": '"\\',
    "lines": "\n",
    "controls": "\x1b\x00",
    "wide": "工作者",
    "emoji": "👩‍🚀",
    "invisible": "\u202e",
    "json": [{"k": '"'}],
}

PROGRAMS = ("unknown", "codex-mcp-client", "claude-code", "copilot-cli")


#: The least that each program cuts, by the name with which it introduces itself: Claude Code 25,000
#: tokens, each of a byte or more; Codex 12,000 bytes or so; Gemini 40,000 characters; opencode 50 K
#: `make programs` gives each a full page (tests/real_programs/test_versions.py), Copilot too.
CUTS = {
    "claude-code": 25_000,
    "codex-mcp-client": 12_000,
    "gemini-cli-mcp-client": 40_000,
    "opencode": 51_200,
}


def sent(result: CallToolResult) -> int:
    """The bytes of a result as it is sent."""
    return len(result.model_dump_json(by_alias=True, exclude_none=True).encode())


async def read_all(me: Agent, room: int) -> list[dict[str, Any]]:
    """Reads the inbox to its end, and every long message to its end."""
    found, cursor = list[dict[str, Any]](), None
    while True:
        result = await me.try_to("bus_inbox", cursor=cursor, limit=100)
        assert sent(result) <= room, (sent(result), text_of(result)[:200])
        assert result.structured_content is not None
        for each in result.structured_content["messages"]:
            while (more := each.get("more")) is not None:
                rest = await me.try_to("bus_inbox", cursor=more.split("'")[1], limit=1)
                assert sent(rest) <= room
                (part,) = (rest.structured_content or {})["messages"]
                each["payload"] += part["payload"]
                each["more"] = part.get("more")
            found.append(each)
        cursor = result.structured_content.get("next_cursor")
        if cursor is None:
            return found


def test_room_of_each_program_is_less_than_it_cuts() -> None:
    """Issue 32, item 4: a program that cuts a result tells neither its hook nor a server of it."""
    least = min(CUTS.values())
    rooms = {
        program: ResultRoom.of(program).bytes for program in [*CUTS, "copilot-cli", "unknown", None]
    }
    assert {
        program: room for program, room in rooms.items() if room >= CUTS.get(program or "", least)
    } == {}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_result_is_longer_than_the_room_and_nothing_is_lost(
    program: str, bus: Bus, bus_dir: Path
) -> None:
    """Issue 32, item 4: both forms are counted, as they are sent."""
    chance = random.Random(program)
    bodies = []
    for heavy in HEAVY.values():
        for count in (1, 50, chance.randrange(300, 900), 6_000):
            bodies.append(heavy * count)
    chance.shuffle(bodies)
    sender, type = "工" * 128, "t." + "é" * 250
    bus.heartbeats.beat("me")
    bus.publish_many(
        Draft(type, each, from_agent=sender, to_agent="me", id="x" * 250 + str(n))
        for n, each in enumerate(bodies)
    )
    found = in_process(
        bus_dir, lambda me: read_all(me, ResultRoom.of(program).bytes), program=program
    )
    assert [each["seq"] for each in found] == list(range(1, len(bodies) + 1))
    for body, each in zip(bodies, found, strict=True):
        is_text = isinstance(each["payload"], str) and not isinstance(body, str)
        assert (json.loads(each["payload"]) if is_text else each["payload"]) == body


def test_many_heads_of_long_messages_lead_on_to_what_is_behind(bus: Bus, bus_dir: Path) -> None:
    """A page reads no more than some millions of characters; the next goes on after it."""
    bus.publish_many([Draft("t", "x" * 1_500_000, from_agent="a")] * 7)
    bus.publish("t", "the last", from_agent="a")

    async def act(me: Agent) -> list[int]:
        seqs, cursor = [], None
        while True:
            page = await me.call("bus_inbox", cursor=cursor)
            seqs += [each["seq"] for each in page["messages"]]
            if (cursor := page.get("next_cursor")) is None:
                return seqs

    assert in_process(bus_dir, act) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.slow
def test_lists_of_other_tools_fit_too(bus: Bus, bus_dir: Path) -> None:
    """The rest is counted, or comes by a cursor."""
    bus.publish("t", "!", from_agent="a")
    for number in range(100):
        name = f"{number:03}" + "工" * 125
        bus.heartbeats.beat(name, "working", task="t" * 200)
        Inbox(bus, name).ack(1)
        bus.reservations.reserve([f"theirs/{number}"], name, reason="r" * 250)
        bus.reservations.reserve([f"mine/{number}/" + "p" * 200], "me")
        bus.publish("t", "needle " + "x" * 500, from_agent=name)
    for number in range(40):
        task = new_task(f"fix-{number}", worker="me", branch=f"me/{number}", prompt="do " * 2000)
        Tasks(bus).assign(task, agent="me")

    async def act(me: Agent) -> None:
        names, cursor = [], None
        for tool, given in (
            ("bus_receipts", {"seq": 1}),
            ("bus_reserve", {"paths": [f"theirs/{number}" for number in range(100)]}),
            ("bus_reserve", {"paths": ["mine/x"]}),
            ("bus_reserve", {"paths": ["mine/x"], "mode": "release"}),
            ("bus_status", {}),
            ("bus_task", {}),
            ("bus_task", {"action": "show", "task": "fix-1"}),
            ("bus_search", {"words": "needle", "limit": 100}),
        ):
            result = await me.try_to(tool, **given)
            assert sent(result) <= DEFAULT_BYTES, (tool, given, sent(result))
        while True:
            result = await me.try_to("bus_agents", cursor=cursor)
            assert sent(result) <= DEFAULT_BYTES
            record = result.structured_content or {}
            names += [each["agent"] for each in record["agents"]]
            cursor = record.get("next_cursor")
            if cursor is None:
                break
        assert len(set(names)) == len(names) == 102

    in_process(bus_dir, act)


# a way past a long message -------------------------------------------------------------------

LONG = "long " * 100_000


def test_long_message_is_skipped_after_its_head(bus: Bus, bus_dir: Path) -> None:
    """Issue 32, item 5: parked for people, and its sender is told; two calls, not hundreds."""
    bus.heartbeats.beat("me")
    bus.publish("t", "first", from_agent="a", to_agent="me")
    long = bus.publish("t", LONG, from_agent="a", to_agent="me")
    bus.publish("t", "behind", from_agent="b", to_agent="me")
    before = sorted(bus_dir.rglob("*"))

    async def act(me: Agent) -> None:
        assert "not shown the beginning of [2]" in await me.fail("bus_ack", seq=2, skip=True)
        page = await me.call("bus_inbox")
        assert [len(each["payload"]) for each in page["messages"]] == [5, HEAD_CHARS, 6]
        assert "bus_ack(seq=2, skip=true)" in page["next"]
        assert "bus_ack(seq=1)" in page["next"]
        assert "not shown all of [2]" in await me.fail("bus_ack", seq=3)
        skipped = await me.call("bus_ack", seq=2, skip=True)
        assert (skipped["acknowledged"], skipped["unread"]) == (2, 1)
        assert "[2] is put aside, and its sender was told" in skipped["next"]
        assert (await me.call("bus_status"))["parked"] == 1
        assert "[2] does not wait for you" in await me.fail("bus_ack", seq=2, skip=True)
        assert (await me.call("bus_ack", seq=3))["unread"] == 0

    in_process(bus_dir, act)
    (parked,) = Inbox(bus, "me").parked()
    assert (parked.seq, parked.error) == (2, "me read its beginning, and skipped it")
    (told,) = Inbox(bus, "a").poll()
    assert (told.type, told.from_agent, told.to_agent) == (SKIPPED, "me", "a")
    assert (told.payload["seq"], told.payload["id"]) == (2, long.id)
    assert told.conversation == long.id
    files = {path.name for path in set(bus_dir.rglob("*")).difference(before)}
    assert not any(
        LONG[:50] in path.read_text(errors="replace")
        for path in bus_dir.rglob("*")
        if path.name in files and path.is_file()
    )
    Inbox(bus, "me").requeue(2)
    assert [each.seq for each in Inbox(bus, "me").poll()] == [2]


def test_skipping_passes_nothing_that_was_not_shown(bus: Bus, bus_dir: Path) -> None:
    bus.heartbeats.beat("me")
    for body in ("one", LONG, "three", LONG):
        bus.publish("t", body, from_agent="a", to_agent="me")
    bus.publish("t", LONG, from_agent="a", to_agent="a")

    async def act(me: Agent) -> None:
        await me.call("bus_inbox", cursor="3")
        assert "not shown all of [1] t from a" in await me.fail("bus_ack", seq=4, skip=True)
        await me.call("bus_inbox")
        assert "not shown all of [2] t from a" in await me.fail("bus_ack", seq=4, skip=True)
        await me.call("bus_thread", conversation="5")
        for seq in (5, 6, 99):
            assert "does not wait for you" in await me.fail("bus_ack", seq=seq, skip=True)
        await me.call("bus_ack", seq=2, skip=True)
        await me.call("bus_ack", seq=4, skip=True)
        assert (await me.call("bus_status"))["acknowledged"] == 4

    in_process(bus_dir, act)
    assert [each.seq for each in Inbox(bus, "me").parked()] == [2, 4]


def test_sender_with_a_full_inbox_is_skipped_untold(bus: Bus, bus_dir: Path) -> None:
    """Else it would lock the mailboxes of all others by its own."""
    bus.heartbeats.beat("me")
    bus.limits.set_for_inbox("a", 1)
    bus.heartbeats.beat("a")
    bus.publish("t", from_agent="me", to_agent="a")
    bus.publish("t", LONG, from_agent="a", to_agent="me")

    async def act(me: Agent) -> None:
        await me.call("bus_inbox")
        skipped = await me.call("bus_ack", seq=2, skip=True)
        assert "its sender was not told" in skipped["next"]
        assert skipped["warning"]
        assert skipped["unread"] == 0

    in_process(bus_dir, act)
    assert [each.seq for each in Inbox(bus, "me").parked()] == [2]


def test_mailbox_full_of_long_messages_is_emptied_in_two_calls_each(
    bus: Bus, bus_dir: Path
) -> None:
    bus.heartbeats.beat("me")
    bus.publish_many([Draft("t", LONG[:60_000], from_agent="a", to_agent="me")] * 30)

    async def act(me: Agent) -> int:
        calls = 0
        while (page := await me.call("bus_inbox"))["messages"]:
            calls += 1
            for each in page["messages"]:
                await me.call("bus_ack", seq=each["seq"], skip=True)
                calls += 1
        return calls

    assert in_process(bus_dir, act) <= 60
    assert len(Inbox(bus, "me").parked()) == 30


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("known", [True, False])
def test_answer_to_a_message_for_many_names_the_first(
    program: str, known: bool, bus: Bus, bus_dir: Path
) -> None:
    """Issue 32, item 4: no result grows with what was asked for."""
    names = [f"{number}-{'工' * 120}" for number in range(100)]
    for name in names if known else ():
        bus.heartbeats.beat(name)

    async def act(me: Agent) -> CallToolResult:
        return await me.try_to("bus_send", type="t", payload=1, to=names)

    result = in_process(bus_dir, act, program=program)
    record = result.structured_content or {}
    assert sent(result) <= ResultRoom.of(program).bytes
    assert bus.log.newest_seq() == 100
    named = len(record["seqs"])
    assert 5 <= named <= 20
    assert record["seqs"] == dict(zip(names, range(1, named + 1), strict=False))
    assert f"it went to {100 - named} more, who are not named here" in record["warning"]


def test_what_is_reserved_and_wanted_fits(bus: Bus, bus_dir: Path) -> None:
    """Paths and reasons as long as they may be, by who holds them and by who wants them."""
    paths = [str(number) + "/" + "é" * 100 + "/" + '"' * 100 for number in range(60)]

    async def act(me: Agent) -> list[CallToolResult]:
        mine = [f"mine/{each}" for each in paths]
        return [
            await me.try_to("bus_reserve", paths=mine, reason='"\\' * 90),
            await me.try_to("bus_reserve", paths=paths),
            await me.try_to("bus_status"),
            await me.try_to("bus_reserve", paths=mine[:50], mode="release"),
            await me.try_to("bus_join"),
        ]

    bus.reservations.reserve(paths, "工" * 128, reason='"\\' * 90)
    results = in_process(bus_dir, act)
    assert [each.is_error for each in results] == [False, True, False, False, False]
    assert [size for size in map(sent, results) if size > DEFAULT_BYTES] == []

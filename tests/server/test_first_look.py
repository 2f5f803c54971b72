"""Issue 32, 12: the first look of an agent without a cursor."""

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from ackbus import Bus, Inbox
from ackbus.cli.fast.waiting_mail import waiting_mail
from ackbus.subscribers.inboxes.session import COUNTED, FirstMail
from ackbus.subscribers.inboxes.unread_count import look_in

from .mcp_clients import Agent, in_process

DAY_MS = 86_400_000


@pytest.fixture
def old(bus: Bus, bus_dir: Path) -> Bus:
    """The bus with 30 broadcasts of two days ago, mail to `me` in their middle, and 25 of today."""
    two_days_ago = Bus.open(bus_dir, clock=lambda: int(time.time() * 1000) - 2 * DAY_MS)
    bus.heartbeats.beat("me")
    with two_days_ago as earlier:
        for number in range(1, 32):
            to = "me" if number == 15 else None
            earlier.publish("news", number, from_agent="lead", to_agent=to)
    for number in range(32, 57):
        bus.publish("news", number, from_agent="lead")
    return bus


def seqs(page: dict[str, Any]) -> list[int]:
    return [each["seq"] for each in page["messages"]]


def told(count: int) -> str:
    return f"{count} older broadcasts are not shown: bus_inbox(cursor='0')"


def test_tools_show_the_last_broadcasts_of_the_last_day(old: Bus, bus_dir: Path) -> None:
    """By pages; what was counted only is acknowledged with the rest."""

    async def act(me: Agent) -> None:
        first = await me.call("bus_inbox", limit=10)
        assert seqs(first) == [15, *range(37, 46)]
        assert told(35) in first["next"]
        assert Inbox(old, "me").position == 0
        rest = await me.call("bus_inbox", cursor=first["next_cursor"])
        assert seqs(rest) == [*range(46, 57)]
        assert (await me.call("bus_ack", seq=56))["unread"] == 0

    in_process(bus_dir, act)
    old.publish("news", from_agent="lead")
    again = in_process(bus_dir, lambda me: me.call("bus_inbox"))
    assert (seqs(again), "older" in again["next"]) == ([57], False)


def test_agent_that_asks_is_shown_all_from_the_first(old: Bus, bus_dir: Path) -> None:
    """And then has to read them before it acknowledges them."""

    async def act(me: Agent) -> None:
        await me.call("bus_inbox")
        first = await me.call("bus_inbox", cursor="0", limit=5)
        assert seqs(first) == [1, 2, 3, 4, 5]
        assert seqs(await me.call("bus_inbox", cursor=first["next_cursor"], limit=2)) == [6, 7]
        assert "you were not shown all of [8]" in await me.fail("bus_ack", seq=56)
        await me.call("bus_ack", seq=7)
        assert seqs(await me.call("bus_inbox", limit=1)) == [8]  # now it has a cursor

    in_process(bus_dir, act)


def test_hooks_say_how_many_are_older(old: Bus, bus_dir: Path) -> None:
    """At the start; a stop asks for nothing but what is shown."""
    with look_in(bus_dir, "me", 100, wait_s=9) as look:
        start = waiting_mail(look, afresh=True) or ""
        stop = waiting_mail(look) or ""
        new = old.publish("news", "now", from_agent="lead").seq
        after_tool = waiting_mail(look, only_new=True) or ""
    assert "\n[15] a message from a sender\n" in start
    assert "\n[37] " in start
    assert "\n[1] " not in start
    assert told(35) in start
    assert "\n[15] " in stop
    assert f"\n[{new}] " in after_tool
    assert "older" not in after_tool


def test_only_older_broadcasts_keep_no_agent_from_its_end(bus: Bus, bus_dir: Path) -> None:
    two_days_ago = Bus.open(bus_dir, clock=lambda: int(time.time() * 1000) - 2 * DAY_MS)
    with two_days_ago as earlier:
        earlier.publish("news", from_agent="lead")
    with look_in(bus_dir, "me", 100, wait_s=9) as look:
        assert told(1) in (waiting_mail(look, afresh=True) or "")
        assert waiting_mail(look) is None
    page = in_process(bus_dir, lambda me: me.read("bus_inbox"))
    assert page.startswith("Nothing waits for me.")
    assert told(1) in page


def test_other_doors_begin_at_the_first_message(
    old: Bus, client: httpx.Client, run_bus: Callable[..., Any]
) -> None:
    """Python, HTTP, the command line, and plain SQL as the page about it has it."""
    assert Inbox(old, "me").poll(1)[0].seq == 1
    assert client.get("/v1/inboxes/me").json()["messages"][0]["seq"] == 1
    assert run_bus("poll", "me", "--limit", "1").out.startswith("1  ")
    page = (Path(__file__).parents[2] / "docs/sql.md").read_text("utf-8")
    (query,) = re.findall(r'^sql "(\s+WITH cursor AS .*?)"$', page, re.MULTILINE | re.DOTALL)
    with closing(sqlite3.connect(old.layout.database)) as connection:
        mail = [seq for seq, *_ in connection.execute(query.replace("'alice'", "'me'"))]
    assert mail == [*range(1, 57)]
    assert Inbox(old, "me").position == 0


def test_older_broadcasts_are_counted_up_to_a_bound(bus: Bus) -> None:
    for _ in range(COUNTED + 30):
        bus.publish("news", from_agent="lead")
    first = FirstMail(bus, "me")
    assert (first.older, first.first_seq) == (COUNTED, COUNTED + 11)
    assert (first.told() or "").startswith("1000+ older broadcasts")

"""Issue 19, item 3: sessions of one base name are agents, in real processes."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from ackbus import Bus, Inbox
from ackbus.cli.fast.waiting_mail import PATIENCE_S
from ackbus.errors import UnknownRecipientWarning
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..agent_programs import AgentProgram, agent_program
from ..conftest import RunBus, wait_until
from ..server.mcp_clients import listeners

pytestmark = pytest.mark.slow

Start = Callable[..., AgentProgram]


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


@pytest.fixture
def start(bus_dir: Path, bus_env: dict[str, str]) -> Iterator[Start]:
    """Starts programs that were set up under the base name `reviewer`, or another."""
    with ExitStack() as stack:
        yield lambda agent="reviewer": stack.enter_context(
            agent_program(agent, bus_dir.parent, bus_env)
        )


def test_second_session_is_an_agent_of_its_own(bus: Bus, start: Start) -> None:
    """It neither acknowledges the first one's mail, nor is granted its exclusive files."""
    first, second = start(), start()
    assert "You are the agent reviewer here." in first.hook("start")
    assert "Several sessions" not in first.hook("start")
    told = second.hook("start")
    assert "You are the agent reviewer-2 here." in told
    assert "Several sessions run as reviewer. This one is reviewer-2: act as reviewer-2" in told

    assert first.call("bus_join")["agent"] == "reviewer"
    joined = second.call("bus_join", name="reviewer")
    assert joined["agent"] == "reviewer-2"
    assert "another session is reviewer, so you are reviewer-2" in joined["warning"]
    assert second.call("bus_status")["agent"] == "reviewer-2"

    mail = bus.publish("task", "for the first", from_agent="lead", to_agent="reviewer")
    news = bus.publish("news", "for all", from_agent="lead")
    assert [each["seq"] for each in first.call("bus_inbox")["messages"]] == [mail.seq, news.seq]
    assert [each["seq"] for each in second.call("bus_inbox")["messages"]] == [news.seq]
    second.call("bus_ack", seq=news.seq)
    assert Inbox(bus, "reviewer").unread() == 2

    assert first.call("bus_reserve", paths=["lexer.py"])["granted"] is True
    refused = second.call("bus_reserve", paths=["lexer.py"])
    assert refused == {"refused": True}
    assert {each.agent for each in bus.reservations.list()} == {"reviewer"}
    second.call("bus_send", type="t", payload="hi")
    newest = bus.get(bus.log.newest_seq())
    assert newest is not None
    assert newest.from_agent == "reviewer-2"


def test_hooks_and_server_of_one_program_are_one_session(bus: Bus, start: Start) -> None:
    """Whichever comes first takes the name; what one showed, the other does not show again."""
    by_hook, by_server = start(), start()
    by_hook.hook("tool")
    assert by_server.call("bus_join")["agent"] == "reviewer-2"
    assert by_hook.call("bus_join")["agent"] == "reviewer"
    assert "You are the agent reviewer-2 here." in by_server.hook("start")
    bus.publish("t", "hi", from_agent="lead", to_agent="reviewer-2")
    assert "1 unread on the bus" in by_server.hook("tool")
    assert by_server.hook("tool") == by_hook.hook("tool") == ""


def test_one_session_after_another_keeps_the_base_name(bus: Bus, start: Start) -> None:
    """A name is free at once where its process ended, with its cursor and what is left."""
    first = start()
    first.hook("start")
    for body in ("one", "two"):
        bus.publish("t", body, from_agent="lead", to_agent="reviewer")
    first.call("bus_inbox")
    first.call("bus_ack", seq=1)
    first.kill()
    told = start().hook("start")
    assert "You are the agent reviewer here." in told
    assert ("\n[2] " in told, "\n[1] " in told) == (True, False)
    assert {each.name for each in SessionNames.of(bus).list()} == {"reviewer"}


def test_session_that_is_left_claims_the_base_name(bus: Bus, start: Start, run_bus: RunBus) -> None:
    """It gets both mails in one order, broadcasts once; an acknowledgement covers both."""
    first, second = start(), start()
    first.hook("start")
    second.hook("start")
    for to in ("reviewer", None, "reviewer-2", "reviewer"):
        bus.publish("t", f"to {to}", from_agent="lead", to_agent=to)
    assert [each["seq"] for each in second.call("bus_inbox")["messages"]] == [2, 3]
    first.kill()
    assert "; mail to reviewer comes to you." in second.hook("start")
    assert [each["seq"] for each in second.call("bus_inbox")["messages"]] == [1, 2, 3, 4]
    assert "4 unread on the bus for reviewer-2" in second.hook("stop")
    assert second.call("bus_status")["unread"] == 4
    assert run_bus("poll", "reviewer-2").out.count("lead →") == 4
    acked = second.call("bus_ack", seq=3)
    assert (acked["acknowledged"], acked["unread"]) == (3, 1)
    assert run_bus("ack", "reviewer-2", "4").code == 0
    assert (Inbox(bus, "reviewer").position, Inbox(bus, "reviewer-2").position) == (4, 4)
    third = start()
    assert "You are the agent reviewer-3 here." in third.hook("start")
    bus.publish("t", "once", from_agent="lead", to_agent="reviewer")
    assert "1 unread on the bus" in second.hook("tool")
    assert third.hook("tool") == ""


def test_new_session_begins_at_the_cursor_of_the_base_name(bus: Bus, start: Start) -> None:
    """Mail that came to its name before it was there is not passed over."""
    first = start()
    first.hook("start")
    for number in range(3):
        bus.publish("t", f"b{number}", from_agent="lead")
    Inbox(bus, "reviewer").ack(2)
    assert [each["seq"] for each in start().call("bus_inbox")["messages"]] == [3]
    with pytest.warns(UnknownRecipientWarning):
        bus.publish("t", "early", from_agent="lead", to_agent="reviewer-3")
    Inbox(bus, "reviewer").ack(bus.publish("t", "late", from_agent="lead").seq)
    assert [each["seq"] for each in start().call("bus_inbox")["messages"]] == [4, 5]


def test_sessions_may_be_turned_off(bus: Bus, bus_dir: Path, bus_env: dict[str, str]) -> None:
    env = bus_env | {"BUS_SESSION": "off"}
    for _ in range(2):
        with agent_program("reviewer", bus_dir.parent, env) as program:
            assert "You are the agent reviewer here." in program.hook("start")
    assert SessionNames.of(bus).list() == []


def test_guard_knows_the_session_that_commits(bus: Bus, start: Start, project: Path) -> None:
    """By the processes above it; a name that is given stands for its session."""
    git(project, "init", "-q")
    first, second = start(), start()
    first.call("bus_join")
    second.call("bus_join")
    assert first.call("bus_reserve", paths=["lexer.py"])["granted"] is True
    (project / "lexer.py").write_text("x = 1\n")
    git(project, "add", "lexer.py")
    assert first.run("guard", "check") == first.run("guard", "check", "--agent", "reviewer") == ""
    for words in ((), ("--agent", "reviewer")):
        with pytest.raises(AssertionError, match=r"lexer\.py is reserved by reviewer"):
            second.run("guard", "check", *words)


def test_process_outside_of_all_sessions_is_told_of(
    bus: Bus, start: Start, run_bus: RunBus
) -> None:
    """By the start hook and by `--check`, whose own probes are no sessions."""
    assert run_bus("setup", "claude", "--agent", "reviewer").code == 0
    first, second = start(), start()
    first.call("bus_join")
    second.hook("start")
    assert "Warning" not in first.hook("start")
    done = run_bus("setup", "claude", "--check")
    assert done.code == 0, done.out
    assert "ok  sessions: reviewer, reviewer-2\n" in done.out
    told = f"process {os.getpid()} acts as reviewer too"

    def is_told_at_start() -> bool:  # unless the session's own heart has beaten since
        bus.heartbeats.beat("reviewer", pid=os.getpid())
        return f"Warning: {told}." in first.hook("start")

    def is_found() -> bool:
        bus.heartbeats.beat("reviewer", pid=os.getpid())
        done = run_bus("setup", "claude", "--check")
        return done.code == 3 and f"bad sessions: {told}: end it, or give it another" in done.out

    wait_until(is_told_at_start)
    wait_until(is_found)
    assert {each.name for each in SessionNames.of(bus).list()} == {"reviewer", "reviewer-2"}


def test_what_a_session_reads_first_counts_as_its_own(bus: Bus, start: Start) -> None:
    """Its first call may be of a tool that needs no name: the first session has seen none of it."""
    first, second = start(), start()
    first.hook("start")
    second.hook("start")
    news = bus.publish("news", "for all", from_agent="lead")
    assert len(second.call("bus_thread", conversation=news.id)["messages"]) == 1
    assert first.call("bus_ack", seq=news.seq) == {"refused": True}
    assert second.call("bus_ack", seq=news.seq)["acknowledged"] == news.seq


def test_answer_stays_with_the_session_that_asked(bus: Bus, start: Start) -> None:
    """Another one that checks it first doesn't take it out of that session's inbox."""
    first, second = start(), start()
    first.hook("start")
    second.hook("start")
    bus.heartbeats.beat("lead")
    asked = bus.publish("a.request", "?", from_agent="reviewer", to_agent="lead")
    bus.publish("a.done", "!", from_agent="lead", to_agent="reviewer", in_reply_to=asked.id)
    assert second.call("bus_check", conversation=asked.id)["state"] == "success"
    assert Inbox(bus, "reviewer").unread() == 1
    assert first.call("bus_check", conversation=asked.id)["state"] == "success"
    assert Inbox(bus, "reviewer").unread() == 0


def test_word_of_the_session_that_claims_the_base_name_is_an_answer(bus: Bus, start: Start) -> None:
    """It was asked by the base name, and answers under its own; words of others are none."""
    first, second = start(), start()
    first.hook("start")
    second.hook("start")
    first.kill()
    bus.heartbeats.beat("lead")
    asked = bus.publish("a.request", "?", from_agent="lead", to_agent="reviewer")
    assert [each["seq"] for each in second.call("bus_inbox")["messages"]] == [asked.seq]
    bus.publish("note", "!", from_agent="bob", to_agent="lead", in_reply_to=asked.id)
    assert bus.answer(asked.id).state == "pending"
    second.call("bus_send", type="note", to="lead", payload="!", in_reply_to=str(asked.seq))
    answer = bus.answer(asked.id)
    assert answer.reply is not None
    assert (answer.state, answer.reply.from_agent) == ("answered", "reviewer-2")


def test_requeued_mail_of_the_base_name_is_shown_before_it_is_acknowledged(
    bus: Bus, start: Start
) -> None:
    """The session that claims the name is told of it, and acknowledges it once it saw it."""
    first, second = start(), start()
    first.hook("start")
    second.hook("start")
    first.kill()
    sent = bus.publish("t", "again", from_agent="lead", to_agent="reviewer")
    inbox, message = Inbox(bus, "reviewer", max_deliveries=1), bus.get(sent.seq)
    assert message is not None
    assert inbox.fail(message, "no")
    inbox.requeue(sent.seq)
    assert second.call("bus_ack", seq=sent.seq) == {"refused": True}
    assert "1 unread on the bus" in second.hook("stop")
    assert second.call("bus_ack", seq=sent.seq) == {"refused": True}  # announced, and not shown
    assert [each["seq"] for each in second.call("bus_inbox")["messages"]] == [sent.seq]
    assert second.call("bus_ack", seq=sent.seq)["unread"] == 0


def test_all_counts_are_of_what_the_session_is_shown(
    bus: Bus, start: Start, run_bus: RunBus
) -> None:
    """Mail to the base name, too, where the session claims that: in lists and in the prompt."""
    first, second = start(), start()
    first.hook("start")
    second.hook("start")
    for to in ("reviewer", "reviewer-2", None):
        bus.publish("t", from_agent="lead", to_agent=to)
    assert run_bus("prompt", "reviewer-2").out == "2\n"
    first.kill()
    assert second.call("bus_status")["unread"] == 3
    assert run_bus("prompt", "reviewer-2").out == "3\n"
    listed = map(json.loads, run_bus("agents", "--json").out.splitlines())
    assert {each["agent"]: each["unread"] for each in listed}["reviewer-2"] == 3


def test_call_that_waits_sees_mail_of_a_base_name_that_becomes_free(bus: Bus, start: Start) -> None:
    first, second = start(), start()
    first.hook("start")
    second.call("bus_join")
    mail = bus.publish("t", "hi", from_agent="lead", to_agent="reviewer")
    beat = bus.heartbeats.get("reviewer-2")
    assert beat is not None
    assert beat.pid is not None
    before = listeners(beat.pid)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(second.call, "bus_inbox", wait_s=25)
        wait_until(lambda: listeners(beat.pid) > before)
        first.kill()
        assert [each["seq"] for each in waits.result()["messages"]] == [mail.seq]


def test_session_that_begins_waits_for_other_writers(bus: Bus, start: Start) -> None:
    """Twenty that begin at once wait for each other, and each is told its name."""
    program = start()
    with ThreadPoolExecutor(1) as pool:
        with bus.transaction():
            bus.publish("t", from_agent="lead")
            told = pool.submit(program.hook, "start")
            end = time.monotonic() + 2.5 * PATIENCE_S
            wait_until(lambda: time.monotonic() > end)
        assert "You are the agent reviewer here." in told.result()


@pytest.mark.parametrize("key", ["session_id", "sessionId"])
def test_resumed_program_is_the_session_that_it_was(bus: Bus, start: Start, key: str) -> None:
    """Its server may have taken another name before the hook; the tools and hooks follow."""
    first, second, third = start(), start(), start()
    for number, program in enumerate((first, second, third)):
        program.hook("start", **{key: f"id-{number}"}, source="startup")
    third.call("bus_reserve", paths=["lexer.py"])
    second.kill()
    third.kill()
    resumed = start()
    assert resumed.call("bus_status")["agent"] == "reviewer-2"
    told = resumed.hook("start", **{key: "id-2"}, source="resume")
    assert "You are the agent reviewer-3 here." in told
    assert "1 reservation of yours ended with an earlier session: bus_status names them." in told
    status = resumed.call("bus_status")
    assert (status["agent"], status["reserved"]) == ("reviewer-3", [])
    assert "your reservations of lexer.py ended" in status["warning"]
    assert "You are the agent reviewer-2 here." in start().hook("start")
    assert "You are the agent reviewer-3 here." in resumed.hook("start", source="compact")


@pytest.mark.parametrize("id", [None, 7, "", ["x"], {"a": 1}, "x" * 5000, "a\x1b[2J"])
def test_odd_ids_of_sessions_are_passed_over(bus: Bus, start: Start, id: object) -> None:
    told = start().hook("start", session_id=id, source="resume")
    assert "You are the agent reviewer here." in told


def test_session_can_not_join_as_another_one(bus: Bus, start: Start) -> None:
    """Its tools and its hooks would be two agents; a name that it has is accepted."""
    first, second = start(), start()
    first.hook("start")
    second.hook("start")
    assert first.call("bus_join", name="reviewer-2") == {"refused": True}
    assert first.call("bus_status")["agent"] == "reviewer"
    assert second.call("bus_join", name="reviewer-2")["agent"] == "reviewer-2"
    second.kill()
    assert first.call("bus_join", name="reviewer-2") == {"refused": True}
    assert {each.name for each in SessionNames.of(bus).list()} == {"reviewer", "reviewer-2"}

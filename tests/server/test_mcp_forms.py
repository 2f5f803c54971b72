"""Each form of a result suffices by itself: many programs show the model only one of the two.

Claude Code and Codex show the structured form, or the text where there is none; Gemini and opencode
the text.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

from ackbus import Bus, Inbox, Queue
from ackbus.server.mcp.session import DEFAULT_BYTES
from ackbus.server.mcp.tools.catalog import tools_of
from ackbus.server.mcp.tools.profiles import FULL
from ackbus.server.mcp.tools.tool import NOTICE, QUOTED
from ackbus.tasks.steps.tasks import Tasks

from ..tasks.conftest import new_task
from .mcp_clients import Agent, in_process, text_of

LONG = "word " * DEFAULT_BYTES

#: A call as an agent's script makes it: it sees the result in one form only.
See = Callable[..., Awaitable[str]]


def structured(result: CallToolResult) -> str:
    """The sight of a model whose program hands over the structured form where there is one."""
    if result.structured_content is None:
        return text_of(result)
    return json.dumps(result.structured_content)


@pytest.fixture(params=[structured, text_of], ids=["structured", "text"])
def sight(request: pytest.FixtureRequest) -> Callable[[CallToolResult], str]:
    found: Callable[[CallToolResult], str] = request.param
    return found


def seeing(
    bus_dir: Path,
    sight: Callable[[CallToolResult], str],
    act: Callable[[See], Awaitable[None]],
    name: str | None = "me",
) -> None:
    async def run(me: Agent) -> None:
        async def see(tool: str, **arguments: Any) -> str:
            return sight(await me.try_to(tool, **arguments))

        await act(see)

    in_process(bus_dir, run, name=name)


def found(pattern: str, seen: str) -> str:
    """A detail that an agent finds in a result."""
    match = re.search(pattern, seen.replace('\\"', '"'))
    assert match, seen
    return match[1]


def test_agent_joins_reads_answers_acknowledges_and_pages_on(
    bus: Bus, bus_dir: Path, sight: Callable[[CallToolResult], str]
) -> None:
    for name in ("lead", "me"):
        bus.heartbeats.beat(name)
    for number in range(21):
        bus.publish("ask", f"question {number}", from_agent="lead", to_agent="me")

    async def act(see: See) -> None:
        assert "call bus_join(name=...) first" in await see("bus_inbox")
        assert "bus_inbox shows what waits." in await see("bus_join", name="me")
        first = await see("bus_inbox")
        assert "question 19" in first
        assert "question 20" not in first
        rest = await see("bus_inbox", cursor=found(r"call again with cursor '(\d+)'", first))
        assert "question 20" in rest
        last = found(r"When these are handled: bus_ack\(seq=(\d+)\)", rest)
        sent = await see("bus_send", type="answer", payload="yes", in_reply_to=last)
        conversation = found(r"conversation\W+([\w-]+)", sent)
        assert "question 20" in await see("bus_thread", conversation=conversation)
        assert re.search(r"unread\W+0|\b0 unread", await see("bus_ack", seq=last))

    seeing(bus_dir, sight, act, name=None)
    assert Inbox(bus, "me").position == 21
    (answer,) = bus.read(type="answer")
    assert answer.to_agent == "lead"


def test_agent_claims_reads_a_long_job_to_its_end_and_finishes_it(
    bus: Bus, bus_dir: Path, sight: Callable[[CallToolResult], str]
) -> None:
    Queue.create(bus, "build.request", max_attempts=5)
    asked = bus.publish("build.request", f"{LONG} the end", from_agent="lead")

    async def act(see: See) -> None:
        claimed = await see("bus_claim", queue="build.request")
        assert re.search(r"attempt.*\b1\b.*\b5\b", claimed)
        assert re.search(r"until\W+\d{4}-", claimed)
        token = found(r"bus_finish\(token=(\d+)\)", claimed)
        assert "bus_finish" in await see("bus_claim", queue="build.request", renew=token)
        while "the end" not in claimed:
            pattern = r"bus_thread\(conversation='(.*?)', cursor='"
            conversation, cursor = found(pattern, claimed), found(r"cursor='([\d+]+)'", claimed)
            claimed = await see("bus_thread", conversation=conversation, cursor=cursor)
            claimed = claimed.replace(
                "call again with ", f"bus_thread(conversation='{asked.seq}', "
            )
            claimed = claimed.replace("cursor '", "cursor='")
        ended = await see("bus_finish", token=token, result="built")
        answer = found(r"answer(?:_seq| is seq)\W+(\d+)", ended)
        assert "succeeded" in ended
        assert "built" in await see("bus_thread", conversation=answer, cursor=str(asked.seq))
        assert "claim again later" in await see("bus_claim", queue="build.request")

    seeing(bus_dir, sight, act)


def test_agent_asks_and_checks(
    bus: Bus, bus_dir: Path, sight: Callable[[CallToolResult], str]
) -> None:
    async def act(see: See) -> None:
        asked = await see("bus_request", type="t.request", payload="?", to="nobody", wait_s=0)
        assert "never seen" in asked
        conversation = found(r"bus_check\(conversation='([\w-]+)'\)", asked)
        bus.publish("t.done", "forty", from_agent="nobody", in_reply_to=conversation)
        answer = await see("bus_check", conversation=conversation)
        assert "success" in answer
        assert "forty" in answer
        assert conversation in answer

    seeing(bus_dir, sight, act)


def test_agent_is_refused_files_and_gets_others(
    bus: Bus, bus_dir: Path, sight: Callable[[CallToolResult], str]
) -> None:
    bus.reservations.reserve(["src"], "bob", reason="moving it")

    async def act(see: See) -> None:
        refused = await see("bus_reserve", paths=["src/a.py"])
        for fact in ("src/a.py", "bob", "src", "moving it", "Do not edit them now"):
            assert fact in refused
        granted = await see("bus_reserve", paths=["b.py"])
        assert "b.py" in granted
        assert re.search(r"until\W+\d{4}-", granted)
        mode = found(r"mode='(\w+)'", granted)
        assert "nothing was given back" in await see("bus_reserve", paths=["c"], mode=mode)
        await see("bus_reserve", paths=["b.py"], mode=mode)

    seeing(bus_dir, sight, act)
    assert [each.agent for each in bus.reservations.list()] == ["bob"]


def test_agent_takes_its_task_to_review(
    bus: Bus, bus_dir: Path, sight: Callable[[CallToolResult], str]
) -> None:
    Tasks(bus).assign(new_task("fix", worker="me", branch="me/fix"), agent="me")

    async def act(see: See) -> None:
        step = r"bus_task\(task='fix', action='(\w+)'"
        token = r"token=(\d+)\)"
        for expected in ("start", "done"):
            seen = await see("bus_task")
            assert found(step, seen) == expected
            await see("bus_task", action="start", task="fix", token=found(token, seen))
        await see("bus_task", action="block", task="fix", token=found(token, seen), text="Which?")
        assert found(step, await see("bus_task")) == "answer"

    seeing(bus_dir, sight, act)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("program", ["copilot-cli", "codex-mcp-client"])
def test_program_that_shows_both_forms_gets_each_message_once(
    bus: Bus, bus_dir: Path, mode: str, program: str
) -> None:
    """Its text is the head and the advice; the structured form is whole for all.

    Issue 32, item 3: Codex shows both where its model writes code, which prints a whole result.
    """
    bus.publish("t", "the payload", from_agent="lead")

    async def act(me: Agent) -> tuple[str, str]:
        result = await me.try_to("bus_inbox")
        return text_of(result), json.dumps(result.structured_content)

    text, record = in_process(bus_dir, act)
    head, both = in_process(bus_dir, act, program=program, mode=mode)
    assert (head, both) == (text.split("\n")[0], record)
    assert "bus_ack(seq=1)" in head
    assert in_process(bus_dir, act, program="copilot-clip") == (text, record)


#: Calls of each tool, for each kind of its results.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("bus_join", {"name": "me", "task": "tests"}),
    ("bus_inbox", {}),
    ("bus_inbox", {"limit": 2}),
    ("bus_inbox", {"type": "big.*"}),
    ("bus_inbox", {"type": "none.*"}),
    ("bus_send", {"type": "t", "payload": {"a": 1}, "to": "lead"}),
    ("bus_send", {"type": "t", "to": "stranger", "id": "twice"}),
    ("bus_send", {"type": "t", "to": "stranger", "id": "twice"}),
    ("bus_send", {"type": "t", "in_reply_to": "1"}),
    ("bus_thread", {"conversation": "1"}),
    ("bus_thread", {"conversation": "1", "limit": 1}),
    ("bus_search", {"words": "please"}),
    ("bus_search", {"words": "nowhere"}),
    ("bus_agents", {}),
    ("bus_reserve", {"paths": ["mine.py"]}),
    ("bus_reserve", {"paths": ["theirs/a.py", "theirs"]}),
    ("bus_reserve", {"paths": ["mine.py", "other"], "mode": "release"}),
    ("bus_reserve", {"paths": ["mine.py"], "mode": "release"}),
    ("bus_claim", {"queue": "big.request"}),
    ("bus_claim", {"queue": "big.request", "renew": "of the claim"}),
    ("bus_claim", {"queue": "big.request"}),
    ("bus_finish", {"token": "of the claim", "result": LONG}),
    ("bus_check", {"conversation": "2"}),
    ("bus_request", {"type": "t.request", "wait_s": 0}),
    ("bus_task", {}),
    ("bus_task", {"action": "show", "task": "fix"}),
    ("bus_task", {"action": "start", "task": "fix", "token": "of the task"}),
    ("bus_task", {"action": "block", "task": "fix", "token": "of the task", "text": "Which?"}),
    ("bus_task", {"action": "answer", "task": "fix", "text": "both"}),
    ("bus_ack", {"seq": 1}),
    ("bus_receipts", {"seq": 1}),
    ("bus_status", {}),
]

#: Facts that the text says in other words, or that no call needs: a reservation goes by its path.
SAID_OTHERWISE = {"untrusted", "notice", "granted", "duplicate", "age_s", "reserved_token"}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each fact of a record, with its name."""
    if isinstance(value, dict):
        name = "reserved_token" if "until" in value and "path" in value else ""
        for key, inner in value.items():
            yield from leaves(inner, name if key == "token" and name else key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, name)
    else:
        yield name, value


def test_both_forms_of_every_result_have_the_same_facts_and_the_same_advice(
    bus: Bus, bus_dir: Path
) -> None:
    bus.heartbeats.beat("lead", "working", task="the plan")
    bus.heartbeats.beat("me")
    bus.publish("ask", "please\nlook", from_agent="lead", to_agent="me")
    Queue.create(bus, "big.request")
    bus.publish("big.request", LONG, from_agent="me")
    bus.publish("big.note", LONG, from_agent="lead")
    bus.reservations.reserve(["theirs"], "lead", reason="a reason")
    Tasks(bus).assign(new_task("fix", worker="me", branch="me/fix", prompt="do it"), agent="me")

    async def act(me: Agent) -> None:
        tokens: dict[Any, int] = {}
        for tool, arguments in CALLS:
            given = {
                key: tokens[value] if key in ("token", "renew") else value
                for key, value in arguments.items()
            }
            result = await me.try_to(tool, **given)
            record, text = result.structured_content, text_of(result)
            assert record is not None, text
            if "token" in record:
                tokens["of the claim"] = record["token"]
            for task in record.get("tasks", []):
                tokens["of the task"] = task["token"]
            plain = text.replace("\n| ", "\n")
            facts = dict.fromkeys(leaves(record))
            for name, fact in facts:
                if fact != 0 and name not in SAID_OTHERWISE:
                    lines = ("null" if fact is None else str(fact)).splitlines()
                    assert all(line.rstrip() in plain for line in lines), (tool, name, fact, text)
            assert (QUOTED in text, record.get("notice")) in [(True, NOTICE), (False, None)]
            told = json.dumps(record, ensure_ascii=False)
            counts = {str(len(each)) for each in record.values() if isinstance(each, list)}
            for number in re.findall(r"\d[\w-]*", text):
                assert number in told or number in counts, (tool, number, text, told)

    in_process(bus_dir, act)
    assert {tool for tool, _ in CALLS} == set(tools_of(FULL))

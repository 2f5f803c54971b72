"""bus hook: an agent hears of its mail by its program's hooks, and is never broken by them."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, Inbox, Queue, Request
from ackbus.cli.fast import agent_hooks as hooks
from ackbus.cli.fast.waiting_mail import NAMED_MESSAGES
from ackbus.server.mcp.tools.profiles import FULL, PROFILES
from ackbus.subscribers.inboxes.seen_mail import SeenMailFile, UnseenMail

from ..conftest import Ended, RunBus
from ..programs import run_program
from .conftest import BUS

PROGRAMS = list(hooks.ANSWERS)

#: What each program says of the end of a turn, the first time and the second.
STOPS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "claude": (
        {"session_id": "s", "hook_event_name": "Stop", "stop_hook_active": False},
        {"session_id": "s", "hook_event_name": "Stop", "stop_hook_active": True},
    ),
    "codex": (
        {"turn_id": "t", "hook_event_name": "Stop", "stop_hook_active": False},
        {"turn_id": "t", "hook_event_name": "Stop", "stop_hook_active": True},
    ),
    "gemini": (
        {"hook_event_name": "AfterAgent", "prompt": "p", "stop_hook_active": False},
        {"hook_event_name": "AfterAgent", "prompt": "p", "stop_hook_active": True},
    ),
    "cursor": (
        {"hook_event_name": "stop", "status": "completed", "loop_count": 0},
        {"hook_event_name": "stop", "status": "completed", "loop_count": 1},
    ),
    "opencode": ({}, {"stop_hook_active": True}),  # of our own plugin
    "copilot": (
        {"hook_event_name": "Stop", "stop_hook_active": False},
        {"hook_event_name": "Stop", "stop_hook_active": True},
    ),
}


def text_of(answer: dict[str, Any]) -> str:
    """The text of an answer for the agent, in whichever form."""
    texts = [
        answer.get(key) for key in ("text", "reason", "additional_context", "followup_message")
    ]
    texts.append(answer.get("additionalContext"))
    texts.append(answer.get("hookSpecificOutput", {}).get("additionalContext"))
    (text,) = {text for text in texts if text is not None}
    return str(text)


def seqs_in(text: str) -> list[int]:
    """The seqs of the messages that a hook names."""
    return [int(seq) for seq in re.findall(r"^\[(\d+)\] ", text, re.MULTILINE)]


@pytest.fixture
def bus(bus: Bus) -> Bus:
    """A bus that knows the agent."""
    bus.heartbeats.beat("me")
    return bus


class Agent:
    """The program of an agent, as its hooks see it."""

    def __init__(self, run_bus: RunBus, program: str = "claude", name: str = "me") -> None:
        self._run, self._program, self._name = run_bus, program, name

    def hook(self, event: str, told: object = None) -> Ended:
        stdin = json.dumps(told if told is not None else {"cwd": "/x"})
        return self._run("hook", event, self._program, "--agent", self._name, stdin=stdin)

    def hears(self, event: str, told: object = None) -> str:
        done = self.hook(event, told)
        assert (done.code, done.err) == (0, "")
        return text_of(json.loads(done.out)) if done.out else ""


@pytest.mark.parametrize("program", PROGRAMS)
def test_agent_hears_of_its_mail_without_asking(program: str, bus: Bus, run_bus: RunBus) -> None:
    """Issue 7, item 7: at the start, after a tool, at the end; nothing is acknowledged."""
    agent = Agent(run_bus, program)
    first, again = STOPS[program]
    assert "You are the agent me here." in (start := agent.hears("start"))
    assert "Nothing waits for you now." in start
    assert agent.hears("tool") == agent.hears("stop", first) == ""
    bus.publish("review.request", "Please look", from_agent="lead", to_agent="me")
    head = "1 unread on the bus for me:\n[1] a message from a sender\nRead it with bus_inbox"
    assert head in agent.hears("tool")
    assert agent.hears("tool") == ""
    assert head in agent.hears("stop", first)
    assert agent.hears("stop", again) == ""
    assert head in agent.hears("start")
    assert Inbox(bus, "me").position == 0
    Inbox(bus, "me").ack(1)
    assert agent.hears("stop", first) == ""


def test_who_came_and_went_is_nothing_to_be_handled(bus: Bus, run_bus: RunBus) -> None:
    """`bus listen --drain` of another agent stops nobody; however often it ran, mail is shown."""
    agent = Agent(run_bus)
    agent.hears("start")
    assert run_bus("listen", "other", "--drain", "--", "true").code == 0
    assert agent.hears("stop") == agent.hears("tool") == ""
    assert "Nothing waits for you now." in agent.hears("start")
    bus.publish_many([Draft("agent_stopped", from_agent="other")] * 250)
    receipt = bus.publish("note", "Please look", from_agent="lead")
    for event in ("tool", "stop"):
        assert "1 unread on the bus for me" in (told := agent.hears(event))
        assert seqs_in(told) == [receipt.seq]
    assert Inbox(bus, "me").unread() == 1


def test_hook_reads_no_message_for_news_alone(bus: Bus, bus_dir: Path) -> None:
    """It runs after each tool: a count of what is to be handled is all that it takes."""
    bus.publish_many([Draft("agent_started", from_agent="other")] * 10)
    program = (
        "import sys; from ackbus.cli.fast.waiting_mail import waiting_mail\n"
        "from ackbus.subscribers.inboxes.unread_count import look_in\n"
        f"look = look_in({str(bus_dir)!r}, 'me', 9, wait_s=9)\n"
        "mail = waiting_mail(look, only_new=True)\n"
        "print(mail, 'ackbus.bus.local_bus' in sys.modules)"
    )
    assert run_program(program) == "None False\n"


@pytest.mark.slow
def test_answers_have_the_form_that_the_program_wants(bus: Bus, run_bus: RunBus) -> None:
    bus.publish("t", "hi", from_agent="lead", to_agent="me")

    def keys(program: str, event: str) -> object:
        answer = json.loads(Agent(run_bus, program, "me").hook(event).out)
        special = answer.get("hookSpecificOutput", {})
        return sorted(answer), special.get("hookEventName"), answer.get("decision")

    told = ["hookSpecificOutput"]
    assert keys("claude", "start") == (told, "SessionStart", None)
    assert keys("codex", "start") == (told, "SessionStart", None)
    assert keys("claude", "stop") == (["decision", "reason"], None, "block")
    assert keys("gemini", "stop") == (["decision", "reason"], None, "deny")
    assert keys("cursor", "start") == (["additional_context"], None, None)
    assert keys("cursor", "stop") == (["followup_message"], None, None)
    assert keys("copilot", "start") == (["additionalContext", *told], "SessionStart", None)
    assert keys("copilot", "stop") == (
        ["decision", "hookSpecificOutput", "reason"],
        "Stop",
        "block",
    )
    bus.publish("t", "ho", from_agent="lead", to_agent="me")
    assert keys("gemini", "tool") == (told, "AfterTool", None)


def test_few_messages_are_named_however_many_wait(bus: Bus, run_bus: RunBus) -> None:
    """A hook can't flood an agent: what it says is short, whatever came."""
    bus.publish("t", "x" * 5000, from_agent="a" * 128, to_agent="me")  # a blob
    for _ in range(200):
        bus.publish("t." + "y" * 200, "long " * 600, from_agent="a", to_agent="me")
    text = Agent(run_bus).hears("stop")
    assert "100+ unread on the bus for me:" in text
    assert "There is more than is named here." in text
    assert seqs_in(text) == [1, 2, 3, 4, 5]
    assert len(text) < 700
    assert [seq for seq, _, _ in UnseenMail(bus, "me", 3, 9).first] == [1, 2, 3]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("start", {"source": "startup"}),
        ("start", {"source": "resume"}),
        ("start", {"source": "compact"}),
        ("start", {"source": "clear"}),
        ("compact", {"trigger": "manual"}),
        ("compact", {}),
    ],
)
def test_nothing_counts_as_shown_after_it(
    event: str, told: dict[str, str], bus: Bus, run_bus: RunBus
) -> None:
    """Issue 32, item 8: nothing may be acknowledged that the agent no longer has before it."""
    for number in range(3):
        bus.publish("t", number, from_agent="a", to_agent="me")
    SeenMailFile(bus, "me").note([(1, 0, None), (2, 0, None), (3, 0, 10)], upto=3)
    assert [seq for seq, _, _ in UnseenMail(bus, "me", 3, 9).first] == [3]
    agent = Agent(run_bus, "gemini")
    assert (agent.hears(event, told) == "") == (event == "compact")
    assert [seq for seq, _, _ in UnseenMail(bus, "me", 3, 9).first] == [1, 2, 3]
    assert seqs_in(agent.hears("tool")) == ([1, 2, 3] if event == "compact" else [])


def test_gemini_that_looks_if_a_summary_is_needed_forgets_nothing(
    bus: Bus, run_bus: RunBus
) -> None:
    """It does so before each request to its model; its agents could acknowledge nothing."""
    bus.publish("t", 1, from_agent="a", to_agent="me")
    SeenMailFile(bus, "me").note([(1, 0, None)], upto=1)
    assert Agent(run_bus, "gemini").hears("compact", {"trigger": "auto"}) == ""
    assert UnseenMail(bus, "me", 1, 9).first == []
    Agent(run_bus, "codex").hears("compact", {"trigger": "auto"})
    assert [seq for seq, _, _ in UnseenMail(bus, "me", 1, 9).first] == [1]


@pytest.mark.parametrize("event", ["start", "tool", "stop"])
def test_name_is_said_of_whom_the_agent_knows(event: str, bus: Bus, run_bus: RunBus) -> None:
    """Issue 32, item 2: a name or a type that it has sent to, or answered, and that is plain."""
    bus.heartbeats.beat("工作者")
    bus.publish("ask", "?", from_agent="ann", to_agent="me", id="asked")
    bus.publish("re", "!", from_agent="me", to_agent="ann", in_reply_to="asked")
    bus.publish("news", "hi", from_agent="me", to_agent="工作者")
    Inbox(bus, "me").ack(3)
    for type, sender in (
        ("ask", "ann"),  # answered
        ("news", "bob"),  # the type was sent
        ("t", "ann"),  # the agent was sent to
        ("news", "工作者"),  # known, but not plain
        ("t", "bob"),
    ):
        bus.publish(type, "body", from_agent=sender, to_agent="me")
    assert re.findall(r"^\[.*", Agent(run_bus).hears(event), re.MULTILINE) == [
        "[4] ask from ann",
        "[5] news from a sender",
        "[6] a message from ann",
        "[7] news from a sender",
        "[8] a message from a sender",
    ]


def test_sessions_of_one_base_name_know_whom_it_knows(bus: Bus, run_bus: RunBus) -> None:
    bus.heartbeats.beat("ann")
    bus.publish("news", from_agent="me", to_agent="ann")
    bus.publish("news", from_agent="ann")
    assert "[2] news from ann to all\n" in Agent(run_bus).hears("tool")
    assert bus.log.acquaintances("me-2", "me") == ({"ann"}, {"news"})
    assert bus.log.acquaintances("me-2", "me-2") == (set(), set())


@pytest.mark.parametrize("program", PROGRAMS)
def test_hooks_that_were_set_up_without_bodies_go_on(
    program: str, bus: Bus, run_bus: RunBus
) -> None:
    """Their command line has an option that no hook needs any more."""
    bus.publish("t", "the body", from_agent="lead", to_agent="me")
    for event in hooks.EVENTS:
        line = ("hook", event, program, "--agent", "me")
        said = []
        for options in ((), ("--no-bodies",)):
            said.append(run_bus(*line, *options, stdin="{}").out)
            (notes,) = Path(bus.layout.directory, "shown").iterdir()
            notes.unlink()
        assert said[0] == said[1]
        assert "[1] a message" in said[0]


def test_each_message_is_named_once_after_a_tool(bus: Bus, run_bus: RunBus) -> None:
    agent = Agent(run_bus)
    for number in range(7):
        bus.publish("t", f"m{number}", from_agent="a", to_agent="me")
    bus.publish("t", "mine", from_agent="me")
    named = [seqs_in(agent.hears("tool")) for _ in range(3)]
    assert named == [[1, 2, 3, 4, 5], [6, 7], []]
    assert NAMED_MESSAGES == 5


def test_what_was_there_at_the_start_is_not_new(bus: Bus, run_bus: RunBus) -> None:
    """A long backlog is announced once, and not handed over piece by piece after every tool."""
    agent = Agent(run_bus)
    for _ in range(7):
        bus.publish("t", "old", from_agent="a", to_agent="me")
    assert "7 unread on the bus for me:" in agent.hears("start")
    assert agent.hears("tool") == ""
    bus.publish("t", "new", from_agent="a", to_agent="me")
    text = agent.hears("tool")
    assert (seqs_in(text), "8 unread" in text) == ([8], True)
    assert seqs_in(agent.hears("stop")) == [1, 2, 3, 4, 5]


def test_own_broadcast_keeps_nobody_from_ending(bus: Bus, run_bus: RunBus) -> None:
    bus.publish("t", "mine", from_agent="me")
    assert Agent(run_bus).hears("stop") == ""


@pytest.mark.parametrize("status", ["aborted", "error"])
def test_agent_that_was_ended_stays_ended(status: str, bus: Bus, run_bus: RunBus) -> None:
    bus.publish("t", "hi", from_agent="a", to_agent="me")
    agent = Agent(run_bus, "cursor")
    assert agent.hears("stop", {"status": status, "loop_count": 0}) == ""


def test_mail_waits_for_the_agent_while_a_sub_agent_works(bus: Bus, run_bus: RunBus) -> None:
    """Claude Code and Codex run the hooks of a sub-agent's tools, too, and name it."""
    bus.publish("t", "hi", from_agent="a", to_agent="me")
    agent = Agent(run_bus)
    assert agent.hears("tool", {"agent_id": "a1b2", "tool_name": "Bash"}) == ""
    assert "[1] " in agent.hears("tool", {"tool_name": "Agent"})


TROUBLE = [
    ("stop", "claude", "--agent", "me", "--dir", "nowhere"),
    ("stop", "claude", "--agent", "me", "--dir", "damaged"),
    ("stop", "claude", "--agent", "me"),
    ("stop", "claude"),
    ("stop", "claude", "--agent", "me", "--user", "--dir", "x"),
    ("stop", "claude", "--agent", "me", "--nope"),
    ("nothing", "claude", "--agent", "me"),
    ("stop", "nobody", "--agent", "me"),
    ("stop", "windsurf", "--agent", "me"),
]


@pytest.mark.parametrize("line", TROUBLE)
def test_trouble_breaks_no_agent(line: tuple[str, ...], project: Path, run_bus: RunBus) -> None:
    """Exit code 2 would block the agent; so would anything on stdout."""
    Bus.init(project / "damaged").close()
    (project / "damaged" / "bus.db").write_bytes(b"no database" * 1000)
    done = run_bus("hook", *line, stdin="{}")
    assert (done.code, done.out) == (0, ""), done
    assert done.err.startswith("bus: ")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("stdin", ["", "[1]", "null", '"x"'])
def test_event_may_say_nothing(stdin: str, bus: Bus, run_bus: RunBus) -> None:
    bus.publish("t", "hi", from_agent="a", to_agent="me")
    assert "[1] " in run_bus("hook", "stop", "claude", "--agent", "me", stdin=stdin).out


def test_event_that_is_no_json_is_told_on_stderr(bus: Bus, run_bus: RunBus) -> None:
    done = run_bus("hook", "stop", "claude", "--agent", "me", stdin="{nonsense")
    assert (done.code, done.out) == (0, "")
    assert "not JSON" in done.err


def test_note_of_what_was_shown_is_private_and_no_matter_of_git(
    bus: Bus, bus_dir: Path, run_bus: RunBus
) -> None:
    bus.publish("t", "hi", from_agent="a", to_agent="me")
    agent = Agent(run_bus)
    agent.hears("tool")
    (note,) = (bus_dir / "shown").iterdir()
    modes = [oct(os.stat(path).st_mode & 0o777) for path in (note.parent, note)]
    assert modes == ["0o700", "0o600"]
    assert "*" in (bus_dir / ".gitignore").read_text().splitlines()
    note.write_text("nonsense")
    assert "[1] " in agent.hears("tool")
    assert run_bus("doctor").code == 0


def test_mail_is_shown_where_that_cannot_be_noted(bus: Bus, bus_dir: Path, run_bus: RunBus) -> None:
    """It is shown again then, which is better than not at all."""
    bus.publish("t", "hi", from_agent="a", to_agent="me")
    (bus_dir / "shown").write_text("a file where the folder should be")
    for _ in range(2):
        assert "[1] " in Agent(run_bus).hears("tool")


def test_hook_loads_next_to_nothing_when_nothing_waits(bus_dir: Path, run_bus: RunBus) -> None:
    """It runs after every tool: neither typer, rich, orjson nor the rooms above are loaded."""
    program = (
        "import sys; from ackbus.cli.fast import agent_hooks as hooks;"
        "from ackbus.cli.show.output import Output;"
        f"hooks.hook(Output(), 'tool', 'claude', agent='me', directory={str(bus_dir)!r});"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"{}", capture_output=True, check=True
    )
    loaded = set(done.stdout.decode().split())
    assert "ackbus.cli.fast.agent_hooks" in loaded
    assert loaded & {"typer", "rich", "orjson", "ackbus.bus.local_bus", "ackbus.server"} == set()
    assert BUS.exists()


def test_commands_that_prime_names_are_there(bus: Bus, run_bus: RunBus) -> None:
    bus.publish("t", "hi", from_agent="a", to_agent="me")
    table = [
        line for line in run_bus("prime", "--agent", "me").out.splitlines() if "| bus " in line
    ]
    commands = [line.split("|")[3].strip() for line in table]
    assert len(commands) == 9
    for command in commands:
        for word, value in {"SEQ": "1", "TYPE": "t", "WHOM": "me", "ID": "x", "PATH": "a"}.items():
            command = command.replace(word, value)
        if "--reply-to" not in command:
            assert run_bus(*shlex.split(command)[1:], stdin='"x"').code == 0, command


@pytest.mark.parametrize("profile", PROFILES)
def test_guide_names_only_the_tools_of_the_profile(profile: str, bus: Bus, run_bus: RunBus) -> None:
    """Issue 19, item 8: an agent with the default tools was told of bus_agents."""
    guide = run_bus("prime", "--agent", "me", "--profile", profile).out
    hook = run_bus("hook", "start", "claude", "--agent", "me", "--profile", profile, stdin="{}").out
    for text in (guide, text_of(json.loads(hook))):
        named = set(re.findall(r"bus_\w+", text))
        assert named <= set(PROFILES[profile])
        assert ("bus_agents" in named) == ("bus_receipts" in named) == (profile == FULL)
        assert "| see who else is there |" in text
        assert "| bus agents |" in text
    assert (
        run_bus("prime", "--agent", "me").out
        == run_bus("prime", "--agent", "me", "--profile", "default").out
    )
    for command in (("prime",), ("hook", "start", "claude", "--agent", "me")):
        refused = run_bus(*command, "--profile", "most", stdin="{}")
        assert "--profile must be default or full, not 'most'" in refused.err


def test_prime_is_short_and_says_what_matters(run_bus: RunBus) -> None:
    done = run_bus("prime", "--agent", "reviewer")
    assert len(done.out.splitlines()) < 60
    for word in ("bus_inbox", "bus_ack", "bus poll reviewer", "untrusted", "acknowledge"):
        assert word in done.out
    assert "You are the agent reviewer here." in done.out
    assert "{agent}" not in done.out
    assert run_bus("prime", env={"BUS_AGENT": "reviewer"}).out == done.out
    unnamed = run_bus("prime").out
    assert "YOU stands for your name on the bus. The tool bus_join, called without" in unnamed
    assert "You are the agent" not in unnamed
    assert json.loads(run_bus("prime", "--json").out)["agent"] is None


@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_is_told_to_do_again_what_workers_have_done(
    program: str, bus: Bus, run_bus: RunBus
) -> None:
    """Neither jobs, nor own requests, nor the answers that were waited for, are mail."""
    queue = Queue.create(bus, "build.request", group="builder")
    for _ in range(3):
        asked = Request.send(bus, "build.request", from_agent="me")
        (claim,) = queue.claim("builder")
        queue.complete(
            claim, Draft("build.done", from_agent="builder", to_agent="me", in_reply_to=asked.id)
        )
        assert asked.wait(30).state == "success"
    bus.publish("build.request", from_agent="lead")
    agent = Agent(run_bus, program)
    first, _ = STOPS[program]
    assert agent.hears("tool") == agent.hears("stop", first) == ""
    assert "Nothing waits for you now." in agent.hears("start")
    receipt = bus.publish("note", from_agent="lead")
    assert seqs_in(agent.hears("stop", first)) == [receipt.seq]


def test_start_names_the_tools_as_a_program_that_defers_them_calls_them(
    bus: Bus, run_bus: RunBus
) -> None:
    """Issue 32, item 3: Codex's models have no list of them, but call them by code."""
    for program in PROGRAMS:
        told = text_of(json.loads(run_bus("hook", "start", program, "--agent", "me").out))
        is_named = "`text(await tools.mcp__ackbus__bus_inbox({}))`" in told
        assert is_named == (program == "codex")
        assert len(told.split("| to do |")[0].splitlines()) <= 8
    assert "mcp__ackbus" not in run_bus("prime", "--agent", "me").out

"""Issue 19, item 9: a nudge reaches an agent's program in its own terminal, or types nothing."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus, Inbox
from ackbus.schema.process_table import is_running, process
from ackbus.subscribers.inboxes.session_names import SessionNames
from ackbus.wake import waking
from ackbus.wake.terminals import NotWoken
from ackbus.wake.terminals import process as described
from ackbus.wake.waking import LINE, Nudge

from ..cli.conftest import StartBus
from ..cli.conftest import start_bus as start_bus
from ..conftest import RunBus, wait_until
from .conftest import AgentInTerminal, ScreenWindow, TmuxWindow

pytestmark = pytest.mark.slow  # starts many processes


def test_one_line_of_ours_is_typed(agent: AgentInTerminal, run_bus: RunBus) -> None:
    """The mail and its sender say other things. It is typed again when it is asked for again."""
    agent.start()
    done = run_bus("wake", "me", "--json")
    told = json.loads(done.out)
    assert (told["agent"], told["woken"], told["seq"]) == ("me", True, 1)
    wait_until(lambda: agent.read == f"{LINE}\n")
    assert run_bus("wake", "me", "--pace", "0s").code == 0
    wait_until(lambda: agent.read == f"{LINE}\n" * 2)


def test_name_of_an_agent_is_not_typed(in_tmux: AgentInTerminal, run_bus: RunBus) -> None:
    name = "$(touch owned); `touch owned` #{pane_id}"
    in_tmux.start(agent=name)
    assert run_bus("wake", name).code == 0
    wait_until(lambda: in_tmux.read)
    assert in_tmux.read == f"{LINE}\n"


def test_dry_run_types_nothing(agent: AgentInTerminal, run_bus: RunBus) -> None:
    agent.start()
    done = run_bus("wake", "me", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("would wake me for message 1, by ")
    assert run_bus("wake", "me").code == 0  # no pace was begun
    wait_until(lambda: agent.read == f"{LINE}\n")


def test_line_that_somebody_began_is_left_as_it_is(agent: AgentInTerminal, run_bus: RunBus) -> None:
    agent.start("draft")
    done = run_bus("wake", "me")
    assert (done.code, "takes no line now" in done.err) == (3, True)
    agent.window.type("!")
    wait_until(lambda: agent.read)
    assert agent.read == "!\n"


def test_question_is_not_answered(agent: AgentInTerminal, run_bus: RunBus) -> None:
    """Neither by Enter, nor by a letter: `a` would mean always."""
    agent.start("asks")
    done = run_bus("wake", "me")
    assert (done.code, "takes no line now" in done.err) == (3, True)
    wait_until(lambda: agent.read == "(\x7f")  # it may read the second key a moment later


def test_shell_in_front_of_a_stopped_program_gets_nothing(
    agent: AgentInTerminal, run_bus: RunBus
) -> None:
    agent.start()
    agent.window.press("^Z")
    wait_until(lambda: "topped" in agent.window.shown())
    agent.wait_for_shell()
    refused(agent, run_bus, "not in the foreground")


@pytest.mark.parametrize(
    ("mode", "before", "reason"),
    [
        ("draft", (), "takes no line now: it asks something, or has a line begun"),
        ("edits", (), "cat reads the terminal of python"),
        ("lines", ("env", "-u", "TMUX"), "is in neither tmux nor screen; give a command"),
        ("lines", ("env", "TMUX_PANE=%9"), "is not, or no longer, its program's"),
    ],
)
def test_watch_says_what_is_in_the_terminal(
    mode: str, before: tuple[str, ...], reason: str, in_tmux: AgentInTerminal, start_bus: StartBus
) -> None:
    """Issue 32, item 10."""
    in_tmux.start(mode, "me", *before)
    in_tmux.bus.publish("t", from_agent="lead", to_agent="me", priority=0)
    watcher = start_bus("wake", "me", "--watch", "--after", "0s")
    assert watcher.stdout is not None
    lines = [watcher.stdout.readline() for _ in range(2)]
    assert lines[0] == b"did not wake me: message 1 waits: no request, of priority normal\n"
    assert lines[1].startswith(b"did not wake me: ")
    assert reason.encode() in lines[1]
    assert in_tmux.read == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start another user's program")
def test_program_of_another_user_leads_to_no_terminal(
    agent: AgentInTerminal, run_bus: RunBus
) -> None:
    """Its variables name the socket of a tmux, which would be that user's too."""
    agent.start("foreign")
    refused(agent, run_bus, "is another user's")


def test_program_that_the_agent_s_has_started_gets_nothing(
    agent: AgentInTerminal, run_bus: RunBus
) -> None:
    """An editor, say."""
    agent.start("edits")
    refused(agent, run_bus, "cat reads the terminal of python")


def test_program_that_opens_the_terminal_by_itself_gets_nothing(
    in_tmux: AgentInTerminal, run_bus: RunBus
) -> None:
    """As one that asks for a password."""
    in_tmux.start("edits-aside")
    refused(in_tmux, run_bus, "cat reads the terminal of python")


def test_program_that_hides_its_files_is_taken_for_a_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hidden(_: str) -> list[str]:
        raise PermissionError

    here = described(os.getpid())
    assert here is not None
    assert not here.reads("/dev/pts/none")
    monkeypatch.setattr(os, "listdir", hidden)
    assert here.reads("/dev/pts/none")


def test_what_is_left_in_a_prompt_is_told(
    in_tmux: AgentInTerminal, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is stopped by the first key: nothing more is typed, since a shell is there."""
    monkeypatch.setattr(waking, "_SHOWN_WITHIN_S", 60.0)
    in_tmux.start("stops")
    (mail,) = Inbox(bus, "me").poll()
    with pytest.raises(NotWoken, match=r"not in the foreground .*; '\(' may be left in its prompt"):
        Nudge(bus, "me").wake(mail)
    assert "Mail" not in in_tmux.window.shown()


def test_line_fits_into_a_narrow_window(
    in_tmux: AgentInTerminal, tmux: TmuxWindow, run_bus: RunBus
) -> None:
    in_tmux.start()
    tmux.ask("resize-window", "-x", "20")
    assert run_bus("wake", "me").code == 0
    wait_until(lambda: in_tmux.read == f"{LINE}\n")


def test_screen_in_tmux_and_tmux_in_screen(
    agent: AgentInTerminal, run_bus: RunBus, tmp_path: Path
) -> None:
    """A program has the variables of both; the inner one has its terminal."""
    is_screen = isinstance(agent.window, ScreenWindow)
    outer = ("TMUX=/tmp/none,1,0", "TMUX_PANE=%0") if is_screen else ("STY=1.outer", "WINDOW=0")
    agent.start("lines", "me", "env", *outer)
    assert run_bus("wake", "me").code == 0
    wait_until(lambda: agent.read == f"{LINE}\n")


def test_program_may_have_started_itself_again(in_tmux: AgentInTerminal, run_bus: RunBus) -> None:
    """As Claude Code does."""
    in_tmux.start("helped")
    assert run_bus("wake", "me").code == 0
    wait_until(lambda: in_tmux.read == f"{LINE}\n")


def test_mail_to_a_base_name_wakes_the_session_that_claims_it(
    in_tmux: AgentInTerminal, run_bus: RunBus, bus: Bus
) -> None:
    names = SessionNames.of(bus)
    with subprocess.Popen(["sleep", "100"]) as first:
        names.take("me", str(process(first.pid)))
        bus.heartbeats.beat("me")
        in_tmux.start()
        wait_until(lambda: bus.heartbeats.get("me-2"))
        refused(in_tmux, run_bus, "not beat in a 'bus mcp'")
        first.kill()
    second = names.named("me-2")
    assert second is not None
    assert second.process is not None
    names.take("me", second.process, second.connection)
    assert run_bus("wake", "me").code == 0
    wait_until(lambda: in_tmux.read == f"{LINE}\n")


def test_shell_gets_nothing_when_the_program_has_ended(
    agent: AgentInTerminal, run_bus: RunBus, bus: Bus
) -> None:
    agent.start()
    agent.window.press("^D")
    wait_until(lambda: (beat := bus.heartbeats.get("me")) and not is_running(beat.pid or 1))
    agent.wait_for_shell()
    refused(agent, run_bus, "start it, or give a command")


def test_window_that_is_gone(agent: AgentInTerminal, run_bus: RunBus, bus: Bus) -> None:
    agent.start()
    agent.window.close()
    wait_until(lambda: (beat := bus.heartbeats.get("me")) and not is_running(beat.pid or 1))
    done = run_bus("wake", "me")
    assert (done.code, "start it, or give a command" in done.err) == (3, True)


def test_server_of_tmux_that_is_gone(
    in_tmux: AgentInTerminal, tmux: TmuxWindow, run_bus: RunBus
) -> None:
    in_tmux.start()
    away = tmux.socket.rename(tmux.socket.with_name("away"))
    done = run_bus("wake", "me")
    away.rename(tmux.socket)
    assert (done.code, "tmux refuses: " in done.err) == (3, True)
    assert "Mail" not in tmux.shown()


def test_pane_that_is_another_program_s(
    in_tmux: AgentInTerminal, tmux: TmuxWindow, run_bus: RunBus
) -> None:
    """Its environment names one that it is not in, or that nothing is in."""
    other = tmux.ask("split-window", "-dPF", "#{pane_id}", "sh").strip()
    in_tmux.start("lines", "me", "env", f"TMUX_PANE={other}")
    refused(in_tmux, run_bus, "is not, or no longer, its program's")
    tmux.ask("kill-pane", "-t", other)
    refused(in_tmux, run_bus, "is not, or no longer, its program's")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["copy-mode"], "is in copy mode"),
        (["set-option", "-w", "synchronize-panes", "on"], "types into other panes as well"),
    ],
)
def test_pane_that_does_not_pass_keys_to_the_program_alone(
    words: list[str], reason: str, in_tmux: AgentInTerminal, tmux: TmuxWindow, run_bus: RunBus
) -> None:
    in_tmux.start()
    tmux.ask(*words)
    refused(in_tmux, run_bus, reason)


def test_somebody_who_types_is_left_alone(
    in_tmux: AgentInTerminal, tmux: TmuxWindow, run_bus: RunBus
) -> None:
    in_tmux.start()
    pid, keys = pty.fork()
    if not pid:
        os.execvpe("tmux", ["tmux", "-S", str(tmux.socket), "attach"], tmux.env | {"TERM": "xterm"})
    wait_until(lambda: tmux.ask("list-clients"))
    os.write(keys, b"h")
    in_tmux.wait_shown("h")
    refused(in_tmux, run_bus, "somebody is typing")
    os.close(keys)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("pid", [None, "own"])
def test_heart_that_beats_elsewhere_leads_nowhere(
    pid: str | None, in_tmux: AgentInTerminal, run_bus: RunBus, bus: Bus
) -> None:
    """An agent that writes into the bus can't choose where a nudge goes."""
    in_tmux.start()
    bus.heartbeats.beat("liar", pid=None if pid is None else os.getpid(), is_here=pid is not None)
    bus.publish("t", from_agent="a", to_agent="liar")
    done = run_bus("wake", "liar")
    reason = "is not on this machine" if pid is None else "not beat in a 'bus mcp'"
    assert (done.code, reason in done.err) == (3, True), done
    assert in_tmux.read == ""


def test_process_of_another_agent_is_not_taken(
    in_tmux: AgentInTerminal, run_bus: RunBus, bus: Bus
) -> None:
    in_tmux.start()
    beat = bus.heartbeats.get("me")
    assert beat is not None
    bus.heartbeats.beat("liar", pid=beat.pid)
    bus.publish("t", from_agent="a", to_agent="liar")
    done = run_bus("wake", "liar")
    assert (done.code, "beats in the process of 'me'; give a command" in done.err) == (3, True)
    bus.heartbeats.beat("liar", "stopped", pid=beat.pid)
    assert run_bus("wake", "me").code == 0
    wait_until(lambda: in_tmux.read == f"{LINE}\n")


def test_other_systems_than_linux_are_told_what_to_give(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    with pytest.raises(NotWoken, match=r"only Linux says .* give a command that wakes it"):
        Nudge(bus, "me").check()


def test_program_outside_of_tmux_and_screen(in_tmux: AgentInTerminal, run_bus: RunBus) -> None:
    in_tmux.start("lines", "me", "env", "-u", "TMUX")
    refused(in_tmux, run_bus, "neither tmux nor screen; give a command")


def test_multiplexer_that_is_not_installed(
    in_tmux: AgentInTerminal, run_bus: RunBus, tmp_path: Path
) -> None:
    in_tmux.start()
    done = run_bus("wake", "me", env={"PATH": str(tmp_path)})
    assert (done.code, "tmux can't be asked: " in done.err) == (3, True)


def refused(agent: AgentInTerminal, run_bus: RunBus, reason: str) -> None:
    """A wake is refused for a reason, in one line, and nothing is typed."""
    before = agent.window.shown()
    done = run_bus("wake", "me")
    assert (done.code, done.out, reason in done.err) == (3, "", True), done
    assert len(done.err.splitlines()) == 1
    assert agent.window.shown() == before
    assert agent.read == ""

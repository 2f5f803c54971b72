"""Agent programs, run for real: the prompt, the environment, the ends, and what they leave."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ackbus.schema.errors import InvalidInput
from ackbus.schema.process_table import is_running
from ackbus.tasks.agent_program import (
    ALL,
    EDIT,
    PRESETS,
    AgentProgram,
    OutputLine,
    ProgramEnd,
    run_program,
)
from ackbus.workers.processes.own_child import StopSwitch
from ackbus.workers.processes.supervisors import Supervisors

from ...conftest import wait_until

#: Far more than anything here takes.
LONG_S = 30.0

#: The words by which a program runs whatever it wants to.
OPEN = {
    *("bypassPermissions", "danger-full-access", "--approval-mode=yolo", "--allow-all-tools"),
    '"allow"',
}


def run(folder: Path, *words: str, prompt: str = "do it", **more: Any) -> ProgramEnd:
    options: dict[str, Any] = {"environment": {}, "timeout_s": LONG_S} | more
    return run_program(AgentProgram(words), prompt, folder=str(folder), **options)


def shell(folder: Path, script: str, **more: Any) -> ProgramEnd:
    return run(folder, "sh", "-c", script, **more)


def test_prompt_comes_on_stdin_which_ends(tmp_path: Path) -> None:
    end = shell(tmp_path, "cat >prompt; cat >more", prompt="café\nsecond")
    assert end.kind == "ended"
    assert (tmp_path / "prompt").read_text() == "café\nsecond"
    assert (tmp_path / "more").read_text() == ""


def test_prompt_is_an_argument_where_the_command_says_so(tmp_path: Path) -> None:
    """One made to look like an option is none, and no shell parses it."""
    script = 'printf "%s|" "$@" >told; cat >stdin'
    prompt = '--rm "$(touch harm)" {prompt_file}'
    end = run(
        tmp_path, "sh", "-c", script, "x", "{prompt}", "--say={prompt}", "a{prompt}", prompt=prompt
    )
    assert end.kind == "ended"
    assert (tmp_path / "told").read_text() == f"\n{prompt}|--say={prompt}|a{{prompt}}|"
    assert (tmp_path / "stdin").read_text() == ""
    assert not (tmp_path / "harm").exists()


def test_prompt_is_a_file_where_the_command_says_so(tmp_path: Path) -> None:
    program = AgentProgram(("cp", "{prompt_file}", "copy"))
    assert program.wants_file
    assert program.command("hello", "/scratch/prompt") == (["cp", "/scratch/prompt", "copy"], b"")


def test_program_that_asks_somebody_is_told_that_nobody_is_there(tmp_path: Path) -> None:
    """Pitfall: a prompt that waits for ever for somebody at stdin."""
    script = """
    read prompt; read answer && exit 3
    (exec 3</dev/tty) 2>/dev/null && exit 4
    test -t 0 && exit 5
    echo "$GIT_TERMINAL_PROMPT"
    """
    end = shell(tmp_path, script, prompt="one line\n")
    assert (end.kind, end.tail) == ("ended", "0")


def test_variables_of_another_repository_are_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere/.git")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", "/elsewhere/quarantine")
    end = shell(
        tmp_path,
        'echo "${GIT_DIR-}${GIT_OBJECT_DIRECTORY-none} $BUS_TASK"',
        environment={"BUS_TASK": "t1"},
    )
    assert end.tail == "none t1"


def test_u_47_lines_come_while_the_program_runs(tmp_path: Path) -> None:
    """U-47: five times `x` in one second, and `y`: two lines, seq 1 and 2, before the end."""
    lines: list[OutputLine] = []
    seen = threading.Event()

    def take(line: OutputLine) -> None:
        lines.append(line)
        if line.text == "y":
            seen.set()
            (tmp_path / "go").touch()

    script = "for n in 1 2 3 4 5; do echo x; done; echo y; while ! test -e go; do sleep 0.01; done"
    assert shell(tmp_path, script, take=take).kind == "ended"
    assert seen.is_set()
    assert [(line.seq, line.text) for line in lines] == [(1, "x"), (2, "y")]


def test_program_may_print_without_end(tmp_path: Path) -> None:
    """A program that tells of each of its steps prints far more than the result of a command."""
    count = 0

    def take(line: OutputLine) -> None:
        nonlocal count
        count += len(line.text)

    script = "import sys\nfor n in range(12):\n print(str(n % 10) * 1024**2)"
    assert run(tmp_path, sys.executable, "-c", script, take=take).kind == "ended"
    assert count == 12 * 1024**2


@pytest.mark.parametrize(
    ("script", "kind", "reason"),
    [
        ("exit 0", "ended", ""),
        ("echo no model >&2; exit 1", "failed", "command exited with code 1: no model"),
        ("echo limit; exit 75", "transient", "command exited with code 75: limit"),
        ("exit 78", "permanent", "command exited with code 78"),
        ("kill -9 $$", "failed", "command was killed by signal 9"),
    ],
)
def test_end_means(tmp_path: Path, script: str, kind: str, reason: str) -> None:
    """Exit 75 asks for another attempt, 78 forbids one, as for other workers."""
    end = shell(tmp_path, script)
    assert (end.kind, end.reason) == (kind, reason)


def test_missing_program_is_permanent(tmp_path: Path) -> None:
    end = run(tmp_path, "no-such-agent")
    assert (end.kind, end.reason) == ("permanent", "there is no command 'no-such-agent'")


def test_time_is_up_for_all_that_it_started(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! >pid; setsid sleep 600 & echo $! >pid2; wait"
    with Supervisors() as supervisors:
        end = shell(tmp_path, script, timeout_s=3, supervisors=supervisors)
    assert (end.kind, end.reason) == ("timed_out", "timed out after 3 seconds")
    for name in ("pid", "pid2"):
        assert not is_running(int((tmp_path / name).read_text()))


def test_stop_ends_it(tmp_path: Path) -> None:
    stop, ends = StopSwitch(), []
    thread = threading.Thread(
        target=lambda: ends.append(shell(tmp_path, "touch up; sleep 600", stop=stop))
    )
    thread.start()
    wait_until((tmp_path / "up").exists)
    stop.stop()
    thread.join(LONG_S)
    assert [end.kind for end in ends] == ["stopped"]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("mode", [EDIT, ALL])
def test_known_program_takes_the_prompt_as_it_is(name: str, mode: str, tmp_path: Path) -> None:
    """A stand-in under the name of each program hears the prompt, in one of the two ways."""
    fake = tmp_path / "bin" / name
    fake.parent.mkdir()
    fake.write_text(
        '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >words; cat >stdin\n'
    )
    fake.chmod(0o755)
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    program = AgentProgram.known(name, mode)
    end = run_program(
        program,
        "--mend it",
        folder=str(tmp_path),
        environment={"PATH": path},
        timeout_s=LONG_S,
    )
    assert end.kind == "ended", end.reason
    words = (tmp_path / "words").read_text().splitlines()
    assert words.count("--mend it") + ((tmp_path / "stdin").read_text() == "--mend it") == 1
    told = {*words, *program.variables.values()}
    assert bool(told & OPEN) == (mode == ALL)


def test_unknown_program_is_named_with_those_that_are_known() -> None:
    with pytest.raises(InvalidInput, match="no agent program 'clod' is known, only claude, codex"):
        AgentProgram.known("clod")
    with pytest.raises(InvalidInput, match="permissions must be edit or all, not 'yes'"):
        AgentProgram.known("claude", "yes")
    with pytest.raises(InvalidInput, match="there is no command to run"):
        AgentProgram(())

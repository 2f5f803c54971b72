"""bus notify: what a person is told, by what, and how often."""

from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of

from ..conftest import RunBus, wait_until
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")

ON_STDERR = {"BUS_NOTIFY_BACKEND": "stderr"}


def answered(bus: Bus, payload: object, type: str = "x.done", id: str | None = None) -> str:
    """Publishes a request with its answer, and returns the conversation."""
    kind = type.partition(".")[0]
    root = bus.publish(f"{kind}.request", from_agent="me", id=id)
    bus.publish(type, payload, from_agent="you", in_reply_to=root.id)
    return root.id


@pytest.fixture
def notify_send(tmp_path: Path) -> dict[str, str]:
    """A notify-send that writes down its arguments; returns the PATH on which it is the first."""
    return fake_notify_send(tmp_path, f'printf "%s|" "$@" >> {tmp_path}/sent')


def fake_notify_send(folder: Path, script: str) -> dict[str, str]:
    program = folder / "bin" / "notify-send"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return {"PATH": f"{program.parent}:/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("type", "payload", "title", "preview"),
    [
        ("ollama.done", "", "Reply ready", "(empty reply)"),
        ("x.failed", " \n ", "Reply ready (failed)", "(empty reply)"),
        ("x.done", "y" * 60, "Reply ready", "y" * 60),
        ("x.done", "y" * 80, "Reply ready", "y" * 80),
        ("x.failed", "y" * 200, "Reply ready (failed)", "y" * 80 + "…"),
        ("x.request.timed_out", "\nfirst\nsecond", "Reply ready (timed out)", "first"),
        ("x.done", "é🚌" * 50, "Reply ready", "é🚌" * 40 + "…"),
        ("x.done", {"a": 1}, "Reply ready", '{"a":1}'),
        ("x.done", "\x1b[31mred", "Reply ready", "\\x1b[31mred"),
    ],
)
def test_notice_says_what_came_and_how_to_see_it(
    type: str, payload: object, title: str, preview: str, run_bus: RunBus, bus: Bus
) -> None:
    """P-79, P-94: cut by characters; unlike upstream no type has a title of its own."""
    conversation = answered(bus, payload, type)
    done = run_bus("notify", "--once", env=ON_STDERR)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        f"bus: {title}",
        f"bus: {type} in conversation {conversation}",
        f"bus: {preview}",
        f"bus: see it with: bus check {conversation}",
    ]


def test_conversation_is_told_of_once(run_bus: RunBus, bus: Bus) -> None:
    """P-77, P-78: --once twice, one notice."""
    answered(bus, "!")
    assert len(run_bus("notify", "--once", env=ON_STDERR).err.splitlines()) == 4
    second = run_bus("notify", "--once", env=ON_STDERR)
    assert (second.code, second.out, second.err) == (0, "", "")


def test_command_in_a_notice_can_be_pasted(run_bus: RunBus, bus: Bus) -> None:
    """PITFALLS 25: a conversation's name must not run as a command."""
    answered(bus, "!", id="c; touch owned")
    told = run_bus("notify", "--once", env=ON_STDERR).err
    assert told.endswith("bus: see it with: bus check 'c; touch owned'\n")


def test_notify_looks_again_and_again(start_bus: StartBus, bus: Bus) -> None:
    """P-78: --every; it goes on until it is told to stop."""
    process = start_bus("notify", "--every", "20ms")
    assert process.stderr is not None
    for number in range(2):
        conversation = answered(bus, f"answer {number}")
        told = [process.stderr.readline().decode() for _ in range(4)]
        assert told[1] == f"bus: x.done in conversation {conversation}\n"
        assert told[2] == f"bus: answer {number}\n"
    assert process.poll() is None


def test_desktop_comes_first(run_bus: RunBus, bus: Bus, notify_send: dict[str, str]) -> None:
    """P-80: notify-send where it is installed; what a message says is no markup there."""
    conversation = answered(bus, "<b>&")
    done = run_bus("notify", "--once", env=notify_send)
    assert (done.code, done.out, done.err) == (0, "", "")
    body = f"x.done in conversation {conversation}\n&lt;b&gt;&amp;\nsee it with: bus check "
    sent = Path(notify_send["PATH"].partition(":")[0], "..", "sent").read_text()
    assert sent == f"--app-name=bus|--|Reply ready|{body}{conversation}|"


@pytest.mark.parametrize(("backend", "bell"), [("bell", True), ("stderr", False)])
def test_backend_can_be_forced(
    backend: str, bell: bool, run_bus: RunBus, bus: Bus, notify_send: dict[str, str]
) -> None:
    """P-80: with the environment's value notify-send is not called."""
    answered(bus, "!")
    done = run_bus("notify", "--once", env=notify_send | {"BUS_NOTIFY_BACKEND": backend})
    assert done.err.startswith("\abus: Reply ready\n" if bell else "bus: Reply ready\n")
    assert not Path(notify_send["PATH"].partition(":")[0], "..", "sent").exists()


def test_bell_and_stderr_without_a_desktop(run_bus: RunBus, bus: Bus, tmp_path: Path) -> None:
    """P-80: the second choice."""
    answered(bus, "!")
    done = run_bus("notify", "--once", env={"PATH": str(tmp_path)})
    assert done.err.startswith("\abus: Reply ready\n")


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$", "exec /nowhere/at/all"])
def test_broken_notifier_affects_nothing(
    script: str, run_bus: RunBus, bus: Bus, tmp_path: Path
) -> None:
    """P-81: the person is told on stderr instead; reading and checking go on."""
    conversation = answered(bus, "!")
    other = answered(bus, "?")
    done = run_bus("notify", "--once", env=fake_notify_send(tmp_path, script))
    assert done.code == 0
    assert done.err.count("bus: Reply ready\n") == 2
    assert run_bus("check", conversation).out.endswith("\n!\n")
    assert run_bus("check", other).out.endswith("\n?\n")
    assert len(run_bus("read").out.splitlines()) == 4


def test_desktop_that_is_forced_and_not_there(run_bus: RunBus, bus: Bus, tmp_path: Path) -> None:
    """P-81: as good as one that fails."""
    answered(bus, "!")
    env = {"PATH": str(tmp_path), "BUS_NOTIFY_BACKEND": "desktop"}
    assert run_bus("notify", "--once", env=env).err.startswith("bus: Reply ready\n")


def test_old_answers_are_left_alone_on_the_first_look(run_bus: RunBus, bus_dir: Path) -> None:
    """A bus that was used for weeks tells of the last hour, or of what --since says."""
    now_ms = 1_000_000
    with Bus.open(bus_dir, clock=lambda: now_ms) as bus:
        answered(bus, "old")
    assert run_bus("notify", "--once", env=ON_STDERR).err == ""


def test_since_tells_of_older_answers(run_bus: RunBus, bus_dir: Path) -> None:
    with Bus.open(bus_dir, clock=lambda: 1_000_000) as bus:
        answered(bus, "old")
    done = run_bus("notify", "--once", "--since", "1970-01-01T00:00:00Z", env=ON_STDERR)
    assert "bus: old" in done.err.splitlines()


def test_notifier_does_not_touch_deliveries(start_bus: StartBus, bus: Bus) -> None:
    """P-81: a notifier that is killed leaves the log and every cursor as they were."""
    process = start_bus("notify", "--every", "20ms")
    conversation = answered(bus, "!")
    wait_until(lambda: file_of(bus).value("SELECT count(*) FROM notices") == 1)
    process.kill()
    process.wait(timeout=60)
    assert [message.type for message in bus.read(conversation=conversation)] == [
        "x.request",
        "x.done",
    ]
    assert file_of(bus).value("SELECT count(*) FROM cursors") == 0


def test_bad_options_are_refused(run_bus: RunBus) -> None:
    for option, value in (("--every", "0"), ("--every", "soon"), ("--since", "soon")):
        assert_error(run_bus("notify", "--once", option, value), 2, option)
    wrong = {"BUS_NOTIFY_BACKEND": "pigeon"}
    assert_error(run_bus("notify", "--once", env=wrong), 2, "BUS_NOTIFY_BACKEND", "pigeon")

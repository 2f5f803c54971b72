"""However a command that looks ends, it leaves no temporary folder, and no git that waits."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from ..conftest import wait_until
from ..git_branches.conftest import has_ended
from .conftest import StartBus
from .git import Git, git_env

Started = subprocess.Popen[bytes]

pytestmark = pytest.mark.slow  # starts many processes


@pytest.fixture
def temporary(tmp_path: Path, bus_env: dict[str, str]) -> Path:
    """The folder in which commands make their temporary ones."""
    path = tmp_path / "temporary"
    path.mkdir()
    bus_env["TMPDIR"] = str(path)
    return path


@pytest.fixture
def repository(project: Path, bus_dir: Path, bus_env: dict[str, str]) -> Git:
    """The repository of the project: `main` and `topic` differ."""
    bus_env |= git_env(bus_env)
    git = Git(project, bus_env)
    git.ok("init", "--quiet", "--initial-branch=main")
    (bus_dir / "bus.jsonl").write_text("{}\n")
    for branch in ("main", "topic"):
        git.ok("checkout", "--quiet", "-B", branch)
        (project / "a.txt").write_text(branch)
        git.ok("add", "--force", "a.txt", f"{bus_dir.name}/bus.jsonl")
        git.ok("commit", "--quiet", "--message", branch)
    git.ok("branch", "other", "main")
    return git


@pytest.fixture
def pipes(repository: Git, project: Path) -> None:
    """Pipes, to which nobody writes, in the places of a commit and of the log of another."""
    for name in ("topic", "other:.worker-state/bus.jsonl"):
        id = repository.ok("rev-parse", name).strip()
        path = project / ".git" / "objects" / id[:2] / id[2:]
        path.unlink(missing_ok=True)
        os.mkfifo(path)


#: Lines that wait, each with the command of git that does.
LINES = (
    (["log", "topic"], b"rev-list"),
    (["log", "other"], b"--patch"),
    (["task", "forecast", "main", "topic"], b"cat-file"),
)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["log"], 4),
        (["task", "forecast", "main", "other"], 0),
        (["task", "forecast", "main", "none"], 4),
        (["log", "none"], 4),
    ],
)
def test_command_that_ends_leaves_no_folder(
    line: list[str], code: int, repository: Git, temporary: Path, start_bus: StartBus
) -> None:
    process = start_bus(*line)
    out, err = process.communicate()
    assert process.returncode == code, (out, err)
    assert list(temporary.iterdir()) == []


def git_of(process: Started, word: bytes) -> int:
    """Waits until a process has started a command of git, and returns the number of that."""
    found: list[int] = []

    def is_started() -> bool:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in map(int, children):
            with suppress(OSError):
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                found.extend([child] if word in words else [])
        return bool(found)

    wait_until(is_started)
    return found[0]


@pytest.mark.parametrize(("line", "word"), LINES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_git_and_leaves_no_folder(
    line: list[str],
    word: bytes,
    number: signal.Signals,
    pipes: None,
    temporary: Path,
    start_bus: StartBus,
) -> None:
    process = start_bus(*line)
    git = git_of(process, word)
    assert list(temporary.iterdir()) != []
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert list(temporary.iterdir()) == []
    wait_until(lambda: has_ended(git))


def test_what_a_kill_left_is_swept_by_the_next_look(
    pipes: None, temporary: Path, start_bus: StartBus
) -> None:
    killed, other = start_bus("log", "topic"), start_bus("log", "topic")
    left = [git_of(process, b"rev-list") for process in (killed, other)]
    killed.kill()
    killed.wait()
    os.kill(left[0], signal.SIGKILL)
    assert len(list(temporary.iterdir())) == 2
    assert start_bus("task", "forecast", "main", "other").wait() == 0
    assert len(list(temporary.iterdir())) == 1  # that of the process which is at work
    other.terminate()
    other.wait(60)
    assert list(temporary.iterdir()) == []


def test_folder_of_another_kind_is_left_alone(
    repository: Git, temporary: Path, start_bus: StartBus
) -> None:
    outside = temporary.parent / "outside"
    (outside / "kept").mkdir(parents=True)
    (temporary / "ackbus-git-link").symlink_to(outside)
    (temporary / "ackbus-git-file").write_text("")
    (temporary / "other").mkdir()
    assert start_bus("log").wait() == 4
    assert len(list(temporary.iterdir())) == 3
    assert (outside / "kept").is_dir()

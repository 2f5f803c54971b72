"""The core works on files alone: the doors of HTTP are an extra, which nothing else needs."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ackbus.automation.config.models import ApiConfig, WebhooksConfig
from ackbus.cli.commands.serve import HOST

ROOT = Path(__file__).parents[1]

#: The rooms below the server whose tests are the core's.
CORE = [
    *("schema", "blobs", "bus", "subscribers", "workers", "export", "concurrency", "property"),
    *("git_branches", "tasks/control", "tasks/steps", "tasks/trees"),
]

#: Refuses the server, what its extra installs, and every address of a network.
ALONE = """
import socket, sys

REFUSED = ("ackbus.server", "fastapi", "starlette", "uvicorn", "websockets", "prometheus_client")

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in REFUSED or name.startswith(tuple(f"{each}." for each in REFUSED)):
            raise ModuleNotFoundError(f"{name} is refused", name=name)

def refuse_networks(event, arguments):
    if event in ("socket.bind", "socket.connect"):
        if arguments[0].family in (socket.AF_INET, socket.AF_INET6):
            raise RuntimeError(f"{event} {arguments[1]} is refused")

sys.meta_path.insert(0, Refuse())
sys.addaudithook(refuse_networks)
"""

#: The life of a bus, as a user's commands have it.
LIFE = [
    "init",
    "queue create reviews --type review.request",
    "publish review.request {} --from lead",
    "publish note hello --from lead",
    "poll bob",
    "ack bob 2",
    "run --queue reviews --drain -- cat",
    "search hello",
    "export --once",
    "archive --older-than 0s",
    "lease acquire deploy --agent bob",
    "doctor --full",
    "verify",
    "replay",
]

#: The life of a task in a git repository, from its branch to its commit on main.
LIFE_OF_TASK = [
    "init",
    "task spawn parser --worker w1 --agent lead --review required --json",
    "task start parser --agent w1",
    "task done parser --agent w1",
    "task diff parser",
    "task approve parser --agent lead",
    "integrate --once",
    "task clean",
    "task board",
    "task list --all --json",
    "task log parser",
    "doctor --full",
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose Python has no doors of HTTP."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "alone.py").write_text(ALONE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
    return kept | {"PYTHONPATH": str(folder)}


def run(alone: dict[str, str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=alone,
        capture_output=True,
        text=True,
        check=False,
    )


def git(alone: dict[str, str], *words: str, cwd: Path) -> None:
    by = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *by, *words], cwd=cwd, env=alone, check=True, capture_output=True)


def core_tests(alone: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    options = ["-p", "alone", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-m", "not nightly"]
    every_room = "--ignore=tests/schema/test_queries.py"  # it is about the SQL of the server too
    folders = [word if word.startswith("-") else f"tests/{word}" for word in words]
    return run(alone, "-m", "pytest", *options, every_room, *folders, cwd=ROOT)


def test_what_is_refused_is_refused(alone: dict[str, str], tmp_path: Path) -> None:
    """Else the others would show nothing."""
    for code in (
        "import ackbus.server",
        "import uvicorn",
        "import socket; socket.create_server(('127.0.0.1', 0))",
    ):
        done = run(alone, "-c", f"import alone; {code}", cwd=tmp_path)
        assert "is refused" in done.stderr


@pytest.mark.slow
@pytest.mark.requirement("X-16")
def test_x_16_the_life_of_a_bus_needs_no_server_and_no_network(
    alone: dict[str, str], tmp_path: Path
) -> None:
    main = "import alone, sys; from ackbus.cli import main; sys.exit(main())"
    for command in LIFE:
        done = run(alone, "-c", main, *command.split(), cwd=tmp_path)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.requirement("X-16")
def test_x_16_the_life_of_a_task_needs_no_server_and_no_network(
    alone: dict[str, str], tmp_path: Path
) -> None:
    main = "import alone, sys; from ackbus.cli import main; sys.exit(main())"
    repository = tmp_path / "repository"
    commit = ["commit", "--quiet", "--allow-empty", "--message", "work"]
    git(alone, "init", "--quiet", "--initial-branch", "main", str(repository), cwd=tmp_path)
    git(alone, *commit, cwd=repository)
    tokens: dict[str, str] = {}
    for command in LIFE_OF_TASK:
        if command.startswith("task done"):
            tree = tmp_path / "repository.trees" / "parser"
            (tree / "parser.py").write_text("parse = int\n")
            git(alone, "add", "parser.py", cwd=tree)
            git(alone, *commit, cwd=tree)
        done = run(alone | tokens, "-c", main, *command.split(), cwd=repository)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        if command.startswith("task spawn"):
            tokens = {"BUS_TASK_TOKEN": str(json.loads(done.stdout)["token"])}
    git(alone, "cat-file", "-e", "main:parser.py", cwd=repository)


@pytest.mark.slow
@pytest.mark.requirement("X-16")
def test_x_16_tests_of_the_core_load_without_the_server(alone: dict[str, str]) -> None:
    done = core_tests(alone, "--collect-only", *CORE)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.nightly
@pytest.mark.requirement("X-16")
def test_x_16_tests_of_the_core_pass_without_the_server(alone: dict[str, str]) -> None:
    done = core_tests(alone, *CORE)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.requirement("X-16")
def test_x_16_the_server_is_an_extra_and_listens_on_this_machine_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert any(each.startswith("uvicorn") for each in project["optional-dependencies"]["server"])
    assert not any(each.startswith(("uvicorn", "fastapi")) for each in project["dependencies"])
    assert HOST == "127.0.0.1"
    assert {each.listen.rpartition(":")[0] for each in (ApiConfig(), WebhooksConfig())} == {HOST}

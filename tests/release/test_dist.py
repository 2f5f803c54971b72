"""The files that `make dist` builds, used in empty environments as users use them."""

import json
import os
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import ackbus

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
#: A user's program, which the type checkers pass.
PROGRAM = ROOT / "tests/api/right.py"

#: Where the tools of the extra `dev` are.
TOOLS = Path(sys.executable).parent

#: Seconds for one command: the slowest installs packages.
TIMEOUT_S = 300

#: The names of folders that something here has made, and of git's own.
MADE = {".git", ".hypothesis", ".venv", ".venv-editable", "__pycache__", "build", "dist"}

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


def built(pattern: str) -> Path:
    """Return the one file in `dist/` that fits."""
    files = sorted(DIST.glob(pattern))
    assert len(files) == 1, f"{pattern} in {DIST}: {files}; run `make dist`"
    return files[0]


def user_environment(folder: Path) -> dict[str, str]:
    """Return this process's variables without those that lead to this clone or another bus."""
    foreign = ("BUS_", "PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"PIPX_HOME": str(folder / "pipx"), "UV_TOOL_DIR": str(folder / "uv")}


def run(
    arguments: Sequence[object], *, cwd: Path, code: int | None = 0, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. An exit code other than `code` fails, but for None."""
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=user_environment(cwd),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert code in (None, done.returncode), f"{done.args}: {done.stdout}{done.stderr}"
    return done


def environment(folder: Path, requirement: str) -> Path:
    """Make an empty environment, install the wheel into it, and return its folder of commands."""
    run([sys.executable, "-m", "venv", folder], cwd=folder.parent)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", requirement]
    run([*pip, "--disable-pip-version-check"], cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel() -> Path:
    return built("*.whl")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment in which the wheel alone was installed."""
    return environment(tmp_path_factory.mktemp("installed") / "venv", str(wheel))


def files_of_the_tree() -> set[str]:
    """Return the paths of all files of this clone but those that something here has made."""
    files = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            f for f in folders if f not in MADE and not f.endswith(("_cache", ".egg-info"))
        ]
        files |= {(Path(folder) / name).relative_to(ROOT).as_posix() for name in names}
    return files


def test_the_sdist_holds_the_whole_repository() -> None:
    with tarfile.open(built("*.tar.gz")) as sdist:
        members = {m.name.partition("/")[2] for m in sdist.getmembers() if m.isfile()}
    of_the_build = {name for name in members if name.startswith("ackbus.egg-info/")}
    of_the_build |= {"PKG-INFO", "setup.cfg"}
    assert members - of_the_build == files_of_the_tree() - {".git", ".gitignore"}


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ackbus"}
    assert "ackbus/py.typed" in names
    for folder in ("tests", "bench", "docs", "examples"):
        assert not [name for name in names if name.startswith(f"ackbus/{folder}/")]


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_metadata_is_what_an_index_shows(wheel: Path) -> None:
    run([sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir())], cwd=DIST)
    fields = metadata(wheel)
    assert fields["Name"] == "ackbus"
    assert fields["Version"] == ackbus.__version__
    assert fields["Requires-Python"] == ">=3.11"
    assert fields["License-Expression"] == "MIT"
    assert "Typing :: Typed" in fields.get_all("Classifier", [])
    assert {"mcp", "otel", "server"} <= set(fields.get_all("Provides-Extra", []))


def test_commands_run_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    bus = installed / "bus"
    assert run([bus, "--version"], cwd=tmp_path).stdout.split()[-1] == ackbus.__version__
    run([bus, "init"], cwd=tmp_path)
    run([bus, "publish", "note", "hello", "--from", "alice"], cwd=tmp_path)
    messages = run([bus, "read", "--json"], cwd=tmp_path).stdout.splitlines()
    assert [json.loads(line)["payload"] for line in messages] == ["hello"]
    run([bus, "doctor"], cwd=tmp_path)


def test_the_demo_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("answer = 42\n")
    (tmp_path / "b.txt").write_text("hello\n")
    shown = run([installed / "bus", "demo", "--dir", tmp_path / "demo"], cwd=tmp_path).stdout
    assert "Proof, counted in the log: it holds" in shown


def test_a_program_runs_on_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = run([installed / "python", PROGRAM, tmp_path / "bus"], cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "5 sent"


def test_the_extra_mcp_brings_what_an_agent_starts(wheel: Path, tmp_path: Path) -> None:
    commands = environment(tmp_path / "venv", f"{wheel}[mcp]")
    run([commands / "bus", "init"], cwd=tmp_path)
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "a program", "version": "1"},
        },
    }
    done = run([commands / "bus", "mcp"], cwd=tmp_path, stdin=json.dumps(hello) + "\n")
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "ackbus"


def test_the_extra_server_brings_the_doors_of_http(wheel: Path, tmp_path: Path) -> None:
    commands = environment(tmp_path / "venv", f"{wheel}[server]")
    run([commands / "bus", "init"], cwd=tmp_path)
    serve = [commands / "bus", "serve", "--port", "0"]
    with subprocess.Popen(
        serve, cwd=tmp_path, env=user_environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(f"{address}/v1/openapi.json", timeout=60) as answer:
            assert json.load(answer)["info"]["title"] == "ackbus"
        server.terminate()
    assert server.returncode == 0


def test_the_extra_automation_brings_a_service_and_plugins(wheel: Path, tmp_path: Path) -> None:
    bus = environment(tmp_path / "venv", f"{wheel}[automation]") / "bus"
    shown = run([bus, "demo", "--automation"], cwd=tmp_path).stdout
    assert "Proof, counted in the log: it holds" in shown
    (tmp_path / "config.yaml").write_text(
        "plugin_roots: [plugins]\nplugins: {watch: {config: {path: /}}}\n"
    )
    run([bus, "plugin", "add", "watch", "--config", "."], cwd=tmp_path)
    run([bus, "config", "check"], cwd=tmp_path)


@pytest.mark.parametrize(
    "runner",
    [
        ["pipx", "run", "--spec"],
        ["uv", "tool", "run", "--from"],
    ],
    ids=["pipx", "uvx"],
)
def test_a_command_runs_without_an_install(wheel: Path, tmp_path: Path, runner: list[str]) -> None:
    program, *arguments = runner
    done = run([TOOLS / program, *arguments, wheel, "bus", "--version"], cwd=tmp_path)
    assert done.stdout.split()[-1] == ackbus.__version__


def check_types(checker: str, program: Path, installed: Path) -> tuple[int, str]:
    """Check a program as strictly as the checker can against the wheel: exit code and output."""
    (program.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    python = installed / "python"
    arguments = {
        "mypy": [TOOLS / "mypy", "--strict", "--python-executable", python, program],
        "pyright": [TOOLS / "basedpyright", "--pythonpath", python, "-p", program.parent],
    }
    done = run(arguments[checker], cwd=program.parent, code=None)
    return done.returncode, done.stdout


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_program_has_types_from_the_wheel(installed: Path, tmp_path: Path, checker: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.read_text())
    code, output = check_types(checker, program, installed)
    assert code == 0, output
    wrong = PROGRAM.read_text().replace('"release", "lead"', '"release", 5')
    program.write_text(wrong)
    code, output = check_types(checker, program, installed)
    assert code == 1
    line = wrong[: wrong.index('"release", 5')].count("\n") + 1
    assert f"program.py:{line}" in output

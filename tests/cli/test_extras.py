"""The line that installs an extra works where the program is installed, however that was done."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Sequence
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from ackbus.cli import extras

ROOT = Path(__file__).parents[2]
TOOLS = Path(sysconfig.get_path("scripts"))

#: What a copy leaves out: what is no source.
LEFT_OUT = shutil.ignore_patterns(
    *(".*", "tests", "docs", "bench", "examples", "build", "dist", "*.egg-info", "__pycache__")
)

#: No index, and no packages but the program itself, which is built with the tools that are there.
ALONE = ["--dry-run", "--no-deps"]


def run(*words: object, cwd: Path, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}", "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not check or done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source, in a folder whose name a shell would take apart."""
    folder = tmp_path_factory.mktemp("sources") / "it's a $copy &c"
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    (folder / "README.md").touch()
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an empty environment that finds the packages of this one after its own."""
    folder = tmp_path / "an environment"
    venv.create(folder, symlinks=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    shared = sysconfig.get_path("purelib")
    (packages / "shared.pth").write_text(f"import sys; sys.path.append({shared!r})\n")
    return folder / "bin/python"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("way", "is_there"), [("path", True), ("editable", True), ("wheel", True), ("wheel", False)]
)
def test_the_line_installs_from_the_same_source(
    source: Path, python: Path, tmp_path: Path, way: str, is_there: bool
) -> None:
    """It needs the index, or a cache, for what builds the program."""
    origin: Sequence[object] = [source]
    pip = [python, "-m", "pip"]
    if way == "wheel":
        folder = tmp_path / "wheels"
        run(*pip, "wheel", *ALONE[1:], "--wheel-dir", folder, source, cwd=tmp_path)
        origin = list(folder.iterdir())
    elif way == "editable":
        origin = ["--editable", source]
    run(*pip, "install", *ALONE[1:], *origin, cwd=tmp_path)
    if not is_there:
        shutil.rmtree(tmp_path / "wheels")
    program = "from ackbus.cli import extras; print(extras.install_command('server'))"
    line = run(python, "-c", program, cwd=tmp_path).stdout.strip()
    assert shlex.split(line)[:4] == [str(python), "-m", "pip", "install"]
    if not is_there:
        names = [re.split("[<>=]", word)[0] for word in shlex.split(line)[4:]]
        assert names == ["fastapi", "prometheus-client", "uvicorn", "websockets"]
        return
    shown = run("sh", "-c", f"{line} {shlex.join(ALONE)} --force-reinstall", cwd=tmp_path).stdout
    assert "Would install ackbus" in shown


@pytest.mark.nightly
@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_the_line_adds_to_the_environment_of_a_tool(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """It needs the index, or a cache, for what the program needs."""
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    monkeypatch.setenv("PIPX_HOME", str(tmp_path / "pipx"))
    monkeypatch.setenv("PIPX_BIN_DIR", str(tmp_path / "bin"))
    monkeypatch.setenv("UV_TOOL_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_TOOL_BIN_DIR", str(tmp_path / "bin"))
    install = {"uv": ["uv", "tool", "install"], "pipx": ["pipx", "install"]}[tool]
    env = {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"}

    def call(command: Sequence[object] | str) -> str:
        shell = isinstance(command, str)
        return subprocess.run(
            command if shell else [str(word) for word in command],
            shell=shell, env=env, cwd=tmp_path, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    def lacking() -> dict[str, str]:
        """The lines that help shows, by the extras that they name."""
        shown = call([tmp_path / "bin/bus", "help", "all"])
        lines = [line.strip() for line in shown.splitlines() if f"{tool} " in line]
        return {line.partition("[")[2].partition("]")[0]: line for line in lines}

    call([*install, source])
    lines = lacking()
    assert lines.keys() == {"automation", "mcp", "server"}
    call(lines["mcp"])
    lines = lacking()
    assert lines.keys() == {"automation,mcp", "mcp,server"}
    call(lines["mcp,server"])
    assert lacking().keys() == {"automation,mcp,server"}


Install = Callable[..., list[str]]


@pytest.fixture
def line_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """The words of the line for an installation that recorded this."""
    monkeypatch.setitem(sys.modules, "pip", json)  # as where pip is installed

    def words(origin: dict[str, object] | None, *, prefix_file: str = "") -> list[str]:
        folder = tmp_path / "ackbus-1.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: ackbus\nVersion: 1\n")
        if origin is not None:
            (folder / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.setattr(
            "importlib.metadata.distributions", lambda name, path: [PathDistribution(folder)]
        )
        if prefix_file:
            (tmp_path / prefix_file).touch()
            monkeypatch.setattr(sys, "prefix", str(tmp_path))
        return shlex.split(extras.install_command("server"))

    return words


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, ["ackbus[server]"]),
        (
            {"url": "https://x.test/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["ackbus[server] @ git+https://x.test/a.git@abc"],
        ),
        (
            {
                "url": "https://x.test/a.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc"},
                "subdirectory": "py",
            },
            ["ackbus[server] @ git+https://x.test/a.git@abc#subdirectory=py"],
        ),
        (
            {"url": "https://x.test/ackbus-1.whl", "archive_info": {}},
            ["ackbus[server] @ https://x.test/ackbus-1.whl"],
        ),
        ({"url": "file:///usr", "dir_info": {}}, ["ackbus[server] @ file:///usr"]),
        (
            {"url": "file:///usr/my%20bin", "dir_info": {"editable": True}},
            [],  # it is gone
        ),
        (
            {"url": "file:///usr", "dir_info": {"editable": True}},
            ["--editable", "/usr[server]"],
        ),
    ],
)
def test_the_line_names_the_recorded_source(
    line_of: Install, origin: dict[str, object] | None, requirement: list[str]
) -> None:
    assert line_of(origin) == [sys.executable, "-m", "pip", "install", *requirement]


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pipx_metadata.json", ["pipx", "install", "--force"]),
        ("uv-receipt.toml", ["uv", "tool", "install", "--force"]),
    ],
)
def test_the_line_of_a_tool_keeps_the_other_extras(
    line_of: Install, monkeypatch: pytest.MonkeyPatch, file: str, command: list[str]
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra == "mcp")
    assert line_of(None, prefix_file=file) == [*command, "ackbus[mcp,server]"]


def test_a_folder_of_the_working_directory_says_nothing_about_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a clone, where anyone may have put it."""
    folder = tmp_path / "ackbus-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: ackbus\nVersion: 9\n")
    (folder / "direct_url.json").write_text('{"url": "https://evil.test/x", "archive_info": {}}')
    monkeypatch.chdir(tmp_path)
    for place in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [place, *sys.path])
        assert "evil" not in extras.install_command("server")


def test_without_pip_the_line_is_one_of_uv(
    line_of: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    assert line_of(None) == ["uv", "pip", "install", "--python", sys.executable, "ackbus[server]"]

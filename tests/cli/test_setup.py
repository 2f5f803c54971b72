"""bus setup claude and the others, as a person runs it; --check tries what is configured."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus, Inbox
from ackbus.cli.extras import install_command
from ackbus.setup import checking
from ackbus.setup.checking import check
from ackbus.setup.installation import Installation

from ..conftest import RunBus
from ..sizes import sampled
from .conftest import BUS, assert_error

pytestmark = pytest.mark.slow  # starts many processes

#: The programs with hooks.
HOOKED = ["claude", "codex", "gemini", "cursor", "copilot", "opencode"]

#: A server that speaks just enough MCP, and sends by the command line; a mode makes it fail.
SERVER = """\
#!{python}
import json, subprocess, sys
mode = {mode!r}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "serverInfo": {{}}}}
    if mode == "ends":
        sys.exit("out of order")
    if mode == "noise":
        print("Welcome!", flush=True)
    if request["method"] == "tools/call":
        call = request["params"]["arguments"]
        if mode == "works":
            subprocess.run([{bus!r}, "publish", call["type"], call["payload"], "--to", call["to"],
                            "--from", "claude", "--id", call["id"]],
                           check=True, stdout=subprocess.DEVNULL)
        result = {{"isError": mode == "fails", "content": [{{"type": "text", "text": "sorry"}}]}}
    if mode != "refuses":
        answer = {{"result": result}}
    else:
        answer = {{"error": {{"code": -1, "message": "no"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "method": "notifications/message"}}), flush=True)
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], **answer}}), flush=True)
"""


@pytest.fixture
def fake_bus(tmp_path: Path) -> Path:
    """The path of a program called bus; `configure` makes it and puts it into .mcp.json."""
    path = tmp_path / "fake" / "bus"
    path.parent.mkdir()
    return path


def configure(project: Path, fake_bus: Path, mode: str) -> None:
    fake_bus.write_text(SERVER.format(python=sys.executable, mode=mode, bus=str(BUS)))
    fake_bus.chmod(0o700)
    path = project / ".mcp.json"
    value = json.loads(path.read_text())
    value["mcpServers"]["ackbus"]["command"] = str(fake_bus)
    path.write_text(json.dumps(value))


def test_setup_says_what_it_does_and_does_it_once(bus: Bus, project: Path, run_bus: RunBus) -> None:
    """Issue 7, item 7."""
    first = run_bus("setup", "claude", "--agent", "reviewer")
    made = [".mcp.json", ".claude/settings.json", "AGENTS.md"]
    assert first.out.splitlines() == [f"made {project / name}" for name in made]
    assert first.err.startswith("bus: Claude Code asks once")
    assert run_bus("setup", "claude", "--agent", "reviewer").out == "nothing to do\n"
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["ackbus"]
    words = ["mcp", "--agent", "reviewer", "--dir", str(project / ".worker-state")]
    assert entry == {
        "type": "stdio",
        "command": str(BUS),
        "args": words,
        "alwaysLoad": True,
    }
    removed = run_bus("setup", "claude", "--remove")
    assert removed.out.splitlines() == [f"removed {project / name}" for name in made]
    assert sorted(path.name for path in project.iterdir()) == [".worker-state"]
    assert run_bus("setup", "claude", "--remove").out == "nothing to do\n"


def test_print_and_dry_run_change_nothing(bus: Bus, project: Path, run_bus: RunBus) -> None:
    (project / ".mcp.json").write_text('{\n  "mcpServers": {\n    "x": {}\n  }\n}\n')
    shown = run_bus("setup", "claude", "--print").out
    assert f"# {project / '.mcp.json'}\n" in shown
    assert '"ackbus": {' in shown
    diff = run_bus("setup", "claude", "--dry-run").out
    assert "+++ " + str(project / ".mcp.json") in diff
    assert '-    "x": {}\n+    "x": {},\n' in diff
    assert "--- /dev/null\n" in diff
    for line in (("--print",), ("--dry-run",)):
        for record in run_bus("setup", "claude", *line, "--json").out.splitlines():
            assert str(project) in json.loads(record)["path"]
    assert "ackbus" not in (project / ".mcp.json").read_text()
    assert not (project / ".claude").exists()


@pytest.mark.parametrize("name", ["claude", "windsurf"])
def test_global_goes_into_the_home_directory(
    name: str, project: Path, bus_env: dict[str, str], run_bus: RunBus
) -> None:
    """For all projects: no bus is named, and none is needed."""
    done = run_bus("setup", name, "--global", "--json")
    home = Path(bus_env["HOME"])
    paths = [Path(json.loads(line)["path"]) for line in done.out.splitlines()]
    assert paths
    assert all(path.is_relative_to(home) for path in paths)
    assert all("--dir" not in path.read_text() for path in paths)
    assert list(project.iterdir()) == []
    run_bus("setup", name, "--global", "--remove")
    left = [path for path in home.rglob("*") if path.is_file()]
    assert {path.parent.name for path in left} == {"removed"}


def test_local_setup_is_tried_and_stands_alone(bus: Bus, project: Path, run_bus: RunBus) -> None:
    """Issue 19, item 11: beside the project's own all would be heard twice."""
    done = run_bus("setup", "claude", "--local", "--agent", "me")
    assert done.err.startswith("bus: keep .claude/settings.local.json out of commits")
    assert sorted(path.name for path in project.iterdir()) == [".claude", ".worker-state"]
    checked = run_bus("setup", "claude", "--local", "--check")
    assert "ok  hook: a message arrived in " in checked.out
    refused = run_bus("setup", "claude")
    assert_error(refused, 3, "Claude Code is set up here by 'bus setup claude --local'")
    assert run_bus("setup", "claude", "--local", "--remove").code == 0
    assert sorted(path.name for path in project.iterdir()) == [".worker-state"]
    assert run_bus("setup", "claude").code == 0
    assert_error(run_bus("setup", "claude", "--local"), 3, "set up here by 'bus setup claude'")


def test_setup_beside_one_for_all_projects_says_that_all_is_heard_twice(
    bus: Bus, run_bus: RunBus
) -> None:
    told = "'bus setup gemini --agent me --global' sets it up, too, and it hears all twice"
    assert told not in run_bus("setup", "gemini", "--agent", "me", "--global").err
    done = run_bus("setup", "gemini")
    assert (done.code, told in done.err) == (0, True), done
    run_bus("setup", "gemini", "--global", "--remove")
    assert "twice" not in run_bus("setup", "gemini", "--agent", "you").err


def test_local_setup_is_refused_where_it_can_not_be_had(
    bus: Bus, project: Path, run_bus: RunBus
) -> None:
    """Issue 19, item 11: a linked work tree would take the name of the first."""
    for name in ("codex", "gemini", "cursor", "copilot", "opencode"):
        assert_error(run_bus("setup", name, "--local"), 2, "no files of a project for you alone")
    assert_error(run_bus("setup", "claude", "--local", "--global"), 2, "not both")
    (project / ".git").write_text("gitdir: /elsewhere\n")
    assert_error(run_bus("setup", "claude", "--local"), 3, "all work trees of a repository")
    assert sorted(path.name for path in project.iterdir()) == [".git", ".worker-state"]


@pytest.mark.parametrize("name", sampled(HOOKED, every=3))
def test_hooks_without_bodies_stay_until_bodies_are_wanted(
    name: str, bus: Bus, project: Path, run_bus: RunBus
) -> None:
    """Issue 19, item 10."""

    def hooks() -> list[str]:
        files = [path for path in project.rglob("*") if path.is_file()]
        texts = [path.read_text() for path in files if ".worker-state" not in path.parts]
        return [line for text in texts for line in text.splitlines() if "no-bodies" in line]

    assert "role" not in run_bus("setup", name).err  # no hook shows bodies: nothing is to be told
    assert hooks() == []
    run_bus("setup", name, "--no-bodies")
    assert len(hooks()) == {"opencode": 1, "claude": 3}.get(name, 4)
    assert run_bus("setup", name).out == "nothing to do\n"
    assert "ok  hook: a message arrived in " in run_bus("setup", name, "--check").out
    run_bus("setup", name, "--bodies")
    assert hooks() == []


def test_check_tries_the_hook_of_a_plugin(bus: Bus, project: Path, run_bus: RunBus) -> None:
    run_bus("setup", "opencode")
    assert "ok  hook: a message arrived in " in run_bus("setup", "opencode", "--check").out
    path = project / ".opencode" / "plugins" / "ackbus.js"
    path.write_text(path.read_text().replace(str(BUS), "/nowhere/bus"))
    assert f"is not run, since it is not {BUS}" in run_bus("setup", "opencode", "--check").out


#: What is said where both are set up.
TAKES_CLAUDES = (
    "GitHub Copilot (agent 'a-copilot') takes Claude Code's server and hooks, too, and acts"
    " as 'a-claude' by them: set up one of the two here"
)


@pytest.mark.parametrize("names", [("copilot", "claude"), ("claude", "copilot")])
def test_setup_says_that_copilot_takes_claudes_files(
    names: tuple[str, str], bus: Bus, run_bus: RunBus
) -> None:
    """It would act as Claude's agent, whichever was set up first."""
    said = [run_bus("setup", name, "--agent", f"a-{name}").err for name in names]
    assert [TAKES_CLAUDES in text for text in said] == [False, True]


@pytest.mark.parametrize(
    "names", sampled([(("copilot", "claude"),), (("claude", "copilot"),)], every=2)
)
def test_check_says_that_copilot_takes_claudes_files(
    names: tuple[str, str], bus: Bus, run_bus: RunBus
) -> None:
    """Until one of the two is removed."""
    for name in names:
        run_bus("setup", name, "--agent", f"a-{name}")
    for name in names:
        done = run_bus("setup", name, "--check")
        assert (done.code, f"bad programs: {TAKES_CLAUDES}\n" in done.out) == (3, True)
    run_bus("setup", names[0], "--remove")
    assert TAKES_CLAUDES not in run_bus("setup", names[1], "--check").out


def test_global_hooks_find_the_bus_of_the_project(bus: Bus, run_bus: RunBus) -> None:
    run_bus("setup", "cursor", "--global")
    done = run_bus("setup", "cursor", "--global", "--check")
    assert "ok  hook: a message arrived in " in done.out


def test_mistakes_are_told(project: Path, run_bus: RunBus) -> None:
    assert_error(run_bus("setup", "claude"), 1, "no bus")
    assert_error(run_bus("setup", "claude", "--check", "--remove"), 2, "only one of")
    assert_error(run_bus("setup", "claude", "--agent", " "), 2, "agent name")
    assert run_bus("setup", "claude", "--remove").out == "nothing to do\n"
    Bus.init(project / ".worker-state").close()
    assert_error(run_bus("setup", "claude", "--profile", "all"), 2, "default or full")
    (project / ".mcp.json").write_text("{")
    assert_error(run_bus("setup", "claude"), 2, ".mcp.json", "not valid JSON", "left as it is")
    assert run_bus("setup", "claude", "--check").out.count("not valid JSON") == 1
    assert (project / ".mcp.json").read_text() == "{"
    assert not (project / ".claude").exists()


@pytest.mark.parametrize("name", ["windsurf", "claude"])
def test_setup_of_a_bus_that_is_gone_is_removed(
    name: str, bus: Bus, project: Path, bus_env: dict[str, str], run_bus: RunBus
) -> None:
    """Also from a list that has the servers of all projects."""
    assert run_bus("setup", name).code == 0
    bus.close()
    shutil.rmtree(bus.layout.directory)
    assert run_bus("setup", name, "--remove").code == 0
    folders = (project, Path(bus_env["HOME"]))
    left = [path for folder in folders for path in folder.rglob("*.json")]
    assert {path.parent.name for path in left} == {"removed"}


def test_check_says_what_is_no_file(bus: Bus, project: Path, run_bus: RunBus) -> None:
    (project / ".mcp.json").mkdir()
    done = run_bus("setup", "claude", "--check")
    assert (done.code, "bad configuration: " in done.out, done.err) == (3, True, "")
    assert ".mcp.json is no ordinary file" in done.out


def test_installed_hooks_run_from_a_shell(bus: Bus, project: Path, run_bus: RunBus) -> None:
    """The command in the file is one that a shell can run, whatever the names."""
    run_bus("setup", "claude", "--agent", "it's $me; `x`")
    hooks = json.loads((project / ".claude" / "settings.json").read_text())["hooks"]
    command = hooks["SessionStart"][0]["hooks"][0]["command"]
    assert shlex.split(command)[1:5] == ["hook", "start", "claude", "--agent"]
    done = subprocess.run(["sh", "-c", command], input=b"{}", capture_output=True, check=True)
    assert "the agent it's $me; `x` here" in done.stdout.decode()


def test_check_sees_the_probes_arrive(
    bus: Bus, project: Path, fake_bus: Path, run_bus: RunBus
) -> None:
    """Issue 7, item 7: a probe goes the way of the program; nobody's mail is touched."""
    setup = Installation("claude", "claude", str(fake_bus), str(project))
    for change in setup.additions():
        change.apply()
    configure(project, fake_bus, "works")
    (found,) = [found for found in check(setup, bus) if found.part == "mcp"]
    assert (found.is_well, found.says[:19]) == (True, "a probe arrived in ")
    run_bus("setup", "claude")
    done = run_bus("setup", "claude", "--check")
    assert "ok  hook: a message arrived in " in done.out
    assert (bus.log.newest_seq(), bus.agents.names(), bus.leases.list()) == (0, [], [])


def test_check_sees_that_a_command_would_use_another_bus(
    bus: Bus, project: Path, run_bus: RunBus, tmp_path: Path
) -> None:
    """Neither bus gets a probe."""
    other = tmp_path / "other"
    run_bus("setup", "claude")
    run_bus("init", "--dir", str(other))
    text = (project / ".mcp.json").read_text()
    (project / ".mcp.json").write_text(text.replace('"mcp"', f'"mcp", "--dir", "{other}"'))
    checked = run_bus("setup", "claude", "--check")
    assert (checked.code, "bad mcp: it would use the bus in" in checked.out) == (3, True)
    assert bus.log.newest_seq() == 0
    assert run_bus("read", "--dir", str(other)).out == ""


def test_check_takes_nobodys_mail(bus: Bus, run_bus: RunBus) -> None:
    run_bus("setup", "gemini")
    bus.heartbeats.beat("gemini")
    bus.publish("t", "wait", from_agent="lead", to_agent="gemini")
    assert "ok  hook" in run_bus("setup", "gemini", "--check").out
    assert [message.payload for message in Inbox(bus, "gemini").poll()] == ["wait"]


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("ends", "the server ended: out of order"),
        ("noise", "not JSON: b'Welcome!"),
        ("fails", "bus_send failed: sorry"),
        ("refuses", "initialize failed"),
        ("loses", "did not arrive"),
    ],
)
def test_check_says_what_is_wrong_with_the_server(
    mode: str, says: str, bus: Bus, project: Path, fake_bus: Path
) -> None:
    setup = Installation("claude", "claude", str(fake_bus), str(project))
    for change in setup.additions():
        change.apply()
    configure(project, fake_bus, mode)
    (found,) = [found for found in check(setup, bus) if found.part == "mcp"]
    assert not found.is_well
    assert says in found.says


def test_probe_does_not_wait_for_what_a_server_leaves_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its child has the server's output, and goes on when the server was killed."""
    monkeypatch.setattr(checking, "_TIMEOUT_S", 0.5)
    monkeypatch.setattr(checking, "_END_WITHIN_S", 0.1)
    server, until = tmp_path / "server", tmp_path / "until"
    os.mkfifo(until)
    server.write_text(f"#!/bin/sh\ncat < {shlex.quote(str(until))} &\nwait\n")
    server.chmod(0o700)
    call = ([str(server)], str(tmp_path), "bus_send", dict[str, object]())
    with pytest.raises(checking.ProbeFailed, match="no answer to initialize"):
        checking.call_tool(*call, directory=str(tmp_path))
    os.close(os.open(until, os.O_WRONLY))  # the child was there until now, or this would wait


def test_check_says_what_is_missing(bus: Bus, project: Path, run_bus: RunBus) -> None:
    done = run_bus("setup", "claude", "--check")
    assert done.code == 3
    assert "bad mcp: no server is configured" in done.out
    assert "bad hook: no hook is configured" in done.out
    assert f"bad configuration: {project / '.mcp.json'} is not there; run 'bus setup" in done.out
    run_bus("setup", "claude")
    text = (project / ".claude" / "settings.json").read_text()
    (project / ".claude" / "settings.json").write_text(text.replace(str(BUS), "/nowhere/bus"))
    done = run_bus("setup", "claude", "--check")
    assert "bad hook: '/nowhere/bus hook stop claude " in done.out
    assert f"is not run, since it is not {BUS}; run 'bus setup claude'" in done.out


@pytest.mark.parametrize("name", sampled(HOOKED, every=3))
def test_check_runs_nothing_that_came_with_a_clone(
    name: str, bus: Bus, project: Path, run_bus: RunBus, fake_bus: Path
) -> None:
    """Issue 29: the files of a project are a stranger's, whatever they say that they run."""
    ran = fake_bus.with_name("ran")
    fake_bus.write_text(f"#!/bin/sh\ntouch {ran}\n")
    fake_bus.chmod(0o700)
    run_bus("setup", name)
    texts = {path: path.read_text() for path in project.rglob("*") if path.suffix in SUFFIXES}
    for there in (str(fake_bus), f"touch {ran}; {BUS}", f"{BUS} ; touch {ran} ;", f"$({fake_bus})"):
        for path, text in texts.items():
            path.write_text(text.replace(str(BUS), there))
        done = run_bus("setup", name, "--check")
        assert (done.code, "is not run, since it is not " in done.out) == (3, True)
    for path, text in texts.items():
        path.write_text(re.sub(r"(hook stop \w+ [^\"']*)", rf"\1; touch {ran}", text))
    run_bus("setup", name, "--check")
    assert not ran.exists()


#: The ends of the names of files that have a command of ours.
SUFFIXES = (".json", ".toml", ".js")


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_check_starts_the_server_itself(name: str, bus: Bus, run_bus: RunBus) -> None:
    """Under the name that is set up, which it need not be told again."""
    run_bus("setup", name, "--agent", "reviewer", "--profile", "full")
    done = run_bus("setup", name, "--check")
    assert "ok  mcp: a probe arrived in " in done.out
    assert "ok  hook: a message arrived in " in done.out
    assert (done.code, done.err) == (0, "")
    assert list(bus.read()) == []


@pytest.mark.parametrize("name", ["claude", "codex", "opencode"])
def test_name_and_profile_stay_until_others_are_given(
    name: str, bus: Bus, project: Path, run_bus: RunBus
) -> None:
    """Also where somebody put them there by hand."""
    run_bus("setup", name, "--agent", "reviewer")
    files = [path for path in project.rglob("*") if path.suffix in (".json", ".toml", ".js")]
    (file,) = [path for path in files if '"mcp",' in path.read_text()]
    by_hand = '"--profile", "full", "--agent", "reviewer"'
    file.write_text(re.sub(r'"--agent",\s*"reviewer"', by_hand, file.read_text()))
    run_bus("setup", name)
    told = [path for path in files if "--profile" in path.read_text()]
    assert (len(told), file in told) == (2, True)  # the server, and the hooks
    assert re.search(r'"--agent",\s*"reviewer",(?s:.*)"--profile",\s*"full"', file.read_text())
    assert run_bus("setup", name).out == "nothing to do\n"
    run_bus("setup", name, "--profile", "default", "--agent", "tester")
    assert "reviewer" not in "".join(path.read_text() for path in files)
    assert re.search(r'"--profile",\s*"default"', file.read_text())


#: Runs `bus setup` where the extra is not installed.
WITHOUT_MCP = f"""\
import sys
sys.modules["mcp"] = None
sys.argv[0] = {str(BUS)!r}
from ackbus.cli import main
sys.exit(main())
"""


def test_what_is_lacking_is_said_at_setup(
    bus: Bus, project: Path, bus_env: dict[str, str], run_bus: RunBus
) -> None:
    """And not only by programs that can't start a server, or agents that can't run a command."""
    assert "warning" not in run_bus("setup", "codex").err
    assert (
        f"PATH has none; add {BUS.parent} to it"
        in run_bus("setup", "codex", env={"PATH": "/nowhere"}).err
    )
    for arguments, is_told in ([], True), (["--remove"], False):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_MCP, "setup", "codex", *arguments],
            cwd=project, env=bus_env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert (f"before you run: {install_command('mcp')}" in done.stderr) == is_told


def test_check_says_under_which_name_a_probe_came(bus: Bus, run_bus: RunBus) -> None:
    run_bus("setup", "codex", "--agent", "reviewer")
    done = run_bus("setup", "codex", "--check", "--agent", "other", "--profile", "full")
    assert "bad mcp: a probe arrived from 'reviewer', not from 'other'\n" in done.out
    assert "run 'bus setup codex --agent other --profile full'\n" in done.out
